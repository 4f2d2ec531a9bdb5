"""Differences of two Wishart matrices, rounded to whole numbers exactly (docs/proofs/k-norm.md#matrices).

An entry is a sum of products of normal numbers. Products of their leading bits are added up in doubles, where
these are exact or their error is bounded, and an entry is answered if all that it can be is rounded to the
same number. The others are computed as Python integers, from as many bits as it takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.noise.sampling.gaussian_wide import multiply_high
from sfumato.noise.sampling.integers import as_integers
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import PLACE_BITS, draw_normals

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.normal_draws import Ints, NormalDraws

    Floats = NDArray[np.float64]
    Booleans = NDArray[np.bool_]

_CELL_BITS = 10
"""Bits of the cells that the quick way is for. P(|Z| ≥ 16) is below 2^−180."""
_DOUBT = 1.2
"""Doubt of an entry in relation to what the bits left out can add to it; 1.125 is proven."""
_MOST_SHIFT = 60


@dataclass(frozen=True, slots=True)
class WishartSampler:
    """Draws the upper triangle of scale/2 · (W − W′), rounded: W and W′ are sums of g·gᵀ, size + 1 each."""

    size: int
    scale: Fraction

    @property
    def width(self) -> int:
        """The number of normal numbers in a row: those of W, then those of W′, which count negatively."""
        return 2 * (self.size + 1)

    @property
    def fine_bits(self) -> int:
        """Bits of a place in the upper halves, such that sums of products of those are exact in doubles."""
        return (53 - self.width.bit_length()) // 2 - _CELL_BITS

    def draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws, one column each."""
        draws = draw_normals(count * self.size * self.width, source)
        found, clear = self._round_all(draws)
        return found.T if clear.all() else self._settle_all(draws, found, clear).T

    def _round_all(self, draws: NormalDraws) -> tuple[Ints, Booleans]:
        """Return entries rounded by the leading bits, one row a draw, and which of them these decide."""
        shape = -1, self.size, self.width
        heads, negative = draws.heads.reshape(shape), draws.negative.reshape(shape)
        coarse, rest = self._multiply(heads, negative)
        if int(heads.max()) >> PLACE_BITS + _CELL_BITS:
            return coarse.astype(np.int64), np.zeros(coarse.shape, dtype=np.bool_)
        # Entries are whole numbers of 2^−bits squared cells, below 2^57 of them, and so are both parts, which
        # may cancel out.
        extra = 56 - math.frexp(float(np.abs(coarse).max() + np.abs(rest).max()) + 1)[1]
        entries = (coarse.astype(np.int64) << extra) + np.floor(rest * 2.0**extra).astype(np.int64)
        bits = 2 * self.fine_bits + extra
        return self._round(entries, self._slack(heads, bits), bits)

    def _multiply(self, heads: Ints, negative: Booleans) -> tuple[Floats, Floats]:
        """Return two parts of each entry of the upper triangle, in units of 2^−(2 · fine_bits)."""
        low_bits = PLACE_BITS - self.fine_bits
        signs = np.where(negative, -1.0, 1.0)
        upper = (heads >> low_bits) * signs
        lower = (heads & (1 << low_bits) - 1) * (signs * 2.0**-low_bits)
        # (u + l)·(v + m) is u·v, which is exact, and (u + l/2)·m + (v + m/2)·l, which is small.
        middle, signed = upper + lower / 2, upper.copy()
        for each in middle, signed:
            each[..., self.size + 1 :] *= -1
        triangle = _triangle(self.size)
        products = np.matmul(signed, upper.swapaxes(1, 2)), np.matmul(middle, lower.swapaxes(1, 2))
        coarse, rest = (each.reshape(-1, self.size**2) for each in products)
        return coarse.take(triangle.above, axis=1), (
            rest.take(triangle.above, axis=1) + rest.take(triangle.below, axis=1)
        )

    def _slack(self, heads: Ints, bits: int) -> Ints:
        """Return how far an entry may be off, in units of 2^−bits squared cells, rounded up."""
        # A number is less than a step beyond what is known: a product, less than both of them and one.
        reach = heads.sum(axis=2, dtype=np.float64) + self.width
        triangle = _triangle(self.size)
        both = reach.take(triangle.rows, axis=1) + reach.take(triangle.columns, axis=1)
        found: Ints = np.ceil(both * (_DOUBT * 2.0 ** (bits - 2 * PLACE_BITS))).astype(np.int64) + 1
        return found

    def _round(self, entries: Ints, slack: Ints, bits: int) -> tuple[Ints, Booleans]:
        """Return scale / 2 · entries / (CELLS² · 2^bits), rounded, and which of them the slack allows."""
        shift, factor = _find_factor(self.scale, bits)
        if shift < 1:
            return entries, np.zeros(entries.shape, dtype=np.bool_)
        # The product falls short by less than 2, and the rounded factor moves it by less than 1/2.
        products = multiply_high(entries, factor) + (1 << shift - 1)
        low, high = products - (slack + 1) >> shift, products + (slack + 3) >> shift
        return low, low == high

    def _settle_all(self, draws: NormalDraws, found: Ints, clear: Booleans) -> IntArray:
        """Return the entries, with those that are not clear from as many bits as it takes."""
        triangle, (places, entries) = _triangle(self.size), np.nonzero(~clear)
        rows = places * self.size + triangle.rows[entries]
        columns = places * self.size + triangle.columns[entries]
        negative = draws.negative.reshape(-1, self.width)
        # Products of numbers with different signs count negatively, and those of W′ the other way round.
        signs = (negative[rows] != negative[columns]) != (np.arange(self.width) > self.size)

        each = zip(rows.tolist(), columns.tolist(), signs.tolist(), strict=True)
        values = as_integers([self._settle(draws, *entry) for entry in each])
        # Far entries may not fit 64 bits, and turn all into Python integers.
        settled: Any = found.astype(values.dtype)
        settled[places, entries] = values
        return np.asarray(settled)

    def _settle(self, draws: NormalDraws, row: int, column: int, signs: list[bool]) -> int:
        """Return one entry, from as many bits as it takes."""
        starts, bits = (row * self.width, column * self.width), PLACE_BITS
        while True:
            bits += 64
            one, other = (draws.floor_magnitudes(range(s, s + self.width), bits) for s in starts)
            products = map(mul, one, other)
            known = sum(-each if minus else each for each, minus in zip(products, signs, strict=True))
            slack = sum(one) + sum(other) + self.width
            low, high = (self._nearest(known + off, 2 * bits) for off in (-slack, slack))
            if low == high:
                return low

    def _nearest(self, known: int, bits: int) -> int:
        """Return the whole number nearest to scale / 2 · known / (CELLS² · 2^bits)."""
        over = 2 * self.scale.denominator * CELLS**2 << bits
        return (2 * self.scale.numerator * known + over) // (2 * over)


class _Triangle(NamedTuple):
    """The upper triangle of a matrix, row by row: where its entries stand."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    above: NDArray[np.intp]
    """Places in all of the matrix."""
    below: NDArray[np.intp]
    """Places of the same entries in the transposed matrix."""


@lru_cache(maxsize=16)
def _triangle(size: int) -> _Triangle:
    rows, columns = np.triu_indices(size)
    return _Triangle(rows, columns, rows * size + columns, columns * size + rows)


@lru_cache(maxsize=64)
def _find_factor(scale: Fraction, bits: int) -> tuple[int, int]:
    """Return a shift and a factor of at most 2^58: entry · factor / 2^58 is the noise, times 2^shift."""
    unit = scale / (2 * CELLS**2) / 2**bits
    shift = min(math.floor(1 / unit).bit_length() - 1, _MOST_SHIFT)
    return shift, math.floor(unit * 2 ** (58 + max(shift, 0)))
