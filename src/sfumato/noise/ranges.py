"""Sums over any range of ordered cells, from one release (docs/proofs/ranges.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.histograms import histogram
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.sampling.bits import OS
from sfumato.noise.trees import SumTree, tree
from sfumato.privacy.exact import exact, positive, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.gaussian import GaussianNoise
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy import events
    from sfumato.privacy.exact import Number

MOST_CELLS = 2**22

_ENDS = 24  # so many places begin and end the ranges that a branching is judged by
_GOLDEN = (
    math.sqrt(5) - 1
) / 2  # its multiples spread evenly and meet the borders of no tree more than others
_TRIED = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_ROOT = 2**20


@dataclass(frozen=True, slots=True)
class RangeSums:
    """Adds noise to the sums of a tree over the cells, and answers every range from all of them.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : the noise's own event for a sensitivity of rows · height in l1 norm (Laplace), or of
               rows · √height in l2 norm (Gaussian), as each row is in one sum of every level.
    Because  : docs/proofs/ranges.md
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.
    """

    cells: int
    branching: int
    noise: LaplaceNoise | GaussianNoise

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", _cells(self.cells))
        object.__setattr__(self, "branching", _branching(self.branching))

    @classmethod
    def calibrated(cls, cells: int, epsilon: Number, rows: int = 1) -> RangeSums:
        """The ε-private tree of least average variance, with Laplace noise."""
        branching = best_branching(_cells(cells))
        scale = tree(cells, branching).height * whole(rows, "rows") / positive(epsilon, "epsilon")
        return cls(cells, branching, LaplaceNoise(scale))

    @property
    def tree(self) -> SumTree:
        return tree(self.cells, self.branching)

    def event(self, rows: int = 1) -> events.Event:
        height = self.tree.height
        if isinstance(self.noise, LaplaceNoise):
            return self.noise.event(rows * height)
        return self.noise.event(rows * _root_above(height))

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> Ranges:
        """Every range at once. `rows`, as priced, is for auditors only."""
        exact = histogram(counts, self.cells)
        noisy = observed(self, exact, rows, lambda: self._noisy(exact, source))
        return Ranges(self, self.tree.estimates(noisy))

    def variance(self, start: int, stop: int) -> float:
        """Of the answer for the cells from `start` to before `stop`, exactly, up to float rounding."""
        _inside(start, stop, self.cells)
        return self.tree.variance(start, stop) * self.noise.moments.variance

    def expected_error(self, start: int, stop: int) -> float:
        """The root of the mean square of the answer's noise."""
        return math.sqrt(self.variance(start, stop))

    def half_width(self, start: int, stop: int, confidence: Number) -> float:
        """Half the width of the answer's interval, by its second and fourth moments."""
        _inside(start, stop, self.cells)
        weights, noise = np.concatenate(self.tree.weights(start, stop)), self.noise.moments
        second, fourth = float((weights**2).sum()), float((weights**4).sum())
        z = NormalDist().inv_cdf((1 + _confidence(confidence)) / 2)
        stretch = z + (z**3 - 3 * z) * noise.excess * fourth / second**2 / 24
        return stretch * math.sqrt(second * noise.variance)

    def _noisy(self, counts: IntArray, source: BitSource) -> list[IntArray]:
        levels = self.tree.sums(counts)
        together: Any = np.concatenate(levels)
        ends = np.cumsum([level.size for level in levels])[:-1]
        noisy: list[Any] = np.split(self.noise.release(together, source=source), ends)
        return noisy


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """A release that answers every range. All answers agree: neighbouring ranges add up."""

    mechanism: RangeSums
    estimates: NDArray[np.float64] = field(repr=False)
    """For every cell."""

    def sum(self, start: int, stop: int) -> float:
        """Over the cells from `start` to before `stop`."""
        _inside(start, stop, self.mechanism.cells)
        return math.fsum(self.estimates[start:stop])

    def variance(self, start: int, stop: int) -> float:
        return self.mechanism.variance(start, stop)

    def interval(self, start: int, stop: int, confidence: Number = 0.95) -> tuple[float, float]:
        """Where the exact sum lies."""
        middle, half = self.sum(start, stop), self.mechanism.half_width(start, stop, confidence)
        return middle - half, middle + half


@lru_cache(maxsize=32)
def best_branching(cells: int, *, gaussian: bool = False) -> int:
    """The branching of least average variance at the same price.

    The average is over ranges between public, evenly spread places. Flat noise, a branching of all the cells,
    is among those tried.
    """
    tried = [branching for branching in _TRIED if branching < cells]
    return min([*tried, max(cells, 2)], key=lambda branching: _average(cells, branching, gaussian))


def _average(cells: int, branching: int, gaussian: bool) -> float:
    """In units of the noise of a flat tree: Laplace noise grows with the height, Gaussian with its root."""
    shape = tree(cells, branching)
    ends = sorted({int(cells * (place * _GOLDEN % 1)) for place in range(_ENDS)} | {cells})
    found = [shape.variance(start, stop) for start in ends for stop in ends if start < stop]
    return shape.height ** (1 if gaussian else 2) * math.fsum(found) / len(found)


def _root_above(number: int) -> Fraction:
    """The square root, rounded up."""
    return Fraction(math.isqrt(number * _ROOT**2 - 1) + 1, _ROOT)


def _cells(value: int) -> int:
    cells = whole(value, "cells")
    if cells > MOST_CELLS:
        raise UsageError("SF-N507", "A tree has at most 2^22 cells.", got=str(cells))
    return cells


def _branching(value: int) -> int:
    branching = whole(value, "branching")
    if branching < 2:
        raise UsageError("SF-N507", "A branching is at least two.", got=str(branching))
    return branching


def _inside(start: int, stop: int, cells: int) -> None:
    if not 0 <= start < stop <= cells:
        raise UsageError(
            "SF-N506", "There is no such range.", got=f"{start} to {stop}"[:40], cells=f"0 to {cells}"
        )


def _confidence(value: Number) -> float:
    share = exact(value, "confidence")
    if not 0 < share < 1:
        raise UsageError("SF-N107", "A confidence lies between 0 and 1.", got=str(value)[:40], try_="0.95")
    return float(share)
