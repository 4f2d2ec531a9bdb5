"""The exponential mechanism over cells near a wanted rank, in many histograms (docs/proofs/quantiles.md).

Rejection sampling keeps the work small: cells are grouped into bands of about the same distance from the
wanted rank. A band is chosen as if all of its cells were as near as the nearest could be, then a cell in it,
and a coin whose probability falls with the extra distance of that cell accepts it or begins again. So the
work depends on the number of bands and not of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.sampling.bernoulli_exp import REACH, build_bernoulli_exp

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.ordered.divided import RankedCells
    from sfumato.noise.sampling.bernoulli_exp import Gaps
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

# Bands per scale, and groups handled at a time. More bands cost time, fewer reject more cells; the block
# bounds the memory. Privacy depends on neither: rejection makes the law exact for any values.
_FINENESS = 2
_BLOCK = 2**13


@dataclass(frozen=True, slots=True)
class CellRanges:
    """A range of cells for every group, from `low` to before `stop`; its rows have ranks `before` to `upto`.

    No cell of a range ends before its rows begin or begins after they end.
    """

    low: NDArray[np.int64]
    stop: NDArray[np.int64]
    before: IntArray
    upto: IntArray

    @classmethod
    def cover(cls, table: RankedCells) -> CellRanges:
        """Return the ranges that hold all cells of every group."""
        edges = np.arange(table.groups + 1, dtype=np.int64) * table.cells
        ranks = table.rank(edges)
        return cls(edges[:-1], edges[1:], ranks[:-1], ranks[1:])

    def __len__(self) -> int:
        return self.low.size

    def __getitem__(self, some: Any) -> CellRanges:
        return CellRanges(self.low[some], self.stop[some], self.before[some], self.upto[some])

    def split(self, table: RankedCells, cells: NDArray[np.int64]) -> tuple[CellRanges, CellRanges]:
        """Return the cells up to a chosen one and those from it on; each side gets half of its rows."""
        # One more row in the chosen cell is one more row on exactly one side, so both sides together have the
        # sensitivity of the whole.
        start = np.maximum(table.rank(cells), self.before)
        end = np.minimum(table.rank(cells + 1), self.upto)
        border = start + (end - start) // 2
        return CellRanges(self.low, cells + 1, self.before, border), CellRanges(
            cells, self.stop, border, self.upto
        )

    def merge(self, pieces: int) -> CellRanges:
        """Return the ranges of whole cells in which these ranges of pieces lie, with the same rows."""
        return CellRanges(self.low // pieces, -(-self.stop // pieces), self.before, self.upto)


@dataclass(frozen=True, slots=True)
class RankTarget:
    """The share of the rows that is wanted below a cell, and the scale of the exponential mechanism.

    A cell whose distance is larger by `scale` is e times less likely. Distances are counted in rows times the
    share's denominator, which makes them integers.
    """

    share: Fraction
    scale: Fraction
    offset: int = 0
    """Number of rows by which the wanted rank is moved on, but not beyond the rows there are."""

    @property
    def width(self) -> int:
        """Width of a band, as a distance."""
        return -(-self.scale.numerator // (_FINENESS * self.scale.denominator))

    @property
    def bands(self) -> int:
        """Number of bands on either side of the one in the middle. The last one has no end."""
        return -(-REACH * self.scale.numerator // (self.width * self.scale.denominator))

    def ranks(self, parts: CellRanges) -> IntArray:
        """Return the wanted rank in each range, times the denominator of the share."""
        rows, steps = parts.upto - parts.before, self.share.denominator
        within = np.clip(self.share.numerator * rows + steps * self.offset, 0, steps * rows)
        return np.asarray(steps * parts.before + within, dtype=rows.dtype)

    def distances(self, table: RankedCells, parts: CellRanges, cells: NDArray[np.int64]) -> Gaps:
        """Return how far the wanted rank lies outside the ranks of each cell's rows."""
        # A border cell may have rows outside its range. They lie on the far side of the wanted rank, so
        # leaving them out would change nothing.
        wanted, steps = self.ranks(parts), self.share.denominator
        above, below = steps * table.rank(cells) - wanted, wanted - steps * table.rank(cells + 1)
        gaps = np.maximum(np.maximum(above, below), 0)
        return np.asarray(gaps, dtype=object if gaps.dtype == object else np.uint64)

    def find_inner(self, table: RankedCells, parts: CellRanges) -> tuple[NDArray[np.int64], Gaps]:
        """Return the cell of each range that holds the wanted rank, and how far within its ranks that lies.

        The depth is 0 where the rank is between cells, or where there are no rows.
        """
        wanted, steps = self.ranks(parts), self.share.denominator
        row = wanted // steps
        cells = np.clip(table.cell_at_rank(row), parts.low, parts.stop - 1)
        # Rows of a border cell that belong to the other side do not count.
        start = steps * np.maximum(table.rank(cells), parts.before)
        end = steps * np.minimum(table.rank(cells + 1), parts.upto)
        depth = np.where(row < parts.upto, np.maximum(np.minimum(wanted - start, end - wanted), 0), 0)
        return cells, np.asarray(depth, dtype=object if depth.dtype == object else np.uint64)

    def band_distances(self) -> Gaps:
        """Return the least distance of each band, from the first to the last."""
        return np.abs(np.arange(-self.bands, self.bands + 1)).astype(np.uint64) * np.uint64(self.width)

    def band_edges(self, table: RankedCells, parts: CellRanges) -> NDArray[np.int64]:
        """Return, for each range, the cells where its bands begin, and where the last one ends."""
        # Below the wanted rank a cell is nearer than d if the rows up to it are more than wanted − d; above
        # it a cell is at least as far as d if the rows before it are wanted + d or more.
        wanted, steps = self.ranks(parts)[:, None], self.share.denominator
        away = np.arange(1, self.bands + 1) * self.width
        under, over = (wanted - away[::-1]) // steps, -((-wanted - away) // steps)
        nearer, further = table.cell_at_rank(under), table.cell_at_rank(over - 1) + 1
        low, stop = parts.low[:, None], parts.stop[:, None]
        inner = np.concatenate([np.where(under < 0, low, nearer), further], axis=1)
        return np.concatenate([low, np.clip(inner, low, stop), stop], axis=1)


def choose_cells(
    table: RankedCells, parts: CellRanges, target: RankTarget, source: BitSource
) -> NDArray[np.int64]:
    """Return a cell of each range, with a probability in proportion to e^(−distance / scale).

    A cell that holds the wanted rank has its depth as a negative distance.
    """
    chosen = np.zeros(len(parts), dtype=np.int64)
    left = np.arange(len(parts))
    while left.size:
        kept = np.zeros(left.size, dtype=np.bool_)
        for start in range(0, left.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            chosen[left[block]], kept[block] = _try_cells(table, parts[left[block]], target, source)
        left = left[~kept]
    return chosen


def _try_cells(
    table: RankedCells, parts: CellRanges, target: RankTarget, source: BitSource
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a proposed cell of each range, and whether it is accepted."""
    weights, nearest, edges = (
        build_bernoulli_exp(target.scale),
        target.band_distances(),
        target.band_edges(table, parts),
    )
    # A cell that holds the wanted rank is taken out of the band in the middle and stands alone after all of
    # them. Every other cell is further away by its depth.
    inner, depth = target.find_inner(table, parts)
    has_inner, middle, alone = depth > 0, target.bands, nearest.size
    lengths = np.diff(edges, axis=1)
    lengths[:, middle] -= has_inner
    gaps = np.concatenate([nearest + depth[:, None], np.zeros_like(depth)[:, None]], axis=1)
    bands, offsets = weights.pick_each(
        gaps, np.concatenate([lengths, has_inner[:, None]], axis=1).astype(np.uint64), source
    )
    cells = edges[np.arange(len(parts)), np.minimum(bands, alone - 1)] + offsets
    cells += has_inner & (bands == middle) & (cells >= inner)
    kept = bands == alone
    cells[kept] = inner[kept]
    excess = target.distances(table, parts, cells) - np.append(nearest, nearest[middle])[bands]
    kept |= excess == 0
    further = np.flatnonzero(~kept)
    kept[further] = weights.flip(excess[further], source)
    return cells, kept
