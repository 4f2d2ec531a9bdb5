"""A confidence region for two probabilities at once, from hits among independent trials of both.

Two bounds that fail with half of alpha each are pessimistic about both probabilities. An audit asks for one
number of both, such as their ratio. So the region here ends at a line with the slope at which that number
stays the same, which takes a quarter off the distance to the truth (docs/proofs/audit.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from sfumato.audit.confidence import Floats, lower_bound, upper_bound

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Cells of the second probability, blocks of the second number of hits, and halvings of the first probability.
# More of each come nearer to the exact region and take longer; the region is valid for any.
_CELLS = 48
_BLOCKS = 128
_HALVINGS = 8
_ASIDE = 1 / 20  # share of alpha that goes to the interval of the second probability
_FAR = 7.0  # standard deviations on either side that the blocks cover
_RARE = 1e-17  # blocks of less probability are counted whole


@dataclass(frozen=True, slots=True)
class Hits:
    """How often an output set was hit among so many independent outputs of either input."""

    likely: float
    unlikely: float
    trials: int


def bound_apart(hits: Hits, alpha: float) -> tuple[Floats, Floats]:
    """Return a bound below the first probability and one above the second; one fails with alpha at most."""
    p, q = (
        lower_bound(hits.likely, hits.trials, alpha / 2),
        upper_bound(hits.unlikely, hits.trials, alpha / 2),
    )
    return np.atleast_1d(p), np.atleast_1d(q)


def bound_jointly(hits: Hits, slope: float, alpha: float) -> tuple[Floats, Floats]:
    """Return pairs of which one bounds both probabilities: the first from below and the second from above.

    That fails with probability alpha at most, if the slope was chosen without looking at these hits. The
    slope is how much the first probability must grow to make up for growth of the second.
    """
    edges = _cut_cells(hits, alpha, _CELLS)
    tail = _TailOfDifference.make(hits, slope, edges[:-1])
    return tail.least_first(alpha * (1 - _ASIDE)), edges[1:]


def approximate_jointly(hits: Hits, slope: float, alpha: float) -> tuple[Floats, Floats]:
    """Return nearly the pairs of `bound_jointly`, from normal laws. It is quick and proves nothing."""
    second = _cut_cells(hits, alpha, _CELLS // 2)
    centre, width = _line(hits, slope, second)
    first = centre + NormalDist().inv_cdf(alpha * (1 - _ASIDE)) * width
    return np.clip(first, 0, 1), second


def _cut_cells(hits: Hits, alpha: float, count: int) -> Floats:
    aside = alpha * _ASIDE / 2
    low, high = (bound(hits.unlikely, hits.trials, aside) for bound in (lower_bound, upper_bound))
    return np.linspace(float(low), float(high), count + 1)


def _line(hits: Hits, slope: float, second: Floats) -> tuple[Floats, Floats]:
    """Return the first probability at which the hits are the mean, which may exceed 1, and its deviation."""
    n = hits.trials
    centre = (hits.likely - slope * hits.unlikely) / n + slope * second
    likely = np.clip(centre, 0, 1)
    variance = likely * (1 - likely) + slope**2 * second * (1 - second)
    return centre, np.sqrt(variance / n) + 1 / n


@dataclass(frozen=True, slots=True, eq=False)
class _TailOfDifference:
    """The chance that X − slope·Y gets as large as was seen, for several probabilities of a hit of Y."""

    trials: int
    needed: Floats
    """Least number of hits of X, for each block of hits of Y that counts."""
    weights: Floats
    """Probability of that block."""
    cells: NDArray[np.intp]
    """Number of the probability of Y that it belongs to."""
    rest: Floats
    """Probability of the blocks that are counted whole, for each probability of Y."""
    line: tuple[Floats, Floats]
    """Probability of X at which what was seen is the mean, and its deviation, for each probability of Y."""

    @classmethod
    def make(cls, hits: Hits, slope: float, second: Floats) -> _TailOfDifference:
        """Return the tail for hits that were seen and these probabilities of Y."""
        from scipy.special import betainc

        n = hits.trials
        reach = _FAR * np.sqrt(n * second * (1 - second)).max() + 20
        inner = np.unique(
            np.linspace(n * second[0] - reach, n * second[-1] + reach, _BLOCKS).round().clip(1, n)
        )
        starts = np.concatenate([[0.0], inner])
        below = betainc(n - inner + 1, inner, 1 - second[:, None])
        ones = np.ones((len(second), 1))
        chances = np.diff(np.hstack([0 * ones, below, ones]), axis=1)
        # A hair less, so that rounding can only make the chance larger. Within a block Y is at its start.
        needed = hits.likely + slope * (starts - hits.unlikely)
        needed = np.ceil(needed - 1e-9 * (1 + np.abs(needed)))
        cells, blocks = np.nonzero((chances > _RARE) & (needed <= n))
        return cls(
            trials=n,
            needed=needed[blocks],
            weights=chances[cells, blocks],
            cells=cells,
            rest=np.where((chances > _RARE) | (needed > n), 0.0, chances).clip(0).sum(axis=1),
            line=_line(hits, slope, second),
        )

    def least_first(self, level: float) -> Floats:
        """Return probabilities of X up to which the chance is at most the level."""
        centre, width = self.line
        low = np.clip(centre + (NormalDist().inv_cdf(level) - 0.5) * width, 0, 1)
        high = np.minimum(low + width, 1)
        low = self._step_down(low, width, level)
        for _ in range(_HALVINGS):
            tried = (low + high) / 2
            kept = self.chance(tried) <= level
            low, high = np.where(kept, tried, low), np.where(kept, high, tried)
        return low

    def _step_down(self, first: Floats, width: Floats, level: float) -> Floats:
        while ((over := self.chance(first) > level) & (first > 0)).any():
            first = np.where(over, np.maximum(first - width, 0), first)
            width = 2 * width
        return first

    def chance(self, first: Floats) -> Floats:
        """Return a bound above the chance, for a probability of X with each probability of Y."""
        from scipy.special import betainc

        reached = betainc(np.maximum(self.needed, 1), self.trials - self.needed + 1, first[self.cells])
        terms = np.where(self.needed <= 0, 1.0, reached) * self.weights
        return self.rest + np.bincount(self.cells, terms, len(first))
