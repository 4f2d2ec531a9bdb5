"""Batches of passes over the data: every unit has a place of its own, the same in every pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.continual.banded import BandedToeplitz, plan_bands
from sfumato.noise.continual.planning import plan_buffers
from sfumato.noise.sampling.bits import OS, draw_uniform
from sfumato.privacy.events import Gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.continual.toeplitz import BufferedToeplitz

    Factor = BufferedToeplitz | BandedToeplitz

_ROUNDING = 1 + 1e-9
"""What doubles may lose in a sum of a few positive terms."""


@dataclass(frozen=True, slots=True)
class OrderedBatches:
    """A pass has `separation` steps, and every unit is in one of them, the same in all passes, by a coin.

    Protects : one unit, add/remove.
    """

    separation: int
    noise: str

    def begin(self) -> OrderedPass:
        """Return the batches of a run, from its first step on."""
        return OrderedPass(self.separation)

    def participations(self, steps: int) -> int:
        """Return the most steps that a unit is in."""
        return math.ceil(steps / self.separation)

    def factor(self, steps: int) -> Factor:
        """Return the matrix C by which the noise of the steps is correlated."""
        known = (steps, self.participations(steps), self.separation)
        if self.noise == "blt":
            return plan_buffers(*known)
        return plan_bands(*known) if self.noise == "banded" else BandedToeplitz((1.0,))

    def sensitivity(self, steps: int) -> float:
        """Return by how many clipping norms a unit moves C times the sums of all steps, at most."""
        squared = self.factor(steps).norm_squared(steps, self.participations(steps), self.separation)
        return math.sqrt(squared) * _ROUNDING

    def event(self, multiplier: float, steps: int) -> Gaussian:
        """Return the price of a run whose independent noise is `multiplier` times the clipping norm."""
        return Gaussian(multiplier / self.sensitivity(steps))


class OrderedPass:
    """Where a run stands in its passes, and which place every unit has."""

    def __init__(self, separation: int) -> None:
        self._separation, self._step = separation, 0
        self._places: NDArray[np.int64] | None = None

    def draw(self, units: int) -> NDArray[np.int64]:
        """Return the units whose place is that of the next step."""
        if self._places is None:
            self._places = draw_uniform(self._separation, units, OS)
        if len(self._places) != units:
            raise AssertionError("the units of a run stay the same")
        place, self._step = self._step % self._separation, self._step + 1
        return np.flatnonzero(self._places == place)


def choose_ordered(noise: str, size: int, declared: int) -> OrderedBatches:
    """Return passes in batches of about this size."""
    if noise not in {"independent", "blt", "banded"}:
        raise UsageError("SF-E191", "There is no such noise.", try_='noise="blt", "banded" or "independent"')
    return OrderedBatches(max(round(declared / size), 1), noise)


def require_independent(noise: str) -> None:
    """Refuse correlated noise where batches are drawn anew at every step."""
    if noise != "independent":
        raise UsageError(
            "SF-E191",
            "Correlated noise needs batches in a fixed order.",
            why="it is priced for units that come at known distances, and gains nothing from sampling here",
            try_='sampling="ordered", or noise="independent"',
        )
