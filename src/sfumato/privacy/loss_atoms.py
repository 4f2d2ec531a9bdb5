"""Losses that take finitely many values, as arrays: a loss, and its chance under the first of the two laws.

Each of these is the same in both directions of its pair of neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LossAtoms:
    """Losses in rising order, their chances, and the chance of an infinite one."""

    losses: NDArray[np.floating[Any]]
    masses: NDArray[np.floating[Any]]
    infinite: float

    def profile(self, at: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """δ(ε) = Σ mass·(1 − e^(ε − loss)) over the losses above ε, at each ε of `at`."""
        first = np.searchsorted(self.losses, at, side="right")
        above = _sums_from(self.masses)[first]
        scaled = _sums_from(self.masses * np.exp(-self.losses))[first]
        return np.asarray(self.infinite + above - np.exp(at) * scaled)

    def dots(self, step: float) -> NDArray[np.int64]:
        """The grid points on either side of each loss."""
        scaled = self.losses / step
        return np.unique(np.concatenate([np.floor(scaled), np.ceil(scaled)]).astype(np.int64))


def approximate_dp(epsilon: float, delta: float) -> LossAtoms:
    """The pair that dominates all (ε, δ)-DP ones: ±ε, and with chance δ everything."""
    share = (1 - delta) / (1 + math.exp(-epsilon))
    return LossAtoms(np.array([-epsilon, epsilon]), np.array([1 - delta - share, share]), delta)


def kary_randomized_response(epsilon: float, values: int) -> LossAtoms:
    """Randomized response: the true answer, the other table's true answer, and all others."""
    other = math.exp(-epsilon) / (1 + (values - 1) * math.exp(-epsilon))
    masses = np.array([other, (values - 2) * other, 1 - (values - 1) * other])
    return LossAtoms(np.array([-epsilon, 0.0, epsilon]), masses, 0.0)


def discrete_laplace(rate: float, steps: int) -> LossAtoms:
    """Integer Laplace noise against itself `steps` away: the loss is (steps − 2x)·rate for 0 ≤ x ≤ steps."""
    x = np.arange(steps, -1, -1)
    r = math.exp(-rate)
    masses = np.exp(-rate * x) * (-math.expm1(-rate) / (1 + r))
    masses[0], masses[-1] = math.exp(-rate * steps) / (1 + r), 1 / (1 + r)
    return LossAtoms((steps - 2 * x) * rate, masses, 0.0)


def _sums_from(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The sum of all from each place on, and 0 after the last."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)
