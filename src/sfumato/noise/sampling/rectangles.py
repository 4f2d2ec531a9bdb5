"""The half-normal law as rectangles and the wedges above them (Marsaglia, MacLaren and Bray 1964).

|Z| lies in a cell of width 1/64. Below its density stands a rectangle in every cell, as high as the density
at the cell's end. Nearly all draws fall into one of them, where every place is equally likely. The others
fall into a wedge, and are drawn by rejection (docs/proofs/gaussian.md#rectangles-and-wedges).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.sampling.enclosure import Enclosure, bracket, exp_minus
from sfumato.noise.sampling.inversion import InversionTable, UniformDraw
from sfumato.noise.sampling.normal import CELLS, REACH, one_over_root_tau

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Places = dict[int, UniformDraw]

IN_WEDGE = -1
"""What stands for all wedges in the law of rectangles."""
WORD_BITS = 63
"""Bits of a place in a 64-bit word, which begins with a sign."""
_VARIANCE = CELLS**2
_WEDGE_REACH = 604
"""Cells in the table of wedges: e^(−604² / 8192) < 2^−64, so a 64-bit draw seldom falls outside."""
_EDGE_DOUBT = 2.0**-13
"""How far beyond an eighth of its slope's square a coin has to be from an edge to decide; three quarters
of it are proven."""


@dataclass(frozen=True, slots=True)
class RectangleLaw:
    """The law of the cell whose rectangle a draw falls into, or IN_WEDGE."""

    def bracket_cdf(self, ks: range, bits: int) -> list[int]:
        """Return thresholds as `IntegerLaw.bracket_cdf` states."""
        known = range(max(ks.start, 0), max(ks.stop, 0))
        above = bracket(lambda precision: _rectangles_from(known, precision), bits)
        return [-2] * (len(ks) - len(known)) + [2**bits - 2 - each for each in above]


def _rectangles_from(ks: range, bits: int) -> list[Enclosure]:
    """Return enclosures of the area of all rectangles from the k-th on, for each k ≥ 0."""
    if not ks:
        return []
    # Beyond the last one that is added up, they are less than one unit of the last bit together.
    last = max(math.isqrt(2 * _VARIANCE * bits) + 1, ks.stop)
    heights = exp_minus_squares(range(ks.start + 1, last + 1), bits)
    lows = accumulate((each.low for each in reversed(heights)), initial=0)
    highs = accumulate((each.high for each in reversed(heights)), initial=1)
    sums = [Enclosure(low, high, bits) for low, high in zip(lows, highs, strict=True)][::-1]
    # A cell is 1/64 wide, and the density of |Z| at 0 is 2 / √(2π).
    root = one_over_root_tau(bits)
    unit = Enclosure(root.low >> 5, -(-root.high >> 5), bits)
    return [each * unit for each in sums[: len(ks)]]


@dataclass(frozen=True, slots=True)
class WedgeLaw:
    """The law of the cell whose wedge is proposed: in proportion to how much the density falls in it."""

    def bracket_cdf(self, ks: range, bits: int) -> list[int]:
        """Return thresholds as `IntegerLaw.bracket_cdf` states."""
        known = range(max(ks.start, 1), max(ks.stop, 1))
        above = bracket(lambda precision: exp_minus_squares(known, precision), bits)
        return [-2] * (len(ks) - len(known)) + [2**bits - 2 - each for each in above]


def exp_minus_squares(cells: range, bits: int) -> list[Enclosure]:
    """Return enclosures of e^(−i² / (2 · CELLS²)), which the density is in proportion to at i / CELLS."""
    if not cells:
        return []
    # The ratio of two that follow each other falls by the same factor from each to the next.
    first, step = Fraction(cells.start**2, 2 * _VARIANCE), Fraction(2 * cells.start + 1, 2 * _VARIANCE)
    value, ratio, factor = (exp_minus(x, bits) for x in (first, step, Fraction(1, _VARIANCE)))
    found = [value]
    low, high, down, up = value.low, value.high, ratio.low, ratio.high
    for _ in range(len(cells) - 1):
        low, high = low * down >> bits, -(-high * up >> bits)
        down, up = down * factor.low >> bits, -(-up * factor.high >> bits)
        found.append(Enclosure(low, high, bits))
    return found


@lru_cache(maxsize=1)
def rectangle_table() -> InversionTable:
    """Return the inversion table of `RectangleLaw`."""
    return InversionTable.build(RectangleLaw(), range(REACH + 1))


@lru_cache(maxsize=1)
def _wedge_table() -> InversionTable:
    return InversionTable.build(WedgeLaw(), range(1, _WEDGE_REACH + 1))


def draw_in_wedges(count: int, source: BitSource) -> tuple[IntArray, Ints, Places]:
    """Return cells and words of so many draws in wedges, and places of which more bits are known.

    A word is a sign and a place; in a negative one, the bits of the place are inverted.
    """
    # About half of the proposals are kept. Whichever are, they are independent draws: so the first ones do,
    # and so does another attempt where they are too few.
    proposed = 2 * count + 2 * math.isqrt(count) + 2
    cells, words = _wedge_table().draw(proposed, source, np.int16), source.words(proposed).view(np.int64)
    kept, known = _choose(cells, words, source)
    if kept.size < count:
        return draw_in_wedges(count, source)
    kept = kept[:count]
    places = {at: known[i] for at, i in enumerate(kept.tolist()) if i in known} if known else {}
    return cells[kept], words[kept], places


def _choose(cells: IntArray, words: Ints, source: BitSource) -> tuple[NDArray[np.intp], Places]:
    """Return which proposals lie below the density, and places of which that took more bits."""
    coins = source.words(-(-cells.size // 2)).view(np.uint32)[: cells.size]
    over, slopes = _compare(cells.astype(np.float64), words, coins)
    accepted = over < 0
    places: Places = {}
    # Cells beyond the table, as Python integers, are all decided exactly.
    doubt = slopes * slopes / 8 + (2 if cells.dtype == object else _EDGE_DOUBT)
    for i in np.flatnonzero(np.abs(over) <= doubt).tolist():
        word = int(words[i])
        places[i] = UniformDraw(word if word >= 0 else ~word, WORD_BITS, source)
        accepted[i] = lies_below(int(cells[i]), places[i], UniformDraw(int(coins[i]), 32, source))
    return np.flatnonzero(accepted), places


def _compare(cells: Floats, words: Ints, coins: NDArray[np.uint32]) -> tuple[Floats, Floats]:
    """Return how far coins are above the edges, about, and the slopes z₁ of the edges (see `lies_below`)."""
    # Sixteen bits of a word are a sign and the first of a place. Bits that a short word does not keep must
    # not decide.
    place = (words >> 48 ^ words >> 63) * 2.0**-15
    twice = 2 * cells
    ends = twice + 1
    part = place * (twice + place) / ends
    slopes = ends / (2 * _VARIANCE)
    return coins * 2.0**-32 - 1 + part * (1 + slopes * (1 - part) / 2), slopes


def lies_below(cell: int, place: UniformDraw, coin: UniformDraw) -> bool:
    """Return whether a coin is below the edge of a cell's wedge at a place, learning bits of both.

    With z = v · (2 · cell + v) / 8192 at a place v, and z₁ that at v = 1, the edge is
    (e^−z − e^−z₁) / (1 − e^−z₁).
    """
    while True:
        bits = coin.bits + 64
        ends = (Fraction(place.value + step, 2**place.bits) for step in (0, 1))
        start, end, floor = (exp_minus(_fall(cell, v), bits) for v in (*ends, Fraction(1)))
        one = 1 << bits
        if (coin.value + 1) * (one - floor.low) <= (end.low - floor.high) << coin.bits:
            return True
        if coin.value * (one - floor.high) >= (start.high - floor.low) << coin.bits:
            return False
        place.extend()
        coin.extend()


def _fall(cell: int, place: Fraction) -> Fraction:
    return place * (2 * cell + place) / (2 * _VARIANCE)
