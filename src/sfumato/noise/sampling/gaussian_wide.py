"""Rounded Gaussian noise of large σ, by rejection sampling (docs/proofs/gaussian.md).

|Z| is drawn as a cell of width 1/64 and a place in that cell, and σ · |Z| is rounded, all in integers. A draw
is decided by its first bits only when every continuation of them gives the same value; the others are decided
by exact arithmetic on as many bits as it takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import CELLS, REACH, magnitude_sampler
from sfumato.noise.sampling.places import COIN, PLACE, PLACE_BITS, Ints, accept_places, accepts_place

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

LIMB_BITS = 29
_PRODUCT_ERROR = 4
_LEAST_SHIFT = 10
"""With fewer bits behind the point, from σ = 2^43 on, arrays would leave too many draws undecided."""


@dataclass(frozen=True, slots=True)
class WideGaussianSampler:
    """Draws the integer nearest to σ · Z for a standard normal Z, for σ from 2^10 to 2^52."""

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
        if cells.dtype == object or self.shift < _LEAST_SHIFT:
            drawn = [draw_in_cell(cell, self.sigma, source) for cell in cells.tolist()]
            return np.array(drawn, dtype=object) if cells.dtype == object else np.array(drawn, dtype=np.int64)
        return self._draw_in(cells.astype(np.int64, copy=False), source)

    def draw_one(self, source: BitSource) -> int:
        """Return one draw, as `draw` does, without arrays."""
        cell = magnitude_sampler().draw_one(source)
        if cell > REACH:
            return draw_in_cell(cell, self.sigma, source)
        word = int(source.words(1)[0])
        coin, place = word >> PLACE_BITS & COIN, UniformDraw(word & PLACE, PLACE_BITS, source)
        # The first comparison is that of `accept_places`, and decides nearly always.
        if coin >= 32764 - 8 * cell and not accepts_place(cell, place, UniformDraw(coin, 15, source)):
            return draw_in_cell(cell, self.sigma, source)
        magnitude = round_magnitude(self.sigma, cell, place)
        return -magnitude if word >> 63 else magnitude

    def _draw_in(self, cells: Ints, source: BitSource) -> Ints:
        """Return a draw in each cell."""
        words, places = accept_places(cells, source.words(len(cells)).view(np.int64), source)
        values, clear = self._nearest(cells, words)
        for i in np.flatnonzero(~clear).tolist():
            place = places.get(i) or UniformDraw(int(words[i]) & PLACE, PLACE_BITS, source)
            magnitude = round_magnitude(self.sigma, int(cells[i]), place)
            values[i] = -magnitude if words[i] < 0 else magnitude
        return values

    def _nearest(self, cells: Ints, words: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the rounded values, and whether the bits at hand decide them."""
        places = cells << PLACE_BITS | words & PLACE
        products = multiply_high(places, self.factor) + (1 << self.shift - 1)
        values = products >> self.shift
        clear = products + _PRODUCT_ERROR >> self.shift == values
        signs = words >> 63
        return (values ^ signs) - signs, clear


def multiply_high(numbers: Ints, factor: int) -> Ints:
    """Return numbers · factor / 2^58 less something below 2; all of them lie within ±2^58."""
    # The product is taken in two limbs each, and what lies below the binary point of the lowest is left out.
    high, low = numbers >> LIMB_BITS, numbers & 2**LIMB_BITS - 1
    over, under = divmod(factor, 2**LIMB_BITS)
    middle = low * over + high * under >> LIMB_BITS
    return np.asarray(middle + high * over)


def draw_in_cell(cell: int, sigma: Fraction, source: BitSource) -> int:
    """Return one draw in any cell, by exact arithmetic."""
    while True:
        place, coin = UniformDraw(0, 0, source), UniformDraw(0, 0, source)
        if accepts_place(cell, place, coin):
            magnitude = round_magnitude(sigma, cell, place)
            return -magnitude if int(source.words(1)[0]) & 1 else magnitude


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
