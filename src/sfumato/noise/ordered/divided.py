"""Cells that are divided, so that rows of one cell can be told apart by rank (docs/proofs/quantiles.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.noise.histograms import MOST_CELLS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.histograms import Histograms
    from sfumato.noise.sampling.integers import IntArray

_PIECES = 2**10
"""Most pieces of a cell. A crowded cell is cut at the right place up to such a part of its rows; more pieces
would only make the proven bounds larger. Chosen by benchmarks/quantiles.py; privacy does not depend on it.
"""


class RankedCells(Protocol):
    """Rows of one or several groups in cells that have an order."""

    @property
    def groups(self) -> int:
        """Number of groups."""

    @property
    def cells(self) -> int:
        """Number of cells of each group."""

    def rank(self, cells: NDArray[np.int64]) -> IntArray:
        """Return the number of rows before each of these cells of the long grid."""

    def cell_at_rank(self, ranks: IntArray) -> NDArray[np.int64]:
        """Return the cell of the long grid that holds the row of each rank, from 0."""


@dataclass(frozen=True, slots=True)
class DividedCells:
    """Histograms on a finer grid: each cell is cut into `pieces`, and its rows are dealt out to them.

    One more row in a cell is one more row in exactly one of its pieces, whatever the others hold: with
    h = q · pieces + r rows, the last r pieces have q + 1 of them and the others q.
    """

    whole: Histograms
    pieces: int

    @classmethod
    def of(cls, whole: Histograms) -> DividedCells:
        """Return these histograms with cells that are divided as finely as the grid allows."""
        return cls(whole, count_pieces(whole.cells, whole.groups))

    @property
    def groups(self) -> int:
        """Number of groups."""
        return self.whole.groups

    @property
    def cells(self) -> int:
        """Number of cells of each group, counted by their pieces."""
        return self.whole.cells * self.pieces

    def rank(self, cells: NDArray[np.int64]) -> IntArray:
        """Return, for each piece of the long grid, the number of rows before it."""
        cell, piece = np.divmod(cells, self.pieces)
        start, rows = self._rows(cell)
        each, more = rows // self.pieces, rows % self.pieces
        return np.asarray(start + piece * each + np.maximum(piece + more - self.pieces, 0))

    def cell_at_rank(self, ranks: IntArray) -> NDArray[np.int64]:
        """Return the piece that holds the row of each rank, and the end of the grid for other ranks."""
        cell = self.whole.cell_at_rank(ranks)
        start, rows = self._rows(cell)
        each, more = rows // self.pieces, rows % self.pieces
        within, fewer = ranks - start, (self.pieces - more) * each
        first = within // np.maximum(each, 1)
        later = self.pieces - more + (within - fewer) // (each + 1)
        piece = np.where(rows == 0, 0, np.where(within < fewer, first, later))
        return cell * self.pieces + piece.astype(np.int64)

    def _rows(self, cell: NDArray[np.int64]) -> tuple[IntArray, IntArray]:
        """Return the rows before each cell and those in it; the end of the grid has none."""
        start = self.whole.rank(cell)
        return start, self.whole.rank(np.minimum(cell + 1, self.groups * self.whole.cells)) - start


def count_pieces(cells: int, groups: int = 1) -> int:
    """Return into how many pieces each of so many cells is cut."""
    return max(1, min(_PIECES, MOST_CELLS // cells, 2**62 // (groups * cells)))
