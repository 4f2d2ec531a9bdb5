"""A unit taken out of all snapshots of a pinned table changes nothing but what its region was charged for.

A unit may come, move, go and come back. Its neighbours are prepared snapshot by snapshot, with memories of
their own, and asked what the lab is asked.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.catalog.regions import NO_REGION, name_region
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.lab.folder import read_ranking_key

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table

PEOPLE, WARDS = range(1, 5), ("A", "B")
UNIT = sf.Unit("id", max_rows=2, regions=["ward"], pinned=True)
COLUMNS = {"ward": sf.one_of(*WARDS, constant=True), "cost": sf.between(0, 10, step=1)}
QUESTIONS = (
    "COUNT(*) AS n FROM visits WHERE ward = 'A'",
    "COUNT(*) AS n, SUM(cost) AS c FROM visits WHERE ward <> 'A'",
    "COUNT(DISTINCT id) AS n FROM visits WHERE ward IS NULL",
    "SUM(cost) AS c FROM visits WHERE ward IS NOT NULL",
    "COUNT(*) AS n FROM visits WHERE COALESCE(ward, 'A') = 'A'",
    "AVG(c) AS c FROM (SELECT id, ward, SUM(cost) AS c FROM visits GROUP BY id, ward) AS q WHERE ward = 'B'",
    "SUM(nights) AS n FROM stays JOIN visits USING (id) WHERE visits.ward = 'B'",
    "COUNT(*) AS n FROM stays LEFT JOIN visits USING (id) WHERE visits.ward = 'A'",
    "COUNT(*) AS n FROM stays LEFT JOIN visits USING (id) WHERE visits.ward IS NULL",
    "COUNT(*) AS n FROM stays WHERE id IN (SELECT id FROM visits WHERE ward = 'B')",
    "COUNT(*) AS n FROM stays WHERE id NOT IN (SELECT id FROM visits WHERE ward = 'B')",
)


def draw_visits(draw: random.Random) -> pa.Table:
    """Some of the people, in wards that may be others than before, with rows that may disagree."""
    rows = []
    for who in PEOPLE:
        ward = draw.choice([*WARDS, *WARDS, None, "elsewhere"])
        for _ in range(draw.choice([0, 1, 1, 2, 3])):
            other = draw.choice([*WARDS, None]) if draw.random() < 0.1 else ward
            rows.append({"id": who, "ward": other, "cost": float(draw.randrange(10))})
    schema = pa.schema({"id": pa.int64(), "ward": pa.string(), "cost": pa.float64()})
    return pa.Table.from_pylist(rows, schema)


def without(table: pa.Table, who: int) -> pa.Table:
    return table.filter(pa.compute.field("id") != who)


class Neighbours:
    """A lab with pinned visits and other stays of the same people, and one engine without each of them."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.draw, self.lab = draw, sf.create(folder / "lab")
        self.key = read_ranking_key(self.lab.folder)
        self.engines = {who: DuckDBEngine(folder / str(who), threads=1) for who in PEOPLE}
        stays = pa.table({"id": list(PEOPLE), "nights": [draw.randrange(9) for _ in PEOPLE]})
        nights = {"nights": sf.between(0, 9, step=1)}
        self.lab.register(
            "stays", stays, unit=sf.Unit("id", max_rows=1), columns=nights, budget=sf.Budget(1e6)
        )
        self._prepare(stays, self.lab.table("stays"), None)
        self.homes: dict[int, str] = {}
        """The region that each person keeps."""

    def advance(self) -> None:
        """Give the lab and all neighbours the next snapshot."""
        source = draw_visits(self.draw)
        before = self.lab.table("visits") if self.homes else None
        if before is None:
            self.lab.register("visits", source, unit=UNIT, columns=COLUMNS, confirm_losses=True)
        else:
            self.lab.advance("visits", source, confirm_losses=True)
        self._prepare(source, self.lab.table("visits"), before)
        self._note_homes()

    def _prepare(self, source: pa.Table, table: Table, before: Table | None) -> None:
        for who, engine in self.engines.items():
            engine.prepare(
                without(source, who), table.make_preparation(self.key, before), table.snapshot_name
            )

    def read_stored(self, engine: Any, names: str) -> set[tuple[Any, ...]]:
        folder = engine.folder if isinstance(engine, DuckDBEngine) else self.lab.folder / "snapshots"
        path = folder / f"{self.lab.table('visits').snapshot_name}.duckdb"
        with duckdb.connect(str(path), read_only=True) as connection:
            return set(connection.execute(f"SELECT {names}").fetchall())

    def _note_homes(self) -> None:
        """Note the home of whoever is new: the one of the memory that the neighbour lacks."""
        whole = self.read_stored(self.lab.engine, "person, r0 FROM memory")
        for who, engine in self.engines.items():
            gone = whole - self.read_stored(engine, "person, r0 FROM memory")
            assert len(gone) <= 1  # nobody else's memory depends on this person
            for _, code in gone:
                home = NO_REGION if code is None else f"ward={WARDS[code]}"
                assert self.homes.setdefault(who, home) == home

    def compare(self) -> tuple[int, int]:
        """How many times a person outside of the charged regions changed nothing, and one inside did."""
        outside = inside = 0
        for sql in QUESTIONS:
            quote = self.lab.session().sql(f"SELECT {sql}").quote(epsilon=1)
            accounts = [name for name in self.lab.ledger.list_accounts() if name.startswith("population:id")]
            charged = quote.regions or tuple(map(name_region, accounts))
            programs = [step.program for step in quote.plan.steps]
            whole = list(map(self.lab.engine.run, programs))
            for who, engine in self.engines.items():
                same = all(map(np.array_equal, whole, map(engine.run, programs)))
                # A person who was in no snapshot yet may be pinned anywhere.
                concerned = {self.homes.get(who)} & set(charged) or (
                    who not in self.homes and not quote.regions
                )
                assert same or concerned, (sql, who)
                outside, inside = outside + (not concerned), inside + (not same)
        return outside, inside


def test_a_person_moves_only_what_the_region_that_they_keep_is_charged_for(tmp_path: Path) -> None:
    neighbours = Neighbours(tmp_path, random.Random(5))
    outside = inside = 0
    for _ in range(3):
        neighbours.advance()
        found = neighbours.compare()
        outside, inside = outside + found[0], inside + found[1]
    assert (outside >= 40, inside >= 20) == (True, True), (outside, inside)


def test_people_who_were_kept_though_they_moved_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    neighbours = Neighbours(tmp_path, random.Random(5))
    neighbours.advance()
    everyone = "sfumato.engines.duckdb.prepare.write_stayers"
    monkeypatch.setattr(everyone, lambda _, units, *others: f"SELECT unit FROM {units}")
    neighbours.advance()
    with pytest.raises(AssertionError, match="ward"):
        neighbours.compare()
