"""The averages and variances that answers show: the posterior median, given the noisy sums and the bounds.

A sum over a noisy number of rows is wild where noise is about as large as that number. What is known of it
then is a posterior law: the likelihood of the noisy sums, between the ends that public bounds set. Its median
is shown. Where noise is small it is the plain quotient. Post-processing only: docs/proofs/post-processing.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SETTLED = 32.0
"""Deviations of its noise from which on a number of rows is taken as it is: the median is then nearer to the
plain quotient than a fiftieth of its own deviation."""
_REACH = 6.0
"""Deviations around the plain quotient in which the posterior law lies, for all that can be seen."""
_POINTS = 64
"""Values at which the likelihood is computed: the median is off by a hundredth of a deviation at most."""
_BLOCK = 2**12
"""Number of cells that are taken at a time, so that values times cells fit into memory."""
_LEAST = 1e-300
"""Least variance that is divided by."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyQuotient:
    """A noisy sum and a noisy number of rows in every cell, with the variances of their noise."""

    total: Floats
    rows: Floats
    total_variance: Floats
    covariance: Floats
    rows_variance: Floats

    @classmethod
    def of(cls, sums: Floats, covariance: Floats, weights: Floats) -> NoisyQuotient:
        """Return the quotient of a weighted sum of sums and their last one, the number of rows.

        `sums` and `weights` have one row a sum and one column a cell. `covariance` has one layer a cell, or
        one for all.
        """
        spread = np.broadcast_to(covariance, (*covariance.shape[:2], sums.shape[1]))
        return cls(
            (weights * sums).sum(axis=0),
            sums[-1],
            np.einsum("ic,ijc,jc->c", weights, spread, weights),
            np.einsum("ic,ic->c", weights, spread[:, -1]),
            spread[-1, -1],
        )

    def take(self, cells: NDArray[np.intp]) -> NoisyQuotient:
        """Return the quotient in some of the cells."""
        return NoisyQuotient(
            self.total[cells],
            self.rows[cells],
            self.total_variance[cells],
            self.covariance[cells],
            self.rows_variance[cells],
        )

    @property
    def plain(self) -> Floats:
        """The sum by row; fewer rows than one, as noisy counts may say, are taken for one."""
        return np.asarray(self.total / np.maximum(self.rows, 1.0))

    def deviation(self, value: Floats) -> Floats:
        """Return about how far noise moves the quotient where it is this."""
        return np.asarray(np.sqrt(self._residual_variance(value)) / np.maximum(self.rows, 1.0))

    def log_likelihood(self, values: Floats) -> Floats:
        """Return the logarithm of how well each value explains both noisy numbers: one row a value.

        Noise is taken to be normal, and the prior of the number of rows is flat from one on.
        """
        from scipy.special import log_ndtr

        off = self.total - values * self.rows
        variance = self._residual_variance(values)
        # What is off by so much says, together with the noisy number of rows, how many there are.
        shared = self.covariance - values * self.rows_variance
        rows = self.rows - shared / variance * off
        spread = np.sqrt(np.maximum(self.rows_variance - shared**2 / variance, _LEAST))
        return np.asarray(-(off**2) / (2 * variance) - np.log(variance) / 2 + log_ndtr((rows - 1) / spread))

    def _residual_variance(self, value: Floats) -> Floats:
        """Return the variance of the noise of the sum less this value times the number of rows."""
        found = self.total_variance - 2 * value * self.covariance + value**2 * self.rows_variance
        return np.asarray(np.maximum(found, _LEAST))


@dataclass(frozen=True, slots=True)
class _Scale:
    """The scale on which a prior is flat, and the way back to it."""

    value: Callable[[Floats], Floats]
    place: Callable[[Floats], Floats]


def estimate_mean(sums: Floats, covariance: Floats) -> Floats:
    """Return a mean between −1 and 1, from a sum and a number of rows.

    Its prior is the arcsine law, which is Jeffreys' prior of a share: means near an end are common, as those
    of rare things are.
    """
    weights = np.zeros_like(sums)
    weights[0] = 1.0
    quotient = NoisyQuotient.of(sums, covariance, weights)
    ends = np.ones_like(quotient.total)
    return _find_median(quotient, -ends, ends, _Scale(np.sin, np.arcsin))


def estimate_variance(sums: Floats, covariance: Floats) -> Floats:
    """Return a variance, from a sum of squares, a sum and a number of rows; values are between −1 and 1.

    The prior of the standard deviation is flat up to 1. The mean is estimated first: the sum of
    squared distances from it is a weighted sum of the three.
    """
    mean = estimate_mean(sums[1:], covariance[1:, 1:])
    around = NoisyQuotient.of(sums, covariance, np.stack([np.ones_like(mean), -2 * mean, mean**2]))
    ends = np.zeros_like(mean), np.ones_like(mean)
    return _find_median(around, *ends, _Scale(np.square, np.sqrt))


def _find_median(quotient: NoisyQuotient, low: Floats, high: Floats, scale: _Scale) -> Floats:
    """Return the posterior median of a quotient between two ends, whose prior is flat on this scale."""
    found = np.clip(quotient.plain, low, high)
    reach = _REACH * quotient.deviation(found)
    few = quotient.rows < _SETTLED * np.sqrt(quotient.rows_variance)
    unsettled = np.flatnonzero(few | (reach > np.minimum(found - low, high - found)))
    for start in range(0, unsettled.size, _BLOCK):
        at = unsettled[start : start + _BLOCK]
        first, last = (np.clip(found[at] + side * reach[at], low[at], high[at]) for side in (-1, 1))
        found[at] = _weigh_values(quotient.take(at), scale.place(first), scale.place(last), scale)
    return found


def _weigh_values(quotient: NoisyQuotient, first: Floats, last: Floats, scale: _Scale) -> Floats:
    """Return the median among values that are evenly spaced on the scale, weighted by their likelihood."""
    places = first + (last - first) * ((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
    logs = quotient.log_likelihood(scale.value(places))
    weights = np.exp(logs - logs.max(axis=0))
    below = np.cumsum(weights, axis=0) - weights / 2
    half = (below[-1] + weights[-1] / 2) / 2
    # Between two values what lies below grows evenly.
    after = np.clip((below < half).sum(axis=0), 1, _POINTS - 1)
    cells = np.arange(first.size)
    one, other = below[after - 1, cells], below[after, cells]
    share = np.clip((half - one) / np.maximum(other - one, _LEAST), 0.0, 1.0)
    return scale.value(places[after - 1, cells] + share * (places[after, cells] - places[after - 1, cells]))
