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
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import (
    Among,
    AtLeast,
    AtMost,
    Codes,
    Every,
    Grid,
    Key,
    Missing,
    Not,
    Preparation,
    Present,
    Program,
    Rows,
    Some,
    Square,
    Units,
    Value,
    Weight,
)

TABLES = 25
MAX_ROWS = (1, 2, 3, 5, 8, 13, 20, 50, 200, 1000)
COST = Grid("cost", -17, 1000, -3)
WARD = Codes("ward", ("A", "B", "C", "D", "E"))
GRADE = Codes("grade", (0.0, 1.0, 2.0))
OF = Codes("of", tuple(float(i) for i in range(TABLES)))
SIZES = {"ward": 5, "grade": 3}


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
        AtLeast("cost", draw.randint(-17, 1000)),
        AtMost("cost", draw.randint(-17, 1000)),
        Among("ward", tuple(draw.sample(range(5), draw.randint(0, 5)))),
        Missing(draw.choice(["cost", "ward", "grade"])),
    ]
    some = draw.sample(leaves, 2)
    return draw.choice([Every(()), some[0], Not(some[0]), Every(tuple(some)), Some(tuple(some))])


def terms(draw: random.Random) -> dict[Any, int]:
    """Terms and the largest amount one row can add to each."""
    centre = draw.choice([0, 500, -17, 1000, 2**40])
    weights = tuple(draw.randint(-9, 9) for _ in range(5))
    return {
        Rows(): 1,
        Present("cost"): 1,
        Square("cost", 500, 3): 517**2 >> 3,
        Value("cost", centre): max(abs(COST.low - centre), abs(COST.high - centre)),
        Weight("ward", weights): max(map(abs, weights)),
    }


def differences(engine: DuckDBEngine, where: Any, keys: tuple[Key, ...], asked: dict[Any, int]) -> np.ndarray:
    """The l1 norm of what changed, a row for each term and a column for each table."""
    answers = [
        engine.run(Program(snapshot, where, (Key("of", TABLES), *keys), tuple(asked)))
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
        keys = tuple(Key(name, SIZES[name]) for name in draw.sample(list(SIZES), draw.randint(0, 2)))
        asked = terms(draw)
        bounds = max_rows * np.array(list(asked.values()))
        moved = differences(engine, predicate(draw), keys, asked)
        assert (moved <= bounds[:, None]).all()
        nearest = np.maximum(nearest, (moved / bounds[:, None]).max(axis=1))
    assert (nearest >= 0.5).all(), "a bound that nothing comes near would hide a mistake"


def test_one_unit_is_counted_once_in_a_cell_and_in_no_more_cells_than_it_has_rows(prepared):
    engine, max_rows, draw = prepared
    for names in ((), ("ward",), ("ward", "grade")):
        keys = tuple(Key(name, SIZES[name]) for name in names)
        bound = min(max_rows, math.prod(key.size for key in keys))
        moved = differences(engine, Every(()), keys, {Units(): 1})
        assert bound / 2 <= moved.max() <= bound
        assert differences(engine, predicate(draw), keys, {Units(): 1}).max() <= bound


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
        moved = differences(engine, predicate(draw), (Key("ward", 5),), asked)[:, 0]
        assert (moved <= 6 * np.array(list(asked.values()))).all()


def test_a_unit_alone_in_its_table_is_bounded_too(tmp_path):
    engine = DuckDBEngine(tmp_path)
    rows = [{"who": "only", "of": 0, "cost": 1e9, "ward": "A", "grade": 0}] * 1000
    preparation = Preparation("who", 7, (COST, WARD), b"key")
    engine.prepare(as_table(rows), preparation, "one")
    engine.prepare(as_table([]), preparation, "none")
    asked = (Rows(), Value("cost"))
    one, none = (engine.run(Program(name, Every(()), (), asked)).tolist() for name in ("one", "none"))
    assert one == [[7], [7000]]
    assert none == [[0], [0]]


def test_without_a_unit_column_one_row_moves_one_row(tmp_path):
    engine = DuckDBEngine(tmp_path)
    draw = random.Random(3)
    rows = [row for i in range(5) for row in person(draw, 0, None)]
    preparation = Preparation(None, 1, (COST, WARD, GRADE), b"key")
    engine.prepare(as_table(rows), preparation, "whole")
    engine.prepare(as_table(rows[1:]), preparation, "without")
    keys = (Key("ward", 5),)
    for _ in range(20):
        asked = terms(draw)
        where = predicate(draw)
        whole, without = (
            engine.run(Program(name, where, keys, tuple(asked))) for name in ("whole", "without")
        )
        assert (np.abs(whole - without).sum(axis=1) <= np.array(list(asked.values()))).all()
