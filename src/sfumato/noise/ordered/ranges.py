"""Range queries: sums over any range of ordered cells, from one release (docs/proofs/ranges.md)."""

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
from sfumato.noise.histograms import parse_histogram
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.ordered.trees import SumTree, build_tree
from sfumato.noise.sampling.bits import OS
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import price_laplace
from sfumato.privacy.exact import parse_interval_level, parse_positive, parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.gaussian import GaussianNoise
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

MOST_CELLS = 2**22

# A branching is chosen by its mean variance over ranges between these public places. They and the branchings
# tried affect the error only, not privacy: the price follows from the height of the tree chosen.
_ENDS = 24
_GOLDEN = (math.sqrt(5) - 1) / 2
"""Golden ratio: its multiples spread evenly and prefer the borders of no tree."""
_TRIED = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_ROOT = 2**20  # denominator of a rounded square root


@tagged("RangeSums", "cells", "branching", "noise")
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
        """Return the ε-private tree of least mean variance, with Laplace noise."""
        branching = best_branching(_cells(cells))
        scale = (
            build_tree(cells, branching).height
            * parse_whole(rows, "rows")
            / parse_positive(epsilon, "epsilon")
        )
        return cls(cells, branching, LaplaceNoise(scale))

    @property
    def tree(self) -> SumTree:
        """Shape of the tree over the cells."""
        return build_tree(self.cells, self.branching)

    def event(self, rows: int = 1) -> Event:
        """Return the price where a unit has at most so many rows in the histogram."""
        height = self.tree.height
        if isinstance(self.noise, LaplaceNoise):
            # A row is in one node of every level, and all rows of a unit may be in the same nodes.
            return price_laplace(self.noise.scale, ((rows, height),))
        return self.noise.event(rows * _root_above(height))

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> Ranges:
        """Return a release that answers every range. `rows`, as priced, is for auditors only."""
        return self.estimate(self.release_sums(counts, rows=rows, source=source))

    def release_sums(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> list[IntArray]:
        """Return the noisy sums of every level of the tree, from the cells on."""
        exact = parse_histogram(counts, self.cells)
        return observed(self, exact, rows, lambda: self._noisy(exact, source))

    def estimate(self, noisy: list[IntArray]) -> Ranges:
        """Return what answers every range, from the noisy sums of every level."""
        return Ranges(self, self.tree.estimate_cells(noisy))

    def variance(self, start: int, stop: int) -> float:
        """Return the variance of the answer for the cells from `start` to before `stop`."""
        _inside(start, stop, self.cells)
        return self.tree.range_variance(start, stop) * self.noise.moments.variance

    def expected_error(self, start: int, stop: int) -> float:
        """Return the standard deviation of the answer's noise."""
        return math.sqrt(self.variance(start, stop))

    def half_width(self, start: int, stop: int, confidence: Number) -> float:
        """Return half the width of the answer's interval, by its second and fourth moments."""
        _inside(start, stop, self.cells)
        return float(self.half_widths(np.concatenate(self.tree.range_weights(start, stop)), confidence))

    def half_widths(self, weights: NDArray[np.float64], confidence: Number) -> NDArray[np.float64]:
        """Return half the widths of weighted sums of all noise, for weights along the last axis."""
        second, fourth = (np.asarray((weights**power).sum(axis=-1)) for power in (2, 4))
        z = NormalDist().inv_cdf((1 + parse_interval_level(confidence)) / 2)
        # Cornish and Fisher's expansion: a sum of few Laplace noises has heavier tails than a normal law.
        heavier = np.divide(fourth, second**2, out=np.zeros_like(second), where=second > 0)
        stretch = z + (z**3 - 3 * z) * self.noise.moments.excess * heavier / 24
        smooth = stretch * np.sqrt(second * self.noise.moments.variance)
        # Coarse noise goes in steps, and a sum reaches no less far than the noise with the largest weight.
        return np.asarray(
            np.maximum(smooth, np.abs(weights).max(axis=-1) * self.noise.half_width(confidence))
        )

    def _noisy(self, counts: IntArray, source: BitSource) -> list[IntArray]:
        levels = self.tree.sum_levels(counts)
        together: Any = np.concatenate(levels)
        ends = np.cumsum([level.size for level in levels])[:-1]
        noisy: list[Any] = np.split(self.noise.release(together, source=source), ends)
        return noisy


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """A release that answers every range. The answers are consistent: adjacent ranges add up."""

    mechanism: RangeSums
    estimates: NDArray[np.float64] = field(repr=False)
    """Estimated count of every cell."""

    def sum(self, start: int, stop: int) -> float:
        """Return the estimated sum over the cells from `start` to before `stop`."""
        _inside(start, stop, self.mechanism.cells)
        return math.fsum(self.estimates[start:stop])

    def variance(self, start: int, stop: int) -> float:
        """Return the variance of the answer for this range."""
        return self.mechanism.variance(start, stop)

    def interval(self, start: int, stop: int, confidence: Number = 0.95) -> tuple[float, float]:
        """Return an interval that holds the exact sum with this confidence."""
        middle, half = self.sum(start, stop), self.mechanism.half_width(start, stop, confidence)
        return middle - half, middle + half


@lru_cache(maxsize=32)
def best_branching(cells: int, *, gaussian: bool = False) -> int:
    """Return the branching of least mean variance at the same price.

    The mean is over ranges between public, evenly spread places. Flat noise, a branching of all the cells, is
    among those tried.
    """
    tried = [branching for branching in _TRIED if branching < cells]
    return min([*tried, max(cells, 2)], key=lambda branching: _average(cells, branching, gaussian))


def _average(cells: int, branching: int, gaussian: bool) -> float:
    """Return the mean variance in units of the noise of a flat tree."""
    # At the same price the scale of Laplace noise grows with the height, that of Gaussian noise with its
    # root.
    shape = build_tree(cells, branching)
    ends = sorted({int(cells * (place * _GOLDEN % 1)) for place in range(_ENDS)} | {cells})
    found = [shape.range_variance(start, stop) for start in ends for stop in ends if start < stop]
    return shape.height ** (1 if gaussian else 2) * math.fsum(found) / len(found)


def _root_above(number: int) -> Fraction:
    """Return the square root, rounded up."""
    return Fraction(math.isqrt(number * _ROOT**2 - 1) + 1, _ROOT)


def _cells(value: int) -> int:
    cells = parse_whole(value, "cells")
    if cells > MOST_CELLS:
        raise UsageError("SF-N203", "A tree can have at most 2^22 cells.", got=str(cells))
    return cells


def _branching(value: int) -> int:
    branching = parse_whole(value, "branching")
    if branching < 2:
        raise UsageError("SF-N203", "The branching must be at least two.", got=str(branching))
    return branching


def _inside(start: int, stop: int, cells: int) -> None:
    if not 0 <= start < stop <= cells:
        raise UsageError(
            "SF-N203", "There is no such range.", got=f"{start} to {stop}"[:40], cells=f"0 to {cells}"
        )
