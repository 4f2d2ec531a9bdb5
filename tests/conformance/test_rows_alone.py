"""A row's value depends on that row alone and stays within its bounds, on every engine (docs/proofs/rows.md).

Each engine computes the same questions over all units and over all but one. What a sum loses is what that
unit's rows added, and at most what is charged. Rows at the corners of doubles raise no error anywhere.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from conformance.both_engines import Both
from conformance.with_spark import Beside
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import PolicyError
from sfumato.queries.sql import parse_question

KEY = b"a key of the lab"
ROWS = 3
COLUMNS = {
    "a": sf.between(-1000, 1000),
    "b": sf.between(0, 1),
    "c": sf.between(-(10**6), 10**6, step=0.01),
    "d": sf.between(0, 200),
}
TABLE = declare_table("t", sf.Unit("who", max_rows=ROWS), COLUMNS)
CORNERS = [
    *(math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, 2.2e-308, -0.0, 0.0, None),
    *(0.5, 2.5, -2.5, 1e-7, -1e-7, 1.0, -1.0, 200.0, 1000.0, -1000.0, 0.005, 1e6),
]
FIXED = [
    "a / b",
    "a / d",
    "b / a / a / a",
    "c / (a * d)",
    "1 / (a - d)",
    "LEAST(a / b, 1)",
    "GREATEST(LEAST(c / d, 9), -9)",
    "LN(a)",
    "LN(b)",
    "LN(d + 1)",
    "LN(a * a)",
    "EXP(a / 5)",
    "EXP(-a * a)",
    "EXP(b) * EXP(-b)",
    "EXP(-c / 100)",
    "SQRT(a)",
    "SQRT(d)",
    "SQRT(ABS(c))",
    "POWER(a, 0.3)",
    "POWER(b, -0.5)",
    "POWER(d, 7.5)",
    "POWER(a, -3)",
    "FLOOR(c / d)",
    "ROUND(a / b, 2)",
    "ROUND(c)",
    "CEIL(a / 3)",
    "a // d",
    "c % d",
    "a % b",
    "CAST(c AS INTEGER)",
    "ROUND(LN(b), 1)",
    "SIGN(a / d)",
    "ABS(a / d)",
    "COALESCE(a / b, d)",
    "NULLIF(a / d, 1)",
    "a * b * c * d",
    "CASE WHEN a / d > 0.5 THEN LN(d) WHEN b = 0 THEN NULL ELSE c / d END",
    "LOG10(d)",
    "LOG2(ABS(a))",
    "EXP(LN(b) * 9) / EXP(LN(b) * 9 - 5)",
    "SQRT(b) / SQRT(a)",
    "a * a * a * a * a * a * a * a",
]
"""Expressions at which engines raise errors, if they are not kept from it."""


def compose(rng: random.Random, depth: int) -> str:
    """Return a random expression of a row."""
    if depth == 0:
        return rng.choice([*COLUMNS, "0.5", "-3", "2", "0.01"])
    one, other = compose(rng, depth - 1), compose(rng, rng.randrange(depth))
    return rng.choice(
        [
            f"({one} + {other})",
            f"({one} - {other})",
            f"({one} * {other})",
            f"({one} / {other})",
            f"{rng.choice(['SQRT', 'LN', 'ABS', 'FLOOR', 'ROUND', 'CEIL', 'SIGN'])}({one})",
            f"EXP(LEAST({one}, 20))",
            f"POWER({one}, {rng.choice(['0.5', '1.3', '-1', '2'])})",
            f"LEAST(GREATEST({one}, -5), 7)",
            f"CASE WHEN {one} > {other} THEN {other} ELSE {one} END",
            f"COALESCE({one}, {other})",
            f"({one} % {other})",
        ]
    )


def questions(seed: int, number: int) -> Iterator[Any]:
    """Yield plans of questions of several random sums each; those that are refused are left out."""
    rng = random.Random(seed)
    made = [*FIXED, *(compose(rng, rng.randrange(1, 4)) for _ in range(number))]
    for at in range(0, len(made), 6):
        shown: list[str] = []
        for each in made[at : at + 6]:
            above = f"COUNT(*) FILTER (WHERE {each} > 0.25)"
            try:
                _plan([f"SUM({each}) AS s", f"{above} AS n"])
            except PolicyError:
                continue
            shown += [f"SUM({each}) AS s{len(shown)}", f"{above} AS n{len(shown)}"]
        if shown:
            yield _plan(shown)


def _plan(shown: list[str]) -> Any:
    asked = parse_question(f"SELECT {', '.join(shown)} FROM t")
    return plan_question({"t": TABLE}.__getitem__, asked, PureSpend(Fraction(1)))


def rows() -> list[dict[str, Any]]:
    """Corners of every column beside ordinary numbers of the others, and random pairs of corners."""
    rng = random.Random(4)
    found = []
    for name in COLUMNS:
        for corner in CORNERS:
            found.append({each: round(rng.uniform(-150, 150), 2) for each in COLUMNS} | {name: corner})
    found += [{each: rng.choice(CORNERS) for each in COLUMNS} for _ in range(150)]
    return [{"who": f"u{i // ROWS}", **row} for i, row in enumerate(found)]


def _table(of: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {
            name: pa.array([row[name] for row in of], pa.string() if name == "who" else pa.float64())
            for name in ("who", *COLUMNS)
        }
    )


def check(engines: Any, seed: int, number: int, left_out: tuple[str, ...]) -> None:
    """Compare sums over all units with those over all but one, on both engines."""
    everyone, preparation = rows(), TABLE.make_preparation(KEY)
    sums: list[list[tuple[Any, Any]]] = []
    asked = list(questions(seed, number))
    for without in (None, *left_out):
        kept = [row for row in everyone if row["who"] != without]
        # One name for all, so that programs are the same.
        engines.prepare(_table(kept), preparation, TABLE.snapshot_name)
        sums.append([engines.run(step.program) for plan in asked for step in plan.steps])
        engines.duck.erase(TABLE.snapshot_name)
        other = getattr(engines, "postgres", None) or engines.spark
        other.erase(TABLE.snapshot_name)
    terms = [list(step.measured) for plan in asked for step in plan.steps]
    moved = 0
    for place, parts in enumerate(terms):
        for at, part in enumerate(parts):
            for engine in (0, 1):
                whole = int(sums[0][place][engine][at][0])
                for each in sums[1:]:
                    change = abs(whole - int(each[place][engine][at][0]))
                    assert change <= part.sensitivity.l1, (part.of, change)
                    moved += change > 0
            # Engines may differ in the last bit of a function, and so in a step of a row's grid.
            gap = abs(int(sums[0][place][0][at][0]) - int(sums[0][place][1][at][0]))
            assert gap <= len(everyone) // 4, part.of
    assert moved > len(terms)


def test_postgres(tmp_path: Path, postgres: str) -> None:
    check(Both.at(tmp_path, postgres), 1, 120, ("u0", "u7", "u40"))


def test_spark(tmp_path: Path, spark: Any) -> None:
    check(Beside.at(tmp_path, spark), 2, 60, ("u3",))


@pytest.mark.slow
def test_many_expressions(tmp_path: Path, postgres: str) -> None:
    check(Both.at(tmp_path, postgres), 3, 2000, tuple(f"u{i}" for i in range(0, 60, 6)))
