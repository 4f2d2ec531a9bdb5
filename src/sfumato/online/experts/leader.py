"""Follow the leader: the expert with the least loss so far, by running sums with correlated noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.continual.running_sums import RunningSums
from sfumato.online.experts.method import GRID, ExpertMethod, Play
from sfumato.privacy.calibration import gaussian_sigma
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.online.experts.method import Losses
    from sfumato.privacy import events


@dataclass(frozen=True)
class NoisyLeader(ExpertMethod):
    """Chooses the expert whose running loss, with Gaussian noise that is correlated over time, is least.

    Privacy
    -------
    Protects : one loss vector in [0, 1]^n, replaced, at one step; losses may depend on earlier choices.
    Costs    : Gaussian(multiplier) for all steps together: choices are functions of noisy running sums.
    Because  : docs/proofs/experts.md
    Assumes  : losses lie in [0, 1] and are whole steps of the grid; how long a draw takes is not observed.
               The bound on regret, not privacy, needs losses that do not depend on choices (oblivious).
    """

    multiplier: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "multiplier", parse_positive(self.multiplier, "multiplier"))

    @classmethod
    def calibrated(cls, experts: int, horizon: int, epsilon: Fraction, delta: Fraction) -> NoisyLeader:
        """Return the least noise that is (ε, δ)-private."""
        return cls(experts, horizon, parse_positive(gaussian_sigma(epsilon, delta, 1), "multiplier"))

    @cached_property
    def sums(self) -> RunningSums:
        """The running sums of the losses; a loss vector moves one of their ticks by √n at most."""
        norm = math.isqrt(self.experts * GRID**2 - 1) + 1
        return RunningSums(self.multiplier, self.rows, norm, cells=self.experts)

    def event(self) -> events.Gaussian:
        """Return the price of all choices together."""
        return self.sums.event()

    @cached_property
    def deviations(self) -> NDArray[np.float64]:
        """Standard deviation of the noise of each running sum, in units of the loss."""
        return np.sqrt(self.sums.variances(np.arange(1, self.rows + 1))) / GRID

    def proven_regret(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bound for losses that were fixed beforehand, prefix by prefix."""
        return np.concatenate([[0.0, 1.0], 1 + self._later])[np.minimum(steps, self.horizon)]

    @cached_property
    def _later(self) -> NDArray[np.float64]:
        spread, greatest = self.deviations, mean_of_greatest(self.experts)
        grown = np.maximum(np.diff(spread, prepend=0.0), 0)
        # Rounding moves a sum by half a step, and by two steps of the finer grid of the noise for every tick.
        rounded = (0.5 + 2 * np.arange(1, self.rows + 1) / self.sums.grid.steps) / GRID
        missed = 0.8 * self.experts * rounded / spread
        return np.asarray(np.cumsum(greatest * (grown + 0.25 / spread) + missed))

    def start(self, source: BitSource) -> LeaderInPlay:
        """Return a play whose first choice is uniform."""
        return LeaderInPlay(self, source)


class LeaderInPlay(Play):
    """A noisy leader in use."""

    def __init__(self, method: NoisyLeader, source: BitSource) -> None:
        super().__init__(method, source)
        self._noise = method.sums.begin(source=source)

    def _choose_after(self, losses: Losses) -> NDArray[np.intp]:
        return np.asarray(self._noise.extend(losses).argmin(axis=1))


@lru_cache(maxsize=64)
def mean_of_greatest(count: int) -> float:
    """Return the mean of the greatest of so many standard normal numbers, rounded up."""
    from scipy.special import log_ndtr

    at = np.linspace(-12.0, 12.0, 2**12 + 1)
    # E M = ∫ P(M > x) dx over x > −12, less 12; what lies beyond ±12 is below 1e-30 for any sensible count.
    return float(np.trapezoid(-np.expm1(count * log_ndtr(at)), at)) - 12 + 1e-4
