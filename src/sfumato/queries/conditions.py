"""WHERE into a condition: comparisons of declared columns with values, and what joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.curator.relation import AllOf, AnyOf, Comparison, Condition, IsMissing, Negation
from sfumato.errors import PolicyError
from sfumato.queries.leaves import column, literal, named, only, shape, sides

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPARISONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
}  # each operator, and the one to use when the literal stands on the left


def condition(node: exp.Expression) -> Condition:
    for kind, read in _CONDITIONS.items():
        if type(node) is kind:
            return read(node)
    raise PolicyError(
        "SF-Q105",
        "WHERE takes comparisons of declared columns with values, AND, OR, NOT, IN, BETWEEN and IS NULL.",
        got=shape(node),
        try_="WHERE age >= 65 AND ward IN ('A', 'B')",
    )


def _paren(node: exp.Expression) -> Condition:
    only(node, "this")
    return condition(node.this)


def _not(node: exp.Expression) -> Condition:
    only(node, "this")
    return Negation(condition(node.this))


def _both(node: exp.Expression) -> Condition:
    return AllOf(tuple(condition(part) for part in sides(node)))


def _either(node: exp.Expression) -> Condition:
    return AnyOf(tuple(condition(part) for part in sides(node)))


def _comparison(node: exp.Expression) -> Condition:
    left, right = sides(node)
    straight, turned = _COMPARISONS[type(node)]
    if isinstance(left, exp.Column):
        return Comparison(column(left), straight, literal(right))
    return Comparison(named(right), turned, literal(left))


def _differs(node: exp.Expression) -> Condition:
    left, right = sides(node)
    equal = exp.EQ(this=left, expression=right)
    return Negation(_comparison(equal))


def _in(node: exp.Expression) -> Condition:
    only(node, "this", "expressions")
    name = named(node.this)
    return AnyOf(tuple(Comparison(name, "=", literal(item)) for item in node.expressions))


def _between(node: exp.Expression) -> Condition:
    only(node, "this", "low", "high")
    name = named(node.this)
    low, high = literal(node.args["low"]), literal(node.args["high"])
    return AllOf((Comparison(name, ">=", low), Comparison(name, "<=", high)))


def _is(node: exp.Expression) -> Condition:
    left, right = sides(node)
    if isinstance(right, exp.Null):
        return IsMissing(named(left))
    raise PolicyError("SF-Q105", "IS is followed by NULL or NOT NULL.", got=shape(right), try_="age IS NULL")


_CONDITIONS: dict[type[exp.Expression], Callable[[exp.Expression], Condition]] = {
    exp.Paren: _paren,
    exp.Not: _not,
    exp.And: _both,
    exp.Or: _either,
    exp.NEQ: _differs,
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    **dict.fromkeys(_COMPARISONS, _comparison),
}
