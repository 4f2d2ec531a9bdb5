"""Standard normal numbers whose leading bits are known, and more of them as they are asked for.

|Z| lies in a cell of width 1/64, at a place in it. Once a place is accepted, which its first bits decide, all
bits after those are uniform, so that the same number can be had to any precision (docs/proofs/gaussian.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.sampling.gaussian_wide import PLACE_BITS, accepts_place
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import magnitude_sampler

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource

LIMB_BITS, LIMBS = 20, 4
FIRST_BITS = LIMB_BITS * LIMBS - 10
"""Bits of a place that limbs hold, beside the ten of a cell."""
_KNOWN = PLACE_BITS + 64
_MASK = 2**LIMB_BITS - 1


@dataclass(frozen=True, slots=True, eq=False)
class NormalDraws:
    """Independent standard normal numbers: ±(cell + place) / 64."""

    negative: NDArray[np.bool_]
    heads: NDArray[np.int64]
    """The cell and the first 48 bits of the place."""
    tails: NDArray[np.uint64]
    """The next 64 bits of the place."""
    places: dict[int, UniformDraw]
    """Places of which more was asked for, by the number of the draw."""
    source: BitSource

    def limbs(self) -> list[NDArray[np.float64]]:
        """Return the limbs of ⌊|Z|·64·2^FIRST_BITS⌋, the lowest first, each with the sign of Z."""
        tails = self.tails >> np.uint64(42)
        low = (tails & np.uint64(_MASK)).astype(np.float64)
        second = (self.heads << 2 | (tails >> np.uint64(20)).astype(np.int64)) & _MASK
        found = [low, second, self.heads >> 18 & _MASK, self.heads >> 38]
        signs = np.where(self.negative, -1.0, 1.0)
        return [each.astype(np.float64) * signs for each in found]

    def floor_magnitude(self, at: int, bits: int) -> int:
        """Return ⌊|Z|·64·2^bits⌋ of one draw, with the sign of Z."""
        head, tail = int(self.heads[at]), int(self.tails[at])
        known = UniformDraw((head & (1 << PLACE_BITS) - 1) << 64 | tail, _KNOWN, self.source)
        place = self.places.setdefault(at, known)
        while place.bits < bits:
            place.extend()
        found = (head >> PLACE_BITS << bits) + (place.value >> place.bits - bits)
        return -found if self.negative[at] else found


def draw_normals(count: int, source: BitSource) -> NormalDraws:
    """Return so many independent draws."""
    cells = magnitude_sampler().draw(count, source).astype(np.int64)
    words = source.words(count)
    # A word is a sign, fifteen bits of a coin, and a place. A coin below 1 − (2·cell + 1)/2^13 accepts any.
    coins = (words >> np.uint64(PLACE_BITS)).astype(np.int64) & 2**15 - 1
    heads = cells << PLACE_BITS | (words & np.uint64((1 << PLACE_BITS) - 1)).astype(np.int64)
    places: dict[int, UniformDraw] = {}
    negative, tails = words >> np.uint64(63) != 0, source.words(count).copy()
    for at in np.flatnonzero(coins >= 32764 - 8 * cells).tolist():
        negative[at], place = _draw_in(int(cells[at]), int(words[at]), source)
        while place.bits < _KNOWN:
            place.extend()
        places[at], known = place, place.value >> place.bits - _KNOWN
        heads[at], tails[at] = cells[at] << PLACE_BITS | known >> 64, known & 2**64 - 1
    return NormalDraws(negative, heads, tails, places, source)


def _draw_in(cell: int, word: int, source: BitSource) -> tuple[bool, UniformDraw]:
    """Return a sign and an accepted place in a cell, by exact arithmetic."""
    while True:
        place = UniformDraw(word & (1 << PLACE_BITS) - 1, PLACE_BITS, source)
        coin: Any = UniformDraw(word >> PLACE_BITS & 2**15 - 1, 15, source)
        if accepts_place(cell, place, coin):
            return bool(word >> 63), place
        word = int(source.words(1)[0])
