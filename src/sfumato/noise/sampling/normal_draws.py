"""Standard normal numbers whose leading bits are known, and more of them as they are asked for.

|Z| lies in a cell of width 1/64, at a place in it. Once a place is accepted, which its first bits decide, all
bits after those are uniform, so that the same number can be had to any precision (docs/proofs/gaussian.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.noise.sampling.enclosure import exp_minus
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import CELLS, REACH, magnitude_sampler

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource

Ints = NDArray[np.int64]
Places = dict[int, UniformDraw]
"""Places of which more bits are known than a word holds, by the number of the draw."""

# A 64-bit word holds a sign, fifteen bits of a coin and 48 bits of a place.
PLACE_BITS = 48
PLACE, COIN = 2**PLACE_BITS - 1, 2**15 - 1
_WEIGHT_ERROR = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class NormalDraws:
    """Independent standard normal numbers: ±(cell + place) / 64."""

    heads: Ints
    """The cell and the first 48 bits of the place."""
    negative: NDArray[np.bool_]
    places: Places
    source: BitSource
    longer: dict[tuple[range, int], list[int]] = field(default_factory=dict)
    """What `floor_magnitudes` has returned, as bits are drawn once."""

    def floor_magnitudes(self, draws: range, bits: int) -> list[int]:
        """Return ⌊|Z|·64·2^bits⌋ of some draws, for 48, 112, 176, … bits.

        A draw is asked for along with the same others each time.
        """
        if bits == PLACE_BITS:
            found: list[int] = self.heads[draws.start : draws.stop].tolist()
            return found
        if (draws, bits) not in self.longer:
            self.longer[draws, bits] = self._lengthen(draws, bits)
        return self.longer[draws, bits]

    def _lengthen(self, draws: range, bits: int) -> list[int]:
        shorter, words = self.floor_magnitudes(draws, bits - 64), self.source.words(len(draws)).tolist()
        found = [known << 64 | word for known, word in zip(shorter, words, strict=True)]
        for at in filter(draws.__contains__, self.places):
            place = self.places[at]
            while place.bits < bits:
                place.extend()
            cell = int(self.heads[at]) >> PLACE_BITS
            found[at - draws.start] = (cell << bits) + (place.value >> place.bits - bits)
        return found


def draw_normals(count: int, source: BitSource) -> NormalDraws:
    """Return so many independent draws."""
    cells = magnitude_sampler().draw(count, source).astype(np.int64, copy=False)
    words = source.words(count).view(np.int64)
    words, places = accept_places(cells, words, source)
    return NormalDraws(cells << PLACE_BITS | words & PLACE, words < 0, places, source)


def accept_places(cells: Ints, words: Ints, source: BitSource) -> tuple[Ints, Places]:
    """Return words whose places are accepted in their cells: those given, or others where they are refused.

    A place is accepted with the probability e^−z at it, which its coin decides.
    """
    places: Places = {}
    left = np.flatnonzero(_is_heavy(cells, words))
    if left.size:
        words = words.copy()
    while left.size:
        refused = left[~_weigh(left, cells, words, places, source)]
        words[refused] = source.words(refused.size).view(np.int64)
        left = refused[_is_heavy(cells[refused], words[refused])]
    return words, places


def _is_heavy(cells: Ints, words: Ints) -> NDArray[np.bool_]:
    """Return where the coin does not accept all places of its cell at once."""
    # It does if it is below 1 − (2 · cell + 1) / 2^13, which is at most e^−z.
    return (words >> PLACE_BITS & COIN) >= 32764 - 8 * cells


def _weigh(
    left: NDArray[np.intp], cells: Ints, words: Ints, places: Places, source: BitSource
) -> NDArray[np.bool_]:
    """Return which of the draws `left` are accepted, by sixteen more bits of their coins, else exactly."""
    further = (source.words(left.size) >> np.uint64(48)).view(np.int64)
    coins = (words[left] >> PLACE_BITS & COIN) << 16 | further
    weights = approximate_weights(cells[left], words[left] & PLACE)
    accepted = coins < weights - _WEIGHT_ERROR
    # Weights are only near the true ones in the cells of the table.
    doubtful = ~accepted & (coins < weights + _WEIGHT_ERROR) | (cells[left] >= REACH)
    for i in np.flatnonzero(doubtful).tolist():
        at = int(left[i])
        place = UniformDraw(int(words[at]) & PLACE, PLACE_BITS, source)
        accepted[i] = accepts_place(int(cells[at]), place, UniformDraw(int(coins[i]), 31, source))
        if accepted[i]:
            places[at] = place
    return accepted


def approximate_weights(cells: Ints, places: Ints) -> Ints:
    """Return 2^31 · e^−z with z = v · (2 · cell + v) / 2^13 at a place v, to within _WEIGHT_ERROR.

    Four terms of the series suffice. The number at the end of a name says how many of its bits are behind
    the binary point.
    """
    v20 = places >> PLACE_BITS - 20
    z31 = v20 * ((cells << 21) + v20) >> 22
    square31 = z31 * z31 >> 31
    weights: Ints = 2**31 - z31 + (square31 >> 1) - (square31 * z31 >> 31) // 6
    return weights


def accepts_place(cell: int, place: UniformDraw, coin: UniformDraw) -> bool:
    """Return whether the coin is below e^−z at this place, learning bits of both until they decide."""
    while True:
        start, end = _ends(place)
        if coin.value < exp_minus(_z(cell, end), coin.bits).low:
            return True
        if coin.value >= exp_minus(_z(cell, start), coin.bits).high:
            return False
        place.extend()
        coin.extend()


def _ends(place: UniformDraw) -> tuple[Fraction, Fraction]:
    return Fraction(place.value, 2**place.bits), Fraction(place.value + 1, 2**place.bits)


def _z(cell: int, place: Fraction) -> Fraction:
    return place * (2 * cell + place) / (2 * CELLS**2)
