"""What is computed from noisy numbers: arithmetic, which groups are shown, and in which order. Costs nothing.

Nothing here can see an exact number, so nothing here has a price: docs/proofs/post-processing.md. A number
that does not exist is a null (NaN here). There is one such rule: a noisy divisor that is not above zero.
"""

from __future__ import annotations

import operator
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers import intervals as estimate
from sfumato.curator.answers.noise_law import combined_half_width, leave_out, likely_range
from sfumato.curator.answers.simulated_noise import simulate_noise
from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.question.measurement import (
    Aggregate,
    Arithmetic,
    CaseOf,
    ChosenAggregate,
    Coalesced,
    CountOf,
    CovarianceOf,
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
    Rounded,
    SumOf,
    TotalOf,
    VarianceOf,
    has_total,
    list_aggregates,
    list_compared,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.answers.answer import NoisyAnswer
    from sfumato.curator.answers.noise_law import Ends, Floats
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.measurement import Question, SortKey

    Truth = tuple[NDArray[np.bool_], NDArray[np.bool_]]

_COMPUTE = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_MOST_DRAWN = 2**22
"""Doubles that draws of the noise of all groups may take."""
_MOST_POINTS = 2**12
_LEAST_POINTS = 2**9
"""Draws of all groups together: many where there are few groups."""
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
    shown = (*question.figures.values(), *_sorted_by(question))
    computed = [each for each in shown if not isinstance(each, Aggregate)]
    for part in (
        part for each in (*computed, *list_compared(question.having)) for part in list_aggregates(each)
    ):
        if isinstance(part, ChosenAggregate) and not isinstance(
            estimate.find_choice(resolved, part)[1].domain, Numbers
        ):
            raise PolicyError(
                "SF-Q110",
                "A quantile of dates, or the mode of listed values, is shown and sorted by as it is.",
                why="it is no number, and arithmetic and HAVING take numbers",
                try_="days since a date: MEDIAN(day - DATE '2024-01-01')",
            )


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
        case Rounded(of, digits):
            return _round(compute_figure(plan, of, noisy), digits)
        case Coalesced(parts):
            numbers = (compute_figure(plan, each, noisy).astype(np.float64) for each in parts)
            return reduce(lambda one, other: np.where(np.isnan(one), other, one), numbers)
        case CaseOf():
            return _chosen_branch(plan, figure, noisy)
        case TotalOf(of):
            number = compute_figure(plan, of, noisy).astype(np.float64)
            known = ~np.isnan(number)
            return np.full(noisy.cells, number[known].sum() if known.any() else np.nan)
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


def _round(numbers: NDArray[Any], digits: int) -> Floats:
    """Round half away from zero, as SQL does."""
    step = 10.0**digits
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(np.copysign(np.floor(np.abs(numbers) * step + 0.5) / step, numbers))


def _chosen_branch(plan: QuestionPlan, case: CaseOf, noisy: NoisyAnswer) -> Floats:
    def number(then: Figure | None) -> Floats:
        nulls = np.full(noisy.cells, np.nan)
        return nulls if then is None else compute_figure(plan, then, noisy).astype(np.float64)

    found = number(case.otherwise)
    for when, then in reversed(case.branches):
        found = np.where(_truth(plan, when, noisy)[0], number(then), found)
    return found


def _finite(numbers: Floats) -> Floats:
    return np.where(np.isfinite(numbers), numbers, np.nan)


# ---- intervals ---------------------------------------------------------------------------------------------


def compute_interval(plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer, confidence: float) -> Ends:
    """Return the ends between which the exact number of each cell lies; NaN where nothing is known.

    For modes and dates nothing is known as a number, and for what is computed from quantiles neither.
    """
    if plan.is_empty:
        shown = compute_figure(plan, figure, noisy)
        return shown, shown
    if isinstance(figure, Rounded):
        low, high = compute_interval(plan, figure.of, noisy, confidence)
        return _round(low, figure.digits), _round(high, figure.digits)
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
    if has_total(figure):
        return _explain_together(plan, figure, noisy, confidence)
    if is_linear(figure):
        return _linear_interval(plan, figure, noisy, sums, confidence)
    if isinstance(figure, MeanOf) and estimate.has_closed_form(plan, figure, noisy):
        return estimate.mean_interval(plan, figure, noisy, confidence)
    with np.errstate(all="ignore"):
        laws = {at: noisy.laws[at] for at in sums}
        return likely_range(sums, laws, lambda drawn: _possible(plan, figure, drawn), confidence)


def _explain_together(plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer, confidence: float) -> Ends:
    """Return the ends of a number that depends on all groups, by draws of the noise of all of them."""
    points = min(_MOST_POINTS, _MOST_DRAWN // max(1, noisy.cells * len(noisy.laws)))
    drawn = simulate_noise(plan, noisy, points) if points >= _LEAST_POINTS else None
    if drawn is None:
        return np.full(noisy.cells, np.nan), np.full(noisy.cells, np.nan)
    used = {at: number[:, None] - drawn[at] for at, number in _sums(plan, figure, noisy).items()}
    with np.errstate(all="ignore"):
        low, high = leave_out(_possible(plan, figure, used), confidence)
    known = np.isfinite(low) & np.isfinite(high)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


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
    if not isinstance(figure, Aggregate):
        raise AssertionError(figure)
    at = plan.sums(figure)[0]
    return {at: float(plan.summands[at].step)}


def compute_linear(plan: QuestionPlan, figure: Figure, noisy: NoisyAnswer) -> Floats:
    """Return a number that is linear in sums before it is rounded."""
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
        case Rounded(of, digits):
            low, high = _possible(plan, of, sums)
            return _round(low, digits), _round(high, digits)
        case Coalesced(parts):
            return reduce(
                lambda other, part: _first_known(plan, part, sums, other),
                reversed(parts[:-1]),
                _possible(plan, parts[-1], sums),
            )
        case CaseOf():
            return _possible_branch(plan, figure, sums)
        case TotalOf(of):
            ends = np.broadcast_arrays(*_possible(plan, of, sums))
            low, high = (np.broadcast_to(np.nansum(end, axis=0), end.shape) for end in ends)
            return low, high
        case QuantileOf() | ModeOf():
            raise AssertionError(figure)
    return estimate.possible_range(plan, figure, sums)


def _first_known(plan: QuestionPlan, figure: Figure, sums: Mapping[int, Floats], other: Ends) -> Ends:
    """Return the ends of a number, of `other` where it is null, and of both where it may be."""
    low, high = _possible(plan, figure, sums)
    unsure = reduce(operator.or_, _find_few(plan, figure, sums), np.zeros(low.shape, dtype=np.bool_))
    low, high = np.where(unsure, np.fmin(low, other[0]), low), np.where(unsure, np.fmax(high, other[1]), high)
    return np.where(np.isnan(low), other[0], low), np.where(np.isnan(high), other[1], high)


def _find_few(plan: QuestionPlan, figure: Figure, sums: Mapping[int, Floats]) -> Iterator[NDArray[np.bool_]]:
    """Yield where each aggregate of a number has so few rows that it may be null."""
    for part in list_aggregates(figure):
        if isinstance(part, MeanOf | VarianceOf | CovarianceOf):
            yield sums[plan.sums(part)[-1]] < 2


def _possible_branch(plan: QuestionPlan, case: CaseOf, sums: Mapping[int, Floats]) -> Ends:
    """Return the ends of a CASE: of several branches where rounding leaves open which one is taken."""
    shape = next(iter(sums.values())).shape
    nulls = np.full(shape, np.nan)

    def ends(then: Figure | None) -> Ends:
        return (nulls, nulls) if then is None else _possible(plan, then, sums)

    low, high = ends(case.otherwise)
    for when, then in reversed(case.branches):
        yes, no = _possible_truth(plan, when, sums)
        one, other = ends(then)
        low = np.where(yes, one, np.where(no, low, np.minimum(one, low)))
        high = np.where(yes, other, np.where(no, high, np.maximum(other, high)))
    return low, high


def _possible_truth(plan: QuestionPlan, having: Having, sums: Mapping[int, Floats]) -> Truth:
    """Return where a condition is true, and where it is false, whatever rounding hides."""
    match having:
        case HavingComparison(left, sign, right):
            (low, high), (least, most) = _possible(plan, left, sums), _possible(plan, right, sums)
            if sign in (">", ">="):
                low, high, least, most = least, most, low, high
            if sign in ("=", "<>"):
                same, apart = (low == most) & (high == least), (high < least) | (most < low)
                return (same, apart) if sign == "=" else (apart, same)
            if sign in ("<", ">"):
                return high < least, low >= most
            return high <= least, low > most
        case HavingNot(part):
            yes, no = _possible_truth(plan, part, sums)
            return no, yes
        case HavingAnd(left, right):
            one, other = _possible_truth(plan, left, sums), _possible_truth(plan, right, sums)
            return one[0] & other[0], one[1] | other[1]
        case HavingOr(left, right):
            one, other = _possible_truth(plan, left, sums), _possible_truth(plan, right, sums)
            return one[0] | other[0], one[1] & other[1]


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


def keep_groups(plan: QuestionPlan, noisy: NoisyAnswer, among: NDArray[np.bool_]) -> list[int]:
    """Return the cells of those groups that HAVING keeps; totals are over these."""
    if plan.question.having is not None:
        among = among & _truth(plan, plan.question.having, noisy)[0]
    kept: list[int] = np.flatnonzero(among).tolist()
    return kept


def compute_at(
    figure: Figure,
    noisy: NoisyAnswer,
    places: Sequence[int],
    kept: Sequence[int],
    compute: Callable[[NoisyAnswer], NDArray[Any]],
) -> NDArray[Any]:
    """Return what `compute` gives, one column a group, for a number of the groups at these places.

    Totals in it are over all groups that are `kept`, of which these are some.
    """
    if not has_total(figure):
        return compute(noisy.take(places))
    at = {cell: place for place, cell in enumerate(kept)}
    return compute(noisy.take(kept))[..., [at[cell] for cell in places]]


def order_groups(
    plan: QuestionPlan, noisy: NoisyAnswer, keys: Sequence[Sequence[Any]], among: NDArray[np.bool_]
) -> list[int]:
    """Return the cells of the groups to show, in the order to show them; ties in declared order.

    HAVING, ORDER BY and LIMIT choose `among` these.
    """
    question = plan.question
    kept = shown = keep_groups(plan, noisy, among)
    # Keys are sorted by as they are shown; noisy numbers by what they show, which costs nothing.
    for order in reversed(question.order):
        shown = sort_groups(shown, _sorter(plan, order, noisy, keys, kept), order.descending)
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
    plan: QuestionPlan,
    order: SortKey,
    noisy: NoisyAnswer,
    keys: Sequence[Sequence[Any]],
    kept: Sequence[int],
) -> Sequence[Any]:
    """Return what each cell is sorted by, None where there is nothing."""
    if isinstance(order.by, GroupKey):
        return keys[order.by.place]
    if has_total(order.by):
        numbers = np.full(noisy.cells, np.nan)
        numbers[kept] = compute_figure(plan, order.by, noisy.take(kept))
    else:
        numbers = compute_figure(plan, order.by, noisy)
    return [None if number != number else number for number in numbers.tolist()]


def sort_groups(shown: list[int], by: Sequence[Any], descending: bool) -> list[int]:
    """Sort stably, so that sorting by the last criterion first gives the order asked for."""
    known = sorted((at for at in shown if by[at] is not None), key=lambda at: by[at], reverse=descending)
    return known + [at for at in shown if by[at] is None]
