"""From noisy sums to the numbers people asked for. Post-processing only.

`shown` is the number in the answer. `possible` is the number together with what else it may be for reasons
other than noise: values that were rounded down before they were summed, and groups of too few rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.answer import values_at
from sfumato.curator.catalog.domains import Numbers, Periods
from sfumato.curator.question.measurement import (
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    QuantileOf,
    SummedAggregate,
    SumOf,
    VarianceOf,
)
from sfumato.noise import ExtremeMechanism, LaplaceNoise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.answers.answer import Noisy
    from sfumato.curator.answers.noise_law import Ends, Floats, Law
    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.plan.plan import Plan, ResolvedQuestion
    from sfumato.curator.plan.summands import Summand
    from sfumato.noise.additive import Noise

    Sums = Mapping[int, Floats]

_HALVINGS = 60


def shown(plan: Plan, aggregate: SummedAggregate, sums: Sums) -> Floats:
    """The number that the answer shows, from its sums in any cells."""
    parts, of = _parts(plan, aggregate, sums)
    return computed(aggregate, of, parts)


def computed(aggregate: SummedAggregate, of: Sequence[Summand], parts: Sequence[Floats]) -> Floats:
    """The number itself, from what its sums are of and what they are."""
    match aggregate:
        case CountOf() | DistinctUnits() | SumOf():
            return parts[0] * float(of[0].step)
        case MeanOf():
            return (_mean(of[0], *parts) + of[0].centre) * float(of[0].step)
        case VarianceOf():
            return _variance(aggregate, of, parts, 0)
        case CovarianceOf():
            return _covariance(aggregate, of, parts)


def possible(plan: Plan, aggregate: SummedAggregate, sums: Sums) -> Ends:
    """Between which ends the number lies if these are its exact sums."""
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


def ends(aggregate: MeanOf | VarianceOf | CovarianceOf, of: Sequence[Summand]) -> tuple[float, float]:
    """Between which ends the number lies whatever the rows are."""
    match aggregate:
        case MeanOf():
            low, high = ((of[0].centre + side * of[0].bound) * float(of[0].step) for side in (-1, 1))
            return low, high
        case VarianceOf():
            most = _reach(of[1]) ** 2 * (2 if aggregate.sample else 1)
            return 0.0, math.sqrt(most) if aggregate.root else most
        case CovarianceOf():
            if aggregate.scaled:
                return -1.0, 1.0
            most = _reach(of[1]) * _reach(of[2]) * (2 if aggregate.sample else 1)
            return -most, most


def _parts(plan: Plan, aggregate: SummedAggregate, sums: Sums) -> tuple[list[Floats], list[Summand]]:
    at = plan.sums(aggregate)
    return [sums[each] for each in at], [plan.measured[each].of for each in at]


def _each(sums: Floats, rows: Floats) -> Floats:
    """Steps a row; of few rows as of one."""
    return np.asarray(sums / np.maximum(rows, 1.0))


def _mean(summand: Summand, sums: Floats, rows: Floats) -> Floats:
    """Steps a row from the centre, kept within what is possible."""
    return np.clip(_each(sums, rows), -summand.bound, summand.bound)


def _few(rows: Floats, least: float, ends: Ends, bounds: tuple[float, float]) -> Ends:
    """Of fewer rows than there must be, nothing is known but the bounds."""
    few = rows < least
    if not few.any():
        return ends
    return np.where(few, bounds[0], ends[0]), np.where(few, bounds[1], ends[1])


def _mean_possible(aggregate: MeanOf, of: list[Summand], parts: list[Floats]) -> Ends:
    low, slack = computed(aggregate, of, parts), of[0].slack * float(of[0].step)
    return _few(parts[1], 1, (low, low + slack if slack else low), ends(aggregate, of))


# ---- variances and what two numbers have in common ---------------------------------------------------------


def _variance(aggregate: VarianceOf, of: Sequence[Summand], parts: Sequence[Floats], slack: int) -> Floats:
    squares, deviations, rows = parts
    variance = _spread(of[0], of[1], squares, deviations, rows, slack)
    if aggregate.sample:
        variance = variance * _of_sample(rows)
    return np.asarray(np.sqrt(variance) if aggregate.root else variance)


def _spread(
    square: Summand, deviation: Summand, squares: Floats, deviations: Floats, rows: Floats, slack: int
) -> Floats:
    """The mean square of deviations less the square of their mean, kept within what is possible.

    Only their difference is: keeping one of the two within its own bounds would pull draws to one side.
    """
    mean = _each(deviations, rows) * float(deviation.step)
    mean_square = (_each(squares, rows) + slack) * float(square.step)
    return np.clip(mean_square - mean**2, 0.0, _reach(deviation) ** 2)


def _reach(deviation: Summand) -> float:
    """How far a row lies from the middle of the bounds at most."""
    return float(deviation.bound * deviation.step)


def _of_sample(rows: Floats) -> Floats:
    """A sample has two rows at least."""
    rows = np.maximum(rows, 2.0)
    return np.asarray(rows / (rows - 1))


def _variance_possible(aggregate: VarianceOf, of: list[Summand], parts: list[Floats]) -> Ends:
    low = _variance(aggregate, of, parts, 0)
    high = _variance(aggregate, of, parts, of[0].slack) if of[0].slack else low
    return _few(parts[-1], 2 if aggregate.sample else 1, (low, high), ends(aggregate, of))


def _covariance(aggregate: CovarianceOf, of: Sequence[Summand], parts: Sequence[Floats]) -> Floats:
    together = _together(of, parts, 0)
    if aggregate.scaled:
        return np.clip(together / _deviations(of, parts, (0, 0)), -1.0, 1.0)
    return together * _of_sample(parts[-1]) if aggregate.sample else together


def _together(of: Sequence[Summand], parts: Sequence[Floats], slack: int) -> Floats:
    """The mean product of deviations less the product of their means, kept within what is possible."""
    products, one, other, rows = parts[0], parts[1], parts[2], parts[-1]
    means = _each(one, rows) * _each(other, rows) * float(of[1].step * of[2].step)
    product = (_each(products, rows) + slack) * float(of[0].step)
    most = _reach(of[1]) * _reach(of[2])
    return np.clip(product - means, -most, most)


def _deviations(of: Sequence[Summand], parts: Sequence[Floats], slack: tuple[int, int]) -> Floats:
    """The product of both standard deviations; not a number where one of the two does not vary."""
    one = _spread(of[3], of[1], parts[3], parts[1], parts[-1], slack[0])
    other = _spread(of[4], of[2], parts[4], parts[2], parts[-1], slack[1])
    varies = (one > 0) & (other > 0)
    return np.sqrt(np.where(varies, one * other, np.nan))


def _covariance_possible(aggregate: CovarianceOf, of: list[Summand], parts: list[Floats]) -> Ends:
    low = _together(of, parts, 0)
    high = _together(of, parts, of[0].slack) if of[0].slack else low
    if aggregate.scaled:
        return _correlation_possible(of, parts, low, high)
    factor = _of_sample(parts[-1]) if aggregate.sample else 1.0
    return _few(parts[-1], 2 if aggregate.sample else 1, (low * factor, high * factor), ends(aggregate, of))


def _correlation_possible(of: list[Summand], parts: list[Floats], low: Floats, high: Floats) -> Ends:
    """Anything where one of the two may not vary at all."""
    least = _deviations(of, parts, (0, 0))
    most = _deviations(of, parts, (of[3].slack, of[4].slack)) if of[3].slack or of[4].slack else least
    known = ~np.isnan(least) & (parts[-1] >= 2)
    left, right = low / np.where(low < 0, least, most), high / np.where(high < 0, most, least)
    return np.where(known, np.clip(left, -1.0, 1.0), -1.0), np.where(known, np.clip(right, -1.0, 1.0), 1.0)


# ---- quantiles ---------------------------------------------------------------------------------------------


def ranked(resolved: ResolvedQuestion, quantile: QuantileOf) -> tuple[int, LoweredValue]:
    """Which of the values that quantiles are asked of this one is of."""
    for at, (part, asked) in enumerate(resolved.quantiles):
        if quantile in asked:
            return at, part
    raise AssertionError(quantile)


def quantiles(plan: Plan, quantile: QuantileOf, noisy: Noisy) -> NDArray[Any]:
    """In every cell a number or a date, as the domain of the value says."""
    at, part = ranked(plan.resolved, quantile)
    chosen = noisy.chosen[at]
    domain = part.domain
    if not isinstance(domain, Numbers | Periods):
        raise AssertionError(domain)
    mechanism = chosen.rounds[0]
    row = 0 if isinstance(mechanism, ExtremeMechanism) else mechanism.shares.index(quantile.share)
    return values_at(domain, chosen.places[row])


# ---- averages ----------------------------------------------------------------------------------------------


def mean_interval(plan: Plan, aggregate: MeanOf, noisy: Noisy, confidence: float) -> Ends:
    """Every mean θ that the noise would explain, where sum and count have one draw of noise of one kind each.

    Those are the θ for which |sum − θ·count| is not in the 1 − confidence tail of the noise of the sum
    less θ times the noise of the count. Where the noisy count is below one, nothing can be ruled out.
    """
    at = plan.sums(aggregate)
    sums, rows = (noisy.numbers(each) for each in at)
    summand = plan.measured[at[0]].of
    first, second = (_single(noisy.laws[each]) for each in at)

    def explained(mean: Floats) -> NDArray[np.bool_]:
        tail = _tail(np.abs(sums - mean * rows), first, second, np.abs(mean))
        return (tail >= 1 - confidence) | (rows < 1)

    middle = _mean(summand, sums, rows)
    bound = np.full_like(middle, summand.bound)
    ends = _furthest(explained, middle, -bound), _furthest(explained, middle, bound) + summand.slack
    low, high = ((end + summand.centre) * float(summand.step) for end in ends)
    return low, high


def has_closed_form(plan: Plan, aggregate: MeanOf, noisy: Noisy) -> bool:
    first, second = (noisy.laws[each] for each in plan.sums(aggregate))
    return first.plain and (
        not second.draws or (second.plain and type(first.draws[0]) is type(second.draws[0]))
    )


def _single(law: Law) -> Noise | None:
    return law.draws[0] if law.draws else None


def _furthest(explained: Callable[[Floats], NDArray[np.bool_]], near: Floats, far: Floats) -> Floats:
    """The last point from near to far that is explained, by bisection in every cell at once."""
    inside, outside = near, far
    for _ in range(_HALVINGS):
        between = (inside + outside) / 2
        good = explained(between)
        inside, outside = np.where(good, between, inside), np.where(good, outside, between)
    return np.where(explained(far), far, inside)


def _tail(distance: Floats, first: Noise | None, second: Noise | None, weight: Floats) -> Floats:
    """P(|X + weight·Y| > distance) for independent noise of one kind, Y none at all if need be."""
    one, other = (0.0 if each is None else float(each.spread) for each in (first, second))
    if isinstance(first, LaplaceNoise):
        return _two_laplace_tail(distance, one, weight * other)
    from scipy.special import erfc

    return np.asarray(erfc(distance / (math.sqrt(2) * np.hypot(one, weight * other))))


def _two_laplace_tail(distance: Floats, first: float, second: Floats) -> Floats:
    """P(|X + Y| > distance) for independent Laplace X, Y of these scales."""
    second = np.maximum(second, 1e-6 * first)
    second = np.where(np.abs(second - first) < 1e-6 * first, first * (1 + 1e-6), second)
    a, b = first**2, second**2
    return np.asarray((a * np.exp(-distance / first) - b * np.exp(-distance / second)) / (a - b))
