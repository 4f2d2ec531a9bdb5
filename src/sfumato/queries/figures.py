"""Parsing of the numbers of an answer: aggregates, and arithmetic that is done on them after the noise."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.curator.question.measurement import Arithmetic, Figure
from sfumato.errors import PolicyError
from sfumato.queries import aggregates
from sfumato.queries.leaves import parse_column_name, parse_number, refuse_other_parts, spell_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LARGEST = Fraction(10) ** 40
"""The largest computed constant, far beyond any answer; nested powers would otherwise grow without end."""

_ARITHMETIC: dict[type[exp.Expression], tuple[str, Callable[[Fraction, Fraction], Fraction]]] = {
    exp.Add: ("+", operator.add),
    exp.Sub: ("-", operator.sub),
    exp.Mul: ("*", operator.mul),
    exp.Div: ("/", operator.truediv),
}


def parse_figure(node: exp.Expression, known: Mapping[str, Figure]) -> Figure:
    """Return a number computed from aggregates, constants and the numbers known by name."""
    if isinstance(node, exp.Paren):
        refuse_other_parts(node, "this")
        return parse_figure(node.this, known)
    if isinstance(node, exp.Column):
        return _find_number(parse_column_name(node).column, known)
    if isinstance(node, exp.Literal) and not node.is_string:
        return parse_number(node)
    if isinstance(node, exp.Neg):
        refuse_other_parts(node, "this")
        return _combine_figures(exp.Sub, Fraction(0), parse_figure(node.this, known))
    if type(node) in _ARITHMETIC:
        refuse_other_parts(node, "this", "expression", "typed", "safe")
        return _combine_figures(
            type(node), parse_figure(node.this, known), parse_figure(node.expression, known)
        )
    return aggregates.parse_aggregate(node)


def default_name(shown: Figure, node: exp.Expression) -> str:
    """Return the name of a column of the answer that was given none."""
    if isinstance(shown, Arithmetic | Fraction):
        return spell_name(node)
    return aggregates.default_name(shown, node)


def _find_number(name: str, known: Mapping[str, Figure]) -> Figure:
    if name.casefold() in known:
        return known[name.casefold()]
    raise PolicyError(
        "SF-Q108",
        f"'{name[:80]}' is not an aggregate.",
        why="single rows are never shown",
        aggregates=", ".join(known) or "none has a name here",
        try_=f"an aggregate of it, such as COUNT({name[:80]})",
    )


def _combine_figures(kind: type[exp.Expression], left: Figure, right: Figure) -> Figure:
    """Return the result of one operation: constants are computed exactly now, aggregates after the noise."""
    sign, compute = _ARITHMETIC[kind]
    # Only a constant is refused: a noisy divisor may be zero, and the answer is then null.
    if sign == "/" and right == 0:
        raise PolicyError("SF-Q119", "The divisor is zero.", try_="a divisor other than zero")
    if not isinstance(left, Fraction) or not isinstance(right, Fraction):
        return Arithmetic(sign, left, right)
    result = compute(left, right)
    if result and not 1 / LARGEST <= abs(result) <= LARGEST:
        raise PolicyError("SF-Q111", "A computed constant is too large or too small.", try_="100 or 0.5")
    return result
