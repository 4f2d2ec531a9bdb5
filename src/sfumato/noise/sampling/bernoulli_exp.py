"""Chances e^(−gap / scale) for whole gaps, many at once, decided exactly (docs/proofs/exponential.md).

A gap is cut into digits, and the chances of its digits multiply. Tables hold these to 31 bits, so that a
product is known up to a stated doubt. A uniform number that falls into the doubt draws further bits until
they tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.noise.sampling.bits import below_each
from sfumato.noise.sampling.bounds import Enclosure, brackets, decay, exp_minus
from sfumato.noise.sampling.inversion import UniformDraw

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.inversion import PartialNumber

BITS = 31  # so that a product of two chances fits into 64 bits

REACH = 22  # a gap of so many scales has a chance below 2^−31, as 31 · ln 2 < 22

_DIGIT_BITS = 10
_DIGIT = 2**_DIGIT_BITS
_FAR = 2**63

Gaps = NDArray[np.uint64] | NDArray[np.object_]
"""Whole numbers from 0 on; Python integers where 64 bits may not be wide enough."""


def below_best(scores: IntArray) -> Gaps:
    """How far each score lies below the best."""
    if scores.dtype == object:
        return np.asarray(scores.max() - scores, dtype=object)
    gaps: NDArray[np.int64] = np.subtract(scores.max(), scores)
    return gaps.view(np.uint64)  # a gap that has wrapped is right when read as unsigned


def under(number: PartialNumber, catch: Callable[[int], Enclosure]) -> bool:
    """Whether the number lies below the one that is caught, learning bits until they tell."""
    while True:
        [threshold] = brackets(lambda bits: [catch(bits)], number.bits)
        if not 0 <= number.value - threshold < 2:
            return number.value < threshold
        number.extend()


@dataclass(frozen=True, slots=True)
class BernoulliExp:
    """e^(−gap / scale) for any gap."""

    scale: Fraction
    tables: tuple[NDArray[np.uint64], ...]
    """For each digit, the lowest first: by its value d a t with t ≤ 2^31 · e^(−d·place / scale) ≤ t + 2."""

    @property
    def doubt(self) -> int:
        """Two for the first digit, and each further one adds at most three."""
        return 3 * len(self.tables) - 1

    def least(self, gaps: Gaps) -> NDArray[np.uint64]:
        """For each gap a t with t ≤ 2^31 · e^(−gap / scale) ≤ t + doubt."""
        rest = np.minimum(gaps, _FAR).astype(np.uint64)
        chances = self.tables[0][rest % _DIGIT]
        for table in self.tables[1:]:
            rest >>= np.uint64(_DIGIT_BITS)
            chances = chances * table[rest % _DIGIT] >> np.uint64(BITS)
        return np.where(rest < _DIGIT, chances, np.uint64(0))

    def flip(self, gaps: Gaps, source: BitSource) -> NDArray[np.bool_]:
        """An independent coin for each gap, which falls heads with chance e^(−gap / scale)."""
        numbers = (source.words(-(-gaps.size // 2)).view(np.uint32)[: gaps.size] >> 1).astype(np.uint64)
        least = self.least(gaps)
        heads = numbers < least
        for i in np.flatnonzero(~heads & (numbers < least + np.uint64(self.doubt))):
            heads[i] = self._tells(int(numbers[i]), int(gaps[i]), source)
        return heads

    def pick(self, gaps: Gaps, source: BitSource) -> int:
        """One place, with a chance in proportion to e^(−gap / scale)."""
        [place], _ = self.pick_each(gaps, np.ones((1, gaps.size), dtype=np.uint64), source)
        return int(place)

    def pick_each(
        self, gaps: Gaps, lengths: NDArray[np.uint64], source: BitSource
    ) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """For each row of lengths a place, and a uniform whole number below its length there.

        A place is taken with a chance in proportion to length · e^(−gap / scale). The lengths of a row add up
        to 2^32 at most, and not to 0.

        A point is thrown into columns that are surely high enough, `length` equal ones for each place, and
        thrown again if it lies above the true height of its column.
        """
        least = self.least(gaps)
        heights = least + np.uint64(self.doubt)
        ends = np.cumsum(lengths * heights, axis=1, dtype=np.uint64)
        places, offsets = np.zeros(len(ends), dtype=np.intp), np.zeros(len(ends), dtype=np.int64)
        left = np.arange(len(ends))
        while left.size:
            found, points = _thrown(ends if left.size == len(ends) else ends[left], source)
            offset, height = np.divmod(points, heights[found])
            places[left], offsets[left] = found, offset.astype(np.int64)
            kept = height < least[found]
            for i in np.flatnonzero(~kept):
                kept[i] = self._tells(int(height[i]), int(gaps[found[i]]), source)
            left = left[~kept]
        return places, offsets

    def _tells(self, leading: int, gap: int, source: BitSource) -> bool:
        """Whether a number with these leading bits lies under the chance itself."""
        return under(UniformDraw(leading, BITS, source), lambda bits: exp_minus(gap / self.scale, bits))


@lru_cache(maxsize=32)
def chances(scale: Fraction) -> BernoulliExp:
    """The tables for a scale, made once. Past the last digit chances are below 2^−31."""
    reach = -(-REACH * scale.numerator // scale.denominator)
    digits = -(-reach.bit_length() // _DIGIT_BITS)
    return BernoulliExp(scale, tuple(_table(_DIGIT**place / scale) for place in range(digits)))


def _table(step: Fraction) -> NDArray[np.uint64]:
    """The chances e^(−d · step) of a digit d."""
    found = brackets(lambda bits: decay(Enclosure.of(1, bits), exp_minus(step, bits), _DIGIT), BITS)
    return np.array(found, dtype=np.uint64)


def _thrown(ends: NDArray[np.uint64], source: BitSource) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """In each row of stretches with these ends a uniform point: its stretch, and how far into that."""
    points = below_each(ends[:, -1], source)
    found = np.count_nonzero(ends <= points[:, None], axis=1)
    starts = np.where(found, ends[np.arange(len(ends)), found - 1], np.uint64(0))
    return found, points - starts
