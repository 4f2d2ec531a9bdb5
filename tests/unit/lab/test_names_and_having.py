"""Columns come before aliases of the same name, and conditions of HAVING and FILTER on keys narrow groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from exact_answers import without_noise
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table(
    {
        "ward": ["A", "A", "B", "B", "B", "C", None, None],
        "age": [3, 14, 14, 25, 25, 36, 36, None],
        "cost": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("names")
    lab = sf.create(folder / "lab")
    columns = {
        "ward": sf.one_of("A", "B", "C", "D"),
        "age": sf.between(0, 99, step=1),
        "cost": sf.between(0, 10, step=1),
    }
    lab.register("t", ROWS, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=10**4))
    return lab.session()


def _key(row: tuple[Any, ...]) -> list[str]:
    return [str(float(each)) if isinstance(each, int) else str(each) for each in row]


def _compare(session: Any, sql: str) -> None:
    plain = duckdb.connect()
    plain.register("t", ROWS)
    with without_noise():
        rows = session.sql(sql).release(epsilon=1).to_arrow().to_pylist()
    found = [tuple(row.values()) for row in rows if row["n"]]
    assert sorted(map(_key, found)) == sorted(map(_key, plain.sql(sql).fetchall())), sql


@pytest.mark.parametrize(
    ("having", "cells"),
    [
        ("ward = 'A'", 1),
        ("ward IN ('A', 'B') AND COUNT(*) > 2", 2),
        ("(k <> 'A' AND (n > 1))", 3),
        ("NOT ward = 'A' AND n BETWEEN 1 AND 2", 3),
        ("ward IS NULL", 1),
        ("COUNT(*) > 1", 5),
        ("t.ward <> 'A' AND SUM(cost) > 6", 3),
    ],
)
def test_having_on_keys_narrows_groups(session: Any, having: str, cells: int) -> None:
    sql = f"SELECT ward AS k, COUNT(*) AS n FROM t GROUP BY ward HAVING {having}"
    assert session.sql(sql).resolved.cells == cells
    _compare(session, sql)


@pytest.mark.parametrize(
    "having", ["d >= 1", "FLOOR(age / 10) >= 1 AND n > 1", "d IN (1, 3) AND SUM(cost) >= 6"]
)
def test_having_on_computed_keys(session: Any, having: str) -> None:
    _compare(session, f"SELECT FLOOR(age / 10) AS d, COUNT(*) AS n FROM t GROUP BY d HAVING {having}")


def test_conditions_on_rows_do_not_stand_in_having(session: Any) -> None:
    with pytest.raises(PolicyError, match="SF-Q120"):
        session.sql("SELECT ward, COUNT(*) AS n FROM t GROUP BY ward HAVING age > 3")
    with pytest.raises(PolicyError, match="SF-Q120"):
        session.sql("SELECT FLOOR(age / 10) AS d, COUNT(*) AS n FROM t GROUP BY d HAVING age > 3")


def test_filters_on_keys_narrow_groups(session: Any) -> None:
    one = "COUNT(*) FILTER (WHERE ward = 'A') AS n"
    assert session.sql(f"SELECT ward, {one} FROM t GROUP BY ward").resolved.cells == 1
    two = f"{one}, SUM(cost) FILTER (WHERE ward = 'C' OR ward IS NULL) AS s"
    assert session.sql(f"SELECT ward, {two} FROM t GROUP BY ward").resolved.cells == 3
    assert session.sql(f"SELECT ward, {one}, COUNT(*) AS m FROM t GROUP BY ward").resolved.cells == 5
    other = "COUNT(*) FILTER (WHERE age > 3) AS n"
    assert session.sql(f"SELECT ward, {other} FROM t GROUP BY ward").resolved.cells == 5


# ---- aliases -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT LOWER(ward) AS ward, COUNT(*) AS n FROM t GROUP BY ward",
        "SELECT FLOOR(age / 10) AS age, COUNT(*) AS n FROM t GROUP BY AGE",
        "SELECT age AS ward, COUNT(*) AS n FROM t GROUP BY ward",
        "SELECT LOWER(ward) AS ward, COUNT(*) AS n FROM t AS v GROUP BY ROLLUP (ward)",
    ],
)
def test_an_alias_that_a_column_hides_is_refused(session: Any, sql: str) -> None:
    """Groups would be those of the column, and shown as if they were those of the alias."""
    with pytest.raises(PolicyError, match="SF-Q133") as refused:
        session.sql(sql)
    assert refused.value.facts["try"].startswith("GROUP BY 1")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward AS ward, COUNT(*) AS n FROM t GROUP BY ward",
        "SELECT t.ward AS ward, COUNT(*) AS n FROM t GROUP BY ward",
        "SELECT LOWER(ward) AS ward, COUNT(*) AS n FROM t GROUP BY 1",
        "SELECT LOWER(ward) AS w, COUNT(*) AS n FROM t GROUP BY w",
        "SELECT ward, COUNT(*) AS n, SUM(cost) AS age FROM t GROUP BY ward",
        "SELECT age AS years, COUNT(*) AS n, COUNT(cost) AS cost FROM t GROUP BY years HAVING n > 1",
        "SELECT k AS ward, COUNT(*) AS n FROM (SELECT ward AS k FROM t) GROUP BY ward",
    ],
)
def test_names_mean_what_duckdb_means(session: Any, sql: str) -> None:
    _compare(session, sql)


def test_a_column_comes_before_an_alias_in_where_and_having(session: Any) -> None:
    _compare(session, "SELECT ward, COUNT(*) AS n, SUM(cost) AS age FROM t WHERE age > 20 GROUP BY ward")
    with pytest.raises(PolicyError):
        session.sql("SELECT ward, COUNT(*) AS age FROM t GROUP BY ward HAVING age > 1")
    _compare(
        session, "SELECT age, COUNT(*) AS n, SUM(cost) AS c FROM t GROUP BY age HAVING age > 20 AND c > 1"
    )
