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
from sfumato.learn.itemsets.count_estimates import MOST_LOST, BiasReach, CountEstimate, bias_error
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
_WIDTHS = np.diff([0, *_CAPS, 2 * _CAPS[-1]]).astype(np.float64)
"""How many sizes each bar but that of 0 holds; the last is taken to end at twice its beginning."""
_DRAWS = 100
_SURE = 4.0
"""Bars of the histogram below so many deviations of their noise count as empty."""


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
    noisy: Floats | None = None
    """All bars as they were released."""
    deviation: float = 0.0
    """Deviation of the Laplace noise of each bar."""

    def bound_loss(self, weights: Floats) -> float:
        """Return the share of all conditions that is lost if bars have these weights, with room for noise.

        Bars that noise may have made count here, too: a few long transactions lose much. The room is two
        deviations of what the same noise makes of it when it is drawn again by public coins.
        """
        if self.noisy is None:
            return 0.0

        def lose(bars: Floats) -> Floats:
            met = bars * self.meets
            found: Floats = met @ (1 - weights) / np.maximum(1.0, met.sum(axis=-1))
            return found

        first = 1 + int(np.argmax(self.noisy[1:] / _WIDTHS))
        found = _smooth_tail(self.noisy, first)
        coins = np.random.default_rng(0).laplace(scale=self.deviation / 2**0.5, size=(_DRAWS, len(found)))
        spread = lose(_smooth_tail(found + coins, first)) - lose(found)
        return float(lose(found)) + 2 * math.sqrt(float(np.mean(spread**2)))

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
    return SizeHistogram(kept, meets, rows, bars, answer.deviation)


def _smooth_tail(bars: Floats, first: int) -> Floats:
    """Return bars that fall from one on, for their width: long transactions are rarer.

    Least squares under this condition give each bar the greatest, over ends after it, of the least mean over
    beginnings before it.
    """
    widths, tail = _WIDTHS[first - 1 :], bars[..., first:]
    sums, sizes = (np.concatenate([np.zeros((*each.shape[:-1], 1)), np.cumsum(each, axis=-1)], axis=-1)
                   for each in (tail, widths))  # fmt: skip
    falling = np.empty_like(tail)
    for at in range(len(widths)):
        means = (sums[..., None, at + 1 :] - sums[..., : at + 1, None]) / (
            sizes[at + 1 :] - sizes[: at + 1, None]
        )
        falling[..., at] = means.min(axis=-2).max(axis=-1) * widths[at]
    found: Floats = np.maximum(0.0, np.concatenate([bars[..., :first], falling], axis=-1))
    return found


@dataclass(frozen=True, slots=True)
class ContributionCap:
    """The weight of a transaction of each size in every condition that it meets, in 1/ONE."""

    size: TransactionSize
    weights: tuple[int, ...]
    lost: float
    """The share of all that would be counted that is not, about."""
    seen: SizeHistogram
    bars: Floats
    """The weight of a transaction in the middle of each bar."""

    def bound_loss(self) -> float:
        """Return the share that is lost, with room for the noise that hides long transactions."""
        return max(self.lost, self.seen.bound_loss(self.bars))

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
    return ContributionCap(size, weights, lost, seen, each)


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
    most_lost: float = 0.0
    """The share that may have been lost, where noise hides long transactions."""

    def estimate(self, place: int) -> CountEstimate:
        """Return one of the counts."""
        return self.make_estimate(float(self.values[place]), 1)

    def make_estimate(self, count: float, parts: int) -> CountEstimate:
        """Return the estimate that a sum of so many of these counts is."""
        deviation = self.deviation * math.sqrt(parts)
        reach = BiasReach.of(self.lost, max(self.lost, self.most_lost))
        return CountEstimate(count, deviation, self.laplace, self.lost, reach)


def ask_counts(
    oracle: Oracle, terms: Sequence[Value], chosen: ContributionCap, share: Fraction
) -> CappedCounts:
    """Ask for counts. The terms are conditions times the weight of the transaction."""
    (answer,) = oracle.sums([chosen.build_block(terms)], share=share)
    # Counts are scaled up by what was lost of all conditions on average; lost_ tells how much.
    whole = ONE * (1 - min(MOST_LOST, chosen.lost))
    deviation = answer.deviation / whole
    laplace = laplace_deviation(oracle.budget.main, deviation)
    values = answer.values[:, 0] / whole
    return CappedCounts(values, deviation, laplace, chosen.lost, chosen.bound_loss())


def laplace_deviation(spend: Spend, deviation: float) -> float:
    """Return the deviation of one noise paid for in this way if it is Laplace noise, else 0."""
    return deviation if isinstance(spend, PureSpend) else 0.0
