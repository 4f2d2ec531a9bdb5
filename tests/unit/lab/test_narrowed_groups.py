"""Groups that public facts rule out are not priced: WHERE, CASE, keys that agree, and public tables."""

from __future__ import annotations

import itertools
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from exact_answers import without_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST = date(2024, 1, 20)
STARS = pa.table(
    {
        "number": [1, 2, 3, 4, 5],
        "name": ["Ann", "Bo", "Cy", "Di", "Di"],
        "team": ["x", "x", "y", None, "y"],
    }
)


def _every_row() -> pa.Table:
    """Return a row for each combination of declared values of three columns, and for missing ones."""
    wards, ages, days = (
        ["A", "B", "C", None],
        [*range(12), None],
        [*(FIRST + timedelta(days=n) for n in range(50)), None],
    )
    rows = list(itertools.product(wards, ages, days))
    ward, age, day = zip(*rows, strict=True)
    return pa.table(
        {
            "ward": pa.array(ward, pa.string()),
            "age": pa.array(age, pa.int64()),
            "day": pa.array(day, pa.date32()),
            "seen": pa.array([datetime(2024, 2, 1, at % 24) for at in range(len(rows))]),
            "cost": np.linspace(0, 1000, len(rows)),
            "number": pa.array([1 + at % 5 for at in range(len(rows))], pa.int64()),
            "code": pa.array([3_000_000 + at % 7 for at in range(len(rows))], pa.int64()),
        }
    )


ROWS = _every_row()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("narrowed") / "lab")
    lab.register(
        "t",
        ROWS,
        unit=sf.ROW,
        columns={
            "ward": sf.one_of("A", "B", "C"),
            "age": sf.between(0, 11, step=1),
            "day": sf.between(FIRST, FIRST + timedelta(days=49)),
            "seen": sf.between(datetime(2024, 1, 1), datetime(2024, 12, 31)),
            "cost": sf.between(0, 1000),
            "number": sf.between(1, 9, step=1),
            "code": sf.between(0, 4_000_000, step=1),
        },
        budget=sf.Budget(epsilon=10**6),
    )
    lab.register(
        "stars",
        STARS,
        unit=sf.PUBLIC,
        columns={
            "number": sf.between(1, 9, step=1),
            "name": sf.one_of("Ann", "Bo", "Cy", "Di", "Ed"),
            "team": sf.one_of("x", "y", "z"),
        },
    )
    return lab.session()


STAR = "t JOIN stars USING (number)"
LEFT = "t LEFT JOIN stars ON t.number = stars.number AND true"
COUNTED = [
    ("ward", "t", "", 4),
    ("ward", "t", "ward IN ('A', 'C')", 2),
    ("ward", "t", "ward <> 'A'", 2),
    ("ward", "t", "ward IS NULL", 1),
    ("ward, age", "t", "ward = 'A' OR age = 3", 13 + 3),
    ("LOWER(ward), ward", "t", "", 4),
    ("age", "t", "age BETWEEN 3 AND 5", 3),
    ("age", "t", "age IN (3, 5)", 2),
    ("age % 2", "t", "age IN (3, 5)", 1),
    ("CAST(FLOOR(age / 4) * 40 AS INTEGER)", "t", "", 4),
    ("CASE WHEN age < 4 THEN 1 WHEN age < 8 THEN 50 ELSE 1000 END", "t", "", 3),
    ("CASE WHEN age < 4 THEN 1 WHEN age < 8 THEN 50 ELSE 1000 END", "t", "age < 6", 2),
    ("CASE WHEN age < 4 THEN 'a' WHEN age < 8 THEN 'b' END", "t", "age >= 4", 2),
    ("CASE WHEN cost < 4 THEN 'a' WHEN cost < 800 THEN 'b' ELSE 'c' END", "t", "cost > 700", 2),
    ("CASE WHEN cost / age < 4 THEN 5 ELSE 500 END", "t", "", 2),
    ("FLOOR(cost / 100)", "t", "cost >= 250 AND cost < 400", 2),
    ("MONTH(day)", "t", "", 4),
    ("MONTH(day), DATE_TRUNC('month', day)", "t", "", 4),
    ("DATE_TRUNC('month', day), DAYNAME(day)", "t", "day < DATE '2024-02-03'", 7 + 2),
    ("DATE_TRUNC('day', seen)", "t", "seen > TIMESTAMP '2024-02-01 12:00:00' AND seen < '2024-02-04'", 3),
    ("name", STAR, "", 4),
    ("number, name", STAR, "", 5),
    ("name, team", STAR, "", 5),
    ("number", STAR, "name = 'Di'", 2),
    ("name", STAR, "t.number < 3", 2),
    ("team", STAR, "", 3),
    ("ward", "t", "ward IN ('A', 'C') AND age > 3", 2),
    ("code", "t", "code BETWEEN 3000000 AND 3000004", 5),
    ("code", "t", "code > 3000000 AND NOT (code > 3000002) AND age > 3", 2),
    ("code // 10", "t", "code < 35 AND code >= 5", 4),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "rows", "where", "groups"), COUNTED)
def test_only_groups_that_can_have_rows_are_shown_and_counted(
    session: Any, keys: str, rows: str, where: str, groups: int
) -> None:
    clause = f"WHERE {where}" if where else ""
    query = session.sql(f"SELECT COUNT(*) AS n FROM {rows} {clause} GROUP BY {keys}")
    assert int(query.resolved.possible_cells.sum()) == groups


@pytest.mark.parametrize(
    ("keys", "rows", "where", "groups"), [each for each in COUNTED if "," not in each[0]]
)
def test_a_single_key_has_no_other_cell(session: Any, keys: str, rows: str, where: str, groups: int) -> None:
    clause = f"WHERE {where}" if where else ""
    query = session.sql(f"SELECT COUNT(*) AS n FROM {rows} {clause} GROUP BY {keys}")
    assert query.resolved.cells == groups
    step = query.plan({"epsilon": 1}).steps[0]
    assert step.program.cells == groups


KEYS = (
    "ward", "age", "LOWER(ward)", "age % 3", "age // 4", "ward = 'A'", "MONTH(day)", "DAYNAME(day)",
    "DAY(day)",
    "DATE_TRUNC('month', day)", "DATE_TRUNC('week', day)", "HOUR(seen)", "COALESCE(ward, 'none')",
    "ABS(age - 5)",
    "CASE WHEN age < 3 THEN 7 WHEN ward = 'B' THEN 900 ELSE 20 END", "CASE WHEN ward = 'A' THEN 'yes' END",
    "LEAST(age, 4)", "number", "ward IS NULL", "NULLIF(age, 3)", "YEAR(day) || '-' || MONTH(day)",
)  # fmt: skip
WHERE = (
    "ward = 'A'", "ward <> 'B'", "ward IS NOT NULL", "age < 5", "age NOT BETWEEN 2 AND 9", "age IS NULL",
    "number >= 3", "day >= DATE '2024-02-10'", "MONTH(day) = 2", "DAYNAME(day) <> 'Monday'", "age = number",
    "ward IN ('A', 'C')", "cost < 300", "LOWER(ward) = 'c'", "age % 2 = 0", "ward IS NULL OR age > 8",
    "NOT (age > 2 AND ward = 'A')",
)  # fmt: skip


OTHERS = ("seen", "number", "cost")
"""Columns of which not every combination with the others has a row."""


def _ask(draw: np.random.Generator) -> str:
    keys: Sequence[str] = draw.choice(KEYS, int(draw.integers(1, 4)), replace=False).tolist()
    tests = draw.choice(WHERE, int(draw.integers(0, 3)), replace=False).tolist()
    shown = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys))
    clause = f"WHERE {' AND '.join(f'({each})' for each in tests)}" if tests else ""
    names = ", ".join(f"k{place}" for place in range(len(keys)))
    return f"SELECT {shown}, COUNT(*) AS n FROM t {clause} GROUP BY {names}"


def _compare(session: Any, seed: int, questions: int) -> int:
    """Compare random questions with DuckDB; return how many have an empty group that could be ruled out."""
    draw, plain, loose = np.random.default_rng(seed), duckdb.connect(), 0
    plain.register("t", ROWS)
    for _ in range(questions):
        sql = _ask(draw)
        expected = {_key(row): row[-1] for row in plain.sql(sql).fetchall()}
        with without_noise():
            every = session.sql(sql).release(epsilon=1).all_groups().to_arrow().to_pylist()
        found = {_key(tuple(row.values())): row["n"] for row in every}
        assert {key: n for key, n in found.items() if n} == expected, sql
        # Where WHERE leaves no row, every group is as empty as any other.
        whole = not any(name in sql for name in OTHERS) and bool(expected)
        loose += whole and len(found) > len(expected)
    return loose


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        each.date() if isinstance(each, datetime) else float(each) if isinstance(each, int | float) else each
        for each in row[:-1]
    )


def test_random_groups_lose_no_row_and_have_no_group_that_could_be_ruled_out(session: Any) -> None:
    """The table has a row for each combination, so a group without rows is one that could be ruled out."""
    assert _compare(session, 1, 40) == 0


@pytest.mark.slow
def test_many_random_groups_lose_no_row(session: Any) -> None:
    assert _compare(session, 2, 1000) == 0


@pytest.mark.parametrize(
    "key", ["age % -3", "(age - 6) // 4", "(age - 6) // -4", "(age - 6) % 5", "(age - 6) % -5"]
)
def test_quotients_below_zero_round_towards_zero(session: Any, key: str) -> None:
    ages = [age for age in ROWS["age"].to_pylist() if age is not None]
    moved, by = ("age", key.split()[-1]) if key.startswith("age") else ("(age - 6)", key.split()[-1])
    expected = dict.fromkeys(range(-9, 9), 0)
    for age in ages:
        value = age if moved == "age" else age - 6
        whole = abs(value) // abs(int(by)) * (1 if value * int(by) >= 0 else -1)
        expected[whole if "//" in key else value - whole * int(by)] += 1
    with without_noise():
        answer = session.sql(
            f"SELECT {key} AS k, COUNT(*) AS n FROM t WHERE age IS NOT NULL GROUP BY k"
        ).release(epsilon=1)
    found = {row["k"]: row["n"] for row in answer.all_groups().to_arrow().to_pylist() if row["k"] is not None}
    assert {k: n for k, n in found.items() if n} == {k: n for k, n in expected.items() if n}


def test_a_few_numbers_of_a_wide_range_are_groups(session: Any) -> None:
    """Without the condition there are more groups than a question may have."""
    sql = "SELECT code, COUNT(*) AS n FROM t WHERE code IN (3000001, 3000003, 3000009) GROUP BY code"
    with without_noise():
        found = session.sql(sql).release(epsilon=1).all_groups().to_arrow().to_pydict()
    codes = ROWS["code"].to_pylist()
    assert found["code"] == [3000001, 3000003, 3000009]
    assert found["n"] == [codes.count(3000001), codes.count(3000003), 0]
