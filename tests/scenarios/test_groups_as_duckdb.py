"""Groups of random tables, most of whose declared groups are empty, compared with plain DuckDB.

No noise is added, so every group that has rows is significant, and answers have the rows that DuckDB has.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from exact_answers import without_noise

if TYPE_CHECKING:
    from pathlib import Path

CODES = tuple(f"c{number:02}" for number in range(40))
FIRST = date(2020, 1, 1)
COLUMNS = {
    "code": sf.one_of(*CODES),
    "number": sf.between(0, 999, step=1),
    "day": sf.between(FIRST, date(2024, 12, 31)),
    "flag": sf.one_of(False, True),
    "x": sf.between(0, 20, step=1),
}
KEYS = {
    "code": "code",
    "number": "number",
    "month": "DATE_TRUNC('month', day)",
    "flag": "flag",
    "tens": "CAST(FLOOR(number / 10) * 10 AS INTEGER)",
    "size": "CASE WHEN number < 100 THEN 'small' WHEN number < 900 THEN 'large' ELSE 'huge' END",
}
LISTED = {"code", "flag", "size"}
"""Keys that are lists of declared values."""


def _make_rows(draw: np.random.Generator) -> pa.Table:
    """Return rows with few different values in each column, some of them missing."""
    rows = int(draw.integers(1, 60))
    few = [draw.choice(CODES, 3).tolist(), draw.integers(0, 1000, 4).tolist()]
    days = [FIRST + timedelta(days=int(each)) for each in draw.integers(0, 1800, 3)]
    missing = [None] if draw.random() < 0.4 else []
    return pa.table(
        {
            "code": pa.array(
                [(few[0] + missing)[at] for at in draw.integers(0, 3 + len(missing), rows)], pa.string()
            ),
            "number": pa.array([few[1][at] for at in draw.integers(0, 4, rows)], pa.int64()),
            "day": pa.array([days[at] for at in draw.integers(0, 3, rows)], pa.date32()),
            "flag": pa.array(draw.integers(0, 2, rows).astype(bool)),
            "x": pa.array(draw.integers(0, 21, rows), pa.int64()),
        }
    )


def _make_question(draw: np.random.Generator, table: str, rows: pa.Table) -> tuple[str, bool]:
    """Return a question, and whether it may show every declared group."""
    keys = draw.choice(list(KEYS), int(draw.integers(1, 3)), replace=False).tolist()
    shown = ", ".join(f"{KEYS[key]} AS k{place}" for place, key in enumerate(keys))
    names = ", ".join(f"k{place}" for place in range(len(keys)))
    number = int(draw.choice(rows["number"].to_pylist()))
    where = str(
        draw.choice(
            ["", "", f"WHERE number >= {number}", f"WHERE number IN ({number}, 7)", "WHERE NOT flag OR x < 9"]
        )
    )
    many = int(draw.integers(0, 12))
    having = str(
        draw.choice(
            [
                "",
                "",
                f"HAVING COUNT(*) > {many}",
                f"HAVING COUNT(*) <= {many}",
                f"HAVING SUM(x) >= {5 * many}",
            ]
        )
    )
    order = str(draw.choice(["n", "n DESC", "s DESC, n", "k0 DESC"]))
    limit = str(draw.choice(["", f"LIMIT {1 + many}", f"LIMIT {1 + many} OFFSET 1"]))
    sql = (
        f"SELECT {shown}, COUNT(*) AS n, SUM(x) AS s FROM {table} {where} GROUP BY {names} {having} "
        f"ORDER BY {order}, {names} {limit}"
    )
    return sql, set(keys) <= LISTED and not having and not limit


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows with moments as days, and sums as whole numbers."""
    return [
        tuple(
            each.date() if isinstance(each, datetime) else int(each) if isinstance(each, float) else each
            for each in row
        )
        for row in rows
    ]


def compare(folder: Path, seed: int, tables: int) -> None:
    draw, lab, asked = np.random.default_rng(seed), sf.create(folder / "lab"), 0
    session = lab.session()
    for number in range(tables):
        name, rows = f"t{number}", _make_rows(draw)
        lab.register(name, rows, unit=sf.ROW, columns=COLUMNS, budget=sf.Budget(epsilon=10**5))
        plain = duckdb.connect()
        plain.register(name, rows)
        for _ in range(3):
            sql, whole = _make_question(draw, name, rows)
            where = sql.partition("WHERE")[2].partition("GROUP")[0]
            # Where no group has rows, every group is shown, with a warning.
            if where and not plain.sql(f"SELECT COUNT(*) FROM {name} WHERE {where}").fetchall()[0][0]:
                continue
            with without_noise():
                answer = session.sql(sql).release(epsilon=1).to_arrow().to_pylist()
            found = [tuple(row.values()) for row in answer if row["n"] or not whole]
            assert _plain(found) == _plain(plain.sql(sql).fetchall()), sql
            asked += 1
    assert asked > 2 * tables


def test_groups_of_random_tables_are_those_of_duckdb(tmp_path: Path) -> None:
    compare(tmp_path, 1, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_groups_of_many_random_tables_are_those_of_duckdb(tmp_path: Path, seed: int) -> None:
    compare(tmp_path, seed, 50)
