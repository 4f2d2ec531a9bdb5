"""Programs as SQL: the same text on every engine, but for the words that only one of them knows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sfumato.engines.compile import Layout, compile_program
from sfumato.engines.duckdb.dialect import DuckDBDialect
from sfumato.engines.postgres.dialect import PostgresDialect
from sfumato.engines.program import CellKey, CellSums, Counted, CountedUnits, Present, Total
from sfumato.engines.rows import ALL, Bounded, PerUnit, Scan
from sfumato.engines.spark.dialect import SparkDialect
from sfumato.engines.values import (
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
    program = CellSums(Scan("visits-1"), where, keys, terms)
    return compile_program(program, {"visits-1": LAYOUT}, dialect or DuckDBDialect())


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        (AtMost(WARD, -7), "r0_n0 <= -7"),
        (AtMost(WARD, 10**40), f"r0_n0 <= {2**62}"),
        (Among(WARD, (1, 3)), "r0_n0 IN (1, 3)"),
        (Among(WARD, ()), "r0_n0 <> r0_n0"),
        (Missing(WARD), "r0_n0 IS NULL"),
        (Not(Missing(WARD)), "NOT (r0_n0 IS NULL)"),
        (Every((Missing(WARD), AtLeast(WARD, 1))), "(r0_n0 IS NULL) AND (r0_n0 >= 1)"),
        (Some((Missing(WARD), AtLeast(WARD, 1))), "(r0_n0 IS NULL) OR (r0_n0 >= 1)"),
        (Some(()), "false"),
    ],
)
@pytest.mark.parametrize("dialect", [DuckDBDialect(), PostgresDialect(), SparkDialect()])
def test_conditions_are_the_same_everywhere(predicate, sql, dialect):
    assert f"WHERE ({sql}) {dialect.everything}" in compiled(predicate, dialect=dialect)


@pytest.mark.parametrize(
    ("term", "duckdb", "postgres", "spark"),
    [
        (
            CountedUnits(),
            "CAST(count(DISTINCT unit) AS HUGEINT)",
            "CAST(count(DISTINCT unit) AS NUMERIC)",
            "CAST(count(DISTINCT unit) AS DECIMAL(38, 0))",
        ),
        (
            Present(WARD),
            "CAST(count(r0_n0) AS HUGEINT)",
            "CAST(count(r0_n0) AS NUMERIC)",
            "CAST(count(r0_n0) AS DECIMAL(38, 0))",
        ),
        (
            Total(WARD),
            "COALESCE(sum(r0_n0), 0)",
            "COALESCE(sum(r0_n0), 0)",
            "CAST(sum(shiftright(CAST(r0_n0 AS BIGINT), 21) & 2097151) AS DECIMAL(38, 0)) * 2097152",
        ),
        (
            Total(Lookup(WARD, (5, None))),
            "sum(CAST('[5, NULL]' AS BIGINT[])[greatest(CAST(r0_n0 AS BIGINT), -1) + 1])",
            "sum(nullif((CAST('{5, -9223372036854775807}' AS BIGINT[]))[CAST(least(greatest(r0_n0, -1), 2)",
            "get(from_json('[5, null]', 'array<bigint>'), CAST(greatest(least(r0_n0, 2), -1) AS INT))",
        ),
        (
            Total(Divide(WARD, Constant(7))),
            "(CAST(r0_n0 AS HUGEINT) // CAST(7 AS HUGEINT))",
            "div(CAST(r0_n0 AS NUMERIC), CAST(7 AS NUMERIC))",
            "named_struct('a', CAST(r0_n0 AS DECIMAL(38, 0)), 'b', CAST(7 AS DECIMAL(38, 0)))",
        ),
        (
            Total(Calendar(WARD, "weekday")),
            "isodow(DATE '1970-01-01' + CAST(r0_n0 AS INTEGER))",
            "extract(isodow FROM (DATE '1970-01-01' + CAST(r0_n0 AS INTEGER)))",
            "(weekday(date_from_unix_date(CAST(r0_n0 AS INT))) + 1)",
        ),
    ],
)
def test_each_engine_has_its_own_words_for_some(term, duckdb, postgres, spark):
    assert duckdb in compiled(terms=(term,))
    assert postgres in compiled(terms=(term,), dialect=PostgresDialect())
    assert spark in compiled(terms=(term,), dialect=SparkDialect())


def test_only_stored_columns_are_summed_in_parts():
    """What is computed may have more than 64 bits."""
    per_unit = PerUnit(Scan("visits-1"), ALL, (), (Total(COST),), 1)
    program = CellSums(per_unit, ALL, (), (Total(Column(1, "f0")),))
    sql = compile_program(program, {"visits-1": LAYOUT}, SparkDialect())
    assert "COALESCE(sum(CAST(r1_f0 AS DECIMAL(38, 0))), 0)" in sql
    assert "shiftright(CAST(r0_n0 AS BIGINT), 42)" in sql


@pytest.mark.parametrize(
    ("reach", "shifts"), [(2**21 - 1, 0), (2**21, 1), (2**42 - 1, 1), (2**42, 2), (2**62, 2)]
)
def test_no_more_limbs_are_summed_than_a_value_has(reach, shifts):
    """With 2^42 rows each of them still adds up to less than 2^63."""
    sql = SparkDialect().write_total("x", reach)
    assert sql.count("sum(") == shifts + 1
    assert (f"shiftright(CAST(x AS BIGINT), {21 * shifts})" in sql) == bool(shifts)


def test_texts_are_hexadecimal_digits():
    words = Spelled(WARD, ("O'Brien",))
    assert "IN (decode(from_hex('4f27427269656e')))" in compiled(words)
    assert "IN (convert_from(decode('4f27427269656e', 'hex'), 'UTF8'))" in compiled(
        words, dialect=PostgresDialect()
    )
    assert "IN (CAST(X'4f27427269656e' AS STRING))" in compiled(words, dialect=SparkDialect())


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [("a\\", "a\\\\"), ("a\\\\", "a\\\\"), ("\\%", "\\%"), ("\\a", "a"), ("%_a_%__%", "%_a%")],
)
def test_a_pattern_has_one_form_and_never_ends_within_an_escape(pattern, whole):
    sql = compiled(Matches(WARD, pattern), dialect=PostgresDialect())
    assert f"decode('{whole.encode().hex()}', 'hex')" in sql
    assert "OFFSET 0) AS source0" in sql  # or the planner would carry the text and test it later


def test_spark_is_sent_no_regular_expression_of_several_choices():
    for pattern in ("a", "a%", "%a%", "%a%b%c", "_a_%b_c%", "\\%%_", "%a_b%c_d%e"):
        sql = compiled(Matches(WARD, pattern), dialect=SparkDialect())
        assert not any(word in sql.lower() for word in ("rlike", "regexp", "split("))
        for asked in re.findall(r" LIKE CAST\(X'([0-9a-f]*)'", sql):
            inner = bytes.fromhex(asked).decode().strip("%")
            assert "%" not in inner.replace("\\%", "")


def test_bounding_names_the_columns_it_keeps():
    rows = Bounded(Scan("visits-1"), ALL, (WARD,), 2, 3)
    sql = compile_program(
        CellSums(rows, ALL, (CellKey(GRADE, 2),), (Counted(),)), {"visits-1": LAYOUT}, PostgresDialect()
    )
    assert "*" not in sql.replace("count(*)", "").replace("* 2", "")
