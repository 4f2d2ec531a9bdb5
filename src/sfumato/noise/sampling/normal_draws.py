"""Standard normal numbers whose leading bits are known, and more of them as they are asked for.

A number is a cell and a place in it, with a sign. All bits of a place after those that decided about it are
uniform, so that the same number can be had to any precision (docs/proofs/gaussian.md#rectangles-and-wedges).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.sampling.rectangles import IN_WEDGE, WORD_BITS, draw_in_wedges, rectangle_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.rectangles import Places

    Words = NDArray[np.int16] | NDArray[np.int32] | NDArray[np.int64]

_WORDS = {15: np.int16, 31: np.int32, WORD_BITS: np.int64}


@dataclass(frozen=True, slots=True, eq=False)
class NormalDraws:
    """Independent standard normal numbers: 64 · Z is ±(cell + place)."""

    cells: IntArray
    words: Words
    """Signs and the first bits of places. In a negative word, the bits of the place are inverted."""
    places: Places
    """Places of which more bits are known than a word holds, by the number of the draw."""
    source: BitSource
    longer: dict[tuple[range, int], list[int]] = field(default_factory=dict)
    """What `floors` has returned, as bits are drawn once."""

    @property
    def bits(self) -> int:
        """Bits of a place in a word."""
        return 8 * self.words.itemsize - 1

    def floors(self, draws: range, more: int) -> list[int]:
        """Return ⌊64 · 2^b · Z⌋ of some draws, for b = bits + 64 · more.

        A draw is asked for along with the same others each time.
        """
        if (draws, more) not in self.longer:
            self.longer[draws, more] = self._lengthen(draws, more) if more else self._first(draws)
        return self.longer[draws, more]

    def _first(self, draws: range) -> list[int]:
        cells, words = (each[draws.start : draws.stop] for each in (self.cells, self.words))
        signed = np.where(words < 0, -cells, cells).tolist()
        return [(cell << self.bits) + word for cell, word in zip(signed, words.tolist(), strict=True)]

    def _lengthen(self, draws: range, more: int) -> list[int]:
        shorter, words = self.floors(draws, more - 1), self.source.words(len(draws)).tolist()
        found = [known << 64 | word for known, word in zip(shorter, words, strict=True)]
        for at in filter(draws.__contains__, self.places):
            found[at - draws.start] = self._extend_place(at, self.bits + 64 * more)
        return found

    def _extend_place(self, at: int, bits: int) -> int:
        place = self.places[at]
        while place.bits < bits:
            place.extend()
        magnitude = (int(self.cells[at]) << bits) + (place.value >> place.bits - bits)
        return ~magnitude if self.words[at] < 0 else magnitude


def draw_normals(count: int, bits: int, source: BitSource) -> NormalDraws:
    """Return so many independent draws, with 15, 31 or 63 bits of their places."""
    cells = rectangle_table().draw(count, source, np.int16)
    word = _WORDS[bits]
    words = source.words(-(-count * (bits + 1) // 64)).view(word)[:count]
    wedges = np.flatnonzero(cells == IN_WEDGE)
    if not wedges.size:
        return NormalDraws(cells, words, {}, source)
    drawn, wide, places = draw_in_wedges(wedges.size, source)
    words, cells = words.copy(), cells.astype(np.promote_types(cells.dtype, drawn.dtype), copy=False)
    cells[wedges], words[wedges] = drawn, wide >> WORD_BITS - bits
    return NormalDraws(cells, words, {int(wedges[at]): place for at, place in places.items()}, source)
