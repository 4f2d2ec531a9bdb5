"""Functions of a row give what plain DuckDB gives, and are missing where that fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.noise.audit_hook import MechanismCall, recording

ROWS = pa.table(
    {
        "who": range(8),
        "x": [1, 4, 9, None, 25, 2, 0, 7],
        "y": [3, None, 8, None, -2, 5, 0, -7],
        "day": [date(2023, 12, 31), None, *(date(2024, at, 29) for at in range(1, 7))],
        "seen": [datetime(2024, 1, 1, hour, 30) for hour in range(8)],
        "w": ["A", "B", None, "A", "B", "C", "C", "A"],
    }
)
COLUMNS = {
    "x": sf.between(0, 32, step=1),
    "y": sf.between(-8, 8, step=1),
    "day": sf.between(date(2023, 1, 1), date(2024, 12, 31)),
    "seen": sf.between(datetime(2024, 1, 1), datetime(2024, 12, 31)),
    "w": sf.one_of("A", "B", "C"),
}
EXACT = (
    "LEAST(x, y)", "GREATEST(x, y, NULL)", "LEAST(x, 3)", "GREATEST(y, 0)", "DAYOFWEEK(day)",
    "DAYOFYEAR(day)", "WEEK(day)", "DATE_PART('doy', seen)",
    "DATE_DIFF('month', DATE '2024-01-31', day)", "POWER(y, 3)",
    "LENGTH(DAYNAME(day))", "LENGTH(MONTHNAME(seen) || w)", "LENGTH(CONCAT(w, x))", "LENGTH(w || x)",
    "CASE WHEN STRFTIME(day, '%Y-%m') = '2024-02' THEN 1 ELSE 0 END",
    "CASE WHEN STRFTIME(seen, '%-H:%M') LIKE '%7:%' THEN 1 ELSE 0 END",
    "CASE WHEN w IS DISTINCT FROM 'A' THEN 1 ELSE 0 END",
    "CASE WHEN REGEXP_MATCHES(w, '^(A|C)$') THEN x END",
)  # fmt: skip
NEAR = {
    "SQRT(x)": "SQRT(x)",
    "SQRT(y)": "CASE WHEN y >= 0 THEN SQRT(y) END",
    "LN(x)": "CASE WHEN x > 0 THEN LN(x) END",
    "LOG10(y)": "CASE WHEN y > 0 THEN LOG10(y) END",
    "EXP(y)": "EXP(y)",
    "POWER(y, 0.25)": "CASE WHEN y >= 0 THEN POWER(y, 0.25) END",
    "POWER(x, -1)": "CASE WHEN x <> 0 THEN POWER(x, -1) END",
}


class Exact:
    def answer(self, call: MechanismCall, draw: Any) -> Any:
        return np.asarray(call.exact)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> sf.Session:
    lab = sf.create(tmp_path_factory.mktemp("functions") / "lab")
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=1), columns=COLUMNS, budget=sf.Budget(100))
    return lab.session()


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("t", ROWS)
        yield connection


def _sums(expressions: list[str]) -> str:
    shown = [f"SUM({each}) AS s{i}, COUNT({each}) AS n{i}" for i, each in enumerate(expressions)]
    return f"SELECT {', '.join(shown)} FROM t"


def _ask(session: sf.Session, sql: str) -> list[Any]:
    with recording(Exact()):
        return list(session.sql(sql).release(epsilon=1).to_arrow().to_pylist()[0].values())


def test_whole_numbers_and_texts_are_the_same(session: sf.Session, plain: duckdb.DuckDBPyConnection) -> None:
    sql = _sums(list(EXACT))
    assert _ask(session, sql) == list(plain.execute(sql).fetchall()[0])


def test_curves_are_near_and_missing_where_plain_sql_fails(
    session: sf.Session, plain: duckdb.DuckDBPyConnection
) -> None:
    ours, theirs = _ask(session, _sums(list(NEAR))), plain.execute(_sums(list(NEAR.values()))).fetchall()[0]
    assert ours == pytest.approx(list(theirs), rel=1e-5)
