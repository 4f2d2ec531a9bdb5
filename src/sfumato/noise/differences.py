"""The difference of two integer Laplace noises, in closed form, to the precision of doubles."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaplaceDifference:
    """D = X − Y for independent X and Y of these scales, which are equal or well apart.

    With r and s for e^(−1/scale), P(D = d) = c·Σ_k r^|k|·s^|d − k|, where c is the product of (1 − r)/(1 + r)
    and the same of s. For d ≥ 0 the sum over k < 0 and k > d is (r^d + s^d)·rs/(1 − rs), and that over the k
    in between is (s^(d+1) − r^(d+1))/(s − r), or (d + 1)·r^d where both are the same.
    """

    one: float
    other: float

    def reaching(self, t: int) -> float:
        """P(D ≥ t), for t ≥ 1: each power x^d is summed to x^t/(1 − x)."""
        r, s = _powers(self.one, t), _powers(self.other, t)
        if self.one == self.other:
            between = r.power * (t + 1 - t * r.ratio) / r.gap**2
        else:
            between = (s.power * s.ratio / s.gap - r.power * r.ratio / r.gap) / (r.gap - s.gap)
        return self._weight() * (self._ends() * (r.power / r.gap + s.power / s.gap) + between)

    def mean_size(self) -> float:
        """E|D| = 2·Σ P(D ≥ t) over t ≥ 1."""
        r, s = _powers(self.one, 1), _powers(self.other, 1)
        if self.one == self.other:
            between = 2 * r.ratio / r.gap**3
        else:
            between = ((s.ratio / s.gap) ** 2 - (r.ratio / r.gap) ** 2) / (r.gap - s.gap)
        return 2 * self._weight() * (self._ends() * (r.ratio / r.gap**2 + s.ratio / s.gap**2) + between)

    def rarely(self, chance: float) -> int:
        """The smallest t ≥ 1 with P(D ≥ t) ≤ chance."""
        low, high = 0, 1
        while self.reaching(high) > chance:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.reaching(middle) > chance else (low, middle)
        return high

    def _weight(self) -> float:
        return math.tanh(0.5 / self.one) * math.tanh(0.5 / self.other)

    def _ends(self) -> float:
        """rs/(1 − rs)."""
        rate = 1 / self.one + 1 / self.other
        return math.exp(-rate) / -math.expm1(-rate)


@dataclass(frozen=True, slots=True)
class _Powers:
    ratio: float
    gap: float
    power: float


def _powers(scale: float, t: int) -> _Powers:
    """x = e^(−1/scale), 1 − x without cancellation, and x^t."""
    return _Powers(math.exp(-1 / scale), -math.expm1(-1 / scale), math.exp(-t / scale))
