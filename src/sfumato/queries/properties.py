"""Parsing of the properties that t.distance(…) takes: a comparison of one aggregate with a constant."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.plan.distances import (
    CountReaches,
    ModeIs,
    Property,
    QuantileBelow,
    ShareReaches,
    SumReaches,
    Unique,
)
from sfumato.curator.question.measurement import CountOf, MeanOf, QuantileOf, SumOf
from sfumato.curator.question.relation import Literal, Truth
from sfumato.errors import PolicyError
from sfumato.queries.aggregates import parse_aggregate
from sfumato.queries.expressions import parse_expression
from sfumato.queries.leaves import describe_node, parse_sides, refuse_other_parts
from sfumato.queries.sql import parse_condition_node

if TYPE_CHECKING:
    from sfumato.curator.catalog.domains import Scalar


def parse_property(text: str) -> Property:
    """Return the property that a text states: COUNT(*) >= 100, SUM(cost) <= 5000, AVG(age >= 65) >= 0.3,
    MEDIAN(cost) <= 80, MODE(ward) = 'A' or IS_UNIQUE(ward) = 'A'."""
    node = parse_condition_node(text)
    sign = _SIGNS.get(type(node))
    if sign is None:
        raise _unknown_property(node)
    left, right = parse_sides(node)
    value = _parse_value(right)
    if sign == "=":
        return _parse_equality(left, value)
    if not isinstance(value, Fraction):
        raise _unknown_property(right)
    return _parse_threshold(left, value, sign == ">=")


_SIGNS: dict[type[exp.Expression], str] = {exp.GTE: ">=", exp.LTE: "<=", exp.EQ: "="}


def _parse_value(node: exp.Expression) -> Scalar:
    read = parse_expression(node)
    if isinstance(read, Literal) and read.value is not None:
        return read.value
    raise _unknown_property(node)


def _parse_threshold(node: exp.Expression, value: Fraction, at_least: bool) -> Property:
    match parse_aggregate(node):
        case CountOf(None):
            return CountReaches(math.ceil(value) if at_least else math.floor(value), at_least)
        case SumOf(of):
            return SumReaches(of, value, at_least)
        case MeanOf(Truth() as of):
            return ShareReaches(of, value, at_least)
        case QuantileOf(of, share):
            return QuantileBelow(of, 1 - share if at_least else share, value, not at_least)
    raise _unknown_property(node)


def _parse_equality(node: exp.Expression, value: Scalar) -> Property:
    # sqlglot has a class for MODE; IS_UNIQUE is a function that only exists here.
    name = str(node.this).upper() if isinstance(node, exp.Anonymous) else type(node).__name__.upper()
    if name not in ("MODE", "IS_UNIQUE"):
        raise _unknown_property(node)
    refuse_other_parts(node, "this", "expressions")
    arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    if len(arguments) != 1:
        raise _unknown_property(node)
    of = parse_expression(arguments[0])
    return ModeIs(of, value) if name == "MODE" else Unique(of, value)


def _unknown_property(node: Any) -> PolicyError:
    return PolicyError(
        "SF-Q154",
        "This property is not supported for a distance.",
        got=describe_node(node),
        known="COUNT(*) >= 100, SUM(cost) <= 5000, AVG(age >= 65) >= 0.3, MEDIAN(cost) <= 80, "
        "MODE(ward) = 'A', IS_UNIQUE(ward) = 'A'",
    )
