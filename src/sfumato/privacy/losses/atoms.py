"""Privacy loss distributions with finitely many values: each loss and its probability under the first law.

Each of these is the same in both directions of its pair of neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.losses.masses import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.events.profiles import WorstPair


@dataclass(frozen=True, slots=True)
class LossAtoms:
    """Losses in ascending order, their probabilities, and the probability of an infinite loss."""

    losses: NDArray[np.floating[Any]]
    masses: NDArray[np.floating[Any]]
    infinite: float
    law: Callable[[NDArray[np.floating[Any]]], NDArray[np.floating[Any]]] | None = None
    """The profile in closed form, where summing many masses would lose digits."""

    def profile(self, at: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the hockey-stick divergence δ(ε), the sum of mass·(1 − e^(ε − loss)) over losses above ε."""
        if self.law is not None:
            return self.law(at)
        first = np.searchsorted(self.losses, at, side="right")
        above = _sums_from(self.masses)[first]
        scaled = _sums_from(self.masses * np.exp(-self.losses))[first]
        return np.asarray(self.infinite + above - np.exp(at) * scaled)

    def dots(self, step: float) -> NDArray[np.int64]:
        """Return the grid points on either side of each loss."""
        scaled = self.losses / step
        return np.unique(np.concatenate([np.floor(scaled), np.ceil(scaled)]).astype(np.int64))


def approximate_dp(epsilon: float, delta: float) -> LossAtoms:
    """Return the pair that dominates all (ε, δ)-DP pairs: losses ±ε, and an infinite one with mass δ."""
    share = (1 - delta) / (1 + math.exp(-epsilon))
    return LossAtoms(np.array([-epsilon, epsilon]), np.array([1 - delta - share, share]), delta)


def kary_randomized_response(epsilon: float, values: int) -> LossAtoms:
    """Return the losses of randomized response among several values."""
    # An answer is the truth of one table, the truth of the other, or any other value.
    other = math.exp(-epsilon) / (1 + (values - 1) * math.exp(-epsilon))
    masses = np.array([other, (values - 2) * other, 1 - (values - 1) * other])
    return LossAtoms(np.array([-epsilon, 0.0, epsilon]), masses, 0.0)


def discrete_laplace(rate: float, steps: int) -> LossAtoms:
    """Return the losses (steps − 2x)·rate of integer Laplace noise for a sensitivity of `steps`."""
    x = np.arange(steps, -1, -1)
    r = math.exp(-rate)
    masses = np.exp(-rate * x) * (-math.expm1(-rate) / (1 + r))
    masses[0], masses[-1] = math.exp(-rate * steps) / (1 + r), 1 / (1 + r)
    losses = (steps - 2 * x) * rate

    def law(at: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        # Losses above ε are those of noise up to m: P(X ≤ m) = 1 − r^(m+1)/(1 + r), and r^(steps−m)/(1 + r)
        # on the other table.
        above = len(losses) - np.searchsorted(losses, at, side="right")
        m = above - 1.0
        inside = 1 - np.exp(-rate * (m + 1)) / (1 + r) - np.exp(at - rate * (steps - m)) / (1 + r)
        return np.where(above == 0, 0.0, np.where(above == len(losses), -np.expm1(at), inside))

    return LossAtoms(losses, masses, 0.0, law)


def discrete_gaussian(sigma: float, steps: int) -> LossAtoms:
    """Return the losses (steps² − 2·steps·x)/(2σ²) of noise x ∝ exp(−x²/(2σ²)) on the integers."""
    far = math.ceil(9.5 * sigma) + 2
    x = np.arange(far, -far - 1, -1)
    weights = np.exp(-((x / sigma) ** 2) / 2)
    masses = weights / math.fsum(weights)
    losses = steps * (steps - 2.0 * x) / (2 * sigma * sigma)
    below = _sums_in_blocks(masses[::-1])  # the chance of at most −far, −far + 1, …
    lost = 4 * ROUNDING * (8 + math.isqrt(len(x))) + 100 * ROUNDING
    rare = 2 * (sigma + 1) * math.exp(-((9.5 + 1 / sigma) ** 2) / 2)

    def at_most(place: NDArray[Any]) -> NDArray[np.floating[Any]]:
        inside = below[np.clip(place + far, 0, 2 * far)]
        return np.where(place < -far, 0.0, inside)

    def law(at: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        # Losses above ε are those of noise up to m, which on the other table is noise up to m − steps.
        m = np.ceil(steps / 2 - at * sigma * sigma / steps).astype(np.int64) - 1
        here, there = at_most(m), np.exp(at) * at_most(m - steps)
        return np.asarray(np.clip(here - there + lost * (here + there) + rare, 0.0, 1.0))

    return LossAtoms(losses, masses, 0.0, law)


def list_claimed(worst: WorstPair) -> LossAtoms:
    """Return the losses of the worst pair of a stated profile, which is linear in e^ε between its corners."""
    ratios = np.array([float(ratio) for ratio, _ in worst.vertices])
    deltas = np.array([float(delta) for _, delta in worst.vertices])

    def law(at: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        return np.asarray(np.interp(np.exp(at), ratios, deltas))

    masses = np.array([float(mass) for mass in worst.masses])
    return LossAtoms(np.array(worst.losses), masses, float(worst.infinite), law)


def _sums_in_blocks(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the running sums, whose error grows with the root of their number only."""
    size = math.isqrt(len(values)) + 1
    blocks = np.append(values, np.zeros(-len(values) % size)).reshape(-1, size)
    inside = np.cumsum(blocks, axis=1)
    before = np.append(0.0, np.cumsum(inside[:, -1])[:-1])
    return np.asarray((inside + before[:, None]).ravel()[: len(values)])


def _sums_from(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the sums of all values from each index on, and 0 after the last."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)
