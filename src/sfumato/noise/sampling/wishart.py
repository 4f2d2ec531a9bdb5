"""Differences of two Wishart matrices, rounded to whole numbers exactly (docs/proofs/k-norm.md#matrices).

g·gᵀ − h·hᵀ is p·qᵀ + q·pᵀ for p = (g + h)/√2 and q = (g − h)/√2, which are independent normal vectors too.
An entry adds up such products, in doubles, from the leading bits of the normal numbers, and is answered if
all that it can be is rounded to the same number. The others are computed as Python integers, from as many
bits as it takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.noise.sampling.integers import as_integers
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import draw_normals
from sfumato.noise.sampling.rectangles import WORD_BITS

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.normal_draws import NormalDraws, Words

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Booleans = NDArray[np.bool_]

_CELL_BITS = 9
"""Bits of the cells that doubles are used for. P(|Z| ≥ 8) is below 2^−49."""
_LIMB, _LARGEST = 2.0**27, 2.0**62
_SHORT_WORDS = {15: 2**8, 31: 2**26}
"""Bits of a place, and the largest scale · (size + 1) that they are drawn for. The entries that they leave
open take no longer than more bits would (benchmarks/noise.py). Privacy does not depend on it."""
_BLOCK = 2**15
"""About how many normal numbers are drawn at a time (benchmarks/noise.py)."""
_MARGIN = 1.05
"""Covers what is lost in computing the doubt itself."""


@dataclass(frozen=True, slots=True)
class WishartSampler:
    """Draws the upper triangle of scale/2 · (W − W′), rounded: W and W′ are sums of g·gᵀ, size + 1 each."""

    size: int
    scale: Fraction
    place_bits: int
    """Bits of a place that are drawn first."""
    known_bits: int
    """Bits of a place in what is multiplied: all of them, or those of upper halves."""
    unit: Fraction
    """What an entry of one stands for where numbers are multiplied."""

    @classmethod
    def build(cls, size: int, scale: Fraction, place_bits: int) -> WishartSampler:
        """Return the sampler that draws so many bits first: 15, 31 or 63."""
        # Upper halves are such that sums of products of them are exact in doubles.
        halves = (52 - (size + 1).bit_length()) // 2 - _CELL_BITS
        known = halves if place_bits == WORD_BITS else place_bits
        return cls(size, scale, place_bits, known, scale / (2 * CELLS**2 * 4**known))

    @property
    def width(self) -> int:
        """The number of vectors p, and of vectors q. A row has an entry of each."""
        return self.size + 1

    @property
    def numbers(self) -> int:
        """The number of normal numbers in a draw."""
        return self.size * 2 * self.width

    def draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws, one column each."""
        space = _Space.allocate(self, min(count, max(1, _BLOCK // self.numbers)))
        found: list[Any] = []
        while (left := count - sum(map(len, found))) > 0:
            found.append(self._draw_block(space.limit(left), source))
        return np.asarray(found[0] if len(found) == 1 else np.concatenate(found)).T

    def _draw_block(self, space: _Space, source: BitSource) -> IntArray:
        draws = draw_normals(space.count * self.numbers, self.place_bits, source)
        found, clear = self.round_all(draws, space)
        return found if clear is None else self.settle_all(draws, found, clear)

    def round_all(self, draws: NormalDraws, space: _Space) -> tuple[Ints, Booleans | None]:
        """Return entries rounded by the leading bits, one row a draw, and which of them these decide.

        None stands for all of them.
        """
        if int(draws.cells.max()) >> _CELL_BITS:
            return space.leave_open()
        return (self._round_halves if draws.bits == WORD_BITS else self._round_middles)(draws, space)

    def _round_middles(self, draws: NormalDraws, space: _Space) -> tuple[Ints, Booleans | None]:
        """Round by the middles of what the numbers can be, multiplied in doubles."""
        middles, unit = space.upper, float(self.unit)
        _place(draws.cells, draws.words, self.known_bits, out=middles)
        middles += 0.5
        error = 1 + (self.width + 4) * 2.0 ** (self.known_bits - 44)
        doubt = _MARGIN * unit * (_find_reach(middles, self.width) * error + self.width / 2)
        entries = space.multiply_upper()
        entries *= unit
        return _round(entries, doubt, space.second)

    def _round_halves(self, draws: NormalDraws, space: _Space) -> tuple[Ints, Booleans | None]:
        """Round by upper halves, whose products are exact, and lower halves, which add little."""
        low_bits, ints, unit = WORD_BITS - self.known_bits, space.ints, float(self.unit)
        np.right_shift(draws.words, low_bits, out=ints)
        _place(draws.cells, ints, self.known_bits, out=space.upper)
        np.bitwise_and(draws.words, (1 << low_bits) - 1, out=ints)
        np.multiply(ints, 2.0**-low_bits, out=space.lower)
        reach, fill = (
            _find_reach(space.upper, self.width) + 3 * self.width,
            _find_reach(space.lower, self.width),
        )
        error = 2.0 ** (self.known_bits - 62) + fill / self.width * (self.width + 5) * 2.0**-52
        doubt = _MARGIN * unit * reach * error + 2.0**-20
        coarse = space.multiply_upper()
        if unit * max(float(np.abs(coarse).max()), _LIMB) > _LARGEST:
            return space.leave_open()
        whole, fraction = _multiply(coarse, self.unit)
        rest = space.multiply_lower()
        rest *= unit
        rest += fraction
        found, clear = _round(rest, doubt, space.second)
        found += whole
        return found, clear

    def settle_all(self, draws: NormalDraws, found: Ints, clear: Booleans) -> IntArray:
        """Return the entries, with those that are not clear from as many bits as it takes."""
        triangle, (places, entries) = _triangle(self.size), np.nonzero(~clear)
        rows = (places * self.size + triangle.rows[entries]).tolist()
        columns = (places * self.size + triangle.columns[entries]).tolist()
        values = as_integers([self._settle(draws, *entry) for entry in zip(rows, columns, strict=True)])
        # Far entries may not fit 64 bits, and turn all into Python integers.
        settled: Any = found.astype(values.dtype)
        settled[places, entries] = values
        return np.asarray(settled)

    def _settle(self, draws: NormalDraws, row: int, column: int) -> int:
        """Return one entry, from as many bits as it takes."""
        more, length = 0, 2 * self.width
        while True:
            more += 1
            one, other = (draws.floors(range(at * length, (at + 1) * length), more) for at in (row, column))
            known = sum(map(mul, one, other[self.width :] + other[: self.width]))
            slack = sum(map(abs, one)) + sum(map(abs, other)) + length
            bits = 2 * (draws.bits + 64 * more)
            low, high = (self._nearest(known + off, bits) for off in (-slack, slack))
            if low == high:
                return low

    def _nearest(self, known: int, bits: int) -> int:
        """Return the whole number nearest to scale / 2 · known / (CELLS² · 2^bits)."""
        over = 2 * self.scale.denominator * CELLS**2 << bits
        return (2 * self.scale.numerator * known + over) // (2 * over)


@dataclass(frozen=True, slots=True)
class _Space:
    """Memory for the draws of a block, which the next block of the same call uses again.

    Memory that is new to a process takes longer to be had than to be filled (benchmarks/noise.py).
    """

    size: int
    upper: Floats
    """Numbers, or their upper halves: in each row those of vectors p, then those of vectors q."""
    lower: Floats
    ints: Ints
    products: Floats
    first: Floats
    second: Floats

    @classmethod
    def allocate(cls, sampler: WishartSampler, count: int) -> _Space:
        """Return memory for so many draws."""
        size, numbers = sampler.size, count * sampler.numbers
        entries = count, size * (size + 1) // 2
        halves = numbers if sampler.place_bits == WORD_BITS else 0
        rows = np.empty(numbers), np.empty(halves), np.empty(halves, dtype=np.int64)
        return cls(size, *rows, np.empty((count, size, size)), np.empty(entries), np.empty(entries))

    @property
    def count(self) -> int:
        """The number of draws."""
        return len(self.first)

    def limit(self, count: int) -> _Space:
        """Return the part of it that is for at most so many draws."""
        if count >= self.count:
            return self
        numbers = count * (self.upper.size // self.count)
        upper, lower, ints = self.upper[:numbers], self.lower[:numbers], self.ints[:numbers]
        return _Space(
            self.size, upper, lower, ints, self.products[:count], self.first[:count], self.second[:count]
        )

    def leave_open(self) -> tuple[Ints, Booleans]:
        """Return entries that are all undecided."""
        return np.zeros(self.first.shape, dtype=np.int64), np.zeros(self.first.shape, dtype=np.bool_)

    def multiply_upper(self) -> Floats:
        """Return p·qᵀ and its transpose added up, in the upper triangle."""
        rows, width = self._rows(self.upper), self.size + 1
        return self._add_transposed(rows[:, :, :width], rows[:, :, width:])

    def multiply_lower(self) -> Floats:
        """Return what `multiply_upper` leaves out; `upper` is used up."""
        # (u + l)·(v + m) is u·v and (u + l/2)·m + (v + m/2)·l.
        swapped = self._rows(self.lower).reshape(-1, self.size, 2, self.size + 1)[:, :, ::-1]
        other = swapped.reshape(-1, self.size, 2 * self.size + 2)
        np.multiply(self.lower, 0.5, out=self.lower)
        np.add(self.upper, self.lower, out=self.upper)
        return self._add_transposed(self._rows(self.upper), other)

    def _rows(self, numbers: Floats) -> Floats:
        return numbers.reshape(-1, self.size, 2 * self.size + 2)

    def _add_transposed(self, one: Floats, other: Floats) -> Floats:
        triangle, out = _triangle(self.size), self.first
        flat = np.matmul(one, other.swapaxes(1, 2), out=self.products).reshape(-1, self.size**2)
        flat.take(triangle.above, axis=1, out=out, mode="clip")
        out += flat.take(triangle.below, axis=1, out=self.second, mode="clip")
        return out


def _find_reach(numbers: Floats, width: int) -> float:
    """Return a bound on the sum of magnitudes in a row: the norm of any row, times √(2 · width)."""
    rows = numbers.reshape(-1, 2 * width)
    return math.sqrt(2 * width * float(np.einsum("ij,ij->i", rows, rows).max()))


def _place(cells: IntArray, words: Words, bits: int, out: Floats) -> None:
    """Write ±cell · 2^bits + word, with the sign of the word."""
    np.multiply(cells, 2.0**bits, out=out)
    np.copysign(out, words, out=out)
    out += words


def _round(values: Floats, doubt: float, nearest: Floats) -> tuple[Ints, Booleans | None]:
    """Return the nearest whole numbers, and which of them are sure, or None for all. Values are used up."""
    np.rint(values, out=nearest)
    values -= nearest
    np.abs(values, out=values)
    clear = None if float(values.max()) <= 0.5 - doubt else values <= 0.5 - doubt
    return nearest.astype(np.int64), clear


def _multiply(numbers: Floats, factor: Fraction) -> tuple[Ints, Floats]:
    """Return factor · numbers as whole numbers and what is to be added, for whole ones within ±2^53."""
    upper = np.floor(numbers / _LIMB)
    lower = numbers - upper * _LIMB
    (a, b), (c, d) = divmod(factor * int(_LIMB), 1), divmod(factor, 1)
    whole = upper.astype(np.int64) * a + lower.astype(np.int64) * c
    return whole, upper * float(b) + lower * float(d)


@lru_cache(maxsize=64)
def wishart_sampler(size: int, scale: Fraction) -> WishartSampler:
    """Return the sampler that takes the least time."""
    wide = scale * (size + 1)
    bits = next((bits for bits, most in _SHORT_WORDS.items() if wide <= most), WORD_BITS)
    return WishartSampler.build(size, scale, bits)


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
