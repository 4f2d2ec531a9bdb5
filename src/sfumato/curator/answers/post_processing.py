"""What is computed from noisy numbers: arithmetic, which groups are shown, and in which order. Costs nothing.

Nothing here can see an exact number, so nothing here has a price: docs/proofs/post-processing.md. A number
that does not exist is a null (NaN here). There is one such rule: a noisy divisor that is not above zero.
"""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers import intervals as estimate
from sfumato.curator.answers.laws.drawn_noise import AddedDraws, NormalNoise
from sfumato.curator.answers.noise_law import (
    combined_half_width,
    find_alike,
    join_laws,
    likely_range,
)
from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.question.measurement import (
    Arithmetic,
    ChosenAggregate,
    CountOf,
    DistinctUnits,
    Figure,
    GroupKey,
    Having,
    HavingAnd,
    HavingComparison,
    HavingNot,
    HavingOr,
    MeanOf,
    ModeOf,
    QuantileOf,
    SumOf,
    list_aggregates,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.answers.answer import NoisyAnswer
    from sfumato.curator.answers.laws.drawn_noise import DrawnNoise
    from sfumato.curator.answers.noise_law import Ends, Floats, NoiseLaw
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.measurement import Question, SortKey

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


def require_numbers(resolved: ResolvedQuestion) -> None:
    """Refuse to compute with dates, or to compare them with numbers, before anything is charged."""
    question = resolved.question
    computed = [
        each for each in (*question.figures.values(), *_sorted_by(question)) if isinstance(each, Arithmetic)
    ]
    for part in (
        part for each in (*computed, *_compared_by(question.having)) for part in list_aggregates(each)
    ):
        if isinstance(part, ChosenAggregate) and not isinstance(
            estimate.find_choice(resolved, part)[1].domain, Numbers
        ):
            raise PolicyError(
                "SF-Q160",
                "A quantile of dates, or the mode of listed values, is shown and sorted by as it is.",
                why="it is no number, and arithmetic and HAVING take numbers",
                try_="days since a date: MEDIAN(day - DATE '2024-01-01')",
            )


def _compared_by(having: Having | None) -> list[Figure]:
    match having:
        case HavingComparison(left, _, right):
            return [left, right]
        case HavingNot(part):
            return _compared_by(part)
        case HavingAnd(one, other) | HavingOr(one, other):
            return _compared_by(one) + _compared_by(other)
    return []


def _sorted_by(question: Question) -> list[Figure]:
    return [each.by for each in question.order if not isinstance(each.by, GroupKey)]


# ---- numbers -----------------------------------------------------------------------------------------------


def compute_figure(plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer) -> NDArray[Any]:
    """Return one number a cell: an integer for a count, else a double, NaN where there is none; or dates."""
    match figure:
        case Fraction():
            return np.full(noisy.cells, float(figure))
        case Arithmetic(sign, left, right):
            return _computed(
                sign,
                compute_figure(plan, left, noisy),
                compute_figure(plan, right, noisy),
                bool(list_aggregates(right)),
            )
        case QuantileOf() | ModeOf():
            return estimate.decode_choice(plan, figure, noisy)
        case CountOf() | DistinctUnits():
            return np.rint(noisy.numbers(plan.sums(figure)[0])).astype(np.int64)
    number = estimate.compute_shown(plan, figure, noisy)
    if isinstance(figure, SumOf):
        return number
    # An average over no rows does not exist, and a noisy count below one says that there may be none.
    return np.where(noisy.numbers(plan.sums(figure)[-1]) < 1, np.nan, number)


def _sums(plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer) -> dict[int, Floats]:
    """Return the noisy sums that a number is computed from, by their places."""
    # What is chosen is not computed from sums.
    used = [
        at
        for part in list_aggregates(figure)
        if not isinstance(part, ChosenAggregate)
        for at in plan.sums(part)
    ]
    return {at: noisy.numbers(at) for at in dict.fromkeys(used)}


def _computed(sign: str, left: NDArray[Any], right: NDArray[Any], noisy_divisor: bool) -> Floats:
    left, right = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if sign != "/":
            return _finite(_COMPUTE[sign](left, right))
        # A noisy divisor near zero may be anything: the quotient is unknown there, not huge.
        usable = right > 0 if noisy_divisor else right != 0
        return _finite(np.where(usable, left / np.where(usable, right, 1.0), np.nan))


def _finite(numbers: Floats) -> Floats:
    return np.where(np.isfinite(numbers), numbers, np.nan)


# ---- intervals ---------------------------------------------------------------------------------------------


def compute_interval(plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer, confidence: float) -> Ends:
    """Return the ends between which the exact number of each cell lies; NaN where nothing is known.

    For modes and dates nothing is known as a number, and for what is computed from quantiles neither.
    """
    if plan.is_empty and not is_linear(figure):
        shown = compute_figure(plan, figure, noisy)
        return shown, shown
    low, high = explain_by_noise(plan, figure, noisy, confidence)
    if is_linear(figure) or isinstance(figure, ChosenAggregate):
        return low, high
    # What is shown follows from noise and bounds together, and may lie beyond what noise alone explains.
    shown = compute_figure(plan, figure, noisy)
    return np.where(shown < low, shown, low), np.where(shown > high, shown, high)


def explain_by_noise(plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer, confidence: float) -> Ends:
    """Return the ends of the numbers that the noise in the sums explains, whatever is shown."""
    if isinstance(figure, ChosenAggregate):
        return _chosen_interval(plan, figure, noisy, confidence)
    if any(isinstance(part, ChosenAggregate) for part in list_aggregates(figure)):
        return np.full(noisy.cells, np.nan), np.full(noisy.cells, np.nan)
    sums = _sums(plan, figure, noisy)
    if is_linear(figure):
        return _linear_interval(plan, figure, noisy, sums, confidence)
    if isinstance(figure, MeanOf) and estimate.has_closed_form(plan, figure, noisy):
        return estimate.mean_interval(plan, figure, noisy, confidence)
    with np.errstate(all="ignore"):
        laws = {at: noisy.laws[at] for at in sums}
        return likely_range(sums, laws, lambda drawn: _possible(plan, figure, drawn), confidence)


def _chosen_interval(
    plan: QuestionPlan, figure: ChosenAggregate, noisy: NoisyAnswer, confidence: float
) -> Ends:
    ends = estimate.choice_interval(plan, figure, noisy, confidence)
    if ends is None or not isinstance(estimate.find_choice(plan.resolved, figure)[1].domain, Numbers):
        return np.full(noisy.cells, np.nan), np.full(noisy.cells, np.nan)
    return ends[0].astype(np.float64), ends[1].astype(np.float64)


def _linear_interval(
    plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer, sums: dict[int, Floats], confidence: float
) -> Ends:
    """Return the interval of a number that is linear in sums, for a count around the one that is shown."""
    if not sums:
        number = compute_figure(plan, figure, noisy)
        return number, number
    # Noise is independent of the sums, so the width follows from its law alone.
    weights = _weights(plan, figure)
    half = combined_half_width([(weights[at], noisy.laws[at]) for at in sums], confidence)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = (_finite(end) for end in _possible(plan, figure, sums))
    if isinstance(figure, CountOf | DistinctUnits):
        # A count is shown as the nearest whole number, so it is off by h if noise is by less than h + 1/2.
        return np.rint(low) - np.floor(half + 0.5), np.rint(high) + np.floor(half + 0.5)
    return low - half, high + half


def _weights(plan: QuestionPlan, figure: Figure) -> dict[int, float]:
    """Return what one step of each sum adds to a number that is linear in them."""
    match figure:
        case Fraction():
            return {}
        case Arithmetic("+" | "-" as sign, left, right):
            one, other = _weights(plan, left), _weights(plan, right)
            turned = {at: -weight if sign == "-" else weight for at, weight in other.items()}
            return {at: one.get(at, 0.0) + turned.get(at, 0.0) for at in {**one, **turned}}
        case Arithmetic(sign, left, right):
            factor = float(_constant(right if list_aggregates(left) else left))
            found = _weights(plan, left) or _weights(plan, right)
            return {at: weight / factor if sign == "/" else weight * factor for at, weight in found.items()}
    at = plan.sums(figure)[0]
    return {at: float(plan.summands[at].step)}


def find_one_noise(
    plan: QuestionPlan, figure: Figure, laws: Sequence[NoiseLaw]
) -> tuple[float, DrawnNoise, int] | None:
    """Return weight, noise and number of draws of a linear figure whose draws are all alike; None for others.

    Groups of several levels agree with each other, so their noise is not independent.
    """
    if plan.question.levels or not is_linear(figure):
        return None
    law = join_laws([(weight, laws[at]) for at, weight in _weights(plan, figure).items()])
    # Groups that were put together from several marginals share draws, which these stand for.
    shared = any(isinstance(draw.noise, AddedDraws | NormalNoise) for draw in law.draws)
    return find_alike(law) if law.draws and not shared else None


def compute_linear(plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer) -> Floats:
    """Return a number that is linear in sums before it is rounded: totals over groups start there."""
    return np.broadcast_to(_possible(plan, figure, _sums(plan, figure, noisy))[0], (noisy.cells,))


def _constant(figure: Figure) -> Fraction:
    """Return the value of a number without aggregates."""
    if isinstance(figure, Fraction):
        return figure
    if not isinstance(figure, Arithmetic):
        raise AssertionError(figure)
    left, right = _constant(figure.left), _constant(figure.right)
    return left / right if figure.operator == "/" else Fraction(_COMPUTE[figure.operator](left, right))


def _possible(plan: QuestionPlan, figure: Figure, sums: Mapping[int, Floats]) -> Ends:
    """Return the ends of a number if these are its exact sums; infinite where it may be anything."""
    match figure:
        case Fraction():
            number = np.full(next(iter(sums.values())).shape, float(figure))
            return number, number
        case Arithmetic(sign, left, right):
            one, other = _possible(plan, left, sums), _possible(plan, right, sums)
            return _combined(sign, one, other, bool(list_aggregates(right)))
        case QuantileOf() | ModeOf():
            raise AssertionError(figure)
    return estimate.possible_range(plan, figure, sums)


def _combined(sign: str, left: Ends, right: Ends, noisy_divisor: bool) -> Ends:
    match sign:
        case "+":
            return _paired(left[0] + right[0], left, right, lambda: left[1] + right[1])
        case "-":
            return _paired(left[0] - right[1], left, right, lambda: left[1] - right[0])
        case "*":
            return _product(left, right)
    return _product(left, _inverse(right, noisy_divisor))


def _paired(low: Floats, left: Ends, right: Ends, high: Callable[[], Floats]) -> Ends:
    """Return both ends; where both sides are known but for noise, both are one array."""
    return (low, low) if left[0] is left[1] and right[0] is right[1] else (low, high())


def _product(left: Ends, right: Ends) -> Ends:
    if left[0] is left[1] and right[0] is right[1]:
        number = left[0] * right[0]
        return number, number
    # A product of intervals is largest and smallest at corners.
    corners = np.array([one * other for one in left for other in right])
    return corners.min(axis=0), corners.max(axis=0)


def _inverse(ends: Ends, noisy_divisor: bool) -> Ends:
    """Return one over each end; not a number where a noisy divisor is not above zero."""
    usable = ends[0] > 0 if noisy_divisor else ends[0] != 0
    if ends[0] is ends[1]:
        number = np.where(usable, 1 / ends[0], np.nan)
        return number, number
    return np.where(usable, 1 / ends[1], np.nan), np.where(usable, 1 / ends[0], np.nan)


def is_linear(figure: Figure) -> bool:
    """Return whether a number is linear in sums, so that its interval's width does not depend on them."""
    match figure:
        case Arithmetic("+" | "-", left, right):
            return is_linear(left) and is_linear(right)
        case Arithmetic("*", left, right):
            return (
                is_linear(left)
                and is_linear(right)
                and not (list_aggregates(left) and list_aggregates(right))
            )
        case Arithmetic(_, left, right):
            return is_linear(left) and not list_aggregates(right)
        case _:
            return isinstance(figure, CountOf | DistinctUnits | SumOf | Fraction)


# ---- groups ------------------------------------------------------------------------------------------------


def order_groups(
    plan: QuestionPlan, noisy: NoisyAnswer, keys: Sequence[Sequence[Any]], among: NDArray[np.bool_]
) -> list[int]:
    """Return the cells of the groups to show, in the order to show them; ties in declared order.

    HAVING, ORDER BY and LIMIT choose `among` these.
    """
    question = plan.question
    if question.having is not None:
        among = among & _truth(plan, question.having, noisy)[0]
    shown: list[int] = np.flatnonzero(among).tolist()
    # Keys are sorted by as they are shown; noisy numbers by what they show, which costs nothing.
    for order in reversed(question.order):
        shown = _sorted(shown, _sorter(plan, order, noisy, keys), order.descending)
    return shown[question.offset :][: question.limit]


def _truth(plan: QuestionPlan, having: Having, noisy: NoisyAnswer) -> Truth:
    """Return where a condition is true and where it is false; elsewhere it is unknown, as in SQL."""
    match having:
        case HavingComparison(left, sign, right):
            return _compared(sign, compute_figure(plan, left, noisy), compute_figure(plan, right, noisy))
        case HavingNot(part):
            yes, no = _truth(plan, part, noisy)
            return no, yes
        case HavingAnd(left, right):
            one, other = _truth(plan, left, noisy), _truth(plan, right, noisy)
            return one[0] & other[0], one[1] | other[1]
        case HavingOr(left, right):
            one, other = _truth(plan, left, noisy), _truth(plan, right, noisy)
            return one[0] | other[0], one[1] & other[1]


def _compared(sign: str, left: NDArray[Any], right: NDArray[Any]) -> Truth:
    known = ~(np.isnan(left) | np.isnan(right))
    holds = _COMPARE[sign](left, right)
    return holds & known, ~holds & known


def _sorter(
    plan: QuestionPlan, order: SortKey, noisy: NoisyAnswer, keys: Sequence[Sequence[Any]]
) -> Sequence[Any]:
    """Return what each cell is sorted by, None where there is nothing."""
    if isinstance(order.by, GroupKey):
        return keys[order.by.place]
    return [None if number != number else number for number in compute_figure(plan, order.by, noisy).tolist()]


def _sorted(shown: list[int], by: Sequence[Any], descending: bool) -> list[int]:
    """Sort stably, so that sorting by the last criterion first gives the order asked for."""
    known = sorted((at for at in shown if by[at] is not None), key=lambda at: by[at], reverse=descending)
    return known + [at for at in shown if by[at] is None]
