"""Rounded Gaussian noise of large σ, by rejection sampling (docs/proofs/gaussian.md).

|Z| is drawn as a cell of width 1/64 and a place in that cell, and σ · |Z| is rounded, all in integers. A draw
is decided by its first bits only when every continuation of them gives the same value; the others are decided
by exact arithmetic on as many bits as it takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.noise.sampling.enclosure import exp_minus
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import CELLS, REACH, magnitude_sampler

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

_Ints = NDArray[np.int64]

# A 64-bit word holds a sign, fifteen bits of a coin and 48 bits of a place.
PLACE_BITS = 48
_PLACE, _COIN = 2**PLACE_BITS - 1, 2**15 - 1

_LIMB_BITS = 29
_LIMB = 2**_LIMB_BITS - 1
_PRODUCT_ERROR = 4
_WEIGHT_ERROR = 2**16


@dataclass(frozen=True, slots=True)
class WideGaussianSampler:
    """Draws the integer nearest to σ · Z for a standard normal Z, for σ from 2^10 to 2^40."""

    sigma: Fraction

    @property
    def shift(self) -> int:
        """Number of bits of a product behind the binary point."""
        return 53 - math.floor(self.sigma).bit_length()

    @property
    def factor(self) -> int:
        """The factor ⌊2^(10 + shift) · σ / CELLS⌋, below 2^58."""
        return math.floor(self.sigma * (1 << 10 + self.shift) / CELLS)

    def draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws, as Python integers if one lies beyond the table of cells."""
        cells = magnitude_sampler().draw(count, source)
        if cells.dtype == object:
            return np.array([draw_in_cell(cell, self.sigma, source) for cell in cells.tolist()], dtype=object)
        return self._draw_in(cells.astype(np.int64, copy=False), source)

    def draw_one(self, source: BitSource) -> int:
        """Return one draw, as `draw` does, without arrays."""
        cell = magnitude_sampler().draw_one(source)
        if cell > REACH:
            return draw_in_cell(cell, self.sigma, source)
        word = int(source.words(1)[0])
        coin, place = word >> PLACE_BITS & _COIN, UniformDraw(word & _PLACE, PLACE_BITS, source)
        # The first comparison is that of `_draw_in`, and decides nearly always.
        if coin >= 32764 - 8 * cell and not accepts_place(cell, place, UniformDraw(coin, 15, source)):
            return draw_in_cell(cell, self.sigma, source)
        magnitude = round_magnitude(self.sigma, cell, place)
        return -magnitude if word >> 63 else magnitude

    def _draw_in(self, cells: _Ints, source: BitSource) -> _Ints:
        """Return a draw in each cell."""
        # A draw is accepted at once if its coin is below 1 − (2 · cell + 1) / 2^13, which is at most e^−z.
        words = source.words(len(cells)).view(np.int64)
        values, clear = self._nearest(cells, words)
        light = words >> PLACE_BITS & _COIN < 32764 - 8 * cells
        left = np.flatnonzero(~(light & clear))
        if left.size:
            values[left] = self._weigh(cells[left], words[left], source)
        return values

    def _weigh(self, cells: _Ints, words: _Ints, source: BitSource) -> _Ints:
        """Return the other draws: the weight at its place decides if a draw is accepted or repeated."""
        further = (source.words(len(words)) >> np.uint64(48)).view(np.int64)
        coins = (words >> PLACE_BITS & _COIN) << 16 | further
        weights = approximate_weights(cells, words & _PLACE)
        taken, refused = coins < weights - _WEIGHT_ERROR, coins >= weights + _WEIGHT_ERROR
        values, clear = self._nearest(cells, words)
        if refused.any():
            values[refused] = self._draw_in(cells[refused], source)
        for i in np.flatnonzero(~(refused | (taken & clear))).tolist():
            values[i] = self._settle(int(cells[i]), int(words[i]), int(coins[i]), source)
        return values

    def _settle(self, cell: int, word: int, coin: int, source: BitSource) -> int:
        place = UniformDraw(word & _PLACE, PLACE_BITS, source)
        if not accepts_place(cell, place, UniformDraw(coin, 31, source)):
            return draw_in_cell(cell, self.sigma, source)
        magnitude = round_magnitude(self.sigma, cell, place)
        return -magnitude if word < 0 else magnitude

    def _nearest(self, cells: _Ints, words: _Ints) -> tuple[_Ints, NDArray[np.bool_]]:
        """Return the rounded values, and whether the bits at hand decide them."""
        # The product of place and factor is taken in two limbs each. What lies below the binary point of the
        # lowest is left out, so the product falls short of the exact one by less than _PRODUCT_ERROR.
        places, factor = cells << PLACE_BITS | words & _PLACE, self.factor
        high, low = places >> _LIMB_BITS, places & _LIMB
        products = low * (factor >> _LIMB_BITS) + high * (factor & _LIMB) >> _LIMB_BITS
        products += high * (factor >> _LIMB_BITS) + (1 << self.shift - 1)
        values = products >> self.shift
        clear = products + _PRODUCT_ERROR >> self.shift == values
        signs = words >> 63
        return (values ^ signs) - signs, clear


def approximate_weights(cells: _Ints, places: _Ints) -> _Ints:
    """Return 2^31 · e^−z with z = v · (2 · cell + v) / 2^13 at a place v, to within _WEIGHT_ERROR.

    Four terms of the series suffice. The number at the end of a name says how many of its bits are behind
    the binary point.
    """
    v20 = places >> PLACE_BITS - 20
    z31 = v20 * ((cells << 21) + v20) >> 22
    square31 = z31 * z31 >> 31
    weights: _Ints = 2**31 - z31 + (square31 >> 1) - (square31 * z31 >> 31) // 6
    return weights


def draw_in_cell(cell: int, sigma: Fraction, source: BitSource) -> int:
    """Return one draw in any cell, by exact arithmetic."""
    while True:
        place, coin = UniformDraw(0, 0, source), UniformDraw(0, 0, source)
        if accepts_place(cell, place, coin):
            magnitude = round_magnitude(sigma, cell, place)
            return -magnitude if int(source.words(1)[0]) & 1 else magnitude


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


def round_magnitude(sigma: Fraction, cell: int, place: UniformDraw) -> int:
    """Return the integer nearest to σ · (cell + place) / CELLS, learning bits until they decide."""
    while True:
        # Both ends are (cell · 2^bits + value) / 2^bits, times σ / CELLS, rounded half up, in integers.
        over = 2 * CELLS * sigma.denominator << place.bits
        first = ((cell << place.bits) + place.value) * 2 * sigma.numerator + over // 2
        low, high = first // over, (first + 2 * sigma.numerator) // over
        if low == high:
            return low
        place.extend()


def _ends(place: UniformDraw) -> tuple[Fraction, Fraction]:
    return Fraction(place.value, 2**place.bits), Fraction(place.value + 1, 2**place.bits)


def _z(cell: int, place: Fraction) -> Fraction:
    return place * (2 * cell + place) / (2 * CELLS**2)
