"""From noisy integers to the numbers people asked for, with intervals for the noise. Post-processing only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.curator.measurement import Aggregate, Count, Mean, Units, Variance
from sfumato.noise import Gaussian, Laplace

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.plan import Measured, Plan
    from sfumato.curator.spend import Noise

Floats = NDArray[np.float64]
_HALVINGS = 60


def values(plan: Plan, aggregate: Aggregate, noisy: NDArray[Any]) -> NDArray[Any]:
    """One number a cell: an integer for a count, a double otherwise."""
    if isinstance(aggregate, Variance):
        return _variance(plan, aggregate, noisy)
    at = plan.sums(aggregate)
    total, sums = plan.measured[at[0]], np.asarray(noisy[at[0]])
    if isinstance(aggregate, Count | Units):
        return sums.astype(np.int64)
    if isinstance(aggregate, Mean):
        return _shown(total, _deviation(total, sums, noisy[at[1]]))
    return _shown(total, sums.astype(np.float64))


def interval(
    plan: Plan, aggregate: Aggregate, noisy: NDArray[Any], confidence: float
) -> tuple[Floats, Floats]:
    """Where the exact number of each cell lies, with this confidence."""
    if isinstance(aggregate, Variance):
        return _variance_interval(plan, aggregate, noisy, confidence)
    at = plan.sums(aggregate)
    total, sums = plan.measured[at[0]], noisy[at[0]].astype(np.float64)
    if isinstance(aggregate, Mean):
        ends = _mean_interval(total, plan.measured[at[1]], sums, noisy[at[1]].astype(np.float64), confidence)
    else:
        half = total.noise.half_width(confidence)
        ends = sums - half, sums + half
    return _shown(total, ends[0]), _shown(total, ends[1])


def _shown(measured: Measured, steps: Floats) -> Floats:
    return (steps + measured.summand.centre) * float(measured.summand.step)


def _deviation(total: Measured, sums: NDArray[Any], counts: NDArray[Any]) -> Floats:
    """The mean deviation from the centre, kept within what is possible; of few rows as of one."""
    bound = float(total.summand.bound)
    rows = np.maximum(counts.astype(np.float64), 1.0)
    return np.clip(sums.astype(np.float64) / rows, -bound, bound)


def _mean_interval(
    total: Measured, count: Measured, sums: Floats, rows: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Every mean θ that the noise would explain.

    Those are the θ for which |sum − θ·count| is not in the 1 − confidence tail of the noise of the sum
    less θ times the noise of the count. Where the noisy count is below one, nothing can be ruled out.
    """

    def explained(mean: Floats) -> NDArray[np.bool_]:
        distance = np.abs(sums - mean * rows)
        tail = _tail(distance, total.noise, count.noise, np.abs(mean))
        return (tail >= 1 - confidence) | (rows < 1)

    middle = _deviation(total, sums, rows)
    bound = np.full_like(middle, total.summand.bound)
    return _furthest(explained, middle, -bound), _furthest(explained, middle, bound)


def _furthest(explained: Callable[[Floats], NDArray[np.bool_]], near: Floats, far: Floats) -> Floats:
    """The last point from near to far that is explained, by bisection in every cell at once."""
    inside, outside = near, far
    for _ in range(_HALVINGS):
        between = (inside + outside) / 2
        good = explained(between)
        inside, outside = np.where(good, between, inside), np.where(good, outside, between)
    return np.where(explained(far), far, inside)


def _tail(distance: Floats, first: Noise, second: Noise, weight: Floats) -> Floats:
    """P(|X + weight·Y| > distance) for independent noise of one kind."""
    if isinstance(first, Laplace) and isinstance(second, Laplace):
        return _two_laplace_tail(distance, float(first.scale), weight * float(second.scale))
    if isinstance(first, Gaussian) and isinstance(second, Gaussian):
        from scipy.special import erfc

        deviation = np.hypot(float(first.sigma), weight * float(second.sigma))
        return np.asarray(erfc(distance / (math.sqrt(2) * deviation)))
    raise TypeError("a question draws noise of one kind")


def _two_laplace_tail(distance: Floats, first: float, second: Floats) -> Floats:
    """P(|X + Y| > distance) for independent Laplace X, Y of these scales."""
    second = np.maximum(second, 1e-6 * first)
    second = np.where(np.abs(second - first) < 1e-6 * first, first * (1 + 1e-6), second)
    a, b = first**2, second**2
    return np.asarray((a * np.exp(-distance / first) - b * np.exp(-distance / second)) / (a - b))


# ---- variances ---------------------------------------------------------------------------------------------


def _variance(plan: Plan, aggregate: Variance, noisy: NDArray[Any]) -> Floats:
    """The mean square of the deviations less the square of their mean."""
    squares, deviations, rows = (noisy[at].astype(np.float64) for at in plan.sums(aggregate))
    square, deviation, _ = (plan.measured[at] for at in plan.sums(aggregate))
    mean = _deviation(deviation, deviations, rows) * float(deviation.summand.step)
    mean_square = _deviation(square, squares, rows) * float(square.summand.step)
    return _as_asked(plan, aggregate, mean_square - mean**2, rows)


def _variance_interval(
    plan: Plan, aggregate: Variance, noisy: NDArray[Any], confidence: float
) -> tuple[Floats, Floats]:
    """Wider than needed: mean square, mean and rows each miss theirs with a third of the chance allowed."""
    squares, deviations, rows = (noisy[at].astype(np.float64) for at in plan.sums(aggregate))
    square, deviation, count = (plan.measured[at] for at in plan.sums(aggregate))
    each = 1 - (1 - confidence) / 3
    lowest, highest = _mean_interval(square, count, squares, rows, each)
    left, right = _mean_interval(deviation, count, deviations, rows, each)
    nearest = np.maximum(0.0, np.maximum(left, -right))
    furthest = np.maximum(-left, right)
    step, squared_step = float(square.summand.step), float(deviation.summand.step) ** 2
    low = lowest * step - furthest**2 * squared_step
    high = (highest + square.summand.slack) * step - nearest**2 * squared_step
    half = count.noise.half_width(each)
    return _as_asked(plan, aggregate, low, rows + half), _as_asked(plan, aggregate, high, rows - half)


def _as_asked(plan: Plan, aggregate: Variance, variance: Floats, rows: Floats) -> Floats:
    """Kept within what is possible; of a sample, of which two rows are the fewest; its root."""
    column = plan.table.column(aggregate.column)
    kept = np.clip(variance, 0.0, float(plan.table.columns[column].reach(column)) ** 2)
    rows = np.maximum(rows, 2.0)
    shown = kept * (rows / (rows - 1)) if aggregate.sample else kept
    return np.asarray(np.sqrt(shown) if aggregate.root else shown)
