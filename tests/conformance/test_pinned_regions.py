"""Units that keep their region: every engine remembers the same units, and leaves out the same ones."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from conformance.both_engines import find_loader
from sfumato.engines.ingest import derive_key
from sfumato.engines.postgres.prepare import name_table
from sfumato.engines.program import CellKey, CellSums, Counted
from sfumato.engines.rows import ALL, Scan, UnitSizes
from sfumato.engines.values import Column
from sfumato.errors import EngineError
from sfumato.lab.folder import read_ranking_key

WARDS, SEXES = ("A", "B", "C"), ("f", "m")
SAID: dict[str, Any] = {
    "unit": sf.Unit("who", max_rows=2, of="people", regions=["ward", "sex"], pinned=True),
    "columns": {
        "cost": sf.between(0, 10),
        "ward": sf.one_of(*WARDS, constant=True),
        "sex": sf.one_of(*SEXES, constant=True),
    },
    "budget": sf.Budget(epsilon=1000),
}
Place = tuple[str | None, str | None]
# Who is where in each snapshot.
YEARS: list[dict[int, Place]] = [
    {1: ("A", "f"), 2: ("B", "m"), 3: ("C", "f"), 4: (None, "m"), 5: ("x", "f"), 6: ("A", "m")},
    # 1 moves, 2 stays, 3 goes, 4 is still in no region, 5 comes from none, 6 changes one value, 7 is new.
    {1: ("B", "f"), 2: ("B", "m"), 4: (None, None), 5: ("A", "f"), 6: ("A", None), 7: ("C", "m")},
    # 1 and 6 are back where they were, 3 comes back elsewhere, 7 loses its region.
    {1: ("A", "f"), 2: ("B", "m"), 3: ("A", "f"), 5: ("y", "f"), 6: ("A", "m"), 7: (None, "m")},
]
KEPT = [{1, 2, 3, 4, 5, 6}, {2, 4, 7}, {1, 2, 5, 6}]


def make_source(places: dict[int, Place]) -> pa.Table:
    """Three rows of each, which do not agree on the cost."""
    rows = [(who, cost, *place) for who, place in places.items() for cost in (1.0, 2.0, 3.0)]
    return pa.Table.from_pylist([dict(zip(("who", "cost", "ward", "sex"), row, strict=True)) for row in rows])


@pytest.fixture(params=["DuckDB", "PostgreSQL", pytest.param("Spark", marks=pytest.mark.with_spark)])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def load_source(engine: str, request: pytest.FixtureRequest) -> Callable[[pa.Table], Any]:
    return find_loader(engine, request)


def read_memory(lab: sf.Lab, request: pytest.FixtureRequest, engine: str) -> list[tuple[Any, ...]]:
    """What lies in the table's snapshot, by the means of the engine's users."""
    name, folder = lab.table("visits").snapshot_name, lab.folder / "snapshots"
    if engine == "DuckDB":
        with duckdb.connect(str(folder / f"{name}.duckdb"), read_only=True) as connection:
            found = connection.execute("SELECT CAST(person AS VARCHAR), r0, r1 FROM memory").fetchall()
    elif engine == "Spark":
        rows = pq.read_table(folder / f"{name}.spark" / "memory").to_pylist()
        found = [(row["person"].hex(), row["r0"], row["r1"]) for row in rows]
    else:
        import psycopg

        schema = lab.engine._schema
        with psycopg.connect(request.getfixturevalue("postgres")) as connection:
            found = connection.execute(
                f"SELECT person::text, r0, r1 FROM {name_table(schema, name, 'memory')}".encode()
            ).fetchall()
    return sorted(((str(row[0]).replace("-", ""), *row[1:]) for row in found), key=repr)


def expect_memory(lab: sf.Lab, years: list[dict[int, Place]]) -> list[tuple[Any, ...]]:
    preparation: Any = lab.table("visits").make_preparation(read_ranking_key(lab.folder))
    key = derive_key(preparation, "person")
    first: dict[int | str, Place] = {"": (None, None)}
    for who, place in (each for year in years for each in year.items()):
        first.setdefault(who, place)
    codes = {who: _find_codes(*place) for who, place in first.items()}
    digests = {who: md5(f"{key}:{who}".encode()).hexdigest() for who in first}
    return sorted(((digests[who], *codes[who]) for who in first), key=repr)


def _find_codes(ward: str | None, sex: str | None) -> tuple[int | None, int | None]:
    known = ward in WARDS and sex in SEXES
    return (WARDS.index(ward), SEXES.index(sex)) if known else (None, None)


def test_all_engines_remember_the_same_and_leave_out_the_same(
    engine: str, load_source: Callable[[pa.Table], Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lab = sf.create(tmp_path / "lab")
    report = lab.register("visits", load_source(make_source(YEARS[0])), **SAID, confirm_losses=True)
    # Spark takes seconds for each, however few rows there are.
    for year, places in enumerate(YEARS[:2] if engine == "Spark" else YEARS):
        if year:
            report = lab.advance("visits", load_source(make_source(places)), confirm_losses=True)
        assert report is not None
        kept = [places[who] for who in sorted(KEPT[year])]
        assert report.survey.moved == len(places) - len(kept)
        assert read_memory(lab, request, engine) == expect_memory(lab, YEARS[: year + 1])
        snapshot = lab.table("visits").snapshot_name
        keys = tuple(
            CellKey(Column(0, name), size + 1, nulls=True) for name, size in (("ward", 3), ("sex", 2))
        )
        counts = lab.engine.run(CellSums(Scan(snapshot), ALL, keys, (Counted(),)))
        cells = [0] * 12
        for ward, sex in kept:
            place = WARDS.index(ward) if ward in WARDS else 3
            cells[place * 3 + (SEXES.index(sex) if sex in SEXES else 2)] += 2
        assert counts[0].tolist() == cells
        if engine != "Spark":
            sizes = lab.engine.run(CellSums(UnitSizes(snapshot), ALL, (), (Counted(),)))
            assert sizes.tolist() == [[len(kept)]]
    if engine == "DuckDB":
        (lab.folder / "ranking.key").write_bytes(bytes(32))  # as if it came from another lab
    elif engine == "Spark":
        whole = lab.folder / "snapshots" / f"{lab.table('visits').snapshot_name}.spark" / "memory"
        parts = {part: pq.read_table(part).num_rows for part in whole.glob("*.parquet")}
        max(parts, key=lambda part: parts[part]).unlink()  # the part with no identifier may be another
    else:
        import psycopg

        schema, snapshot = lab.engine._schema, lab.table("visits").snapshot_name
        with psycopg.connect(request.getfixturevalue("postgres")) as connection:
            connection.execute(f"DROP TABLE {name_table(schema, snapshot, 'memory')}".encode())
    before = lab.ledger.verify()
    # No bound is bought for a snapshot that there cannot be.
    for more in ({}, {"max_rows": sf.choose(epsilon=50)}):
        with pytest.raises(EngineError, match="SF-C248"):
            lab.advance("visits", load_source(make_source(YEARS[0])), **more, confirm_losses=True)
    assert lab.ledger.verify() == before
