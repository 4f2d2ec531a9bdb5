"""How many transactions each of many conditions holds in, where a transaction weighs only so much in all.

A transaction that meets at most m conditions counts fully in each; one that meets more counts less in each,
so that what it adds in all stays what m conditions add. By how much less is a public function of how many
it meets. Which m is best follows from a noisy histogram of those numbers.

Because : docs/proofs/itemsets.md#capped-counts
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.spend import PureSpend
from sfumato.oracle.blocks import COUNT, CellKey, Lookup, SumBlock, share_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

ONE = 2**8
"""What a transaction adds to a condition that it counts fully in."""
_CAPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SURE = 4.0
"""Bars of the histogram that are lower than so many scales of their noise count as empty."""
_BIAS = 0.25
"""A share that is lost of all counts alike does little harm; this much of it is taken for an error."""
_MOST_LOST = 0.9


@dataclass(frozen=True, slots=True)
class Estimate:
    """A noisy count. `step` is the deviation of the largest of the independent Laplace noises that are in it,
    and 0 where the noise is Gaussian."""

    count: float
    deviation: float
    step: float
    lost: float = 0.0
    """The share of a count that was not counted, about, and is made up for."""


def blended(parts: Sequence[Estimate]) -> Estimate:
    """Independent estimates of one count, each by how sure it is."""
    sure = [1 / (each.deviation**2 + (_BIAS * each.lost * each.count) ** 2) for each in parts]
    shares = [each / sum(sure) for each in sure]
    paired = list(zip(parts, shares, strict=True))
    return Estimate(
        sum(each.count * share for each, share in paired),
        math.sqrt(sum((each.deviation * share) ** 2 for each, share in paired)),
        max(each.step * share for each, share in paired),
        sum(each.lost * share for each, share in paired),
    )


@dataclass(frozen=True, slots=True)
class Size:
    """An integer of a transaction, from 0 up, and how many conditions it meets where it has it."""

    value: Value
    meets: tuple[int, ...]

    @property
    def bars(self) -> tuple[int, ...]:
        """Which bar of the histogram a size is in: sizes that meet about as much are in one."""
        return tuple(int(np.searchsorted(_CAPS, meets)) + 1 if meets else 0 for meets in self.meets)


@dataclass(frozen=True, slots=True)
class Sizes:
    """A noisy histogram of sizes."""

    bars: Floats
    """Without those that noise alone may have made."""
    meets: Floats
    """How many conditions a transaction of a bar meets, about."""
    rows: Estimate
    """How many transactions there are."""

    @property
    def mean(self) -> float:
        return float(self.bars @ self.meets) / max(1.0, float(self.bars.sum()))


def sizes(oracle: Oracle, size: Size, share: Fraction) -> Sizes:
    """A transaction is in one bar."""
    spend = oracle.budget.aside
    if spend is None:
        raise AssertionError("a histogram of sizes is paid for aside")
    key = CellKey(Lookup(size.value, size.bars), len(_CAPS) + 2)
    (answer,) = oracle.sums([SumBlock((COUNT,), 1, 1)], [key], share=share, out_of=spend)
    bars = answer.values[0]
    kept = np.where(bars < _SURE * answer.deviation, 0.0, bars)
    kept[0] = max(0.0, bars[0])
    lows, highs = (1, *(cap + 1 for cap in _CAPS)), (*_CAPS, 2 * _CAPS[-1])
    meets = np.array([0.0, *((low + high) / 2 for low, high in zip(lows, highs, strict=True))])
    deviation = answer.deviation * math.sqrt(len(bars))
    rows = Estimate(max(1.0, float(bars.sum())), deviation, answer.deviation)
    return Sizes(kept, meets, rows)


@dataclass(frozen=True, slots=True)
class Cap:
    """What a transaction of each size adds to every condition it meets, in 1/ONE."""

    size: Size
    weights: tuple[int, ...]
    lost: float
    """Of all that would be counted, this share is not, about."""

    def block(self, terms: Sequence[Value], share: Fraction = Fraction(1)) -> SumBlock:
        """The most that a transaction of any size adds."""
        pairs = list(zip(self.size.meets, self.weights, strict=True))
        l1 = max(meets * weight for meets, weight in pairs)
        l2_squared = max(meets * weight * weight for meets, weight in pairs)
        return SumBlock(tuple(terms), max(1, l1), max(1, l2_squared), share)

    @property
    def weight(self) -> Value:
        return Lookup(self.size.value, self.weights)


def cap(oracle: Oracle, size: Size, seen: Sizes, typical: float, share: Fraction) -> Cap:
    """The cap at which noise and what is lost of a typical count are least together."""
    spend = share_of(oracle.budget.main, share)
    choices = [_capped(size, seen, most, spend) for most in _CAPS if most <= max(1, *size.meets)]

    def harm(choice: Cap) -> float:
        (noise,) = oracle.noise([choice.block(())], spend)
        return noise.deviation / ONE + _BIAS * choice.lost * typical

    return min(choices, key=harm)


def _capped(size: Size, seen: Sizes, most: int, spend: Spend) -> Cap:
    weights = tuple(_weight(meets, most, spend) for meets in size.meets)
    each = np.array([_weight(round(meets), most, spend) / ONE for meets in seen.meets.tolist()])
    whole = float(seen.bars @ seen.meets)
    lost = 1 - float(seen.bars @ (seen.meets * each)) / whole if whole else 0.0
    return Cap(size, weights, lost)


def _weight(meets: int, most: int, spend: Spend) -> int:
    """Laplace noise is for what is added in all, Gaussian noise for the root of the sum of squares."""
    if meets <= most:
        return ONE
    if isinstance(spend, PureSpend):
        return ONE * most // meets
    return math.isqrt(ONE * ONE * most // meets)


@dataclass(frozen=True, slots=True)
class Counts:
    """Noisy counts, made up for what was lost of all of them on average."""

    values: Floats
    deviation: float
    step: float
    lost: float

    def estimate(self, place: int) -> Estimate:
        return Estimate(float(self.values[place]), self.deviation, self.step, self.lost)


def counts(oracle: Oracle, terms: Sequence[Value], chosen: Cap, share: Fraction) -> Counts:
    """The terms are conditions times the weight of the transaction."""
    (answer,) = oracle.sums([chosen.block(terms)], share=share)
    whole = ONE * (1 - min(_MOST_LOST, chosen.lost))
    deviation = answer.deviation / whole
    return Counts(answer.values[:, 0] / whole, deviation, step(oracle.budget.main, deviation), chosen.lost)


def step(spend: Spend, deviation: float) -> float:
    """Of one noise that was paid for in this way."""
    return deviation if isinstance(spend, PureSpend) else 0.0
