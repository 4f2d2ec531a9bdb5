"""The test that matters most: taking any one unit out moves the exact integers by no more than was priced.

Random tables (units with 1 to 1,000 rows, missing identifiers, duplicate rows, NaN, infinities, values
outside their bounds and lists) meet random questions. No noise is drawn: integers are compared exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.catalog import Table, declared
from sfumato.curator.measurement import Aggregate, Count, Mean, Output, Question, Sum, Units, Variance
from sfumato.curator.plan import Plan, plan
from sfumato.curator.relation import Relation
from sfumato.curator.spend import Pure
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.queries.sql import question

TABLES, BATCHES = 200, 8
COLUMNS = {
    "age": sf.between(0, 110),
    "gain": sf.between(-7.5, 2.25, step=0.125),
    "ward": sf.one_of("A", "B", "C"),
    "flag": sf.one_of(0, 1),
    "score": sf.one_of(-2, 0.5, 3),
}
CONDITIONS = (
    "age >= 50",
    "age < 20 OR gain > 0",
    "NOT (ward = 'A')",
    "ward IN ('A', 'C') AND age BETWEEN 10 AND 90.5",
    "gain IS NULL",
    "ward IS NOT NULL AND NOT flag = 1",
    "score > 0 OR flag <> 0",
)
SHOWN = (
    "COUNT(*)",
    "COUNT(gain)",
    "SUM(age)",
    "SUM(gain)",
    "AVG(gain)",
    "AVG(age)",
    "SUM(score)",
    "AVG(flag)",
    "SUM(flag)",
    "100 * SUM(flag) / COUNT(*)",
    "(SUM(gain) - AVG(age)) * 2",
    "COUNT(DISTINCT who)",
    "VARIANCE(gain)",
    "STDDEV_POP(age)",
    "STDDEV(score)",
)
AFTER = ("", "", " HAVING SUM(score) > 3 OR COUNT(age) < 2", " ORDER BY SUM(gain) / COUNT(*) DESC LIMIT 2")
GROUPS = ("", "ward", "flag, ward", "score")


def _pick(rng: np.random.Generator, values: list[object], rows: int) -> list[object]:
    return [values[i] for i in rng.integers(len(values), size=rows)]


def _table(rng: np.random.Generator) -> pa.Table:
    sizes = [
        int(rng.integers(1, 1001)),
        *(int(2 ** rng.uniform(0, 7)) for _ in range(int(rng.integers(2, 12)))),
    ]
    units = [unit for unit, size in enumerate(sizes) for _ in range(size)] + [None] * int(rng.integers(0, 6))
    rows = len(units)
    extreme = bool(rng.integers(2))
    ages = (
        [110, 200.0, 1e308, math.inf]
        if extreme
        else [0, 3, 17.25, 64.9, 65, 110, 200.0, -5, math.inf, -math.inf, math.nan, None]
    )
    gains = [-7.5, -100.0] if extreme else [-7.5, -100.0, -0.0, 0.06, 0.07, 2.25, 3.5, math.nan, None]
    columns = {
        "who": units,
        "age": pa.array(_pick(rng, ages, rows), pa.float64()),
        "gain": pa.array(_pick(rng, gains, rows), pa.float64()),
        "ward": _pick(rng, ["A"] if extreme else ["A", "B", "C", "other", None], rows),
        "flag": pa.array(_pick(rng, [1] if extreme else [0, 1, 2, None], rows), pa.int64()),
        "score": pa.array(_pick(rng, [3.0] if extreme else [-2.0, 0.5, 3.0, 9.0, None], rows), pa.float64()),
    }
    return pa.table(columns).take(rng.permutation(rows))


def _questions(rng: np.random.Generator) -> list[str]:
    asked = []
    for _ in range(5):
        shown = ", ".join(f"{SHOWN[i]} AS x{i}" for i in sorted(set(rng.integers(len(SHOWN), size=3))))
        where = f" WHERE {CONDITIONS[rng.integers(len(CONDITIONS))]}" if rng.integers(3) else ""
        groups = GROUPS[rng.integers(len(GROUPS))]
        after = AFTER[rng.integers(len(AFTER))]
        asked.append(f"SELECT {shown} FROM t{where}" + (f" GROUP BY {groups}" if groups else "") + after)
    return asked


def _moved(engine: DuckDBEngine, plan: Plan, without: str) -> list[Fraction]:
    """For each sum, the share of its priced sensitivity by which it moved."""
    program = plan.program
    apart = np.abs(
        engine.run(program) - engine.run(type(program)(without, program.where, program.keys, program.terms))
    )
    return [Fraction(int(row.sum()), each.l1) for row, each in zip(apart, plan.measured, strict=True)]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_unit_moves_more_than_its_price(batch: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(batch)
    engine = DuckDBEngine(tmp_path)
    reached = Fraction(0)
    for i in range(TABLES // BATCHES):
        full = _table(rng)
        table = declared("t", sf.Unit("who", max_rows=int(rng.choice([1, 3, 20, 1000]))), COLUMNS)
        engine.prepare(full, table.preparation(b"key"), table.snapshot_name)
        units = full["who"].drop_null().unique().to_pylist()
        for unit in {0, units[int(rng.integers(len(units)))]}:
            without = f"without{i}"
            kept = [other != unit for other in full["who"].to_pylist()]
            engine.prepare(full.filter(pa.array(kept)), table.preparation(b"key"), without)
            for sql in _questions(rng):
                moved = _moved(engine, plan(table, question(sql), Pure(Fraction(1))), without)
                assert max(moved) <= 1, sql
                reached = max(reached, *moved)
            engine.erase(without)
    assert reached >= Fraction(1, 2)


def _worst_case(asked: Question, folder: Path) -> list[tuple[Fraction, int]]:
    """How far a unit whose rows all sit at the worst value moves each sum, and the bound of one row."""
    rows = 50
    worst = pa.table(
        {
            "who": ["u"] * rows,
            "age": [110.0] * rows,
            "gain": [-7.5] * rows,
            "ward": ["A"] * rows,
            "flag": [1] * rows,
            "score": [3.0] * rows,
        }
    )
    engine = DuckDBEngine(folder)
    table: Table = declared("t", sf.Unit("who", max_rows=7), COLUMNS)
    engine.prepare(worst, table.preparation(b"key"), table.snapshot_name)
    engine.prepare(worst.slice(0, 0), table.preparation(b"key"), "empty")
    priced = plan(table, asked, Pure(Fraction(1)))
    bounds = [each.summand.bound for each in priced.measured]
    return list(zip(_moved(engine, priced, "empty"), bounds, strict=True))


@pytest.mark.parametrize(
    "aggregate",
    [
        Count(),
        Count("gain"),
        Units("who"),
        Sum("age"),
        Sum("gain"),
        Sum("score"),
        Mean("gain"),
        Mean("flag"),
        Variance("gain"),
        Variance("age", sample=False, root=True),
        Variance("score"),
    ],
)
def test_every_aggregate_reaches_its_price(aggregate: Aggregate, tmp_path: Path) -> None:
    for share, bound in _worst_case(Question(Relation("t"), (), (Output("x", aggregate),)), tmp_path):
        assert share >= 1 - Fraction(1, bound)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 100 * SUM(flag) / COUNT(*) AS x FROM t",
        "SELECT COUNT(*) AS n FROM t GROUP BY ward HAVING SUM(score) / COUNT(gain) > 1",
        "SELECT ward AS w, SUM(age) - 3 AS x FROM t GROUP BY 1 ORDER BY AVG(gain) DESC LIMIT 1",
    ],
)
def test_what_comes_after_the_noise_needs_every_sum_it_pays_for(sql: str, tmp_path: Path) -> None:
    for share, bound in _worst_case(question(sql), tmp_path):
        assert share >= max(Fraction(1, 2), 1 - Fraction(1, bound))


@pytest.mark.parametrize(("max_rows", "groups"), [(2, "ward"), (7, "ward"), (4, "flag, ward"), (7, "")])
def test_a_unit_in_as_many_groups_as_it_can_be_reaches_its_price(
    max_rows: int, groups: str, tmp_path: Path
) -> None:
    rows = [("u", ward, flag) for ward in "ABC" for flag in (0, 1)]
    columns = dict(zip(("who", "ward", "flag"), zip(*rows, strict=True), strict=True))
    full = pa.table({name: pa.array(values) for name, values in columns.items()})
    table = declared("t", sf.Unit("who", max_rows), {name: COLUMNS[name] for name in ("ward", "flag")})
    engine = DuckDBEngine(tmp_path)
    engine.prepare(full, table.preparation(b"key"), table.snapshot_name)
    engine.prepare(full.slice(0, 0), table.preparation(b"key"), "empty")
    asked = "SELECT COUNT(DISTINCT who) FROM t" + (f" GROUP BY {groups}" if groups else "")
    (moved,) = _moved(engine, plan(table, question(asked), Pure(Fraction(1))), "empty")
    assert Fraction(1, 2) <= moved <= 1
