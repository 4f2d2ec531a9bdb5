"""Bernoulli(e^(−gap / scale)) for integer gaps, many at once, drawn exactly (docs/proofs/exponential.md).

A gap is cut into digits, and the probabilities of its digits multiply. Tables hold these to 31 bits, so that
a product is known up to a stated error. A uniform number that falls within that error of the probability
draws further bits until they decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.noise.sampling.bits import draw_below_each
from sfumato.noise.sampling.enclosure import Enclosure, bracket, exp_minus, geometric_sequence
from sfumato.noise.sampling.inversion import UniformDraw

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.inversion import PartialNumber

BITS = 31
"""Bits of a probability in the tables, so that a product of two fits into 64 bits."""

REACH = 22
"""Number of scales after which a probability is below 2^−31, as 31 · ln 2 < 22."""

_DIGIT_BITS = 10
_DIGIT = 2**_DIGIT_BITS
_FAR = 2**63

Gaps = NDArray[np.uint64] | NDArray[np.object_]
"""Integers from 0 on; Python integers where 64 bits may not be wide enough."""


def gaps_below_best(scores: IntArray) -> Gaps:
    """Return how far each score lies below the best one."""
    if scores.dtype == object:
        return np.asarray(scores.max() - scores, dtype=object)
    gaps: NDArray[np.int64] = np.subtract(scores.max(), scores)
    return gaps.view(np.uint64)  # a difference that wrapped around is right when read as unsigned


def is_below(number: PartialNumber, enclose: Callable[[int], Enclosure]) -> bool:
    """Return whether the number lies below the enclosed one, learning bits until they decide."""
    while True:
        [threshold] = bracket(lambda bits: [enclose(bits)], number.bits)
        if not 0 <= number.value - threshold < 2:
            return number.value < threshold
        number.extend()


@dataclass(frozen=True, slots=True)
class BernoulliExp:
    """Draws by the probabilities e^(−gap / scale), for any gaps."""

    scale: Fraction
    tables: tuple[NDArray[np.uint64], ...]
    """For each digit, the lowest first, and each value d of it, a t with
    t ≤ 2^31 · e^(−d·place / scale) ≤ t + 2, where `place` is the weight of the digit."""

    @property
    def error(self) -> int:
        """Error of `lower_bounds`: two for the first digit, and at most three for each further one."""
        return 3 * len(self.tables) - 1

    def lower_bounds(self, gaps: Gaps) -> NDArray[np.uint64]:
        """Return for each gap a t with t ≤ 2^31 · e^(−gap / scale) ≤ t + error."""
        # Gaps beyond 2^63 are as good as 2^63: both have a lower bound of 0.
        rest = np.minimum(gaps, _FAR).astype(np.uint64)
        chances = self.tables[0][rest % _DIGIT]
        for table in self.tables[1:]:
            rest >>= np.uint64(_DIGIT_BITS)
            chances = chances * table[rest % _DIGIT] >> np.uint64(BITS)
        return np.where(rest < _DIGIT, chances, np.uint64(0))

    def flip(self, gaps: Gaps, source: BitSource) -> NDArray[np.bool_]:
        """Return an independent coin for each gap, true with probability e^(−gap / scale)."""
        # Each 64-bit word gives two numbers of 31 bits.
        numbers = (source.words(-(-gaps.size // 2)).view(np.uint32)[: gaps.size] >> 1).astype(np.uint64)
        least = self.lower_bounds(gaps)
        heads = numbers < least
        for i in np.flatnonzero(~heads & (numbers < least + np.uint64(self.error))):
            heads[i] = self._decide(int(numbers[i]), int(gaps[i]), source)
        return heads

    def pick(self, gaps: Gaps, source: BitSource) -> int:
        """Return one index, with a probability in proportion to e^(−gap / scale)."""
        [place], _ = self.pick_each(gaps, np.ones((1, gaps.size), dtype=np.uint64), source)
        return int(place)

    def pick_each(
        self, gaps: Gaps, lengths: NDArray[np.uint64], source: BitSource
    ) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return for each row of lengths an index, and a uniform integer below the length there.

        An index is drawn with a probability in proportion to length · e^(−gap / scale). The lengths of a row
        add up to 2^32 at most, and not to 0. Gaps are one row for all, or a row for each row of lengths.
        """
        # Rejection sampling: a point is drawn uniformly in columns that are surely high enough, `length`
        # equal ones for each index, and drawn again if it lies above the true height of its column.
        least = self.lower_bounds(gaps)
        heights = np.broadcast_to(least + np.uint64(self.error), lengths.shape)
        least, each = np.broadcast_to(least, lengths.shape), np.broadcast_to(gaps, lengths.shape)
        ends = np.cumsum(lengths * heights, axis=1, dtype=np.uint64)
        places, offsets = np.zeros(len(ends), dtype=np.intp), np.zeros(len(ends), dtype=np.int64)
        left = np.arange(len(ends))
        while left.size:
            found, points = _throw(ends if left.size == len(ends) else ends[left], source)
            offset, height = np.divmod(points, heights[left, found])
            places[left], offsets[left] = found, offset.astype(np.int64)
            kept = height < least[left, found]
            for i in np.flatnonzero(~kept):
                kept[i] = self._decide(int(height[i]), int(each[left[i], found[i]]), source)
            left = left[~kept]
        return places, offsets

    def pick_rows(self, gaps: NDArray[np.uint64], source: BitSource) -> NDArray[np.intp]:
        """Return for each row of gaps an index, with a probability in proportion to e^(−gap / scale)."""
        # As in `pick_each`, with one column for each index and other heights in every row.
        least = self.lower_bounds(gaps)
        ends = np.cumsum(least + np.uint64(self.error), axis=1, dtype=np.uint64)
        places, left = np.zeros(len(ends), dtype=np.intp), np.arange(len(ends))
        while left.size:
            found, heights = _throw(ends if left.size == len(ends) else ends[left], source)
            places[left], kept = found, heights < least[left, found]
            for i in np.flatnonzero(~kept):
                kept[i] = self._decide(int(heights[i]), int(gaps[left[i], found[i]]), source)
            left = left[~kept]
        return places

    def _decide(self, leading: int, gap: int, source: BitSource) -> bool:
        """Return whether a number with these leading bits lies below the exact probability."""
        return is_below(UniformDraw(leading, BITS, source), lambda bits: exp_minus(gap / self.scale, bits))


@lru_cache(maxsize=32)
def build_bernoulli_exp(scale: Fraction) -> BernoulliExp:
    """Return the tables for a scale, built once. Past the last digit probabilities are below 2^−31."""
    reach = -(-REACH * scale.numerator // scale.denominator)
    digits = -(-reach.bit_length() // _DIGIT_BITS)
    return BernoulliExp(scale, tuple(_table(_DIGIT**place / scale) for place in range(digits)))


def _table(step: Fraction) -> NDArray[np.uint64]:
    """Return the probabilities e^(−d · step) of a digit d."""
    found = bracket(
        lambda bits: geometric_sequence(Enclosure.enclose(1, bits), exp_minus(step, bits), _DIGIT), BITS
    )
    return np.array(found, dtype=np.uint64)


def _throw(ends: NDArray[np.uint64], source: BitSource) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Return a uniform point in each row of segments with these ends: its segment, and its offset there."""
    points = draw_below_each(ends[:, -1], source)
    found = np.count_nonzero(ends <= points[:, None], axis=1)
    starts = np.where(found, ends[np.arange(len(ends)), found - 1], np.uint64(0))
    return found, points - starts
