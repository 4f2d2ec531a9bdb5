"""What is computed from released numbers is what plain DuckDB computes, and costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

ROWS = pa.table(
    {
        "who": list(range(120)),
        "ward": (["A"] * 50 + ["B"] * 30 + ["C"] * 40),
        "sex": ["f", "m", "f"] * 40,
        "year": [2020 + i % 4 for i in range(120)],
        "cost": [float(i % 16) for i in range(120)],
    }
)
COLUMNS = {
    "ward": sf.one_of("A", "B", "C", missing="A"),
    "sex": sf.one_of("f", "m", missing="f"),
    "year": sf.between(2020, 2023, step=1, missing=2020),
    "cost": sf.between(0, 16, step=1),
}
ASKED = (Path(__file__).parent / "free_work.sql").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("free") / "lab")
    budget = sf.Budget(epsilon=100_000)
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=1), columns=COLUMNS, budget=budget)
    return lab.session()


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    numbers = [
        [round(float(v), 6) if isinstance(v, int | float) and not isinstance(v, bool) else v for v in row]
        for row in rows
    ]
    return [tuple(row) for row in numbers]


@pytest.mark.parametrize("sql", ASKED)
def test_it_is_what_plain_duckdb_computes(session: Any, sql: str) -> None:
    t = ROWS  # noqa: F841  DuckDB finds it by its name
    found = duckdb.sql(sql)
    release = session.sql(sql).release(epsilon=900)
    answer = release.to_arrow()
    assert answer.column_names == found.columns
    ours, theirs = _plain([tuple(row.values()) for row in answer.to_pylist()]), _plain(found.fetchall())
    in_order = "ORDER BY" in sql.rpartition(")")[2]
    assert ours == theirs if in_order else sorted(ours, key=str) == sorted(theirs, key=str)
    assert str(release)
    assert release.interval().num_rows == answer.num_rows


def test_it_costs_nothing_more(session: Any) -> None:
    session.sql("SELECT ward, COUNT(*) AS n FROM t GROUP BY ward").release(epsilon=1)
    free = (
        "SELECT ward, RANK() OVER (ORDER BY COUNT(*)) AS r, ROUND(COUNT(*) / 7, 1) AS n FROM t GROUP BY ward"
    )
    assert session.sql(free).quote(epsilon=1).free
    assert session.sql(free).release(epsilon=1).receipt.replayed


def test_intervals_are_given_where_they_are_valid(session: Any) -> None:
    sql = """SELECT ward, ROUND(AVG(cost), 1) AS a, 100 * COUNT(*) AS c, RANK() OVER (ORDER BY COUNT(*)) AS r
             FROM t GROUP BY ward"""
    release = session.sql(sql).release(epsilon=2)
    ends = release.interval()
    wide = session.sql("SELECT ward, AVG(cost) AS a, 100 * COUNT(*) AS c FROM t GROUP BY ward")
    plain = wide.release(epsilon=2).interval()
    assert ends["c_low"].to_pylist() == plain["c_low"].to_pylist()
    assert ends["a_high"].to_pylist() == pytest.approx(plain["a_high"].to_pylist(), abs=0.051)
    assert ends["r_low"].to_pylist() == [None] * 3
    assert "No interval is known for r" in str(release)
    frame = release.to_pandas(intervals=True)
    assert list(frame.columns) == [
        "ward",
        "a",
        "a_low",
        "a_high",
        "c",
        "c_low",
        "c_high",
        "r",
        "r_low",
        "r_high",
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, RANK() OVER (ORDER BY cost) AS r FROM t GROUP BY ward",
        "SELECT ward + COUNT(*) AS x FROM t GROUP BY ward",
        "SELECT ward, COUNT(*) > 'x' AS x FROM t GROUP BY ward",
        "SELECT ROW_NUMBER() OVER (ORDER BY cost) AS r, cost FROM t",
        "SELECT ward, n FROM (SELECT ward, COUNT(*) AS n FROM t GROUP BY ward) GROUP BY ward",
        "SELECT SUM(COUNT(*)) OVER (ORDER BY ward RANGE 2 PRECEDING) AS s FROM t GROUP BY ward",
    ],
)
def test_what_cannot_be_computed_is_refused_before_a_charge(session: Any, sql: str) -> None:
    before = session.budget.to_dict()
    with pytest.raises(SfumatoError):
        session.sql(sql)
    assert session.budget.to_dict() == before
