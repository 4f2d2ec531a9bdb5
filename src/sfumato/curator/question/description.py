"""Expressions and aggregates as text, for the ledger and for people. Nothing is read back from it."""

from __future__ import annotations

from sfumato.curator.question.measurement import (
    Aggregate,
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    ModeOf,
    QuantileOf,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import (
    Case,
    Comparison,
    Condition,
    Conjunction,
    Disjunction,
    Expression,
    FunctionCall,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Name,
    Negation,
    Truth,
    UnitAggregate,
)


def describe_aggregate(aggregate: Aggregate) -> str:
    """Return an aggregate as people type it, whole: a steward must see what a charge was for."""
    match aggregate:
        case CountOf(of):
            return f"count({'' if of is None else describe_expression(of)})"
        case DistinctUnits(of) | SumOf(of) | MeanOf(of) | VarianceOf(of) | ModeOf(of):
            return f"{_NAMES[type(aggregate)]}({describe_expression(of)})"
        case CovarianceOf(of, other):
            name = "correlation" if aggregate.scaled else "covariance"
            return f"{name}({describe_expression(of)}, {describe_expression(other)})"
        case QuantileOf(of, share):
            return f"quantile({describe_expression(of)}, {share})"
    raise TypeError(type(aggregate).__name__)


_NAMES: dict[type, str] = {
    DistinctUnits: "units",
    SumOf: "sum",
    MeanOf: "mean",
    VarianceOf: "variance",
    ModeOf: "mode",
}


def describe_expression(expression: Expression) -> str:
    """Return an expression of a row as SQL-like text."""
    match expression:
        case Name():
            return str(expression)
        case Literal(value):
            return _describe_literal(value)
        case FunctionCall(function, arguments):
            return f"{function}({', '.join(map(describe_expression, arguments))})"
        case Truth(condition):
            return describe_condition(condition)
        case UnitAggregate(figure, of):
            return f"{figure}({'*' if of is None else describe_expression(of)})"
        case Case(branches, otherwise):
            whens = (
                f"WHEN {describe_condition(when)} THEN {describe_expression(then)}" for when, then in branches
            )
            return f"CASE {' '.join(whens)} ELSE {describe_expression(otherwise)} END"
    raise TypeError(type(expression).__name__)


def describe_condition(condition: Condition) -> str:
    """Return a condition on a row as SQL-like text."""
    match condition:
        case Comparison(left, operator, right):
            return f"{describe_expression(left)} {operator} {describe_expression(right)}"
        case Like(text, pattern):
            return f"{describe_expression(text)} LIKE {_describe_literal(pattern)}"
        case IsNull(part):
            return f"{describe_expression(part)} IS NULL"
        case IsTrue(part):
            return describe_expression(part)
        case Negation(negated):
            return f"NOT ({describe_condition(negated)})"
        case Conjunction(parts):
            return " AND ".join(f"({describe_condition(each)})" for each in parts) or "TRUE"
        case Disjunction(parts):
            return " OR ".join(f"({describe_condition(each)})" for each in parts) or "FALSE"
    raise TypeError(type(condition).__name__)


def _describe_literal(value: object) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
