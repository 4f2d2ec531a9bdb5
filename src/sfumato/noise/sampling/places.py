"""Places in cells of the normal law: proposed uniformly, and accepted by a coin (docs/proofs/gaussian.md).

Once a place is accepted, which its first bits decide, all bits after those are uniform.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.noise.sampling.enclosure import exp_minus
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import CELLS, REACH

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource

Ints = NDArray[np.int64]
Places = dict[int, UniformDraw]
"""Places of which more bits are known than a word holds, by the number of the draw."""

# A 64-bit word holds a sign, fifteen bits of a coin and 48 bits of a place.
PLACE_BITS = 48
PLACE, COIN = 2**PLACE_BITS - 1, 2**15 - 1
_WEIGHT_ERROR = 2**16


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
