"""One unit more or less moves no exact integer by more than its declared bound, and moves nothing else.

Deterministic: the tables are random but fixed, and every difference is compared with the bound itself.
To try many tables with few preparations, each source holds 25 tables side by side, with units of their own
and a public column that says which table a row is of; one unit is taken out of each at the same time.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import CellKey, CellSums, Counted, CountedUnits, Present, Total
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Column,
    Constant,
    Divide,
    Every,
    Lookup,
    Missing,
    Multiply,
    Not,
    Some,
)

TABLES = 25
MAX_ROWS = (1, 2, 3, 5, 8, 13, 20, 50, 200, 1000)
COST = StoredGrid("cost", -17, 1000, Fraction(1, 2**3))
WARD = StoredCodes("ward", ("A", "B", "C", "D", "E"))
GRADE = StoredCodes("grade", (0.0, 1.0, 2.0))
OF = StoredCodes("of", tuple(float(i) for i in range(TABLES)))
SIZES = {"ward": 5, "grade": 3}
X = Column(0, "cost")


def column(name: str) -> Column:
    return Column(0, name)


@dataclass(frozen=True)
class Neighbours:
    """Tables, and the same tables each without one of its units."""

    whole: pa.Table
    without: pa.Table


def person(draw: random.Random, table: int, name: str | None) -> list[dict[str, Any]]:
    """A unit with 1 to 1,000 rows: varied, or many times the same, or all at one bound."""
    rows = draw.choice([1, 2, 3, 10, 40, 300, 1000])
    style = draw.choice(["varied", "same", "high", "low"])
    made = [row(draw, style) for _ in range(1 if style == "same" else rows)]
    if style == "same":
        made *= rows
    return [{"who": name, "of": table, **fields} for fields in made]


def row(draw: random.Random, style: str) -> dict[str, Any]:
    bound = {"high": 1e9, "low": -1e9}.get(style)
    costs = [math.nan, math.inf, -math.inf, None, 0.0, draw.uniform(-5, 200)]
    return {
        "cost": draw.choice(costs) if bound is None else bound,
        "ward": draw.choice("ABCDE") if draw.random() < 0.8 else draw.choice(["unlisted", None]),
        "grade": draw.choice([0, 1, 2]) if draw.random() < 0.8 else draw.choice([None, 7]),
    }


def neighbours(draw: random.Random) -> Neighbours:
    whole: list[dict[str, Any]] = []
    gone = set()
    for table in range(TABLES):
        names = [f"{table}/{i}" for i in range(draw.randint(1, 6))]
        gone.add(draw.choice(names))
        for name in [*names, None]:
            whole += person(draw, table, name)
    draw.shuffle(whole)
    return Neighbours(as_table(whole), as_table([row for row in whole if row["who"] not in gone]))


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    fields = {
        "who": pa.string(),
        "of": pa.int64(),
        "cost": pa.float64(),
        "ward": pa.string(),
        "grade": pa.int64(),
    }
    arrays = [pa.array([row[name] for row in rows], of, from_pandas=False) for name, of in fields.items()]
    return pa.Table.from_arrays(arrays, names=list(fields))


def predicate(draw: random.Random) -> Any:
    leaves = [
        AtLeast(X, draw.randint(-17, 1000)),
        AtMost(X, draw.randint(-17, 1000)),
        Among(column("ward"), tuple(draw.sample(range(5), draw.randint(0, 5)))),
        Missing(column(draw.choice(["cost", "ward", "grade"]))),
    ]
    some = draw.sample(leaves, 2)
    return draw.choice([ALL, some[0], Not(some[0]), Every(tuple(some)), Some(tuple(some))])


def terms(draw: random.Random) -> dict[Any, int]:
    """Terms and the largest amount one row can add to each."""
    centre = draw.choice([0, 500, -17, 1000, 2**40])
    weights = tuple(draw.randint(-9, 9) for _ in range(5))
    deviation = Add(X, Constant(-500))
    return {
        Counted(): 1,
        Present(X): 1,
        Total(Divide(Multiply(deviation, deviation), Constant(8))): 517**2 >> 3,
        Total(Add(X, Constant(-centre))): max(abs(COST.low - centre), abs(COST.high - centre)),
        Total(Lookup(column("ward"), weights)): max(map(abs, weights)),
    }


def differences(
    engine: DuckDBEngine, where: Any, keys: tuple[CellKey, ...], asked: dict[Any, int]
) -> np.ndarray:
    """The l1 norm of what changed, a row for each term and a column for each table."""
    answers = [
        engine.run(CellSums(Scan(snapshot), where, (CellKey(column("of"), TABLES), *keys), tuple(asked)))
        for snapshot in ("whole", "without")
    ]
    changed = np.abs(answers[0] - answers[1]).reshape(len(asked), TABLES, -1)
    return changed.sum(axis=2)


def stored(engine: DuckDBEngine, snapshot: str) -> dict[int, Counter[tuple[Any, ...]]]:
    """For each table its units, each as the sorted rows it keeps."""
    units = defaultdict(list)
    with duckdb.connect(str(engine.folder / f"{snapshot}.duckdb"), read_only=True) as connection:
        for unit, of, *fields in connection.execute("SELECT unit, c0, c1, c2, c3 FROM rows").fetchall():
            units[unit, of].append(tuple(math.inf if field is None else field for field in fields))
    tables: dict[int, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for (_, of), rows in units.items():
        tables[of][tuple(sorted(rows))] += 1
    return tables


@pytest.fixture(scope="module", params=range(len(MAX_ROWS)))
def prepared(request, tmp_path_factory):
    draw = random.Random(request.param)
    tables = neighbours(draw)
    engine = DuckDBEngine(tmp_path_factory.mktemp("lab"))
    max_rows = MAX_ROWS[request.param]
    preparation = Preparation("who", max_rows, (OF, COST, WARD, GRADE), draw.randbytes(16))
    engine.prepare(tables.whole, preparation, "whole")
    engine.prepare(tables.without, preparation, "without")
    return engine, max_rows, draw


def test_one_unit_moves_no_sum_by_more_than_its_rows_times_the_largest_amount(prepared):
    engine, max_rows, draw = prepared
    nearest = np.zeros(5)
    for _ in range(12):
        keys = tuple(
            CellKey(column(name), SIZES[name]) for name in draw.sample(list(SIZES), draw.randint(0, 2))
        )
        asked = terms(draw)
        bounds = max_rows * np.array(list(asked.values()))
        moved = differences(engine, predicate(draw), keys, asked)
        assert (moved <= bounds[:, None]).all()
        nearest = np.maximum(nearest, (moved / bounds[:, None]).max(axis=1))
    assert (nearest >= 0.5).all(), "a bound that nothing comes near would hide a mistake"


def test_one_unit_is_counted_once_in_a_cell_and_in_no_more_cells_than_it_has_rows(prepared):
    engine, max_rows, draw = prepared
    for names in ((), ("ward",), ("ward", "grade")):
        keys = tuple(CellKey(column(name), SIZES[name]) for name in names)
        bound = min(max_rows, math.prod(key.size for key in keys))
        moved = differences(engine, ALL, keys, {CountedUnits(): 1})
        assert bound / 2 <= moved.max() <= bound
        assert differences(engine, predicate(draw), keys, {CountedUnits(): 1}).max() <= bound


def test_the_rows_of_everyone_else_stay_the_same(prepared):
    engine, max_rows, _ = prepared
    whole, without = stored(engine, "whole"), stored(engine, "without")
    assert len(whole) == TABLES
    for table, units in whole.items():
        left = units - without[table]
        assert left.total() == 1
        assert not without[table] - units
        assert len(next(iter(left))) <= max_rows


def test_each_unit_of_one_table_in_turn(tmp_path):
    engine = DuckDBEngine(tmp_path)
    draw = random.Random(11)
    names = [f"person {i}" for i in range(8)]
    rows = [row for name in [*names, None] for row in person(draw, 0, name)]
    preparation = Preparation("who", 6, (OF, COST, WARD, GRADE), b"key")
    engine.prepare(as_table(rows), preparation, "whole")
    for name in names:
        engine.prepare(as_table([row for row in rows if row["who"] != name]), preparation, "without")
        left = stored(engine, "whole")[0] - stored(engine, "without")[0]
        assert left.total() == 1
        asked = terms(draw)
        moved = differences(engine, predicate(draw), (CellKey(column("ward"), 5),), asked)[:, 0]
        assert (moved <= 6 * np.array(list(asked.values()))).all()


def test_a_unit_alone_in_its_table_is_bounded_too(tmp_path):
    engine = DuckDBEngine(tmp_path)
    rows = [{"who": "only", "of": 0, "cost": 1e9, "ward": "A", "grade": 0}] * 1000
    preparation = Preparation("who", 7, (COST, WARD), b"key")
    engine.prepare(as_table(rows), preparation, "one")
    engine.prepare(as_table([]), preparation, "none")
    asked = (Counted(), Total(X))
    one, none = (engine.run(CellSums(Scan(name), ALL, (), asked)).tolist() for name in ("one", "none"))
    assert one == [[7], [7000]]
    assert none == [[0], [0]]


def test_without_a_unit_column_one_row_moves_one_row(tmp_path):
    engine = DuckDBEngine(tmp_path)
    draw = random.Random(3)
    rows = [row for i in range(5) for row in person(draw, 0, None)]
    preparation = Preparation(None, 1, (COST, WARD, GRADE), b"key")
    engine.prepare(as_table(rows), preparation, "whole")
    engine.prepare(as_table(rows[1:]), preparation, "without")
    keys = (CellKey(column("ward"), 5),)
    for _ in range(20):
        asked = terms(draw)
        where = predicate(draw)
        whole, without = (
            engine.run(CellSums(Scan(name), where, keys, tuple(asked))) for name in ("whole", "without")
        )
        assert (np.abs(whole - without).sum(axis=1) <= np.array(list(asked.values()))).all()


# ---- one odd value changes its own row alone ---------------------------------------------------------------

NAN, INF = math.nan, math.inf
ODD = (
    StoredGrid("cost", 0, 8),
    StoredCodes("cost", (0.0, 1.0, 5.0)),
    StoredCodes("cost", ("0", "1", "5", "inf", "1e+300")),
)
IMAGES = (
    (NAN, (None, None, None)),
    (None, (None, None, None)),
    (INF, (8, None, 3)),
    (-INF, (0, None, None)),
    (1e300, (8, None, 4)),
    (0.0, (0, 0, 0)),
    (-0.0, (0, 0, 0)),
    (5.0, (5, 2, 2)),
)
SELDOM = (pytest.param(each, marks=pytest.mark.slow) for each in ("pyarrow 100", "polars"))
HOW = ("pyarrow", "pyarrow 1", "pyarrow 50", "polars 50", "unmarked", *SELDOM)


def written(how: str, table: pa.Table, path: Path) -> Path:
    """A Parquet file; how it is cut decides which statistics it holds."""
    writer, _, rows = how.partition(" ")
    if writer == "polars":
        pl.from_arrow(table).write_parquet(path, row_group_size=int(rows or 10**6))
    else:
        pq.write_table(table, path, row_group_size=int(rows or 10**6), write_statistics=writer != "unmarked")
    return path


def images(engine: DuckDBEngine, source: Any, columns: tuple[Any, ...]) -> Counter[tuple[Any, ...]]:
    """The rows as stored, each row a unit."""
    engine.prepare(source, Preparation(None, 1, columns, b"key"), "t")
    chosen = ", ".join(f"c{i}" for i in range(len(columns)))
    with duckdb.connect(str(engine.folder / "t.duckdb"), read_only=True) as connection:
        return Counter(connection.execute(f"SELECT {chosen} FROM rows").fetchall())


@pytest.mark.parametrize("how", HOW)
def test_a_parquet_row_is_read_by_itself(tmp_path, how):
    """A file's smallest and largest values must not decide how a NaN in it is read."""
    engine = DuckDBEngine(tmp_path / "lab")

    def stored(values: list[float | None]) -> Counter[tuple[Any, ...]]:
        table = pa.table({"cost": pa.array(values, pa.float64(), from_pandas=False)})
        return images(engine, written(how, table, tmp_path / "t.parquet"), ODD)

    for base, expected in (
        ([NAN, 1.0] * 50, {(None, None, None): 50, (1, 1, 1): 50}),
        ([NAN] * 100, {(None, None, None): 100}),
    ):
        assert stored(base) == expected
        for odd, image in IMAGES:
            assert stored([*base, odd]) == Counter(expected) + Counter([image])


@pytest.mark.parametrize("how", ["pyarrow", "pyarrow 50", "polars", "polars 50", "unmarked"])
def test_a_parquet_identifier_is_read_by_itself(tmp_path, how):
    engine = DuckDBEngine(tmp_path / "lab")
    base = [NAN, 1.0, 1.0, 2.0, 0.5] * 20

    def units(ids: list[float | None]) -> int:
        table = pa.table({"who": pa.array(ids, pa.float64(), from_pandas=False)})
        path = written(how, table, tmp_path / "t.parquet")
        engine.prepare(path, Preparation("who", 1, (), b"key"), "t")
        return int(engine.run(CellSums(Scan("t"), ALL, (), (Counted(),)))[0, 0])

    assert units(base) == 3
    for odd, more in {NAN: 0, None: 0, -5.0: 1, 1e9: 1, 1.0: 0}.items():
        assert units([*base, odd]) == 3 + more


@pytest.mark.parametrize("how", ["pyarrow", "pyarrow 100", "polars 100"])
def test_parquet_neighbours_differ_by_one_unit(tmp_path, how):
    engine = DuckDBEngine(tmp_path / "lab")
    draw = random.Random(how)
    names = [f"person {i}" for i in range(6)]
    rows = [row for name in [*names, None] for row in person(draw, 0, name)]
    preparation = Preparation("who", 6, (OF, COST, WARD, GRADE), b"key")
    engine.prepare(written(how, as_table(rows), tmp_path / "t.parquet"), preparation, "whole")
    for name in names:
        others = as_table([row for row in rows if row["who"] != name])
        engine.prepare(written(how, others, tmp_path / "t.parquet"), preparation, "without")
        whole, without = stored(engine, "whole")[0], stored(engine, "without")[0]
        assert (whole - without).total() == 1
        assert not without - whole


PANDAS = {
    "flags": [True, False, True],
    "whole numbers": [0, 1, 5],
    "floats": [0.0, 1.0, 5.5],
    "words": ["true", "0", "x"],
    "days": list(pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-02 03:04:05.5"], format="ISO8601")),
}


@pytest.mark.parametrize("kind", PANDAS)
@pytest.mark.parametrize("odd", [None, NAN, pd.NaT, "other", 7, 0.25, Decimal("2.5")], ids=repr)
def test_a_pandas_row_is_read_by_itself(tmp_path, kind, odd):
    """Even where it changes the type of the whole column, and with it of identifiers."""
    engine = DuckDBEngine(tmp_path)
    base = PANDAS[kind] * 10
    listed = ("true", "false", "0", "1", "5", "5.5", "x", "2020-01-01 00:00:00", "2020-01-02 03:04:05.5")
    columns = (StoredCodes("x", listed),)

    def stored_by(values: list[Any]) -> Counter[Any]:
        frame = pd.DataFrame({"x": values, "who": values, "cost": range(len(values))})
        heavy = Preparation("who", 3, (StoredCodes("x", listed), StoredGrid("cost", 0, 29)), b"key")
        engine.prepare(frame, heavy, "t")
        with duckdb.connect(str(engine.folder / "t.duckdb"), read_only=True) as connection:
            kept = connection.execute("SELECT c0, c1 FROM rows WHERE c1 < 29").fetchall()
        return Counter(kept) + images(engine, frame, columns)

    expected, found = stored_by(base), stored_by([*base, odd])
    assert not expected - found
