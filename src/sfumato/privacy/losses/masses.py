"""Losses on a grid: measures whose profile is certainly above, or below, that of an event.

Docs: docs/proofs/curves.md#discretisation. Every quantity is a double, and what rounding may have taken away
from an upper bound is added back here, before anything is composed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

ROUNDING = 2.0**-53
"""Largest relative error of one operation on doubles."""
ON_GRID = 2.0**-30
"""How near to a grid point, in steps, a loss is taken for that point in lower bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class LossMasses:
    """Masses of the losses (first + i)·step + offset, none below zero, and that of an infinite loss."""

    first: int
    masses: Floats
    infinite: float
    step: float
    offset: float = 0.0

    @property
    def losses(self) -> Floats:
        """The losses that the masses belong to, less the offset."""
        return (self.first + np.arange(len(self.masses))) * self.step


def connect_dots(dots: NDArray[np.int64], deltas: Floats, step: float) -> LossMasses:
    """Return masses on the dots whose profile is nowhere below that of the event.

    `deltas` holds δ(ε) at ε = dots·step, ascending, each correct to `profile_error` or better.
    """
    gaps = np.diff(dots) * step
    fall = np.diff(deltas)
    ahead, behind = fall / np.expm1(gaps), fall / np.expm1(-gaps)
    exact = np.append(1 - deltas[0], behind) + np.append(ahead, 0.0)
    # Differences of close numbers: each term is correct to a few roundings of its own size.
    lost = np.append(1.0, np.abs(behind)) + np.append(np.abs(ahead), 0.0)
    masses = np.maximum(exact, 0.0) + 16 * ROUNDING * lost
    infinite = float(deltas[-1]) + profile_error(float(np.abs(dots).max()) * step)
    return LossMasses(int(dots[0]), spread_masses(dots, masses), infinite, step)


def profile_error(largest: float) -> float:
    """Return how far a computed δ(ε) may be off, for |ε| up to `largest`.

    δ is the difference of two probabilities, P(S) and e^ε·Q(S). The second is the exponential of a number of
    size ε, which carries that many roundings.
    """
    return ROUNDING * (32 + 8 * largest)


def spread_masses(dots: NDArray[np.int64], masses: NDArray[Any]) -> Floats:
    """Return the masses on all grid points between the dots, zero where there is no dot."""
    dense = np.zeros(int(dots[-1] - dots[0]) + 1)
    dense[dots - dots[0]] = masses
    return dense
