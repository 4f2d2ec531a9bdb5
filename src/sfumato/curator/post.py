"""What is computed from noisy numbers: arithmetic, which groups are shown, and in which order. Costs nothing.

Nothing here can see an exact number, so nothing here has a price: docs/proofs/post-processing.md. A number
that does not exist is a null (NaN here). There is one such rule: a noisy divisor that is not above zero.
"""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator import estimate
from sfumato.curator.measurement import (
    Arithmetic,
    Both,
    Compares,
    Count,
    Either,
    Figure,
    Having,
    Key,
    Not,
    Sum,
    Units,
    parts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.estimate import Floats
    from sfumato.curator.measurement import Order
    from sfumato.curator.plan import Plan

    Ends = tuple[Floats, Floats]
    Truth = tuple[NDArray[np.bool_], NDArray[np.bool_]]

_COMPUTE = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# ---- numbers -----------------------------------------------------------------------------------------------


def values(plan: Plan, figure: Figure, noisy: NDArray[Any]) -> NDArray[Any]:
    """One number a cell: an integer for a count, else a double, NaN where there is none."""
    match figure:
        case Fraction():
            return np.full(noisy.shape[1], float(figure))
        case Arithmetic(sign, left, right):
            return _computed(sign, values(plan, left, noisy), values(plan, right, noisy), bool(parts(right)))
        case _:
            return estimate.values(plan, figure, noisy)


def _computed(sign: str, left: NDArray[Any], right: NDArray[Any], noisy_divisor: bool) -> Floats:
    left, right = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if sign != "/":
            return _finite(_COMPUTE[sign](left, right))
        usable = right > 0 if noisy_divisor else right != 0
        return _finite(np.where(usable, left / np.where(usable, right, 1.0), np.nan))


def _finite(numbers: Floats) -> Floats:
    return np.where(np.isfinite(numbers), numbers, np.nan)


# ---- intervals ---------------------------------------------------------------------------------------------


def interval(plan: Plan, figure: Figure, noisy: NDArray[Any], confidence: float) -> Ends:
    """Where the exact number of each cell lies, with at least this confidence; NaN where nothing is known.

    The risk is shared evenly among the aggregates of a computed number (Bonferroni). While each lies within
    its own interval the number lies within what interval arithmetic makes of them, so the confidence can only
    be higher than asked for.
    """
    risk = (1 - confidence) / max(1, len(parts(figure)))
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _ends(plan, figure, noisy, 1 - risk)
    known = np.isfinite(low) & np.isfinite(high)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _ends(plan: Plan, figure: Figure, noisy: NDArray[Any], confidence: float) -> Ends:
    match figure:
        case Fraction():
            number = np.full(noisy.shape[1], float(figure))
            return _outward(number, number)
        case Arithmetic("/", left, right):
            inverse = _inverse(_ends(plan, right, noisy, confidence), bool(parts(right)))
            return _product(_ends(plan, left, noisy, confidence), inverse)
        case Arithmetic(sign, left, right):
            return _combined(
                sign, _ends(plan, left, noisy, confidence), _ends(plan, right, noisy, confidence)
            )
        case _:
            return estimate.interval(plan, figure, noisy, confidence)


def _combined(sign: str, left: Ends, right: Ends) -> Ends:
    match sign:
        case "+":
            return _outward(left[0] + right[0], left[1] + right[1])
        case "-":
            return _outward(left[0] - right[1], left[1] - right[0])
        case _:
            return _product(left, right)


def _product(left: Ends, right: Ends) -> Ends:
    corners = np.array([one * other for one in left for other in right])
    return _outward(corners.min(axis=0), corners.max(axis=0))


def _inverse(ends: Ends, noisy_divisor: bool) -> Ends:
    """One over each end; unknown where a noisy divisor may not be above zero."""
    usable = ends[0] > 0 if noisy_divisor else np.sign(ends[0]) == np.sign(ends[1])
    low, high = (np.where(usable, 1 / np.where(usable, end, 1.0), np.nan) for end in ends)
    return _outward(high, low)


def _outward(low: Floats, high: Floats) -> Ends:
    """One double further out on both sides, so that rounding cannot leave the exact number outside."""
    return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)


def steady(figure: Figure) -> bool:
    """Whether the width of the interval is the same whatever the noisy numbers are."""
    match figure:
        case Arithmetic("+" | "-", left, right):
            return steady(left) and steady(right)
        case Arithmetic("*", left, right):
            return steady(left) and steady(right) and not (parts(left) and parts(right))
        case Arithmetic(_, left, right):
            return steady(left) and not parts(right)
        case _:
            return isinstance(figure, Count | Units | Sum | Fraction)


# ---- groups ------------------------------------------------------------------------------------------------


def places(plan: Plan, noisy: NDArray[Any], keys: Mapping[str, Sequence[Any]]) -> list[int]:
    """Where the groups to show stand among all cells, in the order to show them; ties in declared order."""
    question = plan.question
    shown = list(range(plan.program.cells))
    if question.having is not None:
        shown = np.flatnonzero(_truth(plan, question.having, noisy)[0]).tolist()
    for order in reversed(question.order):
        shown = _sorted(shown, _sorter(plan, order, noisy, keys), order.descending)
    return shown[question.offset :][: question.limit]


def _truth(plan: Plan, having: Having, noisy: NDArray[Any]) -> Truth:
    """Where the condition is true and where it is false; where it is neither, it is unknown, as in SQL."""
    match having:
        case Compares(left, sign, right):
            return _compared(sign, values(plan, left, noisy), values(plan, right, noisy))
        case Not(part):
            yes, no = _truth(plan, part, noisy)
            return no, yes
        case Both(left, right):
            one, other = _truth(plan, left, noisy), _truth(plan, right, noisy)
            return one[0] & other[0], one[1] | other[1]
        case Either(left, right):
            one, other = _truth(plan, left, noisy), _truth(plan, right, noisy)
            return one[0] | other[0], one[1] & other[1]


def _compared(sign: str, left: NDArray[Any], right: NDArray[Any]) -> Truth:
    known = ~(np.isnan(left) | np.isnan(right))
    holds = _COMPARE[sign](left, right)
    return holds & known, ~holds & known


def _sorter(
    plan: Plan, order: Order, noisy: NDArray[Any], keys: Mapping[str, Sequence[Any]]
) -> Sequence[Any]:
    """What a cell is sorted by, None where there is nothing."""
    if isinstance(order.by, Key):
        return keys[plan.table.column(order.by.column)]
    return [None if number != number else number for number in values(plan, order.by, noisy).tolist()]


def _sorted(shown: list[int], by: Sequence[Any], descending: bool) -> list[int]:
    """A stable sort, so that sorting by the last criterion first gives the order asked for."""
    known = sorted((at for at in shown if by[at] is not None), key=lambda at: by[at], reverse=descending)
    return known + [at for at in shown if by[at] is None]
