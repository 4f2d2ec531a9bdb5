"""Whether a pair of two losses, beside a reserve of Gaussian noise, is dominated by Gaussian noise.

The difference D of the two profiles has a second derivative with the signs of −r, where r is the logarithm of
a ratio of densities that is concave, convex, concave. So D can be negative only between two humps of r, where
D is convex (docs/proofs/gaussian-filter.md#choices): one point there decides. All arguments are arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Vector = NDArray[np.float64]

HALVINGS = 56
SMALLEST = 1e-10
"""Of the profile, far above what doubles lose in its difference to another."""


@dataclass
class Pairs:
    """Pairs with the losses `low` < 0 < `high`, a reserve, and the μ² that shall dominate both."""

    low: Vector
    high: Vector
    reserve: Vector
    total: Vector

    def __post_init__(self) -> None:
        self.likely = -np.expm1(self.low) / (np.exp(self.high) - np.exp(self.low))
        """Chance of the higher loss under the second law."""
        self.rarely = np.expm1(self.high) / (np.exp(self.high) - np.exp(self.low))
        width, bend = self.high - self.low, (self.total - self.reserve) / (self.reserve * self.total)
        # r'' = (width/reserve)²·s(1 − s) − bend, where s is the weight of the higher loss.
        needed = np.minimum(bend * self.reserve**2 / width**2, 0.25)
        self.has_zone = needed < 0.25
        root = np.sqrt(0.25 - needed)
        half = np.log((0.5 + root) / (0.5 - root)) * self.reserve / width
        middle = np.log(self.rarely / self.likely) * self.reserve / width
        middle += (self.high + self.low - self.reserve) / 2
        self.start, self.end = middle - half, middle + half

    def are_dominated(self) -> NDArray[np.bool_]:
        """Whether Gaussian noise of `total` dominates, in both directions."""
        spread = self.high - self.low + 40 * np.sqrt(self.total)
        far = spread * self.total / (self.total - self.reserve)
        bottom = find_rise(self.log_slope, self.start, self.end)
        right = find_rise(lambda x: -self.log_slope(x), self.end, self.end + far)
        left = find_rise(lambda x: -self.log_slope(x), self.start - far, self.start)
        humps = (self.log_ratio(bottom) < 0) & (self.log_ratio(left) > 0) & (self.log_ratio(right) > 0)
        humps &= (bottom > self.start) & (bottom < self.end) & self.has_zone
        within = (self.log_slope(self.start - far) > 0) & (self.log_slope(self.end + far) < 0)
        first = find_rise(lambda x: -self.log_ratio(x), left, bottom)
        last = find_rise(self.log_ratio, bottom, right)
        falls_and_rises = (self.slope(first) < 0) & (self.slope(last) > 0)
        lowest = find_rise(self.slope, first, last)
        least = self.difference(lowest) - np.abs(self.slope(lowest)) * (np.exp(last) - np.exp(first))
        positive = least > SMALLEST * profile(lowest, 0.0, self.total)
        return within & (~humps | ~falls_and_rises | positive)

    def log_ratio(self, x: Vector) -> Vector:
        """The logarithm r of the density of the pair's loss over that of Gaussian noise."""
        high, low = self._log_parts(x)
        mine = np.logaddexp(high, low) - np.log(self.reserve) / 2
        return mine + (x + self.total / 2) ** 2 / (2 * self.total) + np.log(self.total) / 2

    def log_slope(self, x: Vector) -> Vector:
        """The derivative of r."""
        high, low = self._log_parts(x)
        weight = 1 / (1 + np.exp(np.clip(low - high, -700, 700)))
        mean = weight * self.high + (1 - weight) * self.low
        return (mean - x - self.reserve / 2) / self.reserve + (x + self.total / 2) / self.total

    def slope(self, x: Vector) -> Vector:
        """The derivative of D by e^x."""
        mine = self.likely * tail(x, self.high, self.reserve) + self.rarely * tail(x, self.low, self.reserve)
        return mine - tail(x, 0.0, self.total)

    def difference(self, x: Vector) -> Vector:
        """The profile of Gaussian noise at ε = x, minus that of the pair beside the reserve."""
        mine = self.likely * profile(x, self.high, self.reserve)
        return profile(x, 0.0, self.total) - mine - self.rarely * profile(x, self.low, self.reserve)

    def _log_parts(self, x: Vector) -> tuple[Vector, Vector]:
        high = np.log(self.likely) - (x - self.high + self.reserve / 2) ** 2 / (2 * self.reserve)
        low = np.log(self.rarely) - (x - self.low + self.reserve / 2) ** 2 / (2 * self.reserve)
        return high, low


def find_rise(function: Callable[[Vector], Vector], low: Vector, high: Vector) -> Vector:
    """Where a function goes from below 0 to above it; an end of the interval if it does not."""
    low, high = np.broadcast_arrays(low, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = function(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def tail(x: Vector, shift: Vector | float, variance: Vector) -> Vector:
    """The chance, under the second law, of a loss above x."""
    return np.asarray(ndtr((shift - variance / 2 - x) / np.sqrt(variance)))


def profile(x: Vector, shift: Vector | float, variance: Vector) -> Vector:
    """The part of δ at ε = x, where the loss is shifted Gaussian."""
    root = np.sqrt(variance)
    near = np.exp(shift) * ndtr((shift + variance / 2 - x) / root)
    return np.asarray(near - np.exp(x) * ndtr((shift - variance / 2 - x) / root))
