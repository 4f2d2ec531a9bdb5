"""Keys that put a number into one of a few public cells, for counts of units."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.question.relation import Case, Comparison, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.question.relation import Expression


def cut_below(value: Expression, ends: Sequence[Fraction | int], *, beyond: bool = True) -> Case:
    """Return the cell of a number: the place of the first end that it does not exceed.

    With `beyond`, numbers above all ends have a cell too, as have missing ones; without, neither has.
    """
    branches = tuple(
        (Comparison(value, "<=", Literal(Fraction(end))), Literal(Fraction(place)))
        for place, end in enumerate(ends)
    )
    return Case(branches, Literal(Fraction(len(ends)) if beyond else None))


def cut_around_zero(value: Expression, ends: Sequence[Fraction]) -> Case:
    """Return the cell of a number among ends that are symmetric about zero, outward from zero on both sides.

    Zero is a cell of its own and an end belongs to the cell nearer to zero, so that a bound equal to it loses
    nothing there. A missing number has no cell.
    """
    middle = len(ends) // 2
    tests = [("<", end) for end in ends[1 : middle + 1]] + [("<=", end) for end in ends[middle:]]
    return Case(
        tuple(
            (Comparison(value, operator, Literal(end)), Literal(Fraction(place)))
            for place, (operator, end) in enumerate(tests)
        )
    )
