"""Noisy counts of rows around chosen cells: they tell where a quantile is (docs/proofs/quantiles.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors.checked import require_field
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.laplace import LaplaceNoise
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.additive import Noise, Norms
    from sfumato.noise.histograms import Histograms
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number


@tagged("Surroundings", "noise", "growth")
@dataclass(frozen=True, slots=True)
class Surroundings:
    """Counts the rows between edges around cells that were chosen before, each count with noise.

    Privacy
    -------
    Protects : one unit, add/remove, whose rows in all groups have the norms that the noise is priced for.
    Costs    : the noise's own event for those norms, as each row is in one count only.
    Because  : docs/proofs/quantiles.md
    Assumes  : the chosen cells were released before, at their own price; the histograms hold exact counts.

    The edges lie at the ends of each chosen cell and 1, `growth`, `growth`², … cells away from them. Those of
    several cells in one group are put together, so a row is counted once however many were chosen.
    """

    noise: Noise
    growth: int = 2

    def __post_init__(self) -> None:
        known = type(self.noise) in (LaplaceNoise, GaussianNoise)
        require_field(known, self, "noise", "Laplace or Gaussian noise")
        require_field(parse_whole(self.growth, "growth") > 1, self, "growth", "2 or more")

    def event(self, sensitivity: Norms) -> Event:
        """Return the price where one unit's rows have these norms."""
        return self.noise.event_for(sensitivity)

    def release(self, table: Histograms, places: NDArray[np.int64], sensitivity: Norms) -> IntArray:
        """Return the noisy counts between the edges, one row for each and one column a group.

        `places` has a row for each choice. The first count is of all rows before the first edge, the last of
        all rows from the last edge on.
        """
        edges = self.edges(places, table.cells)
        ends = np.zeros((1, table.groups), dtype=np.int64), np.full((1, table.groups), table.cells)
        starts = np.arange(table.groups) * table.cells
        ranks = table.rank((np.concatenate([ends[0], edges, ends[1]]) + starts).reshape(-1))
        counts = np.diff(ranks.reshape(-1, table.groups), axis=0)
        return self.noise.release_for(counts, sensitivity)

    def expected_error(self) -> float:
        """Return the mean of the noise in one count, without its sign."""
        return self.noise.expected_error()

    def half_width(self, confidence: Number) -> int:
        """Return the smallest t with P(|noise of one count| ≤ t) ≥ confidence."""
        return self.noise.half_width(confidence)

    def edges(self, places: Any, cells: int) -> NDArray[np.int64]:
        """Return the edges of every group in ascending order, within a grid of so many cells."""
        chosen = np.asarray(places, dtype=np.int64)
        away = self.distances(cells)
        found = [chosen[:, None] - away[:, None], chosen[:, None] + 1 + away[:, None]]
        return np.sort(np.clip(np.concatenate(found, axis=1), 0, cells).reshape(-1, chosen.shape[1]), axis=0)

    def distances(self, cells: int) -> NDArray[np.int64]:
        """Return how far edges lie from a chosen cell: 0, 1, then ever further up to the whole grid."""
        found, last = [0], 1
        while last < cells:
            found.append(last)
            last *= self.growth
        return np.array(found, dtype=np.int64)

    def numbers(self, chosen: int, cells: int) -> int:
        """Return how many counts there are in a group where so many cells of the grid were chosen."""
        return 2 * chosen * self.distances(cells).size + 1
