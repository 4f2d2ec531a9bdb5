"""Counts of transactions by many conditions, where a transaction contributes only so much in all.

A transaction that meets at most m conditions counts fully in each; one that meets more counts less in each,
so that its contribution to all counts stays that of m conditions. By how much less is a public function of
how many it meets. Which cap m is best follows from a noisy histogram of those numbers.

Because : docs/proofs/itemsets.md#capped-counts
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.spend import PureSpend
from sfumato.learn.itemsets.count_estimates import CountEstimate, bias_error
from sfumato.oracle.blocks import COUNT, CellKey, Lookup, SumBlock, share_of
from sfumato.privacy.events import pack_moves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Chosen with benchmarks/itemsets.py. Privacy depends on none: noise is for the largest contribution that the
# weights allow, whatever they are.
ONE = 2**8
"""The weight of a transaction in a condition that it counts fully in."""
_CAPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SURE = 4.0
"""Bars of the histogram below so many deviations of their noise count as empty."""
_MOST_LOST = 0.9


@dataclass(frozen=True, slots=True)
class TransactionSize:
    """An integer of a transaction, from 0 up, and how many conditions a transaction with it meets."""

    value: Value
    meets: tuple[int, ...]

    @property
    def bars(self) -> tuple[int, ...]:
        """Which bar of the histogram a size is in: sizes that meet about as much are in one."""
        return tuple(int(np.searchsorted(_CAPS, meets)) + 1 if meets else 0 for meets in self.meets)


@dataclass(frozen=True, slots=True)
class SizeHistogram:
    """A noisy histogram of sizes."""

    bars: Floats
    """Without those that noise alone may have made."""
    meets: Floats
    """Number of conditions that a transaction of each bar meets, about."""
    rows: CountEstimate
    """Number of transactions."""

    @property
    def mean(self) -> float:
        """Mean number of conditions that a transaction meets."""
        return float(self.bars @ self.meets) / max(1.0, float(self.bars.sum()))


def ask_sizes(oracle: Oracle, size: TransactionSize, share: Fraction) -> SizeHistogram:
    """Ask for a histogram of sizes; a transaction is in one bar."""
    spend = oracle.budget.aside
    if spend is None:
        raise AssertionError("a histogram of sizes is paid for aside")
    key = CellKey(Lookup(size.value, size.bars), len(_CAPS) + 2)
    (answer,) = oracle.sums([SumBlock((COUNT,), 1, 1)], [key], share=share, out_of=spend)
    bars = answer.values[0]
    kept = np.where(bars < _SURE * answer.deviation, 0.0, bars)
    # Transactions that meet nothing add nothing, so their bar may be noisy.
    kept[0] = max(0.0, bars[0])
    lows, highs = (1, *(cap + 1 for cap in _CAPS)), (*_CAPS, 2 * _CAPS[-1])
    # The middle of each bar stands for all sizes in it.
    meets = np.array([0.0, *((low + high) / 2 for low, high in zip(lows, highs, strict=True))])
    deviation = answer.deviation * math.sqrt(len(bars))
    rows = CountEstimate(max(1.0, float(bars.sum())), deviation, answer.deviation)
    return SizeHistogram(kept, meets, rows)


@dataclass(frozen=True, slots=True)
class ContributionCap:
    """The weight of a transaction of each size in every condition that it meets, in 1/ONE."""

    size: TransactionSize
    weights: tuple[int, ...]
    lost: float
    """The share of all that would be counted that is not, about."""

    def build_block(self, terms: Sequence[Value], share: Fraction = Fraction(1)) -> SumBlock:
        """Return the sums of these terms, with the largest contribution of a transaction of any size."""
        pairs = list(zip(self.size.meets, self.weights, strict=True))
        l1 = max(1, *(meets * weight for meets, weight in pairs))
        l2_squared = max(meets * weight * weight for meets, weight in pairs)
        moves = pack_moves(l1, max(1, *self.weights))
        return SumBlock(tuple(terms), l1, max(1, l2_squared), share, moves=moves)

    @property
    def weight(self) -> Value:
        """The weight of a transaction."""
        return Lookup(self.size.value, self.weights)


def choose_cap(
    oracle: Oracle, size: TransactionSize, seen: SizeHistogram, typical: float, share: Fraction
) -> ContributionCap:
    """Return the cap at which noise, and what is lost of a typical count, are least together."""
    spend = share_of(oracle.budget.main, share)
    choices = [_make_cap(size, seen, most, spend) for most in _CAPS if most <= max(1, *size.meets)]

    def error(choice: ContributionCap) -> float:
        (noise,) = oracle.noise([choice.build_block(())], spend)
        return noise.deviation / ONE + bias_error(choice.lost, typical)

    return min(choices, key=error)


def _make_cap(size: TransactionSize, seen: SizeHistogram, most: int, spend: Spend) -> ContributionCap:
    weights = tuple(_weigh(meets, most, spend) for meets in size.meets)
    each = np.array([_weigh(round(meets), most, spend) / ONE for meets in seen.meets.tolist()])
    whole = float(seen.bars @ seen.meets)
    lost = 1 - float(seen.bars @ (seen.meets * each)) / whole if whole else 0.0
    return ContributionCap(size, weights, lost)


def _weigh(meets: int, most: int, spend: Spend) -> int:
    """Return the weight at which a transaction contributes what `most` conditions do, rounded down.

    Laplace noise is for the ℓ1 norm of a contribution, Gaussian noise for its ℓ2 norm.
    """
    if meets <= most:
        return ONE
    if isinstance(spend, PureSpend):
        return ONE * most // meets
    return math.isqrt(ONE * ONE * most // meets)


@dataclass(frozen=True, slots=True)
class CappedCounts:
    """Noisy counts, made up for what was lost of all of them on average."""

    values: Floats
    deviation: float
    laplace: float
    """Deviation of one Laplace noise, or 0 where the noise is Gaussian."""
    lost: float

    def estimate(self, place: int) -> CountEstimate:
        """Return one of the counts."""
        return CountEstimate(float(self.values[place]), self.deviation, self.laplace, self.lost)


def ask_counts(
    oracle: Oracle, terms: Sequence[Value], chosen: ContributionCap, share: Fraction
) -> CappedCounts:
    """Ask for counts. The terms are conditions times the weight of the transaction."""
    (answer,) = oracle.sums([chosen.build_block(terms)], share=share)
    # Counts are scaled up by what was lost of all conditions on average; lost_ tells how much.
    whole = ONE * (1 - min(_MOST_LOST, chosen.lost))
    deviation = answer.deviation / whole
    laplace = laplace_deviation(oracle.budget.main, deviation)
    return CappedCounts(answer.values[:, 0] / whole, deviation, laplace, chosen.lost)


def laplace_deviation(spend: Spend, deviation: float) -> float:
    """Return the deviation of one noise paid for in this way if it is Laplace noise, else 0."""
    return deviation if isinstance(spend, PureSpend) else 0.0
