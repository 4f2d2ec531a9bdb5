"""From noisy sums to the numbers people asked for. Post-processing only.

`compute_shown` gives the number in the answer. `possible_range` gives what else it may be for reasons other
than noise: values that were rounded before they were summed, and groups of too few rows.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.answer import arrow_type, decode_places
from sfumato.curator.answers.laws.drawn_noise import AddedDraws, BodyCoordinate
from sfumato.curator.answers.noise_law import combined_half_width, covariance_of
from sfumato.curator.answers.ordered.quantile_intervals import intersect
from sfumato.curator.answers.posterior import estimate_mean, estimate_variance
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
from sfumato.noise import GaussianNoise, LaplaceNoise, QuantilesMechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sfumato.curator.answers.answer import ChosenPlaces, NoisyAnswer
    from sfumato.curator.answers.noise_law import Ends, Floats, NoiseLaw
    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.summands import Summand
    from sfumato.curator.question.measurement import Figure

    Sums = Mapping[int, Floats]

SUMMED_ROWS = 2**20
"""Rows of which a sum may be off by half a step each: how many rows it has no one knows. In sums of more rows
the rounding of one row cancels that of another, unless all values are below a step."""
_SMOOTH = 2
"""σ from which on the tails of rounded Gaussian noise are those of Gaussian noise."""
_MEANS = 33
"""Means between which the reach of noise is interpolated: that of bodies is convex and off by less than a
thousandth, and that of coarse Gaussian noise covers 94.7 to 95.4 % between them."""
_HALVINGS = 60
"""Bisections of an interval: beyond 53, doubles do not change any more."""


def compute_shown(plan: QuestionPlan, aggregate: SummedAggregate, noisy: NoisyAnswer) -> Floats:
    """Return the number that the answer shows in every cell: the posterior median of means and variances."""
    at = plan.sums(aggregate)
    of, parts = [plan.summands[each] for each in at], [noisy.numbers(each) for each in at]
    laws = [noisy.laws[each] for each in at]
    if not isinstance(aggregate, MeanOf | VarianceOf) or not any(law.draws for law in laws):
        return compute_aggregate(aggregate, of, parts)
    low, high = aggregate_range(MeanOf(aggregate.of), of[-2:])
    bound = (high - low) / 2
    if isinstance(aggregate, MeanOf):
        return estimate_mean(*_in_units(of, parts, laws, bound, (1,))) * bound + (low + high) / 2
    variance = estimate_variance(*_in_units(of, parts, laws, bound, (2, 1))) * bound**2
    variance = variance * sample_factor(parts[-1]) if aggregate.sample else variance
    return np.asarray(np.sqrt(variance) if aggregate.root else variance)


def _in_units(
    of: list[Summand], parts: list[Floats], laws: list[NoiseLaw], bound: float, powers: tuple[int, ...]
) -> tuple[Floats, Floats]:
    """Return sums and the covariance of their noise, in units of powers of a bound; rows come last.

    In these no square is too large or too small for doubles.
    """
    unit = Fraction(bound)
    steps = [float(each.step / unit**power) for each, power in zip(of, powers, strict=False)]
    scale = np.array([*steps, 1.0])
    return np.stack(parts) * scale[:, None], covariance_of(laws) * np.outer(scale, scale)[..., None]


def possible_range(plan: QuestionPlan, aggregate: SummedAggregate, sums: Sums) -> Ends:
    """Return the ends between which the number lies if these are its exact sums."""
    parts, of = _parts(plan, aggregate, sums)
    match aggregate:
        case CountOf() | DistinctUnits() | SumOf():
            number, slack = parts[0] * float(of[0].step), float(of[0].slack * of[0].step) * SUMMED_ROWS
            return (number - slack, number + slack) if slack else (number, number)
        case MeanOf():
            return _mean_possible(aggregate, of, parts)
        case VarianceOf():
            return _variance_possible(aggregate, of, parts)
        case CovarianceOf():
            return _covariance_possible(aggregate, of, parts)


def _parts(plan: QuestionPlan, aggregate: SummedAggregate, sums: Sums) -> tuple[list[Floats], list[Summand]]:
    at = plan.sums(aggregate)
    return [sums[each] for each in at], [plan.summands[each] for each in at]


def _few(rows: Floats, least: float, ends: Ends, bounds: tuple[float, float]) -> Ends:
    """Return the ends, or the bounds where there are fewer rows than there must be."""
    few = rows < least
    if not few.any():
        return ends
    return np.where(few, bounds[0], ends[0]), np.where(few, bounds[1], ends[1])


def _mean_possible(aggregate: MeanOf, of: list[Summand], parts: list[Floats]) -> Ends:
    mean, slack = compute_aggregate(aggregate, of, parts), float(of[0].slack * of[0].step)
    bounds = aggregate_range(aggregate, of)
    ends = (mean, mean) if not slack else (np.clip(mean - slack, *bounds), np.clip(mean + slack, *bounds))
    return _few(parts[1], 1, ends, bounds)


def _with_slack(compute: Callable[[float], Floats], slack: Fraction) -> Ends:
    """Return what is computed with all of a slack taken off, and with all of it added."""
    low = compute(-float(slack))
    return low, (compute(float(slack)) if slack else low)


# ---- variances and what two numbers have in common ---------------------------------------------------------


def _variance_possible(aggregate: VarianceOf, of: list[Summand], parts: list[Floats]) -> Ends:
    low, high = _with_slack(lambda slack: compute_variance(aggregate, of, parts, slack), of[0].slack)
    return _few(parts[-1], 2 if aggregate.sample else 1, (low, high), aggregate_range(aggregate, of))


def _covariance_possible(aggregate: CovarianceOf, of: list[Summand], parts: list[Floats]) -> Ends:
    low, high = _with_slack(lambda slack: mean_product(of, parts, slack), of[0].slack)
    if aggregate.scaled:
        return _correlation_possible(of, parts, low, high)
    factor = sample_factor(parts[-1]) if aggregate.sample else 1.0
    return _few(
        parts[-1], 2 if aggregate.sample else 1, (low * factor, high * factor), aggregate_range(aggregate, of)
    )


def _correlation_possible(of: list[Summand], parts: list[Floats], low: Floats, high: Floats) -> Ends:
    """Return the ends of a correlation, −1 and 1 where one of the two may not vary at all."""
    slack = float(of[3].slack), float(of[4].slack)
    least = product_of_deviations(of, parts, (-slack[0], -slack[1]))
    most = product_of_deviations(of, parts, slack) if any(slack) else least
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
    """Return a number, a date or a listed value in every cell, as the domain of the value says.

    Where there are no rows, it is not a number.
    """
    if plan.is_empty:
        return np.full(noisy.cells, np.nan)
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

    That is the case for ends and modes, for answers from before quantiles had intervals, and for no rows.
    """
    if plan.is_empty:
        return None
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
    low, high = (
        decode_places(domain, each) for each in (np.minimum(ends[0], shown), np.maximum(ends[1], shown))
    )
    if not isinstance(domain, Numbers) or not part.error:
        return low, high
    # A value lies this far from its place on the grid at most.
    off = math.ceil(min(part.error, 2.0**61)) if domain.whole else part.error
    return low - off, high + off


# ---- averages ----------------------------------------------------------------------------------------------


def mean_interval(plan: QuestionPlan, aggregate: MeanOf, noisy: NoisyAnswer, confidence: float) -> Ends:
    """Return the ends of all means θ that the noise explains; see `has_closed_form`.

    Those are the θ for which |sum − θ·count| is not in the 1 − confidence tail of the noise of the sum
    less θ times the noise of the count. Where the noisy count is below one, nothing can be ruled out.
    """
    at = plan.sums(aggregate)
    sums, rows = (noisy.numbers(each) for each in at)
    summand = plan.summands[at[0]]
    inside = _explained_by((noisy.laws[at[0]], noisy.laws[at[1]]), summand.bound, confidence)

    def explained(mean: Floats) -> NDArray[np.bool_]:
        return inside(np.abs(sums - mean * rows), mean) | (rows < 1)

    middle = mean_deviation(summand, sums, rows)
    bound = np.full_like(middle, summand.bound)
    slack = float(summand.slack)
    ends = _furthest(explained, middle, -bound) - slack, _furthest(explained, middle, bound) + slack
    least, most = aggregate_range(aggregate, [summand])
    low, high = (np.clip((end + summand.centre) * float(summand.step), least, most) for end in ends)
    return low, high


def has_closed_form(plan: QuestionPlan, aggregate: MeanOf, noisy: NoisyAnswer) -> bool:
    """Return whether the law of a sum less any multiple of its number of rows is known.

    It is the same in all cells, and Gaussian, or of two Laplace draws at most, or that of a body's draw.
    """
    laws = [noisy.laws[each] for each in plan.sums(aggregate)]
    kinds = {type(draw.noise) for law in laws for draw in law.draws}
    if len(kinds) != 1 or not laws[0].draws or any(law.weights.shape[1] != 1 for law in laws):
        return False
    if kinds == {AddedDraws}:
        return False
    return kinds != {LaplaceNoise} or len(_list_shares(*laws)) <= 2


def _explained_by(
    laws: tuple[NoiseLaw, NoiseLaw], bound: int, confidence: float
) -> Callable[[Floats, Floats], NDArray[np.bool_]]:
    """Return a test of whether noise explains a distance of the sum from a mean times its rows."""
    (sums, rows), draws = laws, _list_shares(*laws)
    if isinstance(draws[0][0], BodyCoordinate) or any(_is_coarse(noise) for noise, *_ in draws):
        # How far noise reaches changes slowly with the mean: between a few of them it is read off a line.
        means = np.linspace(-bound, bound, _MEANS)
        reach = [float(combined_half_width([(1.0, sums), (-m, rows)], confidence)[0]) for m in means.tolist()]
        return lambda distance, mean: distance <= np.interp(mean, means, reach)
    tail_of = _two_laplace_tail if isinstance(draws[0][0], LaplaceNoise) else _gaussian_tail

    def explained(distance: Floats, mean: Floats) -> NDArray[np.bool_]:
        spreads = [np.abs(one - mean * other) * float(noise.spread) for noise, one, other in draws]
        return np.asarray(tail_of(distance, *spreads) >= 1 - confidence)

    return explained


def _is_coarse(noise: Any) -> bool:
    """Return whether noise is Gaussian and so narrow that rounding to whole numbers changes its tails."""
    return isinstance(noise, GaussianNoise) and noise.sigma < _SMOOTH


def _list_shares(sums: NoiseLaw, rows: NoiseLaw) -> list[tuple[Any, float, float]]:
    """Return every draw once, with its weight in a sum and in the number of its rows."""
    one, other = (
        dict(zip(law.draws, law.weights[:, 0].tolist(), strict=True)) if law.draws else {}
        for law in (sums, rows)
    )
    return [(draw.noise, one.get(draw, 0.0), other.get(draw, 0.0)) for draw in {**one, **other}]


def _furthest(explained: Callable[[Floats], NDArray[np.bool_]], near: Floats, far: Floats) -> Floats:
    """Return the last point from near to far that is explained, by bisection in every cell at once."""
    # What is explained is an interval around the middle, so bisection finds its end.
    inside, outside = near, far
    for _ in range(_HALVINGS):
        between = (inside + outside) / 2
        good = explained(between)
        inside, outside = np.where(good, between, inside), np.where(good, outside, between)
    return np.where(explained(far), far, inside)


def _gaussian_tail(distance: Floats, *deviations: Floats) -> Floats:
    """Return P(|sum| > distance) for independent Gaussian numbers of these deviations; any may be 0."""
    from scipy.special import erfc

    spread = np.sqrt(sum(np.square(each) for each in deviations))
    return np.asarray(erfc(distance / (math.sqrt(2) * spread)))


def _two_laplace_tail(distance: Floats, first: Floats, second: Floats | float = 0.0) -> Floats:
    """Return P(|X + Y| > distance) for independent Laplace X, Y of these scales; one of them may be 0."""
    # The formula divides by a difference of squares: scales that are equal or zero are moved apart a little.
    first, second = np.maximum(first, second), np.minimum(first, second)
    second = np.maximum(second, 1e-6 * first)
    second = np.where(np.abs(second - first) < 1e-6 * first, first * (1 - 1e-6), second)
    a, b = first**2, second**2
    return np.asarray((a * np.exp(-distance / first) - b * np.exp(-distance / second)) / (a - b))
