"""Programs as SQL: the same text on every engine, but for the words that only one of them knows."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.engines.compile import Layout, compile_program
from sfumato.engines.duckdb.dialect import DuckDB
from sfumato.engines.postgres.dialect import PostgreSQL
from sfumato.engines.program import Counted, Key, Present, Program, Total, Units
from sfumato.engines.rows import ALL, Bounded, Scan
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Calendar,
    Column,
    Constant,
    Divide,
    Every,
    Lookup,
    Matches,
    Missing,
    Not,
    Some,
    Spelled,
)

TYPED = "cost; DROP TABLE rows"
COST, WARD, GRADE = Column(0, TYPED), Column(0, "ward"), Column(0, "grade")
LAYOUT = Layout("s.rows", "s.units", {TYPED: "c0", "ward": "c1", "grade": "c2"}, True)


COUNT = (Counted(),)


def compiled(where: Any = ALL, keys: Any = (), terms: Any = COUNT, dialect: Any = None) -> str:
    program = Program(Scan("visits-1"), where, keys, terms)
    return compile_program(program, {"visits-1": LAYOUT}, dialect or DuckDB())


def test_a_count():
    assert compiled() == (
        "SELECT CAST(0 AS BIGINT), CAST(count(*) AS HUGEINT) "
        "FROM (SELECT unit, place FROM s.rows) AS source0 WHERE (true) GROUP BY ()"
    )


def test_what_was_declared_is_never_in_the_text():
    sql = compiled(AtLeast(COST, 3), (Key(WARD, 4),), (Total(COST),))
    assert "DROP" not in sql
    assert "c0 AS r0_n" in sql


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        (AtMost(WARD, -7), "r0_n0 <= -7"),
        (AtMost(WARD, 10**40), f"r0_n0 <= {2**62}"),
        (Among(WARD, (1, 3)), "r0_n0 IN (1, 3)"),
        (Among(WARD, ()), "r0_n0 <> r0_n0"),
        (Spelled(WARD, ()), "r0_n0 <> r0_n0"),
        (Missing(WARD), "r0_n0 IS NULL"),
        (Not(Missing(WARD)), "NOT (r0_n0 IS NULL)"),
        (Every((Missing(WARD), AtLeast(WARD, 1))), "(r0_n0 IS NULL) AND (r0_n0 >= 1)"),
        (Some((Missing(WARD), AtLeast(WARD, 1))), "(r0_n0 IS NULL) OR (r0_n0 >= 1)"),
        (Some(()), "false"),
    ],
)
@pytest.mark.parametrize("dialect", [DuckDB(), PostgreSQL()])
def test_conditions_are_the_same_everywhere(predicate, sql, dialect):
    assert f"WHERE ({sql}) GROUP BY" in compiled(predicate, dialect=dialect)


@pytest.mark.parametrize(
    ("term", "duckdb", "postgres"),
    [
        (Units(), "CAST(count(DISTINCT unit) AS HUGEINT)", "CAST(count(DISTINCT unit) AS NUMERIC)"),
        (Present(WARD), "CAST(count(r0_n0) AS HUGEINT)", "CAST(count(r0_n0) AS NUMERIC)"),
        (
            Total(Lookup(WARD, (5, None))),
            "sum(CAST('[5, NULL]' AS BIGINT[])[CAST(r0_n0 AS BIGINT) + 1])",
            "sum((CAST('{5, NULL}' AS BIGINT[]))[CAST(r0_n0 AS INTEGER) + 1])",
        ),
        (
            Total(Divide(WARD, Constant(7))),
            "(CAST(r0_n0 AS HUGEINT) // CAST(7 AS HUGEINT))",
            "div(CAST(r0_n0 AS NUMERIC), CAST(7 AS NUMERIC))",
        ),
        (
            Total(Calendar(WARD, "weekday")),
            "isodow(DATE '1970-01-01' + CAST(r0_n0 AS INTEGER))",
            "extract(isodow FROM (DATE '1970-01-01' + CAST(r0_n0 AS INTEGER)))",
        ),
    ],
)
def test_each_engine_has_its_own_words_for_some(term, duckdb, postgres):
    assert duckdb in compiled(terms=(term,))
    assert postgres in compiled(terms=(term,), dialect=PostgreSQL())


def test_texts_are_hexadecimal_digits():
    words = Spelled(WARD, ("O'Brien",))
    assert "IN (decode(from_hex('4f27427269656e')))" in compiled(words)
    assert "IN (convert_from(decode('4f27427269656e', 'hex'), 'UTF8'))" in compiled(
        words, dialect=PostgreSQL()
    )


@pytest.mark.parametrize(("pattern", "whole"), [("a\\", "a\\\\"), ("a\\\\", "a\\\\"), ("\\%", "\\%")])
def test_a_pattern_never_ends_within_an_escape(pattern, whole):
    assert f"from_hex('{whole.encode().hex()}')" in compiled(Matches(WARD, pattern))


def test_bounding_names_the_columns_it_keeps():
    rows = Bounded(Scan("visits-1"), ALL, (WARD,), 2, 3)
    sql = compile_program(
        Program(rows, ALL, (Key(GRADE, 2),), (Counted(),)), {"visits-1": LAYOUT}, PostgreSQL()
    )
    assert "*" not in sql.replace("count(*)", "").replace("* 2", "")


@pytest.mark.parametrize("term", [Total(Constant(2**121)), Total(Lookup(WARD, (0, -(2**63))))])
def test_what_could_overflow_is_refused(term):
    with pytest.raises(OverflowError):
        compiled(terms=(term,))


@pytest.mark.parametrize(
    "program",
    [
        {"where": AtLeast(WARD, "0); DROP TABLE rows; --")},
        {"where": Among(WARD, ("0) OR (true",))},
        {"terms": (Total(Add(Column(0, "ward"), Constant("0"))),)},
        {"terms": (Total(Lookup(WARD, ("0",))),)},
        {"keys": (Key(WARD, "4) OR (true"),)},
    ],
)
def test_no_text_passes_for_an_integer(program):
    with pytest.raises((TypeError, ValueError)):
        compiled(**program)


def test_a_column_that_was_not_declared_is_not_there():
    with pytest.raises(KeyError):
        compiled(Missing(Column(0, "c0")))
