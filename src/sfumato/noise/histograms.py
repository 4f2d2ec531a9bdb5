"""Histograms over the cells of a public grid, in the form that mechanisms take them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.sampling.integers import parse_integers
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.integers import IntArray

MOST_CELLS = 2**32
"""Most cells of one histogram. Larger grids would overflow 64-bit cell numbers of many groups."""

_WIDE = 2**62


def parse_histogram(counts: Any, cells: int | None = None) -> IntArray:
    """Return one row of counts, of the stated length; refuse anything else before a bit is drawn."""
    array = parse_integers(counts)
    if array.ndim != 1 or int(array.min()) < 0 or cells not in (None, array.size):
        raise UsageError(
            "SF-N203",
            "A histogram must be one row of counts, none of them negative.",
            got=f"shape {array.shape}",
            cells="any number" if cells is None else str(cells),
        )
    return array


def widen_if_needed(cells: IntArray) -> IntArray:
    """Return the counts, as Python integers if their total may not fit 64 bits."""
    if not cells.size or int(cells.max()) * cells.size < _WIDE:
        return cells
    return cells if sum(cells.tolist()) < _WIDE else cells.astype(object)


@dataclass(frozen=True, slots=True)
class Histograms:
    """Sparse histograms over the same public grid, one for each group: only occupied cells are kept.

    The grids of all groups are concatenated into one long grid.
    """

    places: NDArray[Any]
    """Occupied cells of the long grid, ascending."""
    before: IntArray | None
    """Number of rows in all cells before each of these, and then the number of all rows. None where a cell is
    listed once for every row, so that as many rows as listed cells come before."""
    groups: int
    cells: int

    @classmethod
    def from_triplets(cls, group: Any, values: Any, counts: Any, *, groups: int, cells: int) -> Histograms:
        """Return histograms from triplets, sorted by group and then by value, each pair of these once."""
        given, within = (_row(group), _row(values)), (groups, cells)
        _check_grid(*within)
        if given[0].size != given[1].size or not all(map(_inside, given, within)):
            raise _unsorted()
        return cls.from_sorted_cells(given[0] * cells + given[1], counts, groups=groups, cells=cells)

    @classmethod
    def from_sorted_cells(cls, places: NDArray[Any], counts: Any, *, groups: int, cells: int) -> Histograms:
        """Return histograms from cells of the long grid in ascending order.

        Each cell is listed once with its count, or, without counts, once for every row. The cells are not
        copied; they may have any integer type that holds the end of the grid.
        """
        _check_grid(groups, cells)
        repeated = places[1:] < places[:-1] if counts is None else places[1:] <= places[:-1]
        if np.any(repeated) or not _inside(places, groups * cells):
            raise _unsorted()
        return cls(places, None if counts is None else _before(counts, places.size), groups, cells)

    @classmethod
    def from_sparse(cls, values: Any, counts: Any, *, cells: int) -> Histograms:
        """Return one histogram from its occupied cells in ascending order."""
        return cls.from_sorted_cells(_row(values), counts, groups=1, cells=cells)

    @classmethod
    def from_dense(cls, counts: Any) -> Histograms:
        """Return one histogram from a row with a count for every cell."""
        row = parse_histogram(counts)
        occupied = np.flatnonzero(row)
        return cls(occupied, _before(row[occupied], occupied.size), 1, row.size)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of groups, and number of cells of each."""
        return self.groups, self.cells

    def rank(self, cells: NDArray[np.int64]) -> IntArray:
        """Return, for each cell of the long grid, the number of rows in all cells before it."""
        # The type must match: searchsorted would else copy and convert all places.
        found = np.searchsorted(self.places, cells.astype(self.places.dtype))
        return found if self.before is None else self.before[found]

    def cell_at_rank(self, ranks: IntArray) -> NDArray[np.int64]:
        """Return, for each rank from 0, the cell of the long grid that holds the row of this rank.

        For ranks that no row has it is the end of the grid.
        """
        at = ranks if self.before is None else np.searchsorted(self.before[1:], ranks, side="right")
        there = (ranks >= 0) & (at < self.places.size)
        cells = np.full(at.shape, self.groups * self.cells, dtype=np.int64)
        cells[there] = self.places[at[there]]
        return cells

    def widen(self, factor: int) -> Histograms:
        """Return these histograms, with Python integers if `factor` times a rank may not fit 64 bits."""
        if self.before is None or self.before.dtype == object or int(self.before[-1]) * factor < _WIDE:
            # Without counts there are no more rows than fit the memory; times the finest share that is below
            # 2^62.
            return self
        return Histograms(self.places, self.before.astype(object), *self.shape)

    def counts(self, start: int, stop: int) -> IntArray:
        """Return the number of rows in every cell of the groups from one place to before another."""
        edges = np.arange(start * self.cells, stop * self.cells + 1, dtype=np.int64)
        found: IntArray = np.diff(self.rank(edges)).reshape(stop - start, self.cells)
        return found

    def difference(self, other: Histograms) -> int:
        """Return by how many rows two histograms of one shape differ, summed over all cells."""
        return sum(self.differences(other))

    def differences(self, other: Histograms) -> list[int]:
        """Return by how many rows two histograms of one shape differ, for each group in which they do."""
        cells = np.union1d(self.places, other.places).astype(np.int64)
        found: Counter[int] = Counter()
        for cell, step in zip(
            cells.tolist(), (self._counts(cells) - other._counts(cells)).tolist(), strict=True
        ):
            found[cell // self.cells] += abs(step)
        return list(found.values())

    def _counts(self, cells: NDArray[np.int64]) -> IntArray:
        return np.asarray(self.rank(cells + 1) - self.rank(cells), dtype=object)


def parse_single_histogram(counts: Any) -> Histograms:
    """Return one histogram, given as `Histograms` or as a row of counts."""
    if not isinstance(counts, Histograms):
        return Histograms.from_dense(counts)
    if counts.groups != 1:
        raise UsageError("SF-N203", "Only one histogram can be given here.", got=f"{counts.groups} groups")
    return counts


def _check_grid(groups: int, cells: int) -> None:
    if parse_whole(cells, "cells") > MOST_CELLS or parse_whole(groups, "groups") * cells > _WIDE:
        raise UsageError("SF-N203", "The grid is too fine.", got=f"{groups} groups of {cells} cells")


def _row(values: Any) -> IntArray:
    """Return a row of integers, which may be empty. One that is ready for use is not copied."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        array: IntArray = values
    else:
        array = parse_integers(values) if np.size(values) else np.zeros(0, dtype=np.int64)
    if array.ndim != 1:
        raise _unsorted()
    return array


def _inside(row: IntArray, end: int) -> bool:
    return not row.size or (int(row.min()) >= 0 and int(row.max()) < end)


def _before(counts: Any, size: int) -> IntArray:
    """Return the number of rows before each cell, and then of all rows."""
    row = widen_if_needed(_row(counts))
    if row.size != size or (size and int(row.min()) < 0):
        raise _unsorted()
    return np.concatenate([np.zeros(1, dtype=row.dtype), np.cumsum(row)])


def _unsorted() -> UsageError:
    return UsageError(
        "SF-N203",
        "A sparse histogram must be three rows of whole numbers (groups, values, counts), sorted by "
        "group and value, each pair of these once.",
        try_="numpy.lexsort((values, groups)) for the order",
    )
