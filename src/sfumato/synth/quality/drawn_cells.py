"""A synthetic table as the cells of its columns, and how far its marginals are from released ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.oracle.row_groups import RowGroups
from sfumato.synth.own_frames import list_own_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.synth.column_cells import ColumnCells
    from sfumato.synth.junction_tree import Clique
    from sfumato.synth.kernel import ReleasedMarginals
    from sfumato.synth.measuring import Measurement

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MarginalDistance:
    """How far the synthetic table is from a released marginal, as total variation."""

    columns: tuple[str, ...]
    distance: float
    noise: float
    """The distance that the noise of the released counts is expected to make by itself."""


@dataclass(frozen=True)
class DrawnCells:
    """A synthetic table in the cells of its columns."""

    columns: tuple[ColumnCells, ...]
    rows: tuple[Ints, ...]

    @classmethod
    def of(cls, columns: tuple[ColumnCells, ...], table: Any) -> DrawnCells:
        """Return the cells of a table with the names and types that the columns have."""
        given = list_own_columns(table, [column.name for column in columns])
        return cls(columns, tuple(column.encode(given[column.name]) for column in columns))

    def __len__(self) -> int:
        return len(self.rows[0])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        return tuple(column.size for column in self.columns)

    @cached_property
    def groups(self) -> RowGroups:
        """The rows as they are counted."""
        return RowGroups(self.rows, np.ones(len(self), dtype=np.int64))

    def shares(self, measured: Measurement, released: ReleasedMarginals) -> Floats:
        """Return which share of the rows lies in each cell of a released marginal."""
        maps = [self._map(at, released, len(measured.columns) > 1) for at in range(len(self.columns))]
        sizes = [int(each.max()) + 1 for each in maps]
        found: Floats = self.groups.merge(maps).count(measured.columns, sizes) / max(1, len(self))
        return found

    def _map(self, at: int, released: ReleasedMarginals, merged: bool) -> Ints:
        """Return the bin of each cell, or its merged cell."""
        return released.merged[at][released.bins[at]] if merged else released.bins[at]


def compare_marginals(
    drawn: DrawnCells, released: ReleasedMarginals, total: float
) -> tuple[MarginalDistance, ...]:
    """Return the distance to every marginal that was released, in their order.

    Of a marginal that was measured more than once, the most exact counts.
    """
    best: dict[Clique, Measurement] = {}
    for each in released.measured:
        known = best.get(each.columns)
        best[each.columns] = each if known is None or each.deviation < known.deviation else known
    found = []
    for each in best.values():
        names = tuple(drawn.columns[at].name for at in each.columns)
        apart = np.abs(drawn.shares(each, released) - each.counts / total).sum() / 2
        noise = each.noise.expected_error() * each.counts.size / total / 2
        found.append(MarginalDistance(names, float(apart), float(noise)))
    return tuple(found)
