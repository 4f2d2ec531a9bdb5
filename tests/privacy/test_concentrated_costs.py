"""What ρ-zCDP claims cost in Gaussian DP, against the worst pairs that a claim allows.

For every place of the profile a linear program finds, among all pairs of laws on a grid of losses that are
ρ-zCDP in both directions, the one that tells most there beside the reserve. Nothing is random.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr

from sfumato.privacy import Concentrated
from sfumato.privacy.gaussian_costs import RESERVES, UNIT, find_costs

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLACES = (0.0, 1.0, 3.0)
"""Where profiles are compared, in deviations of the loss."""


def scaled_profile(variance: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^(−x/2) times δ at ε = x of Gaussian noise of this μ²."""
    mu = math.sqrt(variance)
    found: NDArray[np.float64] = np.exp(-x / 2) * ndtr(mu / 2 - x / mu) - np.exp(x / 2) * ndtr(
        -mu / 2 - x / mu
    )
    return found


def worst_profile(rho: float, reserve: float, x: float, variance: float) -> float:
    """The largest profile at x beside the reserve, as a multiple of that of Gaussian noise of this μ².

    A pair is a measure on losses l: dS = e^(l/2) dQ. Its weights are multiples of e^(−l²/(4ρ)), or the
    conditions at high orders would be lost to rounding.
    """
    root, middle = math.sqrt(rho), 2 * rho * x / variance
    losses = np.union1d(
        np.linspace(-8 * root, 8 * root, 241), np.linspace(middle - 5 * root, middle + 5 * root, 121)
    )
    scale = -losses * losses / (4 * rho)
    gain = scaled_profile(reserve, x - losses) * np.exp(scale) / scaled_profile(variance, np.array(x))
    orders = 0.5 + np.append(
        np.geomspace(1e-3, 1, 5), np.linspace(0.05, (abs(middle) + 6 * root) / (2 * rho), 60)
    )
    moments = [np.exp(t * losses - (t * t - 0.25) * rho + scale) for t in (*orders, *-orders)]
    # The mean loss is at most ρ under either law, which is order 1.
    means = [sign * losses * np.exp(sign * losses / 2 + scale) / rho for sign in (1, -1)]
    laws = [np.exp(sign * losses / 2 + scale) for sign in (1, -1)]
    limits = np.ones(len(moments) + len(means))
    found = linprog(-gain, np.array([*moments, *means]), limits, np.array(laws), [1, 1], method="highs")
    assert found.status == 0
    return -float(found.fun)


@pytest.mark.parametrize(
    ("reserve", "multiple"), [(RESERVES[7], 0.02), (RESERVES[7], 1.5), (RESERVES[11], 0.3)]
)
def test_no_concentrated_pair_tells_more_than_was_charged(reserve: float, multiple: float) -> None:
    rho = min(multiple * reserve, 0.5)
    costs = find_costs(Concentrated(Fraction(rho)))
    assert costs is not None
    variance = reserve + costs[RESERVES.index(reserve)] / UNIT
    deviation = math.sqrt(variance)
    told = [worst_profile(rho, reserve, place * deviation, variance) for place in PLACES]
    assert max(told) <= 1 + 1e-9
    assert max(told) > (0.999 if multiple < 0.1 else 0.85)  # little is wasted


def test_a_claim_that_is_charged_like_gaussian_noise_is_caught() -> None:
    """2ρ is what Gaussian noise of the same ρ costs; other pairs of that ρ tell more."""
    reserve = RESERVES[7]
    rho = 0.3 * reserve
    assert worst_profile(rho, reserve, 0.0, reserve + 2 * rho) > 1 + 1e-5
