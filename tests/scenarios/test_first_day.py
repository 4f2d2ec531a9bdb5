"""The sixty questions of the first day, asked through a session and compared with plain DuckDB.

Every mechanism gives its exact input instead of a noisy answer, by the hook for auditors, so that what is
compared went the whole way of a release: SQL in, priced, charged, read, computed after the noise, shown. A
question over the groups of an answer is asked with the calls that its refusal names.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from exact_answers import Exact
from pasted_calls import run_calls
from plain_answers import compare_answers
from scenarios.first_day.questions import Question, read_questions
from scenarios.first_day.tables import FACTS, LOOKUPS, build_tables
from sfumato.errors import PolicyError, SfumatoError
from sfumato.noise.audit_hook import recording

QUESTIONS = read_questions()
ANSWERED = [question for question in QUESTIONS if question.answerable]
REFUSED = [question for question in QUESTIONS if not question.answerable]


# ---- the lab -----------------------------------------------------------------------------------------------


def _declare(facts: dict[str, Any]) -> Any:
    """What a steward declares about a column; one that is never missing has no group for that."""
    if "values" in facts:
        return sf.one_of(*facts["values"], missing=None if facts["nullable"] else facts["values"][0])
    if facts["type"] == "BOOLEAN":
        return sf.one_of(False, True, missing=None if facts["nullable"] else False)
    if "low" not in facts:
        return sf.text()
    ends = [float(end) if isinstance(end, Decimal) else end for end in (facts["low"], facts["high"])]
    step = 1 if facts["type"] in ("INTEGER", "BIGINT") else None
    return sf.between(*ends, step=step, missing=None if facts["nullable"] else ends[0])


def _declare_public(values: list[Any]) -> Any:
    if isinstance(values[0], str):
        return sf.one_of(*dict.fromkeys(values))
    numbers = [float(value) for value in values]
    whole = all(isinstance(value, int) for value in values)
    return sf.between(min(numbers), max(numbers), step=1 if whole else None)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> sf.Session:
    lab, tables = sf.create(tmp_path_factory.mktemp("first") / "day"), build_tables()
    for name, columns in LOOKUPS.items():
        declared = {column: _declare_public(values) for column, values in columns.items()}
        lab.register(name, tables[name], unit=sf.PUBLIC, columns=declared)
    for name, facts in FACTS.items():
        unit = sf.Unit(facts["unit"], max_rows=facts["max_rows"], of=f"{facts['unit']}s")
        declared = {
            column: _declare(of) for column, of in facts["columns"].items() if column != facts["unit"]
        }
        budget = sf.Budget(epsilon=1_000_000, delta=1e-3)
        lab.register(name, tables[name], unit=unit, columns=declared, budget=budget)
    return lab.session()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in build_tables().items():
        connection.register("generated", table)
        connection.execute(f"CREATE TABLE {name} AS FROM generated")
        connection.unregister("generated")
    return connection


def _ask(session: sf.Session, sql: str) -> pa.Table:
    """The answer without noise, at an ε with which hardly any is expected: averages are then plain ones."""
    with recording(Exact()):
        try:
            found: Any = session.sql(sql).release(epsilon=1000)
        except PolicyError as refused:
            if refused.code != "SF-Q161":
                raise
            found = run_calls(session, refused, "1000")
        answer: pa.Table = found if isinstance(found, pa.Table) else found.to_arrow()
        return answer


# ---- comparison --------------------------------------------------------------------------------------------

BOUNDARY = {"admissions-09": 1}
"""Rows on the very boundary of a condition, which the grid of the column puts on its other side."""


def _compare(question: Question, answer: pa.Table, plain: duckdb.DuckDBPyConnection) -> None:
    compare_answers(question.sql, answer, plain, relative=1e-5, rows=BOUNDARY.get(str(question), 0))


def _compare_names(question: Question, facts: Any, plain: duckdb.DuckDBPyConnection) -> None:
    """What there is: its names. The unit, which is never shown, is named above the columns."""
    told = {row[0] for row in plain.execute(question.sql).fetchall()}
    units = {FACTS[question.table]["unit"]} & told
    assert all(unit in str(facts) for unit in units)
    assert told == set(facts.to_arrow().column(0).to_pylist()) | units


@pytest.mark.parametrize("question", ANSWERED, ids=str)
def test_the_answer_is_that_of_plain_duckdb(
    session: sf.Session, plain: duckdb.DuckDBPyConnection, question: Question
) -> None:
    if question.sql.startswith(("SHOW", "DESCRIBE")):
        _compare_names(question, session.sql(question.sql), plain)
    else:
        _compare(question, _ask(session, question.sql), plain)


@pytest.mark.parametrize("question", REFUSED, ids=str)
def test_what_is_not_answered_is_refused_with_an_alternative(session: sf.Session, question: Question) -> None:
    spent = session.budget.to_dict()
    with pytest.raises(SfumatoError) as refusal:
        session.sql(question.sql)
    assert "hint" in str(refusal.value)
    assert session.budget.to_dict() == spent


def test_so_many_are_answered() -> None:
    assert len(ANSWERED) >= 55
