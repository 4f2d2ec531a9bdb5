"""From noisy integers to the numbers people asked for, with intervals for the noise. Post-processing only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.curator.measurement import Aggregate, Count, Mean
from sfumato.noise import Gaussian, Laplace

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.plan import Measured, Plan
    from sfumato.curator.spend import Noise

Floats = NDArray[np.float64]
_HALVINGS = 60


def values(plan: Plan, aggregate: Aggregate, noisy: NDArray[Any]) -> NDArray[Any]:
    """One number a cell: an integer for a count, a double otherwise."""
    at = plan.sums(aggregate)
    total, sums = plan.measured[at[0]], np.asarray(noisy[at[0]])
    if isinstance(aggregate, Count):
        return sums.astype(np.int64)
    if isinstance(aggregate, Mean):
        return _shown(total, _deviation(total, sums, noisy[at[1]]))
    return _shown(total, sums.astype(np.float64))


def interval(
    plan: Plan, aggregate: Aggregate, noisy: NDArray[Any], confidence: float
) -> tuple[Floats, Floats]:
    """Where the exact number of each cell lies, with this confidence."""
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
