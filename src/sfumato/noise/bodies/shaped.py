"""What noise for several sums has in common: price by a norm, release of cells, errors and intervals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import add_noise, parse_integers
from sfumato.noise.tails import FEW_DRAWS, continue_tail
from sfumato.privacy.events import KNorm
from sfumato.privacy.exact import parse_confidence

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number

    Floats = NDArray[np.float64]

MOST_SUMS = 64
"""Most sums of a cell. The tables of a body grow with the third power of it (benchmarks/noise.py)."""
_BLOCK = 2**18
"""About how many numbers are drawn at a time (benchmarks/noise.py)."""
_POINTS = 2**16
"""Draws that stand for the law of several sums together."""
_SEED = 20260


class JointNoise(ABC):
    """Noise for the sums of a cell together, priced by a norm of what one unit does to them.

    An array has the sums of a cell along its first axis, and cells along all others; every cell has a draw of
    its own. The norms of several cells add up.
    """

    __slots__ = ()
    scale: Fraction
    told: ClassVar[float] = 1e-12
    """Least risk that `coverage` tells; doubles do not tell smaller ones."""

    @property
    @abstractmethod
    def sums(self) -> int:
        """The number of sums in a cell."""

    @abstractmethod
    def input_distance(self, first: Any, second: Any) -> Fraction:
        """Return the norm of the difference of two inputs, added up over their cells."""

    @abstractmethod
    def coverage(self, place: int, t: int) -> float:
        """Return P(|noise| ≤ t) for the sum at one place, up to float rounding."""

    @abstractmethod
    def expected_error(self, place: int = 0) -> float:
        """Return the mean of |noise| for the sum at one place."""

    @abstractmethod
    def _draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws, one column each."""

    @property
    @abstractmethod
    def _block(self) -> int:
        """The number of cells drawn at a time, which bounds memory. Privacy does not depend on it."""

    def event(self, norm: int) -> KNorm:
        """Return the price where one unit moves all cells together by at most this norm."""
        return KNorm(self.scale, norm)

    def release(self, exact: Any, *, norm: int | None = None, source: BitSource = OS) -> IntArray:
        """Return the exact integers plus fresh noise. `norm`, as priced, is for auditors only."""
        values = parse_integers(exact)
        if not values.ndim or len(values) != self.sums:
            raise UsageError(
                "SF-N203",
                "The sums and the noise differ in number.",
                got=f"shape {values.shape}",
                expected=f"{self.sums} sums along the first axis",
            )
        return observed(self, values, norm, lambda: self._noisy(values, source))

    def half_width(self, place: int, confidence: Number) -> int:
        """Return the smallest t with P(|noise| ≤ t) ≥ confidence for the sum at one place."""
        half: float = continue_tail(partial(self._find_half, place), _risk(confidence), self.told, step=1)
        return math.ceil(half)

    def _find_half(self, place: int, risk: float) -> int:
        return _least(lambda t: self.coverage(place, t) >= 1 - risk)

    def _noisy(self, values: IntArray, source: BitSource) -> IntArray:
        cells = values.size // self.sums
        return add_noise(values, self._draw_blocks(cells, source).reshape(values.shape))

    def _draw_blocks(self, count: int, source: BitSource) -> IntArray:
        if count <= self._block:
            return self._draw(count, source)
        sizes = (min(self._block, count - start) for start in range(0, count, self._block))
        return np.concatenate([self._draw(size, source) for size in sizes], axis=1)


class ShapedNoise(JointNoise):
    """Noise whose law changes by a factor of at most e^(1 / scale) a step of a norm N in whole steps.

    Unless a mechanism says otherwise, P(z) ∝ e^(−N(z) / scale).
    """

    __slots__ = ()

    @property
    @abstractmethod
    def covariance(self) -> Floats:
        """The covariance of the noise of a cell, up to float rounding. Its mean is 0."""

    @abstractmethod
    def norms(self, moves: IntArray) -> IntArray:
        """Return N of each column."""

    @property
    def _block(self) -> int:
        return max(1, _BLOCK // (2 * self.sums + 2))

    def input_distance(self, first: Any, second: Any) -> Fraction:
        """Return N of the difference of two inputs, added up over their cells."""
        apart = np.asarray(first, dtype=object) - np.asarray(second, dtype=object)
        return Fraction(sum(map(int, self.norms(apart.reshape(self.sums, -1)))))

    @property
    def variances(self) -> Floats:
        """The variance of the noise of each sum."""
        return np.diagonal(self.covariance)

    def combined_half_width(self, weights: Any, confidence: Number) -> float:
        """Return a t with P(|Σ w·z| ≤ t) near the confidence: by one sum's law, else by 65,536 draws."""
        factors = np.asarray(weights, dtype=np.float64)
        used = np.flatnonzero(factors)
        if used.size == 1:
            return abs(float(factors[used[0]])) * self.half_width(int(used[0]), confidence)
        sizes = np.sort(np.abs(factors @ self.draw_points(_POINTS)))

        def find(risk: float) -> float:
            return float(sizes[max(math.ceil((1 - risk) * _POINTS) - 1, 0)])

        return float(continue_tail(find, _risk(confidence), FEW_DRAWS / _POINTS))

    def draw_points(self, count: int) -> Floats:
        """Return draws of the same law from a fixed seed, one column each. They protect no one.

        They say how far off an answer may be that was already given.
        """
        return self._draw_seeded(count, _SEED)

    def _draw_seeded(self, count: int, seed: int) -> Floats:
        return np.asarray(self._draw_blocks(count, _SeededSource(seed)), dtype=np.float64)


class _SeededSource:
    """Words that anyone can compute again: for intervals, never for an answer."""

    def __init__(self, seed: int) -> None:
        self._stream = np.random.default_rng(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next words."""
        return self._stream.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)


def require_few(sums: int) -> None:
    """Refuse a cell of too many sums, before anything is charged or drawn."""
    if not 1 <= sums <= MOST_SUMS:
        raise UsageError(
            "SF-N201",
            "Noise for this many sums together cannot be drawn exactly.",
            got=f"{sums} sums",
            allowed=f"from 1 to {MOST_SUMS}",
            try_="fewer sums in a question, or noise that is independent between them",
        )


def _risk(confidence: Number) -> float:
    """Return the chance that is left beside a confidence."""
    return float(1 - parse_confidence(confidence))


def _least(holds: Callable[[int], bool]) -> int:
    """Return the least t ≥ 0 that a condition holds for, which then holds for all larger ones."""
    high = 1
    while not holds(high):
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
