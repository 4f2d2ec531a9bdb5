"""The questions run on plain DuckDB, stay as they were committed, and the tables keep what they declare."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from scenarios.first_day.questions import HERE, TABLES, Question, read_questions
from scenarios.first_day.tables import FACTS, LOOKUPS, build_tables

QUESTIONS = read_questions()

COMMITTED = {
    "admissions": "07b5149fd04957bf4520b65f4832cb68966a3502974cc9b1e6b118998966b569",
    "orders": "a2417083f68b5e6cd5a469b7b1d9640dd0c03ff9bbe22dec86bd9d838c414f59",
    "employees": "a8542c7f831cea722cb9434649f0d194804e9f8df8e2bde88b3216014b261bb3",
}
"""SHA-256 of each file of questions. They are never edited, so these never change."""


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in build_tables().items():
        connection.register("generated", table)
        connection.execute(f"CREATE TABLE {name} AS FROM generated")
        connection.unregister("generated")
    return connection


def test_there_are_twenty_questions_a_table() -> None:
    assert Counter(question.table for question in QUESTIONS) == dict.fromkeys(TABLES, 20)
    for table in TABLES:
        assert [q.number for q in QUESTIONS if q.table == table] == list(range(1, 21))
    assert sum(not question.answerable for question in QUESTIONS) <= 5


@pytest.mark.parametrize("table", TABLES)
def test_questions_are_as_committed(table: str) -> None:
    text = (HERE / f"{table}.sql").read_text(encoding="utf-8")
    assert hashlib.sha256(text.encode()).hexdigest() == COMMITTED[table]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_the_question_runs_on_plain_duckdb(plain: duckdb.DuckDBPyConnection, question: Question) -> None:
    assert len(plain.execute(question.sql).fetchall()) > 0


@pytest.mark.parametrize("name", TABLES)
def test_rows_keep_what_the_steward_declares(plain: duckdb.DuckDBPyConnection, name: str) -> None:
    facts = FACTS[name]
    types = {row[0]: row[1] for row in plain.execute(f"DESCRIBE {name}").fetchall()}
    assert types == {column: fact["type"] for column, fact in facts["columns"].items()}
    table = plain.sql(f"FROM {name}").to_arrow_table()
    for column, fact in facts["columns"].items():
        assert breaches(table[column], fact) == [], column
    per_person = Counter(table[facts["unit"]].to_pylist())
    assert 1 < max(per_person.values()) <= facts["max_rows"]
    assert len(per_person) >= 2_000


def breaches(values: pa.ChunkedArray, fact: dict[str, Any]) -> list[Any]:
    """Return what the steward's declaration of the column does not allow."""
    known = values.drop_null().unique().to_pylist()
    outside = [value for value in known if "low" in fact and not fact["low"] <= value <= fact["high"]]
    unlisted = [value for value in known if "values" in fact and value not in fact["values"]]
    missing = [None] * (values.null_count > 0 and not fact["nullable"])
    return outside + unlisted + missing


def test_every_key_has_one_row_in_its_lookup_table() -> None:
    for name, facts in FACTS.items():
        lookup = LOOKUPS[facts["lookup"]]
        key = next(iter(lookup))
        assert lookup[key] == facts["columns"][key]["values"], name
        assert len(set(lookup[key])) == len(lookup[key]), name
