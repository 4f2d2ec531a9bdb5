"""From noisy integers to the numbers people asked for, with intervals for the noise. Post-processing only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.curator.measurement import Aggregate, Count, Mean

if TYPE_CHECKING:
    from sfumato.curator.plan import Measured, Plan

Floats = NDArray[np.float64]
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number a cell, and where the exact one lies with the stated confidence."""

    values: NDArray[Any]
    low: Floats
    high: Floats


def estimate(plan: Plan, aggregate: Aggregate, noisy: NDArray[Any], confidence: float) -> Estimate:
    at = plan.sums(aggregate)
    if isinstance(aggregate, Mean):
        return _mean(plan.measured[at[0]], plan.measured[at[1]], noisy[at[0]], noisy[at[1]], confidence)
    return _sum(plan.measured[at[0]], noisy[at[0]], confidence, whole=isinstance(aggregate, Count))


def _sum(measured: Measured, noisy: NDArray[Any], confidence: float, whole: bool) -> Estimate:
    step = float(measured.summand.step)
    half = measured.noise.half_width(confidence) * step
    values = noisy.astype(np.float64) * step
    return Estimate(noisy.astype(np.int64) if whole else values, values - half, values + half)


def _mean(
    total: Measured, count: Measured, sums: NDArray[Any], counts: NDArray[Any], confidence: float
) -> Estimate:
    """The quotient of a noisy sum of deviations and a noisy count, kept within the declared bounds.

    The interval holds every mean θ that the noise would explain: those for which |sum − θ·count| is not
    in the 1 − confidence tail of (noise of the sum) − θ·(noise of the count).
    """
    deviation, rows = sums.astype(np.float64), counts.astype(np.float64)
    bound = float(total.summand.bound)
    middle = np.clip(deviation / np.maximum(rows, 1.0), -bound, bound)

    def explained(mean: Floats) -> NDArray[np.bool_]:
        distance = np.abs(deviation - mean * rows)
        tail = _two_laplace_tail(distance, float(total.noise.scale), np.abs(mean) * float(count.noise.scale))
        return (tail >= 1 - confidence) | (rows < 1)

    low = _furthest(explained, middle, np.full_like(middle, -bound))
    high = _furthest(explained, middle, np.full_like(middle, bound))
    step, centre = float(total.summand.step), float(total.summand.centre)
    return Estimate(*((each + centre) * step for each in (middle, low, high)))


def _furthest(explained: Any, near: Floats, far: Floats) -> Floats:
    """The last point from near to far that is explained, by bisection in every cell at once."""
    inside, outside = near, far
    whole_way = explained(far)
    for _ in range(_HALVINGS):
        between = (inside + outside) / 2
        good = explained(between)
        inside, outside = np.where(good, between, inside), np.where(good, outside, between)
    return np.where(whole_way, far, inside)


def _two_laplace_tail(distance: Floats, first: float, second: Floats) -> Floats:
    """P(|X + Y| > distance) for independent Laplace X, Y of these scales."""
    second = np.maximum(second, 1e-6 * first)
    second = np.where(np.abs(second - first) < 1e-6 * first, first * (1 + 1e-6), second)
    a, b = first**2, second**2
    return np.asarray((a * np.exp(-distance / first) - b * np.exp(-distance / second)) / (a - b))
