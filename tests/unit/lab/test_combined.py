"""UNION of answers, PIVOT and SELECT DISTINCT, beside plain DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

ROWS = pa.table(
    {
        "who": list(range(90)),
        "ward": ["A"] * 40 + ["B"] * 30 + ["C"] * 20,
        "sex": ["f", "m", "m"] * 30,
        "note": ["cough"] * 60 + ["fall"] * 30,
        "cost": [float(i % 4) for i in range(90)],
    }
)
COLUMNS = {
    "ward": sf.one_of("A", "B", "C", missing="A"),
    "sex": sf.one_of("m", "f", missing="f"),
    "note": sf.text(),
    "cost": sf.between(0, 4, step=1),
}
ASKED = [
    """SELECT 'f' AS s, COUNT(*) AS n FROM t WHERE sex = 'f'
       UNION ALL SELECT 'm' AS s, 9 AS n FROM t HAVING COUNT(*) > 0""",
    """SELECT ward, COUNT(*) AS n FROM t GROUP BY ward
       UNION ALL SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY n, 1 LIMIT 3""",
    """SELECT COUNT(*) AS n FROM t UNION SELECT COUNT(*) AS n FROM t
       UNION SELECT SUM(cost) AS n FROM t ORDER BY 1 DESC""",
    "PIVOT t ON sex USING COUNT(*) GROUP BY ward",
    "PIVOT t ON ward USING SUM(cost) AS s GROUP BY sex",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("combined") / "lab")
    budget = sf.Budget(epsilon=10_000, delta=1e-3)
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=1), columns=COLUMNS, budget=budget)
    return lab.session()


@pytest.mark.parametrize("sql", ASKED)
def test_it_is_what_plain_duckdb_gives(session: Any, sql: str) -> None:
    t = ROWS  # noqa: F841  DuckDB finds it by its name
    found, asked = duckdb.sql(sql), session.sql(sql)
    answer = asked.release(epsilon=900)
    table = answer.to_arrow()
    assert table.column_names == found.columns
    ours, theirs = [tuple(row.values()) for row in table.to_pylist()], found.fetchall()
    assert ours == theirs if "ORDER" in sql else sorted(ours) == sorted(theirs)
    assert str(asked.quote(epsilon=1))
    assert str(answer)


def test_a_union_is_charged_for_all_its_parts(session: Any) -> None:
    before = session._payer.lab.ledger.read_spent("population:who").pure
    sql = "SELECT COUNT(*) AS n FROM t WHERE cost > 1 UNION ALL SELECT COUNT(*) AS n FROM t WHERE cost > 2"
    session.sql(sql).release(epsilon=1)
    assert session._payer.lab.ledger.read_spent("population:who").pure - before == 10**12
    session.sql(sql).release(epsilon=1)
    assert session._payer.lab.ledger.read_spent("population:who").pure - before == 10**12


def test_declared_values_are_free_and_others_are_discovered(session: Any) -> None:
    before = session.budget.to_dict()
    listed = session.sql("SELECT DISTINCT sex, ward FROM t ORDER BY sex, ward DESC").release(epsilon=1)
    assert listed.to_arrow().to_pydict() == {"sex": list("fffmmm"), "ward": list("CBACBA")}
    assert session.budget.to_dict() == before
    found = session.sql("SELECT DISTINCT note FROM t ORDER BY note").release(epsilon=50, delta=1e-6)
    assert found.to_arrow().to_pydict() == {"note": ["cough", "fall"]}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT ward FROM t WHERE cost > 1",
        "SELECT COUNT(*) AS n FROM t UNION ALL SELECT ward, COUNT(*) AS n FROM t GROUP BY ward",
        "SELECT cost FROM t UNION ALL SELECT cost FROM t",
        "PIVOT t ON note USING COUNT(*) GROUP BY ward",
        "PIVOT t ON sex USING COUNT(*)",
    ],
)
def test_what_is_no_answer_is_refused(session: Any, sql: str) -> None:
    with pytest.raises(SfumatoError):
        session.sql(sql)


@pytest.mark.parametrize(
    "sql",
    [
        ASKED[1],
        "SHOW TABLES",
        "DESCRIBE t",
        "SELECT DISTINCT ward FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE cost > (SELECT AVG(cost) FROM t)",
    ],
)
def test_what_is_not_a_single_question_has_no_bounds(session: Any, sql: str) -> None:
    asked = session.sql(sql)
    for refuse in (
        lambda: asked.tune(epsilon=1, for_epsilon=2),
        lambda: asked.tuning(2),
        lambda: asked.bounded(groups=1),
        lambda: asked.clipped(3),
    ):
        with pytest.raises(SfumatoError, match="SF-Q219"):
            refuse()


def test_questions_that_are_asked_together_have_no_bounds(session: Any) -> None:
    parts = session.table("t").partition("ward")
    for asked in (session.ask_together(["SELECT COUNT(*) AS n FROM t"]), parts.agg(n=sf.count())):
        with pytest.raises(SfumatoError, match="SF-Q219"):
            asked.tune(epsilon=1)
