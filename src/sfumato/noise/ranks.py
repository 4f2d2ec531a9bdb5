"""Cells near a wanted rank, chosen exactly in many histograms at once (docs/proofs/quantiles.md).

Cells stand together in bands of about the same distance from the wanted rank. A band is chosen as if all of
its cells were as near as the nearest could be, then a cell in it, and a coin decides by how much further away
that cell is whether to keep it or to begin again. So the work depends on the number of bands, not of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.sampling.bernoulli_exp import REACH, chances

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.histograms import Histograms
    from sfumato.noise.sampling.bernoulli_exp import Gaps
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

_FINENESS = 2  # bands a scale: more of them cost time, fewer of them turn more cells away
_BLOCK = 2**13  # so many parts at a time, which bounds the memory


@dataclass(frozen=True, slots=True)
class CellRanges:
    """Of every histogram the cells from `low` to before `stop`, and its rows of ranks `before` to `upto`.

    No cell of a part ends before its rows begin or begins after they end.
    """

    low: NDArray[np.int64]
    stop: NDArray[np.int64]
    before: IntArray
    upto: IntArray

    @classmethod
    def all(cls, table: Histograms) -> CellRanges:
        edges = np.arange(table.groups + 1, dtype=np.int64) * table.cells
        ranks = table.rank(edges)
        return cls(edges[:-1], edges[1:], ranks[:-1], ranks[1:])

    def __len__(self) -> int:
        return self.low.size

    def __getitem__(self, some: Any) -> CellRanges:
        return CellRanges(self.low[some], self.stop[some], self.before[some], self.upto[some])

    def split(self, table: Histograms, cells: NDArray[np.int64]) -> tuple[CellRanges, CellRanges]:
        """The cells up to a chosen one and those from it on; of its own rows each side gets half.

        One row more in the cell is one row more on exactly one side, so the two are as private as their sum.
        """
        start = np.maximum(table.rank(cells), self.before)
        end = np.minimum(table.rank(cells + 1), self.upto)
        border = start + (end - start) // 2
        return CellRanges(self.low, cells + 1, self.before, border), CellRanges(
            cells, self.stop, border, self.upto
        )


@dataclass(frozen=True, slots=True)
class RankTarget:
    """A share of the rows, and by how much a distance must grow to make a cell e times less likely.

    Distances are counted in rows times the share's denominator, which makes them whole.
    """

    share: Fraction
    scale: Fraction
    offset: int = 0
    """So many rows further on, but not beyond the rows there are."""

    @property
    def width(self) -> int:
        """Of a band."""
        return -(-self.scale.numerator // (_FINENESS * self.scale.denominator))

    @property
    def bands(self) -> int:
        """On either side, besides the one in the middle. The last one has no end."""
        return -(-REACH * self.scale.numerator // (self.width * self.scale.denominator))

    def rank(self, parts: CellRanges) -> IntArray:
        """The wanted one, times the denominator."""
        rows, steps = parts.upto - parts.before, self.share.denominator
        within = np.clip(self.share.numerator * rows + steps * self.offset, 0, steps * rows)
        return np.asarray(steps * parts.before + within, dtype=rows.dtype)

    def distances(self, table: Histograms, parts: CellRanges, cells: NDArray[np.int64]) -> Gaps:
        """How far the wanted rank lies outside the ranks of a cell's rows.

        A border cell may have rows outside its part. They lie on the far side of the wanted rank, so cutting
        them off would change nothing.
        """
        wanted, steps = self.rank(parts), self.share.denominator
        above, below = steps * table.rank(cells) - wanted, wanted - steps * table.rank(cells + 1)
        gaps = np.maximum(np.maximum(above, below), 0)
        return np.asarray(gaps, dtype=object if gaps.dtype == object else np.uint64)

    def nearest(self) -> Gaps:
        """The least distance of a band, from the first one to the last."""
        return np.abs(np.arange(-self.bands, self.bands + 1)).astype(np.uint64) * np.uint64(self.width)

    def edges(self, table: Histograms, parts: CellRanges) -> NDArray[np.int64]:
        """For each part the cells where its bands begin, and where the last one ends.

        Below the wanted rank a cell is nearer than d if the rows up to it are more than wanted − d; above it
        is at least as far as d if the rows before it are wanted + d or more.
        """
        wanted, steps = self.rank(parts)[:, None], self.share.denominator
        away = np.arange(1, self.bands + 1) * self.width
        under, over = (wanted - away[::-1]) // steps, -((-wanted - away) // steps)
        nearer, further = table.cell(under), table.cell(over - 1) + 1
        low, stop = parts.low[:, None], parts.stop[:, None]
        inner = np.concatenate([np.where(under < 0, low, nearer), further], axis=1)
        return np.concatenate([low, np.clip(inner, low, stop), stop], axis=1)


def choose(table: Histograms, parts: CellRanges, aim: RankTarget, source: BitSource) -> NDArray[np.int64]:
    """In each part a cell, with a chance in proportion to e^(−distance / scale)."""
    chosen = np.zeros(len(parts), dtype=np.int64)
    left = np.arange(len(parts))
    while left.size:
        kept = np.zeros(left.size, dtype=np.bool_)
        for start in range(0, left.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            chosen[left[block]], kept[block] = _tried(table, parts[left[block]], aim, source)
        left = left[~kept]
    return chosen


def _tried(
    table: Histograms, parts: CellRanges, aim: RankTarget, source: BitSource
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """In each part a cell, and whether to keep it."""
    weights, nearest, edges = chances(aim.scale), aim.nearest(), aim.edges(table, parts)
    bands, offsets = weights.pick_each(nearest, np.diff(edges, axis=1).astype(np.uint64), source)
    cells = edges[np.arange(len(parts)), bands] + offsets
    excess = aim.distances(table, parts, cells) - nearest[bands]
    kept = excess == 0
    further = np.flatnonzero(~kept)
    kept[further] = weights.flip(excess[further], source)
    return cells, kept
