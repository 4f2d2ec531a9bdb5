"""Which rows are in a step, and what a run of such steps costs: what runs is what is priced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from sfumato.deep.words import FRESH
from sfumato.errors import UsageError
from sfumato.noise.sampling.bits import OS, draw_below_each
from sfumato.privacy.events import Gaussian, Repeated, Sampled

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.privacy.events import Event


class DrawnBatches(Protocol):
    """The batches of one run, in use."""

    def draw(self, units: int) -> NDArray[np.int64]:
        """Return the numbers of the units in the next step, of so many that there are."""


class Batches(Protocol):
    """A way to choose the units of every step."""

    def begin(self) -> DrawnBatches:
        """Return the batches of a run, from its first step on."""

    def event(self, multiplier: float, steps: int) -> Event:
        """Return the price of a run: noise of `multiplier` times the clipping norm at every step."""

    def __hash__(self) -> int:
        """Return the same number for the same batches."""


@dataclass(frozen=True, slots=True)
class PoissonBatches:
    """Every unit is in a step by a coin of its own, so that batches differ in size.

    Protects : one unit, add/remove.
    """

    rate: Fraction

    def begin(self) -> Self:
        """Return the batches of a run: those of all steps are drawn alike."""
        return self

    def draw(self, units: int) -> NDArray[np.int64]:
        """Return the units whose coin said yes: the chance is the rate, rounded down to 64 bits."""
        limit = np.uint64(min(int(self.rate * 2**64), 2**64 - 1))
        return np.flatnonzero(FRESH.words(units) < limit)

    def event(self, multiplier: float, steps: int) -> Event:
        """Return the price of so many steps."""
        return Repeated(Sampled(Gaussian(multiplier), self.rate), steps)


@dataclass(frozen=True, slots=True)
class FixedBatches:
    """Each step has the same number of different units, all choices being equally likely.

    Protects : one unit that is replaced. Their number is public.
    """

    size: int
    of: int

    def begin(self) -> Self:
        """Return the batches of a run: those of all steps are drawn alike."""
        return self

    def draw(self, units: int) -> NDArray[np.int64]:
        """Return so many different units: the beginning of a shuffle by Fisher and Yates."""
        if units != self.of:
            raise UsageError(
                "SF-E179",
                "Batches of a fixed size need the number of units that was declared.",
                declared=f"{self.of:,}",
                try_='sampling="poisson"',
            )
        left = np.arange(units, units - self.size, -1, dtype=np.uint64)
        moved: dict[int, int] = {}
        chosen = []
        for place, skip in enumerate(draw_below_each(left, OS).tolist()):
            other = place + skip
            chosen.append(moved.get(other, other))
            moved[other] = moved.get(place, place)
        return np.array(chosen, dtype=np.int64)

    def event(self, multiplier: float, steps: int) -> Event:
        """Return the price of so many steps: a replaced unit moves a sum by two clipping norms."""
        return Repeated(Sampled.fixed(Gaussian(multiplier / 2), self.size, self.of), steps)
