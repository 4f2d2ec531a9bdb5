"""Banded Toeplitz matrices: a factor of the running sum that looks back a fixed number of ticks.

C has the first coefficients of the square root of the running sum and zeros below (Kalinin and Lampert,
*Banded Square Root Matrix Factorization for Differentially Private Model Training*, 2024). Moves of a unit
that are further apart than the bands do not overlap, so that each costs as much as if it were alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors.checked import require_field

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]

MOST_BANDS = 32
"""Bands that are tried at most, since the noise of so many ticks is kept. Privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class BandedToeplitz:
    """A factor C of the running sum, by its first column: 1, and positive numbers that never grow."""

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        first, *rest = self.coefficients
        falls = all(0 < later <= one for one, later in zip((first, *rest), rest, strict=False))
        require_field(first == 1 and falls, self, "coefficients", "1, and positive numbers that never grow")

    def list_coefficients(self, count: int) -> Floats:
        """Return the first entries of the first column of C."""
        column = np.zeros(count)
        kept = self.coefficients[:count]
        column[: len(kept)] = kept
        return column

    def norm_squared(self, horizon: int, participations: int = 1, separation: int = 1) -> float:
        """Return the largest squared l2 norm of C·x for an x with so many ones at least so far apart.

        Entries never grow along a column, so the ones stand at 0, s, 2s, … as in buffered matrices.
        """
        places = np.arange(0, horizon, separation)[:participations]
        total = np.zeros(horizon)
        for place in places:
            total[place:] += self.list_coefficients(horizon - int(place))
        return float(total @ total)

    def sum_squares(self, ticks: Sequence[int]) -> Floats:
        """Return the variance of a running sum after so many ticks, for noise z of variance 1."""
        from scipy.signal import lfilter

        first = np.zeros(max(ticks))
        first[0] = 1.0
        row = np.cumsum(lfilter([1.0], self.coefficients, first))
        return np.asarray(np.cumsum(row**2)[np.asarray(ticks) - 1])


@lru_cache(maxsize=64)
def plan_bands(horizon: int, participations: int = 1, separation: int = 1) -> BandedToeplitz:
    """Return the banded square root with the least variance of the last running sum at equal privacy."""
    most = min(separation, horizon, MOST_BANDS)
    sizes = sorted({min(2**power, most) for power in range(MOST_BANDS.bit_length())})
    ages = np.arange(1, most)
    roots = [1.0, *np.cumprod((2 * ages - 1) / (2 * ages)).tolist()]
    factors = [BandedToeplitz(tuple(roots[:size])) for size in sizes]

    def loss(factor: BandedToeplitz) -> float:
        norm = factor.norm_squared(horizon, participations, separation)
        return norm * float(factor.sum_squares([horizon])[0])

    return min(factors, key=loss)
