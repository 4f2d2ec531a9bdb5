"""Tables from released marginals: the model, rows drawn of it, and values within their cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.synth.graphical_model import estimate
from sfumato.synth.selection import model_measurements

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.synth.column_cells import ColumnCells
    from sfumato.synth.graphical_model import GraphicalModel
    from sfumato.synth.kernel import ReleasedMarginals

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_STEPS = 600
"""Steps of the last estimate (benchmarks/synth.py). Privacy does not depend on it."""


@dataclass(frozen=True)
class Synthesizer:
    """Draws tables of released marginals. All of it is post-processing."""

    columns: tuple[ColumnCells, ...]
    released: ReleasedMarginals

    @cached_property
    def model(self) -> GraphicalModel:
        """The distribution of rows over merged cells."""
        released = self.released
        measured = model_measurements(released.measured, released.sizes, released.merged)
        with np.errstate(all="ignore"):
            return estimate(released.sizes, measured, _STEPS)

    def draw(self, rows: int, random: np.random.Generator) -> pa.Table:
        """Return so many rows with the declared names and types."""
        import pyarrow as pa

        cells = self.model.draw(rows, random)
        arrays = [
            column.decode(self._spread(at, cells[:, at], random), random)
            for at, column in enumerate(self.columns)
        ]
        return pa.table(dict(zip((column.name for column in self.columns), arrays, strict=True)))

    def draw_cells(self, rows: int, random: np.random.Generator) -> Ints:
        """Return so many rows as cells, one column each."""
        cells = self.model.draw(rows, random)
        return np.stack([self._spread(at, cells[:, at], random) for at in range(len(self.columns))], axis=1)

    def _spread(self, at: int, merged: Ints, random: np.random.Generator) -> Ints:
        """Return a cell of the column for each merged cell."""
        bins = _draw_within(self.released.merged[at], self._bin_weights[at], merged, random)
        into = self.released.bins[at]
        return _draw_within(into, np.ones(len(into)), bins, random)

    @cached_property
    def _bin_weights(self) -> list[Floats]:
        """How the rows of a merged cell fall on its bins, by the released counts of the column."""
        alone = {each.columns[0]: each.counts for each in self.released.measured if len(each.columns) == 1}
        return [
            _share_within(into, alone[at].astype(np.float64)) for at, into in enumerate(self.released.merged)
        ]


def _share_within(into: Ints, counts: Floats) -> Floats:
    """Return counts of 0 or more, nearest to noisy ones, whose sum over each merged cell is kept."""
    found = np.zeros(len(counts))
    for cell in range(int(into.max()) + 1):
        places = np.flatnonzero(into == cell)
        found[places] = _project(counts[places])
    return found


def _project(counts: Floats) -> Floats:
    """Return the nearest counts of 0 or more with the same sum; all alike where that is not above 0."""
    whole = float(counts.sum())
    if whole <= 0:
        return np.ones(len(counts))
    falling = np.sort(counts)[::-1]
    over = (np.cumsum(falling) - whole) / np.arange(1, len(counts) + 1)
    kept = int(np.flatnonzero(falling > over)[-1])
    found: Floats = np.maximum(counts - over[kept], 0.0)
    return found


def _draw_within(into: Ints, weights: Floats, chosen: Ints, random: np.random.Generator) -> Ints:
    """Return a place for each chosen cell, by the weights of the places that are merged into it."""
    order = np.argsort(into, kind="stable")
    edges = np.cumsum(weights[order])
    ends = np.searchsorted(into[order], np.arange(int(into.max()) + 1), side="right")
    starts = np.concatenate([[0], ends[:-1]])
    below = np.concatenate([[0.0], edges])[starts]
    at = below[chosen] + random.random(len(chosen)) * (edges[ends - 1] - below)[chosen]
    places = np.searchsorted(edges, at, side="right")
    found: Ints = order[np.clip(places, starts[chosen], ends[chosen] - 1)]
    return found
