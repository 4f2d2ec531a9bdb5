"""What Spark is asked is the same question in words that its parser understands at once."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.engines.spark.spelling import respell_query

PAIRS = [
    ("SELECT 1 FROM t", "SELECT 1 FROM t"),
    ("(a + b) * (c)", "coalesce(a + b) * coalesce(c)"),
    ("sum(a) IN (1, 2) AND (NOT (b))", "sum(a) IN (1, 2) AND coalesce(NOT coalesce(b))"),
    ("(a div (b))", "coalesce(a div coalesce(b))"),
    ("CAST(a AS BIGINT)", "a::BIGINT"),
    ("CAST(-1 AS DECIMAL(38, 0))", "coalesce(-1)::DECIMAL(38, 0)"),
    ("CAST(CAST(a AS INT) AS BIGINT)", "coalesce(a::INT)::BIGINT"),
    ("CASE WHEN a THEN b END", "if( a , b ,NULL)"),
    (
        "CASE WHEN (a) THEN CASE WHEN b THEN 1 ELSE 2 END ELSE 3 END",
        "if( coalesce(a) , if( b , 1 , 2 ) , 3 )",
    ),
    ("CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END", "if( a , 1 ,if( b , 2 , 3 ))"),
    ("SELECT x FROM (SELECT (1)) AS q JOIN (SELECT 2) ON (a = b)", None),
    ("CAST(X'28' AS STRING) LIKE '(%' OR `CASE (`.a", "coalesce(X'28')::STRING LIKE '(%' OR `CASE (`.a"),
    ("x -> (x) + 1", "x -> coalesce(x) + 1"),
    (
        "row_number() OVER (PARTITION BY (a) ORDER BY b)",
        "row_number() OVER (PARTITION BY coalesce(a) ORDER BY b)",
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_brackets_casts_and_cases_are_calls(ours: str, theirs: str | None) -> None:
    known = "SELECT x FROM (SELECT coalesce(1)) AS q JOIN (SELECT 2) ON coalesce(a = b)"
    assert respell_query(ours) == (known if theirs is None else theirs)


def _nested(depth: int) -> str:
    inside = "CAST(c AS BIGINT)" if depth == 0 else _nested(depth - 1)
    return f"(CASE WHEN ({inside}) > {depth} THEN (c + {depth}) ELSE CAST(c * {depth} AS BIGINT) END)"


SHALLOW, DEEP = _nested(0), _nested(40)


def test_what_is_deep_means_the_same(spark: Any) -> None:
    asked = f"SELECT sum({DEEP}) AS n FROM (SELECT id AS c FROM range(9))"
    assert spark.sql(respell_query(asked)).toArrow() == spark.sql(asked).toArrow()


def _remembered(spark: Any, sql: str) -> int:
    """How many states Spark's parser keeps of this: one for every word that it looked ahead at."""
    antlr, of_spark = spark._jvm.org.antlr.v4.runtime, spark._jvm.org.apache.spark.sql.catalyst.parser
    letters = of_spark.UpperCaseCharStream(antlr.CharStreams.fromString(sql))
    parser = of_spark.SqlBaseParser(antlr.CommonTokenStream(of_spark.SqlBaseLexer(letters)))
    parser.setProfile(True)
    parser.getInterpreter().setPredictionMode(antlr.atn.PredictionMode.SLL)
    parser.getInterpreter().clearDFA()
    parser.singleStatement()
    size: int = parser.getParseInfo().getDFASize()
    return size


def test_the_parser_need_not_remember_how_a_question_ends(spark: Any) -> None:
    shallow = _remembered(spark, f"SELECT {respell_query(SHALLOW)}")
    assert _remembered(spark, f"SELECT {respell_query(DEEP)}") < 2 * shallow
    assert _remembered(spark, f"SELECT {DEEP}") > 10 * shallow
