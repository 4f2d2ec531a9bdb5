"""Counts over the cells of a public grid, as mechanisms take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.integers import integers
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.integers import IntArray

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

    places: NDArray[np.int64]
    """The occupied cells of the long grid, ascending, and its end."""
    before: IntArray
    """For each of these, the rows in all cells before it."""
    groups: int
    cells: int

    @classmethod
    def of(cls, group: Any, values: Any, counts: Any, *, groups: int, cells: int) -> Histograms:
        """From triplets, sorted by group and then by value, with no pair of these twice."""
        within = whole(groups, "groups"), whole(cells, "cells")
        if within[1] > MOST_CELLS or within[0] * within[1] > _WIDE:
            raise UsageError("SF-N511", "The grid is too fine.", got=f"{groups} groups of {cells} cells")
        given = _row(group), _row(values), roomy(_row(counts))
        if not all(row.size == given[0].size for row in given) or not _inside(*given, *within):
            raise _unsorted()
        places = np.full(given[0].size + 1, within[0] * within[1], dtype=np.int64)
        np.add(np.multiply(given[0], within[1], out=places[:-1]), given[1], out=places[:-1])
        return cls._made(places, given[2], *within)

    @classmethod
    def sparse(cls, values: Any, counts: Any, *, cells: int) -> Histograms:
        """One histogram, from its occupied cells in ascending order."""
        return cls.of(np.zeros(np.shape(values)[:1], dtype=np.int64), values, counts, groups=1, cells=cells)

    @classmethod
    def dense(cls, counts: Any) -> Histograms:
        """One histogram, from a row with a count for every cell."""
        row = roomy(histogram(counts))
        occupied = np.flatnonzero(row)
        return cls._made(np.append(occupied, row.size), row[occupied], 1, row.size)

    @classmethod
    def _made(cls, places: NDArray[np.int64], counts: IntArray, groups: int, cells: int) -> Histograms:
        if np.any(places[1:] <= places[:-1]):
            raise _unsorted()
        before: Any = np.zeros(places.size, dtype=counts.dtype)
        np.cumsum(counts, out=before[1:])
        return cls(places, before, groups, cells)

    @property
    def shape(self) -> tuple[int, int]:
        return self.groups, self.cells

    def rank(self, cells: NDArray[np.int64]) -> IntArray:
        """For each cell of the long grid, the rows in all cells before it."""
        return self.before[np.searchsorted(self.places, cells)]

    def roomy(self, factor: int) -> Histograms:
        """With Python integers for ranks where this multiple of them may not fit 64 bits."""
        if self.before.dtype == object or int(self.before[-1]) * factor < _WIDE:
            return self
        return Histograms(self.places, self.before.astype(object), *self.shape)

    def difference(self, other: Histograms) -> int:
        """By how many rows two of the same shape differ, over all cells."""
        cells = np.union1d(self.places[:-1], other.places[:-1])
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


def _row(values: Any) -> IntArray:
    """A row of whole numbers, which may be empty. One that is ready for use is not copied."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        array: IntArray = values
    else:
        array = integers(values) if np.size(values) else np.zeros(0, dtype=np.int64)
    if array.ndim != 1:
        raise _unsorted()
    return array


def _inside(group: IntArray, values: IntArray, counts: IntArray, groups: int, cells: int) -> bool:
    ends = ((group, groups), (values, cells), (counts, None))
    return not group.size or all(
        int(row.min()) >= 0 and (end is None or int(row.max()) < end) for row, end in ends
    )


def _unsorted() -> UsageError:
    return UsageError(
        "SF-N511",
        "A sparse histogram is three rows of whole numbers: groups, values and counts, sorted by group and "
        "value, each pair of these once.",
        try_="numpy.lexsort((values, groups)) for the order",
    )
