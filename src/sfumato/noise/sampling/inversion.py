"""Exact sampling by inversion: draw U uniform in [0, 1), answer the k with P(X < k) ≤ U < P(X < k + 1).

U is never rounded. Its bits are drawn as they are needed: sixteen, which settle almost every draw by one
look into a table; then 64 in all; then as many as it takes. An answer is given only when the bits drawn so
far decide it, so its law is exactly that of X, tails included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy.exact import exact

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number as Confidence

_BLOCK = 2**16  # so many draws at a time that their arrays stay in the processor's cache


class IntegerLaw(Protocol):
    """The law of an integer X."""

    def below(self, ks: range, bits: int) -> list[int]:
        """For each k an integer t with t ≤ 2^bits · P(X < k) ≤ t + 2: so u < t tells that the number whose
        first bits are u lies below the probability, u ≥ t + 2 that it does not, and else one cannot tell.
        It is −2 where the probability is 0, and 2^bits where it is 1, which always tells."""


class PartialNumber(Protocol):
    """A number in [0, 1) of which some bits are known: value ≤ number · 2^bits < value + 1."""

    @property
    def value(self) -> int: ...

    @property
    def bits(self) -> int: ...

    def extend(self) -> None:
        """Learn more bits."""


@dataclass(slots=True)
class UniformDraw:
    """A uniform number, drawn bit by bit."""

    value: int
    bits: int
    source: BitSource

    def extend(self) -> None:
        self.value = self.value << 64 | int(self.source.words(1)[0])
        self.bits += 64


@dataclass(slots=True)
class RationalNumber:
    """A rational number."""

    number: Fraction
    bits: int = 64

    @property
    def value(self) -> int:
        return (self.number.numerator << self.bits) // self.number.denominator

    def extend(self) -> None:
        self.bits += 64


def invert(law: IntegerLaw, number: PartialNumber, near: int = 0) -> int:
    """The k with P(X < k) ≤ number < P(X < k + 1), searched outwards from `near`."""
    low, high, step = near, near + 1, 1
    while not _reaches(number, law, low):
        low, high, step = low - step, low, 2 * step
    while _reaches(number, law, high):
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _reaches(number, law, middle) else (low, middle)
    return low


def half_width(law: IntegerLaw, confidence: Confidence) -> int:
    """The smallest t with P(|X| ≤ t) ≥ confidence, for a symmetric law: −t is then a quantile of it."""
    share = exact(confidence, "confidence")
    if not 0 <= share < 1:
        raise UsageError("SF-N204", "confidence must be at least 0 and below 1.", got=str(confidence)[:40])
    return -invert(law, RationalNumber((1 - share) / 2))


def _reaches(number: PartialNumber, law: IntegerLaw, k: int) -> bool:
    """Whether P(X < k) ≤ number, learning bits until they tell."""
    while True:
        [threshold] = law.below(range(k, k + 1), number.bits)
        if not 0 <= number.value - threshold < 2:
            return number.value > threshold
        number.extend()


@dataclass(frozen=True, slots=True)
class InversionTable:
    """A law made ready for many draws at once."""

    law: IntegerLaw
    first: int
    """The integer that cell 0 stands for; cell i is taken when exactly i thresholds lie at or below U."""
    thresholds: NDArray[np.uint64]
    """For each k a t with t ≤ 2^64 · P(X < k) ≤ t + doubt, ascending."""
    doubt: int
    cells: NDArray[np.int16]
    """By the first sixteen bits of U: the cell, or −1 where they cannot tell."""

    @classmethod
    def of(cls, law: IntegerLaw, ks: range) -> InversionTable:
        """For these k. X lies outside them with probability 0 or below 2^−64."""
        least = [max(threshold, 0) for threshold in law.below(ks, 64)]
        return cls.roughly(law, ks, np.array(least, dtype=np.uint64), 2)

    @classmethod
    def roughly(cls, law: IntegerLaw, ks: range, least: NDArray[np.uint64], doubt: int) -> InversionTable:
        """With thresholds known less closely, which sends more draws to the law itself."""
        thresholds = np.maximum.accumulate(least)  # what bounds one from below bounds all above it
        buckets = thresholds >> np.uint64(48), thresholds + np.uint64(doubt - 1) >> np.uint64(48)
        starts = np.concatenate([[0], buckets[0].astype(np.int64), [2**16]])
        cells = np.repeat(np.arange(starts.size - 1, dtype=np.int16), starts[1:] - starts[:-1])
        cells[np.concatenate(buckets)] = -1
        return cls(law, ks.start - 1, thresholds, doubt, cells)

    def draw(self, count: int, source: BitSource) -> IntArray:
        """This many independent draws; Python integers where one of them lies outside the table."""
        leading = source.words(-(-count // 4)).view(np.uint16)[:count]
        cells = self.cells.take(leading, mode="clip")  # sixteen bits cannot miss; "clip" skips the check
        drawn = np.add(cells, self.first, dtype=np.int64)
        crossed = np.flatnonzero(cells < 0)
        return self._refine(drawn, crossed, leading[crossed], source) if crossed.size else drawn

    def _refine(
        self,
        drawn: NDArray[np.int64],
        crossed: NDArray[np.intp],
        leading: NDArray[np.uint16],
        source: BitSource,
    ) -> IntArray:
        """Settle the draws that sixteen bits do not decide, by 64 bits and the thresholds themselves."""
        further = source.words(crossed.size) >> np.uint64(16)
        numbers = leading.astype(np.uint64) << np.uint64(48) | further
        cells = np.searchsorted(self.thresholds, numbers, side="right")
        drawn[crossed] = cells + self.first
        tied = np.flatnonzero(numbers - self.thresholds[cells - 1] < self.doubt)  # cell 0 wraps: no harm
        return self._settle(drawn, crossed[tied], numbers[tied], source) if tied.size else drawn

    def _settle(
        self, drawn: NDArray[np.int64], tied: NDArray[np.intp], numbers: NDArray[np.uint64], source: BitSource
    ) -> IntArray:
        """Settle the draws that 64 bits do not decide, all those in the tails among them."""
        near = drawn[tied].tolist()
        values = [
            invert(self.law, UniformDraw(number, 64, source), start)
            for number, start in zip(numbers.tolist(), near, strict=True)
        ]
        inside = range(self.first, self.first + len(self.thresholds) + 1)
        result: IntArray = drawn if all(value in inside for value in values) else drawn.astype(object)
        result[tied] = values
        return result


def in_blocks(draw: Callable[[int], IntArray], count: int) -> IntArray:
    """As many draws as wanted, a block at a time."""
    sizes = [_BLOCK] * (count // _BLOCK) + [count % _BLOCK]
    return np.concatenate([draw(size) for size in sizes])
