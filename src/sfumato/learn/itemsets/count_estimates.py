"""Noisy counts with their uncertainty: intervals, and how independent estimates of one count are combined.

Because : docs/proofs/itemsets.md#intervals
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sfumato.privacy.exact import parse_confidence

if TYPE_CHECKING:
    from collections.abc import Sequence

_BIAS = 0.25
"""Part of the lost share of a count that is taken for an error. A share that is lost of all counts alike does
little harm to their order. Chosen with benchmarks/itemsets.py; privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class CountEstimate:
    """A noisy count."""

    count: float
    deviation: float
    laplace: float
    """Deviation of the largest of the independent Laplace noises that are in it; 0 for Gaussian noise."""
    lost: float = 0.0
    """The share of a count that was not counted, about, and is made up for."""

    def interval(self, confidence: Any) -> tuple[float, float]:
        """Return between which numbers the count lies with this confidence, as far as noise goes."""
        half = half_width(self.deviation, self.laplace, confidence)
        return max(0.0, self.count - half), max(0.0, self.count + half)


def combine_estimates(parts: Sequence[CountEstimate]) -> CountEstimate:
    """Return the mean of independent estimates of one count, weighted by the inverse of their variances."""
    precisions = [1 / (each.deviation**2 + bias_error(each.lost, each.count) ** 2) for each in parts]
    shares = [each / sum(precisions) for each in precisions]
    paired = list(zip(parts, shares, strict=True))
    return CountEstimate(
        sum(each.count * share for each, share in paired),
        math.sqrt(sum((each.deviation * share) ** 2 for each, share in paired)),
        max(each.laplace * share for each, share in paired),
        sum(each.lost * share for each, share in paired),
    )


def bias_error(lost: float, count: float) -> float:
    """Return the error that losing this share of a count is taken for."""
    return _BIAS * lost * count


# ---- intervals ---------------------------------------------------------------------------------------------


def half_width(deviation: float, laplace: float, confidence: Any) -> float:
    """Return what noise of this deviation stays below, in absolute value, with this confidence.

    `laplace` is the deviation of the largest of the Laplace noises that it is the sum of, or 0 for Gaussian
    noise. One Laplace noise exceeds t scales with chance e^(−t). The moment generating function of several is
    at most that of variance / laplace² equal ones, and Chernoff's bound follows. Noise is drawn on a grid of
    whole numbers or finer, for which a twelfth and 1 are added.
    """
    rare = float(1 - parse_confidence(confidence))
    if not laplace:
        return deviation * NormalDist().inv_cdf(1 - rare / 2)
    parts, scale = (deviation / laplace) ** 2, math.sqrt(laplace**2 / 2 + 1 / 12)
    if parts < 1 + 1e-9:
        return scale * math.log(1 / rare) + 1
    return scale * _minimize_chernoff(parts, math.log(2 / rare))


def _minimize_chernoff(parts: float, rare: float) -> float:
    """Return the minimum of (rare − parts·log(1 − x²)) / x for x below 1, where its derivative is 0."""
    low, high = 0.0, 1.0
    for _ in range(60):
        x = (low + high) / 2
        falls = 2 * parts * x * x / (1 - x * x) + parts * math.log1p(-x * x) < rare
        low, high = (x, high) if falls else (low, x)
    return (rare - parts * math.log1p(-low * low)) / low
