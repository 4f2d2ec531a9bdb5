"""Bounds of expressions that nobody chose, and expressions that are clipped to other ones.

Everything here follows from public facts. Bounds are *chosen* if they were declared, or if the question clips
to them; those that follow from an expression of several columns may be far wider than what its values are.
"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.question.measurement import (
    ChosenAggregate,
    CovarianceOf,
    MeanOf,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import (
    Alias,
    Case,
    Extension,
    Filter,
    FunctionCall,
    GroupByUnit,
    IsNull,
    Join,
    Literal,
    Name,
    Negation,
    Projection,
    UnitAggregate,
    UnitWindow,
)

if TYPE_CHECKING:
    from sfumato.curator.question.relation import Expression, Relation

# ---- which bounds are chosen -------------------------------------------------------------------------------


def list_arguments(aggregate: object) -> list[str]:
    """Return the fields of an aggregate whose bounds its noise follows from."""
    if isinstance(aggregate, ChosenAggregate) or not isinstance(
        aggregate, SumOf | MeanOf | VarianceOf | CovarianceOf
    ):
        return []
    return [each.name for each in fields(aggregate) if each.name in ("of", "other")]


def has_chosen_ends(node: Any, relation: Relation | None) -> tuple[bool, bool]:
    """Return whether the lower and the upper bound of an expression were declared or clipped to.

    A function of one column has the range that follows from the column's, and no wider one.
    """
    match node:
        case Name():
            return _follow_name(node, relation)
        case FunctionCall("least" | "greatest" as function, arguments):
            parts = [has_chosen_ends(each, relation) for each in arguments if not isinstance(each, Literal)]
            clips = len(parts) < len(arguments)
            low, high = all(low for low, _ in parts), all(high for _, high in parts)
            return (low, high or clips) if function == "least" else (low or clips, high)
        case FunctionCall(_, arguments):
            columns = [each for each in arguments if not isinstance(each, Literal)]
            if len(columns) > 1:
                return False, False
            return has_chosen_ends(columns[0], relation) if columns else (True, True)
        case Case(branches, otherwise):
            ends = [has_chosen_ends(each, relation) for each in (*(then for _, then in branches), otherwise)]
            return all(low for low, _ in ends), all(high for _, high in ends)
        case UnitAggregate(figure, of):
            # A total is of as many rows as a unit may have.
            chosen = of is None or figure == "count"
            return (
                (False, False)
                if figure == "sum"
                else (True, True)
                if chosen
                else has_chosen_ends(of, relation)
            )
        case UnitWindow(_, of):
            return (True, True) if of is None else has_chosen_ends(of, relation)
    return True, True


def _follow_name(name: Name, relation: Relation | None) -> tuple[bool, bool]:
    """Return whether the ends of a column are chosen: declared, or those of what a subquery computes."""
    match relation:
        case Filter(of) | Alias(of):
            return _follow_name(name, of)
        case Projection(of, columns) | Extension(of, columns) | GroupByUnit(of, _, columns):
            computed = next((each for own, each in columns if own.casefold() == name.column.casefold()), None)
            if computed is not None and computed != name:
                return has_chosen_ends(computed, of)
            return _follow_name(name, of)
        case Join(left, right):
            ends = [_follow_name(name, side) for side in (left, right)]
            return all(low for low, _ in ends), all(high for _, high in ends)
    return True, True


# ---- clips that are proposed -------------------------------------------------------------------------------


def propose_ends(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Return round ends around a tenth of a range, on the side of it that is nearer to zero."""
    if low < 0 < high:
        end = _round_up(max(-low, high) / 10)
        return max(low, -end), min(high, end)
    width = _round_up((high - low) / 10)
    return (low, min(high, low + width)) if low >= 0 else (max(low, high - width), high)


def _round_up(number: Fraction) -> Fraction:
    """Return the least of 1, 2, 5, 10, 20, … and of their decimal fractions that is not below a number."""
    power = Fraction(1)
    while power > number:
        power /= 10
    while power * 10 <= number:
        power *= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= number)


def clip_expression(of: Expression, low: Fraction, high: Fraction, present: bool) -> Expression:
    """Return an expression within these ends, missing where it is: LEAST and GREATEST pass over that."""
    clipped = FunctionCall("least", (FunctionCall("greatest", (of, Literal(low))), Literal(high)))
    return clipped if present else Case(((Negation(IsNull(of)), clipped),))
