"""Where the exact quantile lies, from noisy counts around the chosen one (docs/proofs/quantiles.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise import LaplaceNoise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.curator.answers.noise_law import Floats
    from sfumato.noise import Surroundings
    from sfumato.noise.additive import Noise

    Places = tuple[NDArray[np.int64], NDArray[np.int64]]

_TURNS, _STEP = 40.0, 0.05
"""How far, and how finely, a characteristic function is summed up. Its variable is in deviations."""
_SAFE = 1.001
"""More than what these sums are off."""


@dataclass(frozen=True, slots=True, eq=False)
class CountsAround:
    """Noisy counts of the rows around chosen places, in some of the cells of an answer."""

    surroundings: Surroundings
    cells: NDArray[np.intp]
    """Which cells of the answer these are."""
    places: NDArray[np.int64]
    """The places chosen: one row a share, one column a cell."""
    counts: NDArray[Any]
    """Counts between the edges around them, one column a cell."""
    size: int
    """Number of places that were chosen among."""

    def take(self, cells: NDArray[np.intp]) -> CountsAround:
        """Return what is known of some of the cells, counted anew in this order."""
        at = {cell: own for own, cell in enumerate(self.cells.tolist())}
        kept = [(new, at[cell]) for new, cell in enumerate(cells.tolist()) if cell in at]
        new, own = np.array(kept, dtype=np.intp).reshape(-1, 2).T
        return CountsAround(self.surroundings, new, self.places[:, own], self.counts[:, own], self.size)

    def bracket(self, row: int, share: Fraction, confidence: float) -> Places:
        """Return, in each cell, the lowest and the highest place where the quantile of this share may be."""
        chosen, away = self.places[row], self.surroundings.distances(self.size)
        below = self._gaps(np.clip(chosen - away[:, None], 0, self.size), share, confidence)
        above = self._gaps(np.clip(chosen + 1 + away[:, None], 0, self.size), share, confidence)
        # Beyond the furthest edge, the quantile may be anywhere up to the end of the grid.
        reach = np.append(away, self.size)
        low = chosen - reach[nearest_passed(below[0] < -below[1])]
        high = chosen + reach[nearest_passed(above[0] > above[1])]
        return np.maximum(low, 0), np.minimum(high, self.size - 1)

    def _gaps(self, edges: NDArray[np.int64], share: Fraction, confidence: float) -> tuple[Floats, Floats]:
        """Return how many rows more than the share lie before each edge, and half the width of its noise.

        The ends of the grid are known: no row lies before the first, and all lie before the last.
        """
        all_edges, part = self.surroundings.edges(self.places, self.size), float(share)
        before = np.cumsum(self.counts.astype(np.float64), axis=0)
        # So many counts are of rows before the edge.
        at = np.stack([(all_edges < edge).sum(axis=0) for edge in edges])
        gaps = np.take_along_axis(before, at, axis=0) - part * before[-1]
        halves = half_widths(self.surroundings.noise, len(self.counts), part, confidence)[at + 1]
        known = np.where(edges == 0, -np.inf, np.where(edges == self.size, np.inf, gaps))
        return known, halves


def nearest_passed(passed: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the first of the last rows that all passed, or the number of rows where the last did not.

    Edges are looked at from the furthest inwards, up to the first in doubt. So only one edge can be passed
    wrongly: the first of those that should not be, and no chance is lost by looking at many.
    """
    inwards = np.vstack([passed[::-1], np.zeros_like(passed[:1])])
    return np.asarray(len(passed) - np.argmin(inwards, axis=0))


def intersect(
    parts: Sequence[CountsAround], row: int, share: Fraction, confidence: float, cells: int
) -> Places | None:
    """Return the places where the quantile may be, from one or several answers; None where none is known."""
    if not parts or not cells:
        return None
    answers = np.bincount(np.concatenate([part.cells for part in parts]), minlength=cells)
    if not answers.all():
        return None
    # The risk is shared by the answers, all of which hold together.
    surer = 1 - (1 - confidence) / int(answers.max())
    low, high = np.zeros(cells, dtype=np.int64), np.full(cells, parts[0].size - 1, dtype=np.int64)
    for part in parts:
        lower, upper = part.bracket(row, share, surer)
        low[part.cells] = np.maximum(low[part.cells], lower)
        high[part.cells] = np.minimum(high[part.cells], upper)
    # Two answers that contradict each other, as happens once in a while, say no more than both together.
    return np.minimum(low, high), np.maximum(low, high)


# ---- the noise of a rank -----------------------------------------------------------------------------------


def half_widths(noise: Noise, counts: int, share: float, confidence: float) -> Floats:
    """Return, for 0 to all counts before an edge, the least h with P(|noise of the gap| ≤ h) ≥ confidence.

    The gap is the rows before the edge less a share of all rows: noise before it weighs 1 − share, and the
    rest −share.
    """
    weights = np.arange(counts + 1), counts - np.arange(counts + 1)
    if not isinstance(noise, LaplaceNoise):
        from scipy.special import ndtri

        squares = (1 - share) ** 2 * weights[0] + share**2 * weights[1]
        # Rounding to whole numbers adds 1/12 to the variance of each draw.
        return np.sqrt(squares * (float(noise.spread) ** 2 + 1 / 12)) * float(ndtri((1 + confidence) / 2))
    return float(noise.scale) * _laplace_half_widths(counts, share, confidence)


@lru_cache(maxsize=64)
def _laplace_half_widths(counts: int, share: float, confidence: float) -> Floats:
    """Return the half-widths for Laplace noise of scale 1, from its characteristic function.

    Integer noise of a scale of b steps varies less than b times this, so it is an upper bound.
    """
    before = np.arange(counts + 1)[:, None]
    squares = (1 - share) ** 2, share**2
    deviations = np.sqrt(2 * (squares[0] * before + squares[1] * (counts - before)))
    turns = (np.arange(round(_TURNS / _STEP)) + 0.5) * _STEP / deviations
    logs = before * np.log1p(squares[0] * turns**2) + (counts - before) * np.log1p(squares[1] * turns**2)
    masses = np.exp(-logs) / turns * (_STEP / deviations) * 2 / math.pi
    # P(|X| ≤ h) is the sum of sin(turn · h) · mass; 20 deviations hold all but a millionth of such a law.
    low, high = np.zeros_like(deviations), 20 * deviations
    for _ in range(40):
        middle = (low + high) / 2
        enough = (np.sin(turns * middle) * masses).sum(axis=1, keepdims=True) >= confidence
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high[:, 0] * _SAFE)
