"""Differences of two Wishart matrices, rounded to whole numbers exactly (docs/proofs/k-norm.md#matrices).

g·gᵀ − h·hᵀ is p·qᵀ + q·pᵀ for p = (g + h)/√2 and q = (g − h)/√2, which are independent normal vectors too.
An entry adds up such products as whole numbers, from the leading bits of the normal numbers, and is answered
if all that it can be is rounded to the same number. The others are computed from as many bits as it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.sampling.integers import as_integers
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import draw_normals
from sfumato.noise.sampling.places import PLACE_BITS

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.normal_draws import NormalDraws

    Ints = NDArray[np.int64]

_CELL_BITS = 9
"""Bits of the cells whose numbers are multiplied by limbs. P(|Z| ≥ 8) is below 2^−49."""
_LIMB_BITS = 20
"""Products of limbs, added up over 2^12 of them, are whole numbers below 2^53: doubles are exact."""
_BLOCK = 2**15
"""About how many normal numbers are drawn at a time. Privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class WishartSampler:
    """Draws the upper triangle of scale/2 · (W − W′), rounded: W and W′ are sums of g·gᵀ, size + 1 each."""

    size: int
    scale: Fraction

    @property
    def length(self) -> int:
        """How many normal numbers a row has: an entry of each vector p, then of each vector q."""
        return 2 * (self.size + 1)

    @property
    def numbers(self) -> int:
        """The number of normal numbers in a draw."""
        return self.size * self.length

    def draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws, one column each."""
        most = max(1, _BLOCK // self.numbers)
        blocks = [min(most, count - start) for start in range(0, count, most)]
        drawn = [self.round_all(draw_normals(each * self.numbers, source)) for each in blocks]
        found: Any = np.concatenate(drawn)
        return np.asarray(found.T)

    def round_all(self, draws: NormalDraws) -> IntArray:
        """Return rounded entries, one row for each draw."""
        rows, columns = np.triu_indices(self.size)
        count = draws.cells.size // self.numbers
        if draws.cells.dtype == object or int(draws.cells.max()) >> _CELL_BITS:
            found = np.zeros((count, rows.size), dtype=object)
            open_entries = np.ones(found.shape, dtype=bool)
        else:
            floors = draws.floors().reshape(count, self.size, self.length)
            found, high = self._enclose(floors, rows, columns)
            open_entries = (found != high).astype(bool)
        for draw, entry in np.argwhere(open_entries).tolist():
            first = draw * self.size
            found[draw, entry] = self._settle(draws, first + int(rows[entry]), first + int(columns[entry]))
        return as_integers(found.ravel().tolist()).reshape(found.shape)

    def _enclose(self, floors: Ints, rows: Ints, columns: Ints) -> tuple[Any, Any]:
        """Return the least and the greatest that each entry can be rounded to, as Python integers."""
        half = self.length // 2
        swapped = np.concatenate([floors[:, :, half:], floors[:, :, :half]], axis=2)
        known: Any = 0
        for place, one in enumerate(_split(floors)):
            for other_place, other in enumerate(_split(swapped)):
                product = np.matmul(one, other.swapaxes(1, 2))[:, rows, columns].astype(np.int64)
                known = known + (product.astype(object) << _LIMB_BITS * (place + other_place))
        # A number is less than 1 above its floor, so a product is off by both magnitudes and 1 at most.
        reach = (np.abs(floors) >> _LIMB_BITS).sum(axis=2) + self.length
        slack = (reach[:, rows] + reach[:, columns] + self.length).astype(object) << _LIMB_BITS
        return self._nearest(known - slack, 2 * PLACE_BITS), self._nearest(known + slack, 2 * PLACE_BITS)

    def _settle(self, draws: NormalDraws, row: int, column: int) -> int:
        """Return one entry, from as many bits as it takes."""
        bits, length = PLACE_BITS, self.length
        while True:
            bits += 64
            one, other = (
                draws.longer_floors(range(at * length, (at + 1) * length), bits) for at in (row, column)
            )
            known = sum(map(mul, one, other[length // 2 :] + other[: length // 2]))
            slack = sum(map(abs, one)) + sum(map(abs, other)) + length
            low, high = (int(self._nearest(known + off, 2 * bits)) for off in (-slack, slack))
            if low == high:
                return low

    def _nearest(self, known: Any, bits: int) -> Any:
        """Return the whole number nearest to scale / 2 · known / (CELLS² · 2^bits)."""
        over = 2 * self.scale.denominator * CELLS**2 << bits
        return (2 * self.scale.numerator * known + over) // (2 * over)


def _split(numbers: Ints) -> list[NDArray[np.float64]]:
    """Return the limbs of numbers below 2^57, the lowest first; the highest has the sign."""
    mask = 2**_LIMB_BITS - 1
    limbs = (numbers & mask, numbers >> _LIMB_BITS & mask, numbers >> 2 * _LIMB_BITS)
    return [each.astype(np.float64) for each in limbs]
