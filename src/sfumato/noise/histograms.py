"""Counts over the cells of a public grid, as mechanisms take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.sampling.integers import integers
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.integers import IntArray

MOST_CELLS = 2**32

_WIDE = 2**62


def histogram(counts: Any, cells: int | None = None) -> IntArray:
    """One row of counts, of the stated length; anything else is refused before a bit is drawn."""
    array = integers(counts)
    if array.ndim != 1 or int(array.min()) < 0 or cells not in (None, array.size):
        raise UsageError(
            "SF-N505",
            "A histogram is one row of counts, none of them negative.",
            got=f"shape {array.shape}",
            cells="any number" if cells is None else str(cells),
        )
    return array


def roomy(cells: IntArray) -> IntArray:
    """As Python integers where the total may not fit 64 bits."""
    if not cells.size or int(cells.max()) * cells.size < _WIDE:
        return cells
    return cells if sum(cells.tolist()) < _WIDE else cells.astype(object)


@dataclass(frozen=True, slots=True)
class Histograms:
    """Histograms over the same public grid, one a group, of which only the occupied cells are kept.

    The grids of all groups stand one after the other and make one long grid.
    """

    places: NDArray[Any]
    """The occupied cells of the long grid, ascending."""
    before: IntArray | None
    """For each of these, the rows in all cells before it, and then all rows. None where a cell is listed once
    for every row, so that as many rows as cells come before."""
    groups: int
    cells: int

    @classmethod
    def of(cls, group: Any, values: Any, counts: Any, *, groups: int, cells: int) -> Histograms:
        """From triplets, sorted by group and then by value, with no pair of these twice."""
        given, within = (_row(group), _row(values)), (groups, cells)
        _check_grid(*within)
        if given[0].size != given[1].size or not all(map(_inside, given, within)):
            raise _unsorted()
        return cls.ascending(given[0] * cells + given[1], counts, groups=groups, cells=cells)

    @classmethod
    def ascending(cls, places: NDArray[Any], counts: Any, *, groups: int, cells: int) -> Histograms:
        """From cells of the long grid in order: each once with its count, or, without counts, once for every
        row. They are not copied, and of any type of integers that holds the end of the grid."""
        _check_grid(groups, cells)
        repeated = places[1:] < places[:-1] if counts is None else places[1:] <= places[:-1]
        if np.any(repeated) or not _inside(places, groups * cells):
            raise _unsorted()
        return cls(places, None if counts is None else _before(counts, places.size), groups, cells)

    @classmethod
    def sparse(cls, values: Any, counts: Any, *, cells: int) -> Histograms:
        """One histogram, from its occupied cells in ascending order."""
        return cls.ascending(_row(values), counts, groups=1, cells=cells)

    @classmethod
    def dense(cls, counts: Any) -> Histograms:
        """One histogram, from a row with a count for every cell."""
        row = histogram(counts)
        occupied = np.flatnonzero(row)
        return cls(occupied, _before(row[occupied], occupied.size), 1, row.size)

    @property
    def shape(self) -> tuple[int, int]:
        return self.groups, self.cells

    def rank(self, cells: NDArray[np.int64]) -> IntArray:
        """For each cell of the long grid, the rows in all cells before it."""
        found = np.searchsorted(self.places, cells.astype(self.places.dtype))
        return found if self.before is None else self.before[found]

    def cell(self, ranks: IntArray) -> NDArray[np.int64]:
        """For each rank, from 0, the cell of the long grid where the row of this rank lies; its end for ranks
        that no row has."""
        at = ranks if self.before is None else np.searchsorted(self.before[1:], ranks, side="right")
        there = (ranks >= 0) & (at < self.places.size)
        cells = np.full(at.shape, self.groups * self.cells, dtype=np.int64)
        cells[there] = self.places[at[there]]
        return cells

    def roomy(self, factor: int) -> Histograms:
        """With Python integers for ranks where this multiple of them may not fit 64 bits."""
        if self.before is None or self.before.dtype == object or int(self.before[-1]) * factor < _WIDE:
            return self  # as many rows as fit the memory, times the finest share, are below 2^62
        return Histograms(self.places, self.before.astype(object), *self.shape)

    def difference(self, other: Histograms) -> int:
        """By how many rows two of the same shape differ, over all cells."""
        cells = np.union1d(self.places, other.places).astype(np.int64)
        return sum(abs(step) for step in (self._counts(cells) - other._counts(cells)).tolist())

    def _counts(self, cells: NDArray[np.int64]) -> IntArray:
        return np.asarray(self.rank(cells + 1) - self.rank(cells), dtype=object)


def histograms(counts: Any) -> Histograms:
    """One histogram, given as such or as a row of counts."""
    if not isinstance(counts, Histograms):
        return Histograms.dense(counts)
    if counts.groups != 1:
        raise UsageError("SF-N511", "One histogram is wanted.", got=f"{counts.groups} groups")
    return counts


def _check_grid(groups: int, cells: int) -> None:
    if whole(cells, "cells") > MOST_CELLS or whole(groups, "groups") * cells > _WIDE:
        raise UsageError("SF-N511", "The grid is too fine.", got=f"{groups} groups of {cells} cells")


def _row(values: Any) -> IntArray:
    """A row of whole numbers, which may be empty. One that is ready for use is not copied."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        array: IntArray = values
    else:
        array = integers(values) if np.size(values) else np.zeros(0, dtype=np.int64)
    if array.ndim != 1:
        raise _unsorted()
    return array


def _inside(row: IntArray, end: int) -> bool:
    return not row.size or (int(row.min()) >= 0 and int(row.max()) < end)


def _before(counts: Any, size: int) -> IntArray:
    """The rows before each of so many cells, and then all rows."""
    row = roomy(_row(counts))
    if row.size != size or (size and int(row.min()) < 0):
        raise _unsorted()
    return np.concatenate([np.zeros(1, dtype=row.dtype), np.cumsum(row)])


def _unsorted() -> UsageError:
    return UsageError(
        "SF-N511",
        "A sparse histogram is three rows of whole numbers: groups, values and counts, sorted by group and "
        "value, each pair of these once.",
        try_="numpy.lexsort((values, groups)) for the order",
    )
