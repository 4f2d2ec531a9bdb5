"""Standard normal numbers whose leading bits are known, and more of them as they are asked for.

|Z| lies in a cell of width 1/64, at a place in it. Once a place is accepted, which its first bits decide, all
bits after those are uniform, so that the same number can be had to any precision (docs/proofs/gaussian.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.noise.sampling.gaussian_wide import PLACE_BITS, accepts_place
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import CELLS, magnitude_sampler

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource

FIRST_BITS = PLACE_BITS
"""Bits of a place that every draw has from the start."""


@dataclass(frozen=True, slots=True)
class NormalDraw:
    """One standard normal number: ±(cell + place) / CELLS."""

    negative: bool
    cell: int
    place: UniformDraw

    def floor_magnitude(self, bits: int) -> int:
        """Return ⌊|Z| · CELLS · 2^bits⌋ with the sign of Z."""
        while self.place.bits < bits:
            self.place.extend()
        found = (self.cell << bits) + (self.place.value >> self.place.bits - bits)
        return -found if self.negative else found


def draw_normals(count: int, source: BitSource) -> list[NormalDraw]:
    """Return so many independent draws."""
    cells = magnitude_sampler().draw(count, source).tolist()
    words = source.words(count).tolist()
    return [_draw_in(cell, word, source) for cell, word in zip(cells, words, strict=True)]


def _draw_in(cell: int, word: int, source: BitSource) -> NormalDraw:
    """Return a draw in a cell; a word is a sign, fifteen bits of a coin, and a place."""
    while True:
        place = UniformDraw(word & (1 << PLACE_BITS) - 1, PLACE_BITS, source)
        coin = word >> PLACE_BITS & 2**15 - 1
        # The first comparison decides nearly always: it is below 1 − z, and that below e^−z, at any place.
        if (coin + 1) * 2**13 <= 2**15 * (2**13 - 2 * cell - 1) or accepts_place(
            cell, place, UniformDraw(coin, 15, source)
        ):
            return NormalDraw(bool(word >> 63), cell, place)
        word = int(source.words(1)[0])


__all__ = ["CELLS", "FIRST_BITS", "NormalDraw", "draw_normals"]
