"""Rounded Gaussian noise of moderate σ by one inversion table (docs/proofs/gaussian.md).

Its thresholds are computed from the exact ones of `magnitude_table`, by four terms of Taylor's series in
64-bit integers, with an error below 2^−35. A draw that falls so close to a threshold is decided by the law
itself.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.sampling.deferred import DeferredTable, guess_normal
from sfumato.noise.sampling.inversion import InversionTable
from sfumato.noise.sampling.normal import CELLS, REACH, RoundedNormal, magnitude_table, normal_density

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDEST = 2**10
"""Largest σ that has a table; above it `WideGaussianSampler` draws. benchmarks/noise.py measures both sides;
privacy does not depend on it, as both draw from the same law."""

_ERROR = 2 ** (64 - 35)
_BRACKET = 2 * _ERROR


@lru_cache(maxsize=32)
def gaussian_sampler(sigma: Fraction) -> DeferredTable:
    """Return the sampler of `RoundedNormal(sigma)`, for σ up to WIDEST."""
    deviation = float(sigma)
    return DeferredTable(
        RoundedNormal(sigma),
        lambda chance: round(deviation * guess_normal(chance)),
        lambda: build_gaussian_table(sigma),
    )


@lru_cache(maxsize=32)
def build_gaussian_table(sigma: Fraction) -> InversionTable:
    """Return the table of `RoundedNormal(sigma)`, for σ up to WIDEST."""
    places = _places(sigma)
    distance, half, error = _central(places), np.uint64(2**63), np.uint64(_ERROR)
    # Each threshold is lowered by its error, so that it is a lower bound with an error of twice that.
    left, right = half - np.minimum(distance + error, half), half + distance - error
    lowest, highest = np.array([0, 2**64 - _BRACKET], dtype=np.uint64).reshape(2, 1)
    least = np.concatenate([lowest, left[::-1], right, highest])
    ks = range(-len(places), len(places) + 2)
    return InversionTable.build_roughly(RoundedNormal(sigma), ks, least, _BRACKET)


def _places(sigma: Fraction) -> NDArray[np.int64]:
    """Return ⌊2^58 · x⌋ for x = (k − 1/2) / σ, k = 1, 2, … within reach."""
    times, over = sigma.denominator << 57, sigma.numerator
    found = ((2 * k - 1) * times // over for k in range(1, math.ceil(sigma * REACH / CELLS) + 1))
    return np.array([place for place in found if place < REACH << 52], dtype=np.int64)


def _central(places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 2^64 · P(0 < Z < x) to within _ERROR.

    The number at the end of a name says how many of its bits are behind the binary point.
    """
    nearest = places + 2**51 >> 52
    d38 = places - (nearest << 52) >> 20
    second26, third26 = nearest << 19, (nearest**2 - 4096 << 14) // 6
    fourth26 = (nearest**3 - 12288 * nearest << 8) // 24
    inner26 = second26 - (d38 * (third26 - (fourth26 * d38 >> 38)) >> 38)
    series31 = 2**31 - (d38 * inner26 >> 33)
    step38 = (_densities()[nearest] * d38 >> 31) * series31 >> 31
    exact = np.append(np.uint64(0), magnitude_table().thresholds >> np.uint64(1))[nearest]
    found: NDArray[np.uint64] = exact + (step38 << 26).astype(
        np.uint64
    )  # a negative step wraps around, as it must
    return found


@lru_cache(maxsize=1)
def _densities() -> NDArray[np.int64]:
    """Return ⌊2^31 · density⌋ at the multiples of 1/64, or one less."""
    return np.array(
        [normal_density(Fraction(j, CELLS), 64).low >> 33 for j in range(REACH + 1)], dtype=np.int64
    )
