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

MOST_LOST = 0.9
"""The largest share of a count that is made up for."""
_LARGEST_ODDS = 3.0
"""How many times as large as on average the odds are, at most, that a transaction with an itemset is not
counted. Chosen with benchmarks/itemsets.py --losses on generated sets, none of which is reported. Privacy
does not depend on it."""
_BIAS = 0.25
"""Part of the lost share of a count that is taken for an error. A share that is lost of all counts alike does
little harm to their order. Chosen with benchmarks/itemsets.py; privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class BiasReach:
    """What an estimate without its noise is multiplied by for the least and the greatest true count."""

    below: float = 1.0
    above: float = 1.0

    @classmethod
    def of(cls, lost: float, most_lost: float) -> BiasReach:
        """Return the reach of a count that was made up for the share that all counts lose on average.

        That share may be as large as `most_lost`. An itemset may lose nothing; at most it is taken to lose so
        much that its odds of being lost are those of all, so many times: of the odds o of all, 1 + times · o
        is what its count is divided by.
        """
        kept, odds = 1 - min(MOST_LOST, lost), 1 / (1 - min(MOST_LOST, most_lost)) - 1
        return cls(kept, kept * (1 + _LARGEST_ODDS * odds))

    def widen(self, count: float, half: float) -> tuple[float, float]:
        """Return between which numbers the true count lies, if noise is at most this much."""
        return max(0.0, self.below * (count - half)), max(0.0, self.above * (count + half))


@dataclass(frozen=True, slots=True)
class CountEstimate:
    """A noisy count."""

    count: float
    deviation: float
    laplace: float
    """Deviation of the largest of the independent Laplace noises that are in it; 0 for Gaussian noise."""
    lost: float = 0.0
    """The share of a count that was not counted, about, and is made up for."""
    reach: BiasReach = BiasReach()
    """How far the true count can be from this one without its noise, as long transactions count less."""

    def interval(self, confidence: Any) -> tuple[float, float]:
        """Return between which numbers the true count lies with this confidence."""
        return self.reach.widen(self.count, half_width(self.deviation, self.laplace, confidence))


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
        _combine_reaches([each.reach for each in parts], shares),
    )


def _combine_reaches(parts: Sequence[BiasReach], shares: Sequence[float]) -> BiasReach:
    """Return the reach of a mean of estimates of one count.

    Of the ends that each estimate gives, the mean is taken that weighs noise as the mean of estimates does.
    """
    paired = list(zip(parts, shares, strict=True))
    return BiasReach(
        1 / sum(share / each.below for each, share in paired),
        1 / sum(share / each.above for each, share in paired),
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
