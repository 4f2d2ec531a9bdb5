"""From noisy sums to the numbers people asked for. Post-processing only.

`compute_shown` gives the number in the answer. `possible_range` gives what else it may be for reasons other
than noise: values that were rounded down before they were summed, and groups of too few rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.answer import arrow_type, decode_places
from sfumato.curator.answers.ordered.quantile_intervals import intersect
from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.curator.plan.aggregates import (
    aggregate_range,
    compute_aggregate,
    compute_variance,
    mean_deviation,
    mean_product,
    product_of_deviations,
    sample_factor,
)
from sfumato.curator.question.measurement import (
    ChosenAggregate,
    CountOf,
    CovarianceOf,
    DistinctUnits,
    GroupKey,
    MeanOf,
    QuantileOf,
    SummedAggregate,
    SumOf,
    VarianceOf,
)
from sfumato.noise import LaplaceNoise, QuantilesMechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sfumato.curator.answers.answer import ChosenPlaces, NoisyAnswer
    from sfumato.curator.answers.noise_law import Ends, Floats
    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.summands import Summand
    from sfumato.curator.question.measurement import Figure

    Sums = Mapping[int, Floats]

_HALVINGS = 60
"""Bisections of an interval: beyond 53, doubles do not change any more."""


def compute_shown(plan: QuestionPlan, aggregate: SummedAggregate, sums: Sums) -> Floats:
    """Return the number that the answer shows, from its sums in any cells."""
    parts, of = _parts(plan, aggregate, sums)
    return compute_aggregate(aggregate, of, parts)


def possible_range(plan: QuestionPlan, aggregate: SummedAggregate, sums: Sums) -> Ends:
    """Return the ends between which the number lies if these are its exact sums."""
    parts, of = _parts(plan, aggregate, sums)
    match aggregate:
        case CountOf() | DistinctUnits() | SumOf():
            number = parts[0] * float(of[0].step)
            return number, number
        case MeanOf():
            return _mean_possible(aggregate, of, parts)
        case VarianceOf():
            return _variance_possible(aggregate, of, parts)
        case CovarianceOf():
            return _covariance_possible(aggregate, of, parts)


def _parts(plan: QuestionPlan, aggregate: SummedAggregate, sums: Sums) -> tuple[list[Floats], list[Summand]]:
    at = plan.sums(aggregate)
    return [sums[each] for each in at], [plan.measured[each].of for each in at]


def _few(rows: Floats, least: float, ends: Ends, bounds: tuple[float, float]) -> Ends:
    """Return the ends, or the bounds where there are fewer rows than there must be."""
    few = rows < least
    if not few.any():
        return ends
    return np.where(few, bounds[0], ends[0]), np.where(few, bounds[1], ends[1])


def _mean_possible(aggregate: MeanOf, of: list[Summand], parts: list[Floats]) -> Ends:
    low, slack = compute_aggregate(aggregate, of, parts), of[0].slack * float(of[0].step)
    return _few(parts[1], 1, (low, low + slack if slack else low), aggregate_range(aggregate, of))


# ---- variances and what two numbers have in common ---------------------------------------------------------


def _variance_possible(aggregate: VarianceOf, of: list[Summand], parts: list[Floats]) -> Ends:
    low = compute_variance(aggregate, of, parts, 0)
    high = compute_variance(aggregate, of, parts, of[0].slack) if of[0].slack else low
    return _few(parts[-1], 2 if aggregate.sample else 1, (low, high), aggregate_range(aggregate, of))


def _covariance_possible(aggregate: CovarianceOf, of: list[Summand], parts: list[Floats]) -> Ends:
    low = mean_product(of, parts, 0)
    high = mean_product(of, parts, of[0].slack) if of[0].slack else low
    if aggregate.scaled:
        return _correlation_possible(of, parts, low, high)
    factor = sample_factor(parts[-1]) if aggregate.sample else 1.0
    return _few(
        parts[-1], 2 if aggregate.sample else 1, (low * factor, high * factor), aggregate_range(aggregate, of)
    )


def _correlation_possible(of: list[Summand], parts: list[Floats], low: Floats, high: Floats) -> Ends:
    """Return the ends of a correlation, −1 and 1 where one of the two may not vary at all."""
    least = product_of_deviations(of, parts, (0, 0))
    most = (
        product_of_deviations(of, parts, (of[3].slack, of[4].slack)) if of[3].slack or of[4].slack else least
    )
    known = ~np.isnan(least) & (parts[-1] >= 2)
    left, right = low / np.where(low < 0, least, most), high / np.where(high < 0, most, least)
    return np.where(known, np.clip(left, -1.0, 1.0), -1.0), np.where(known, np.clip(right, -1.0, 1.0), 1.0)


# ---- choices -----------------------------------------------------------------------------------------------


def find_choice(resolved: ResolvedQuestion, wanted: ChosenAggregate) -> tuple[int, LoweredValue]:
    """Return the value that a quantile or mode is asked of, and the place of the choice among all."""
    for at, (part, asked) in enumerate(resolved.choices):
        if wanted in asked:
            return at, part
    raise AssertionError(wanted)


def column_type(resolved: ResolvedQuestion, shown: GroupKey | Figure) -> Any:
    """Return the type of a column of the answer, which follows from the question alone."""
    import pyarrow as pa

    if isinstance(shown, GroupKey) and shown.place >= len(resolved.keys):
        return pa.int64()
    if isinstance(shown, GroupKey):
        return arrow_type(resolved.keys[shown.place].domain)
    if isinstance(shown, ChosenAggregate):
        return arrow_type(find_choice(resolved, shown)[1].domain)
    return pa.int64() if isinstance(shown, CountOf | DistinctUnits) else pa.float64()


def decode_choice(plan: QuestionPlan, wanted: ChosenAggregate, noisy: NoisyAnswer) -> NDArray[Any]:
    """Return a number, a date or a listed value in every cell, as the domain of the value says."""
    at, part = find_choice(plan.resolved, wanted)
    chosen, domain = noisy.chosen[at], part.domain
    row = _row(chosen, wanted)
    if isinstance(domain, FreeTexts):
        raise AssertionError(domain)
    if isinstance(domain, Listed):
        values = np.array([*domain.show_values(), None], dtype=object)[:-1]
        return np.asarray(values[chosen.places[row].astype(np.intp)])
    return decode_places(domain, chosen.places[row])


def _row(chosen: ChosenPlaces, wanted: ChosenAggregate) -> int:
    """Return in which row of the places a choice stands."""
    mechanism = chosen.rounds[0]
    if isinstance(mechanism, QuantilesMechanism) and isinstance(wanted, QuantileOf):
        return mechanism.shares.index(wanted.share)
    return 0


def choice_interval(
    plan: QuestionPlan, wanted: ChosenAggregate, noisy: NoisyAnswer, confidence: float
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the numbers or dates between which each exact quantile lies; None where nothing is known.

    That is the case for ends and modes, and for answers from before quantiles had intervals.
    """
    at, part = find_choice(plan.resolved, wanted)
    chosen, domain = noisy.chosen[at], part.domain
    if not isinstance(wanted, QuantileOf) or not isinstance(domain, Numbers | Periods):
        return None
    row = _row(chosen, wanted)
    ends = intersect(chosen.around, row, wanted.share, confidence, noisy.cells)
    if ends is None:
        return None
    # What is shown is within its own interval, whatever is beyond doubt.
    shown = np.rint(chosen.places[row]).astype(np.int64)
    return decode_places(domain, np.minimum(ends[0], shown)), decode_places(
        domain, np.maximum(ends[1], shown)
    )


# ---- averages ----------------------------------------------------------------------------------------------


def mean_interval(plan: QuestionPlan, aggregate: MeanOf, noisy: NoisyAnswer, confidence: float) -> Ends:
    """Return the ends of all means θ that the noise explains; sum and count have a draw of one kind each.

    Those are the θ for which |sum − θ·count| is not in the 1 − confidence tail of the noise of the sum
    less θ times the noise of the count. Where the noisy count is below one, nothing can be ruled out.
    """
    at = plan.sums(aggregate)
    sums, rows = (noisy.numbers(each) for each in at)
    summand = plan.measured[at[0]].of
    first, second = (next(iter(noisy.laws[each].draws), None) for each in at)
    one, other = (0.0 if each is None else float(each.spread) for each in (first, second))
    tail_of = _two_laplace_tail if isinstance(first, LaplaceNoise) else _two_gaussian_tail

    def explained(mean: Floats) -> NDArray[np.bool_]:
        tail = tail_of(np.abs(sums - mean * rows), one, np.abs(mean) * other)
        return (tail >= 1 - confidence) | (rows < 1)

    middle = mean_deviation(summand, sums, rows)
    bound = np.full_like(middle, summand.bound)
    ends = _furthest(explained, middle, -bound), _furthest(explained, middle, bound) + summand.slack
    low, high = ((end + summand.centre) * float(summand.step) for end in ends)
    return low, high


def has_closed_form(plan: QuestionPlan, aggregate: MeanOf, noisy: NoisyAnswer) -> bool:
    """Return whether a mean's interval can be computed without draws: see `mean_interval`."""
    first, second = (noisy.laws[each] for each in plan.sums(aggregate))
    return first.plain and (
        not second.draws or (second.plain and type(first.draws[0]) is type(second.draws[0]))
    )


def _furthest(explained: Callable[[Floats], NDArray[np.bool_]], near: Floats, far: Floats) -> Floats:
    """Return the last point from near to far that is explained, by bisection in every cell at once."""
    # What is explained is an interval around the middle, so bisection finds its end.
    inside, outside = near, far
    for _ in range(_HALVINGS):
        between = (inside + outside) / 2
        good = explained(between)
        inside, outside = np.where(good, between, inside), np.where(good, outside, between)
    return np.where(explained(far), far, inside)


def _two_gaussian_tail(distance: Floats, first: float, second: Floats) -> Floats:
    """Return P(|X + Y| > distance) for independent Gaussian X, Y of these deviations; either may be 0."""
    from scipy.special import erfc

    return np.asarray(erfc(distance / (math.sqrt(2) * np.hypot(first, second))))


def _two_laplace_tail(distance: Floats, first: float, second: Floats) -> Floats:
    """Return P(|X + Y| > distance) for independent Laplace X, Y of these scales."""
    # The formula divides by a difference of squares: scales that are equal or zero are moved apart a little.
    second = np.maximum(second, 1e-6 * first)
    second = np.where(np.abs(second - first) < 1e-6 * first, first * (1 + 1e-6), second)
    a, b = first**2, second**2
    return np.asarray((a * np.exp(-distance / first) - b * np.exp(-distance / second)) / (a - b))
