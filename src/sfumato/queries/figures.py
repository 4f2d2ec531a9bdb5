"""Parsing of the numbers of an answer: aggregates, what is computed from them after the noise, and HAVING."""

from __future__ import annotations

import operator
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.curator.question.measurement import (
    Aggregate,
    Arithmetic,
    CaseOf,
    Coalesced,
    CountOf,
    DistinctUnits,
    Figure,
    Having,
    HavingAnd,
    HavingComparison,
    HavingNot,
    HavingOr,
    Rounded,
    SumOf,
    TotalOf,
    has_total,
)
from sfumato.errors import PolicyError
from sfumato.queries import aggregates
from sfumato.queries.leaves import (
    COMPARISONS,
    describe_node,
    parse_column_name,
    parse_number,
    parse_sides,
    refuse_other_parts,
    spell_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LARGEST = Fraction(10) ** 40
"""The largest computed constant, far beyond any answer; nested powers would otherwise grow without end."""

_ARITHMETIC: dict[type[exp.Expression], tuple[str, Callable[[Fraction, Fraction], Fraction]]] = {
    exp.Add: ("+", operator.add),
    exp.Sub: ("-", operator.sub),
    exp.Mul: ("*", operator.mul),
    exp.Div: ("/", operator.truediv),
}
_SIGNS: dict[type[exp.Expression], str] = {
    exp.NEQ: "<>",
    **COMPARISONS,
}
_NEVER_NULL = (CountOf, DistinctUnits, SumOf, Fraction)


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
    read = _COMPUTED.get(type(node))
    return aggregates.parse_aggregate(node) if read is None else read(node, known)


def default_name(shown: Figure, node: exp.Expression) -> str:
    """Return the name of a column of the answer that was given none."""
    return aggregates.default_name(shown, node) if isinstance(shown, Aggregate) else spell_name(node)


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
        raise PolicyError("SF-Q134", "The divisor is zero.", try_="a divisor other than zero")
    if not isinstance(left, Fraction) or not isinstance(right, Fraction):
        return Arithmetic(sign, left, right)
    result = compute(left, right)
    if result and not 1 / LARGEST <= abs(result) <= LARGEST:
        raise PolicyError("SF-Q110", "A computed constant is too large or too small.", try_="100 or 0.5")
    return result


# ---- ROUND, COALESCE, CASE, SUM(…) OVER () -----------------------------------------------------------------


def _parse_round(node: exp.Expression, known: Mapping[str, Figure]) -> Figure:
    refuse_other_parts(node, "this", "decimals")
    typed = node.args.get("decimals")
    digits = Fraction(0) if typed is None else parse_figure(typed, {})
    if not isinstance(digits, Fraction) or digits.denominator > 1 or abs(digits) > 30:
        raise PolicyError(
            "SF-Q105", "The digits of ROUND must be a whole number.", try_="ROUND(AVG(cost), 2)"
        )
    of = parse_figure(node.this, known)
    return of if isinstance(of, CountOf | DistinctUnits) and digits >= 0 else Rounded(of, int(digits))


def _parse_coalesce(node: exp.Expression, known: Mapping[str, Figure]) -> Figure:
    parts = tuple(parse_figure(each, known) for each in (node.this, *node.expressions))
    return parts[0] if isinstance(parts[0], _NEVER_NULL) else Coalesced(parts)


def _parse_nullif(node: exp.Expression, known: Mapping[str, Figure]) -> CaseOf:
    one, other = parse_sides(node)
    return CaseOf(((_compare("=", one, other, known), None),), parse_figure(one, known))


def _parse_case(node: exp.Expression, known: Mapping[str, Figure]) -> CaseOf:
    refuse_other_parts(node, "this", "ifs", "default")
    of = node.args.get("this")
    branches = tuple(
        (
            parse_having(each.this, known) if of is None else _compare("=", of, each.this, known),
            _parse_branch(each.args["true"], known),
        )
        for each in node.args["ifs"]
    )
    return CaseOf(branches, _parse_branch(node.args.get("default"), known))


def _parse_if(node: exp.Expression, known: Mapping[str, Figure]) -> CaseOf:
    refuse_other_parts(node, "this", "true", "false")
    branch = parse_having(node.this, known), _parse_branch(node.args["true"], known)
    return CaseOf((branch,), _parse_branch(node.args.get("false"), known))


def _parse_branch(node: exp.Expression | None, known: Mapping[str, Figure]) -> Figure | None:
    return None if node is None or isinstance(node, exp.Null) else parse_figure(node, known)


def _parse_cast(node: exp.Expression, known: Mapping[str, Figure]) -> Figure:
    """Numbers of an answer are doubles already."""
    refuse_other_parts(node, "this", "to", "safe")
    if node.args["to"].this not in exp.DataType.REAL_TYPES:
        raise PolicyError(
            "SF-Q104", "Numbers of an answer are only cast to DOUBLE.", try_="ROUND(AVG(cost), 2)"
        )
    return parse_figure(node.this, known)


def _parse_window(node: exp.Expression, known: Mapping[str, Figure]) -> TotalOf:
    """Return SUM(…) OVER (), which shares are computed with."""
    plain = isinstance(node.this, exp.Sum) and not any(
        part for name, part in node.args.items() if name not in ("this", "over")
    )
    if not plain:
        raise PolicyError(
            "SF-Q104", "A window over groups is not supported here.", try_="COUNT(*) / SUM(COUNT(*)) OVER ()"
        )
    refuse_other_parts(node.this, "this")
    return TotalOf(parse_figure(node.this.this, known))


_COMPUTED: dict[type[exp.Expression], Callable[[exp.Expression, Mapping[str, Figure]], Figure]] = {
    exp.Round: _parse_round,
    exp.Coalesce: _parse_coalesce,
    exp.Nullif: _parse_nullif,
    exp.Case: _parse_case,
    exp.If: _parse_if,
    exp.Cast: _parse_cast,
    exp.TryCast: _parse_cast,
    exp.Window: _parse_window,
}


# ---- HAVING ------------------------------------------------------------------------------------------------


def parse_having(node: exp.Expression, known: Mapping[str, Figure]) -> Having:
    """Return the condition on the noisy numbers of a group that a node states."""
    if isinstance(node, exp.Paren):
        refuse_other_parts(node, "this")
        return parse_having(node.this, known)
    if isinstance(node, exp.Not):
        refuse_other_parts(node, "this")
        return HavingNot(parse_having(node.this, known))
    if isinstance(node, exp.And | exp.Or):
        left, right = (parse_having(part, known) for part in parse_sides(node))
        return HavingAnd(left, right) if isinstance(node, exp.And) else HavingOr(left, right)
    if type(node) in _SIGNS:
        return _compare(_SIGNS[type(node)], *parse_sides(node), known)
    if isinstance(node, exp.Between):
        refuse_other_parts(node, "this", "low", "high")
        low = _compare(">=", node.this, node.args["low"], known)
        return HavingAnd(low, _compare("<=", node.this, node.args["high"], known))
    if isinstance(node, exp.In) and node.expressions:
        refuse_other_parts(node, "this", "expressions")
        equal: Iterator[Having] = (_compare("=", node.this, each, known) for each in node.expressions)
        return reduce(HavingOr, equal)
    raise PolicyError(
        "SF-Q120",
        "HAVING consists of comparisons of aggregates with numbers, AND, OR and NOT.",
        got=describe_node(node),
        try_="HAVING COUNT(*) >= 100",
    )


def _compare(
    sign: str, one: exp.Expression, other: exp.Expression, known: Mapping[str, Figure]
) -> HavingComparison:
    left, right = _parse_side(one, known), _parse_side(other, known)
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        raise PolicyError("SF-Q120", "HAVING compares two constants.", try_="HAVING COUNT(*) >= 100")
    if has_total(left) or has_total(right):
        raise PolicyError("SF-Q120", "HAVING compares numbers of one group.", try_="HAVING COUNT(*) >= 100")
    return HavingComparison(left, sign, right)


def _parse_side(node: exp.Expression, known: Mapping[str, Figure]) -> Figure:
    name = parse_column_name(node).column if isinstance(node, exp.Column) else None
    if name is not None and name.casefold() not in known:
        raise PolicyError(
            "SF-Q120",
            f"HAVING compares aggregates, and '{name[:80]}' is not one.",
            aggregates=", ".join(known),
            try_="WHERE for a condition on a column",
        )
    return parse_figure(node, known)
