"""Expressions and aggregates survive the way as JSON, and nothing that is not listed is read."""

import json

import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.lab.remote.expressions import AGGREGATIONS, decode_form, encode_form
from sfumato.queries.aggregations import parse_column

EXPRESSIONS = [
    "cost",
    "v.cost",
    '"odd name"',
    "cost * 2 + age / 3 - 1",
    "FLOOR(age / 10)",
    "age >= 65 AND ward IN ('A', 'B')",
    "CASE WHEN age > 3 THEN cost ELSE NULL END",
    "DATE_TRUNC('month', day)",
    "day - DATE '2020-01-01'",
    "TIMESTAMP '2020-01-01 10:00:00'",
    "1.5",
    "NOT (age < 3 OR ward IS NULL OR ward LIKE 'A%')",
    "COALESCE(cost, 0)",
]
AGGREGATES = [
    sf.count(),
    sf.count("cost"),
    sf.sum("cost"),
    sf.mean("cost * 2"),
    sf.variance("cost"),
    sf.stddev("cost"),
    sf.covariance("cost", "age"),
    sf.correlation("cost", "age"),
    sf.quantile("cost", 0.9),
    sf.median("cost"),
    sf.mode("ward"),
    sf.min("cost"),
    sf.max("cost"),
    sf.units("patient_id"),
    sf.distinct("ward"),
    sf.bins("age", [0, 18, 65.5, 110]),
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_come_back_as_they_were(text: str) -> None:
    expression = parse_column(text)
    assert decode_form(json.loads(json.dumps(encode_form(expression)))) == expression


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_aggregates_come_back_as_they_were(aggregate: object) -> None:
    assert decode_form(json.loads(json.dumps(encode_form(aggregate)))) == aggregate  # type: ignore[arg-type]


def test_aggregates_are_written_by_name_too() -> None:
    assert decode_form({"aggregate": "mean", "arguments": ["cost * 2"]}) == sf.mean("cost * 2")
    assert decode_form({"aggregate": "count"}) == sf.count()
    assert {"mean", "count"} <= set(AGGREGATIONS) <= set(sf.__all__)


@pytest.mark.parametrize(
    "written",
    [
        None,
        "cost",
        [],
        {},
        {"form": "nothing"},
        {"form": "name"},
        {"form": "name", "column": "a", "more": 1},
        {"form": "name", "column": 3},
        {"form": "mean", "of": "cost"},
        {"form": "mean", "of": {"form": "literal", "value": {"number": "1/0"}}},
        {"form": "mean", "of": {"form": "literal", "value": {"number": "1e999999999"}}},
        {"form": "mean", "of": {"form": "literal", "value": {"day": "yesterday"}}},
        {"form": "literal", "value": 1.5},
        {"form": "__class__"},
        {"aggregate": "parse_column", "arguments": ["cost"]},
        {"aggregate": "mean", "arguments": "cost"},
        {"aggregate": "mean", "arguments": ["a", "b", "c"]},
        {"aggregate": "mean", "arguments": [["a"]]},
        {"aggregate": ["mean"]},
        {"aggregate": "mean", "arguments": ["cost"], "of": 1},
    ],
    ids=str,
)
def test_what_is_not_listed_is_refused(written: object) -> None:
    with pytest.raises(UsageError) as refused:
        decode_form(written)
    assert refused.value.code in ("SF-W104", "SF-N118", "SF-Q124")


def test_depth_and_size_are_limited() -> None:
    deep: dict[str, object] = {"form": "name", "column": "a"}
    for _ in range(100):
        deep = {"form": "function", "function": "negate", "arguments": [deep]}
    wide = {"form": "function", "function": "add", "arguments": [{"form": "name", "column": "a"}] * 5000}
    for each in (deep, wide):
        with pytest.raises(UsageError, match="SF-W104"):
            decode_form(each)


def test_code_cannot_be_sent() -> None:
    with pytest.raises(UsageError, match="SF-W104"):
        encode_form(print)  # type: ignore[arg-type]
