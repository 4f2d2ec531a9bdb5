"""Exact inversion sampling: draw U uniform in [0, 1), return the k with P(X < k) ≤ U < P(X < k + 1).

U is never rounded. Its bits are drawn as they are needed: sixteen, which settle almost every draw by one
table lookup; then 64 in all; then as many as it takes. A value is returned only when the bits drawn so far
decide it, so its law is exactly that of X, tails included.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.privacy.exact import parse_confidence

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number as Confidence

# Draws made at a time, so that their arrays stay in the processor's cache (see benchmarks/noise.py).
# Privacy does not depend on it: draws are independent.
_BLOCK = 2**16


class IntegerLaw(Protocol):
    """The probability law of an integer X, known to any precision."""

    def bracket_cdf(self, ks: range, bits: int) -> list[int]:
        """Return for each k an integer t with t ≤ 2^bits · P(X < k) ≤ t + 2.

        A number whose first bits are u lies below the probability if u < t and above it if u ≥ t + 2;
        in between more bits are needed. Where the probability is 0, t is −2, and where it is 1, t is 2^bits,
        so that these always decide.
        """


class PartialNumber(Protocol):
    """A number in [0, 1) of which some bits are known: value ≤ number · 2^bits < value + 1."""

    @property
    def value(self) -> int:
        """The leading bits, as an integer."""

    @property
    def bits(self) -> int:
        """The number of leading bits known."""

    def extend(self) -> None:
        """Learn 64 more bits."""


@dataclass(slots=True)
class UniformDraw:
    """A uniform number in [0, 1) whose bits are drawn as they are needed."""

    value: int
    bits: int
    source: BitSource

    def extend(self) -> None:
        """Draw 64 more bits."""
        self.value = self.value << 64 | int(self.source.words(1)[0])
        self.bits += 64


@dataclass(slots=True)
class RationalNumber:
    """A rational number in [0, 1), read bit by bit like a drawn one."""

    number: Fraction
    bits: int = 64

    @property
    def value(self) -> int:
        """The leading bits, as an integer."""
        return (self.number.numerator << self.bits) // self.number.denominator

    def extend(self) -> None:
        """Read 64 more bits."""
        self.bits += 64


def invert(law: IntegerLaw, number: PartialNumber, near: int = 0) -> int:
    """Return the k with P(X < k) ≤ number < P(X < k + 1), searched outwards from `near`."""
    # Doubling steps find an interval that holds k however far out it lies; bisection then finds k.
    low, high, step = near, near + 1, 1
    while not reaches(number, law, low):
        low, high, step = low - step, low, 2 * step
    while reaches(number, law, high):
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reaches(number, law, middle) else (low, middle)
    return low


def half_width(law: IntegerLaw, confidence: Confidence) -> int:
    """Return the smallest t with P(|X| ≤ t) ≥ confidence, for a symmetric law."""
    frozen: Any = law
    return _find_half_width(frozen, parse_confidence(confidence))


@lru_cache(maxsize=1024)
def _find_half_width(law: IntegerLaw, confidence: Fraction) -> int:
    # By symmetry −t is a quantile. One quote asks for it several times.
    return -invert(law, RationalNumber((1 - confidence) / 2))


@lru_cache(maxsize=64)
def tail_quantile(law: IntegerLaw, probability: Fraction) -> int:
    """Return the smallest t with P(X ≥ t) < probability, decided by certain bounds."""
    # The k with P(X < k) ≤ 1 − probability < P(X < k + 1) is one below it.
    return invert(law, RationalNumber(1 - probability)) + 1


def reaches(number: PartialNumber, law: IntegerLaw, k: int) -> bool:
    """Return whether P(X < k) ≤ number, learning bits until they decide it."""
    while True:
        [threshold] = law.bracket_cdf(range(k, k + 1), number.bits)
        if not 0 <= number.value - threshold < 2:
            return number.value > threshold
        number.extend()


@dataclass(frozen=True, slots=True)
class InversionTable:
    """A law prepared for many draws at once."""

    law: IntegerLaw
    first: int
    """Integer that cell 0 stands for. Cell i is drawn when exactly i thresholds lie at or below U."""
    thresholds: NDArray[np.uint64]
    """For each k, ascending, a t with t ≤ 2^64 · P(X < k) ≤ t + error."""
    error: int
    cells: NDArray[np.int16]
    """Cell for each value of the first sixteen bits of U, or −1 where these do not decide."""

    @classmethod
    def build(cls, law: IntegerLaw, ks: range) -> InversionTable:
        """Return a table for these k. X must lie outside them with a probability below 2^−64."""
        least = [max(threshold, 0) for threshold in law.bracket_cdf(ks, 64)]
        return cls.build_roughly(law, ks, np.array(least, dtype=np.uint64), 2)

    @classmethod
    def build_roughly(
        cls, law: IntegerLaw, ks: range, least: NDArray[np.uint64], error: int
    ) -> InversionTable:
        """Return a table from less precise thresholds, which sends more draws to the law itself."""
        # A lower bound on one threshold is a lower bound on all higher ones.
        thresholds = np.maximum.accumulate(least)
        buckets = thresholds >> np.uint64(48), thresholds + np.uint64(error - 1) >> np.uint64(48)
        # A bucket of sixteen bits decides the cell unless a threshold, or its error, lies inside the bucket.
        starts = np.concatenate([[0], buckets[0].astype(np.int64), [2**16]])
        cells = np.repeat(np.arange(starts.size - 1, dtype=np.int16), starts[1:] - starts[:-1])
        cells[np.concatenate(buckets)] = -1
        return cls(law, ks.start - 1, thresholds, error, cells)

    def draw(self, count: int, source: BitSource, dtype: type[np.signedinteger[Any]] = np.int64) -> IntArray:
        """Return `count` independent draws, as Python integers if one of them lies outside the table.

        A narrower type, which the table has to fit, takes less time.
        """
        leading = source.words(-(-count // 4)).view(np.uint16)[:count]
        cells = self.cells.take(
            leading, mode="clip"
        )  # sixteen bits cannot be out of range; "clip" skips the check
        drawn: Any = np.add(cells, self.first, dtype=dtype)
        crossed = np.flatnonzero(cells < 0)
        return self._refine(drawn, crossed, leading[crossed], source) if crossed.size else drawn

    def draw_one(self, source: BitSource) -> int:
        """Return one draw from the same bits as `draw` reads, without arrays where sixteen of them decide."""
        leading = int(source.words(1)[0]) % 2**16
        cell = int(self.cells[leading])
        if cell >= 0:
            return cell + self.first
        drawn, place = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.intp)
        return int(self._refine(drawn, place, np.array([leading], dtype=np.uint16), source)[0])

    def _refine(
        self,
        drawn: NDArray[np.int64],
        crossed: NDArray[np.intp],
        leading: NDArray[np.uint16],
        source: BitSource,
    ) -> IntArray:
        """Settle the draws that sixteen bits do not decide, by 64 bits and the thresholds themselves."""
        # The sixteen bits drawn first stay the leading ones, so no bit is drawn twice for one U.
        further = source.words(crossed.size) >> np.uint64(16)
        numbers = leading.astype(np.uint64) << np.uint64(48) | further
        cells = np.searchsorted(self.thresholds, numbers, side="right")
        drawn[crossed] = cells + self.first
        tied = np.flatnonzero(
            numbers - self.thresholds[cells - 1] < self.error
        )  # for cell 0 this wraps to a large number, which is no tie
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
        # Far tails may not fit 64 bits, so one value outside the table turns all into Python integers.
        inside = range(self.first, self.first + len(self.thresholds) + 1)
        result: IntArray = drawn if all(value in inside for value in values) else drawn.astype(object)
        result[tied] = values
        return result


def draw_in_blocks(draw: Callable[[int], IntArray], count: int) -> IntArray:
    """Return `count` draws, made a block at a time."""
    sizes = [_BLOCK] * (count // _BLOCK) + [count % _BLOCK]
    return np.concatenate([draw(size) for size in sizes])
