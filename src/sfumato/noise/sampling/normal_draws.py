"""Standard normal numbers whose leading bits are known, and more of them as they are asked for.

A number is a cell and a place in it, with a sign. All bits of a place after those that decided about it are
uniform, so that the same number can be had to any precision.

Because : docs/proofs/gaussian.md#numbers-of-any-precision
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import magnitude_sampler
from sfumato.noise.sampling.places import PLACE, PLACE_BITS, Ints, Places, accept_places, accepts_place

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class NormalDraws:
    """Independent standard normal numbers: 64 · Z is ±(cell + place)."""

    cells: IntArray
    words: Ints
    """Signs, and the first bits of places."""
    places: Places
    """Places of which more bits are known, by the number of the draw."""
    source: BitSource

    def floors(self) -> Ints:
        """Return ⌊64 · 2^48 · Z⌋ of all draws, whose cells are below 2^14."""
        magnitudes = self.cells.astype(np.int64) << PLACE_BITS | self.words & PLACE
        return np.asarray(np.where(self.words < 0, ~magnitudes, magnitudes), dtype=np.int64)

    def longer_floors(self, draws: range, bits: int) -> list[int]:
        """Return ⌊64 · 2^bits · Z⌋ of some draws, learning bits of their places as it takes."""
        return [self._floor(at, bits) for at in draws]

    def _floor(self, at: int, bits: int) -> int:
        word = int(self.words[at])
        if at not in self.places:
            self.places[at] = UniformDraw(word & PLACE, PLACE_BITS, self.source)
        place = self.places[at]
        while place.bits < bits:
            place.extend()
        magnitude = (int(self.cells[at]) << bits) + (place.value >> place.bits - bits)
        return ~magnitude if word < 0 else magnitude


def draw_normals(count: int, source: BitSource) -> NormalDraws:
    """Return so many independent draws, with 48 bits of their places."""
    cells, words = magnitude_sampler().draw(count, source), source.words(count).view(np.int64)
    if cells.dtype == object:
        return _draw_in_cells(cells, words, source)
    words, places = accept_places(cells.astype(np.int64), words, source)
    return NormalDraws(cells, words, places, source)


def _draw_in_cells(cells: IntArray, words: Ints, source: BitSource) -> NormalDraws:
    """Return draws in any cells, by exact arithmetic; of the words, the signs alone are used."""
    places = {}
    for at, cell in enumerate(cells.tolist()):
        while True:
            place, coin = UniformDraw(0, 0, source), UniformDraw(0, 0, source)
            if accepts_place(cell, place, coin):
                break
        place.extend()
        places[at] = place
    return NormalDraws(cells, words, places, source)
