"""Choosing the buffers of a factor: the least largest variance of running sums (docs/proofs/continual.md).

Any choice is private, because noise is priced for the factor that is used; so floating point may choose.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.continual.toeplitz import BufferedToeplitz, Floats

if TYPE_CHECKING:
    from collections.abc import Callable

BUFFERS = 6
"""With six numbers of state the variance is within 0.3 % of the square-root factorisation at 2^20 ticks."""

ENDLESS = 2**30
"""Ticks that a stream without a stated horizon may have."""

_SHORTEST, _LONGEST = 6, 24
"""A stream without a horizon is planned to come near to one of a known horizon between 2^6 and 2^24 ticks."""


@lru_cache(maxsize=64)
def plan_buffers(horizon: int, participations: int = 1, separation: int = 1) -> BufferedToeplitz:
    """Return the factor with the least variance of the last running sum at equal privacy."""

    def loss(factor: BufferedToeplitz) -> float:
        norm = factor.norm_squared(horizon, participations, separation)
        return float(np.log(norm * factor.sum_squares([horizon])[0]))

    buffers = min(BUFFERS, max(1, horizon.bit_length() - 1))
    return _minimise(loss, _spread(buffers, horizon), horizon)


@lru_cache(maxsize=1)
def plan_endless() -> BufferedToeplitz:
    """Return a factor for streams whose end nobody knows: its norm is finite, its variance grows slowly.

    It minimises the largest ratio, over many horizons, to the square-root factorisation of that horizon.
    """
    ticks = [2**bits for bits in range(_SHORTEST, _LONGEST + 1, 2)]
    known = np.log([square_root_variance(tick) for tick in ticks])
    start = _spread(BUFFERS, ticks[-1])
    for power in (8, 64):

        def loss(factor: BufferedToeplitz, power: int = power) -> float:
            ratios = np.log(factor.norm_squared(np.inf) * factor.sum_squares(ticks)) - known
            return float(np.logaddexp.reduce(power * ratios) / power)

        start = _as_numbers(_minimise(loss, start, ticks[-1]))
    return _from_numbers(start)


def square_root_variance(horizon: int) -> float:
    """Return the largest variance of the square-root factorisation, which knows its horizon.

    Its entries are r_j = C(2j, j)/4^j; the sum of their squares over j < n tends to (ln n + γ + 4·ln 2)/π −
    1/(4πn). It is a yardstick only.
    """
    if horizon <= 2**12:
        ages = np.arange(1, horizon)
        entries = np.concatenate([[1.0], np.cumprod((2 * ages - 1) / (2 * ages))])
        return float(entries @ entries) ** 2
    norm = (np.log(horizon) + np.euler_gamma + 4 * np.log(2)) / np.pi - 1 / (4 * np.pi * horizon)
    return float(norm**2)


def _minimise(loss: Callable[[BufferedToeplitz], float], start: Floats, horizon: int) -> BufferedToeplitz:
    from scipy.optimize import minimize

    lowest = np.log(2.0**-6 / horizon)
    bounds = [(float(lowest), 0.0)] + [(-6.0, 1.1)] * (len(start) - 1)

    def loss_of(numbers: Floats) -> float:
        return loss(_from_numbers(numbers))

    found = minimize(
        loss_of, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 400, "ftol": 1e-12}
    )
    return _from_numbers(np.asarray(found.x))


def _spread(buffers: int, horizon: int) -> Floats:
    """Return a start: poles and zeros spread evenly over all time scales, in logarithms."""
    places = 2 * buffers
    return np.concatenate(
        [[-np.log(2 * horizon)], np.full(places - 1, np.log(np.log(2 * horizon) / (places - 0.5)))]
    )


def _from_numbers(numbers: Floats) -> BufferedToeplitz:
    """Return the factor of free numbers: the log odds of the first pole, and the logs of the steps after."""
    odds = np.exp(np.cumsum(np.concatenate([numbers[:1], np.exp(numbers[1:])])))
    # Whole multiples of 2^−53, so that 1 less a gap is exact in doubles.
    gaps = (np.rint(odds / (1 + odds) * 2.0**53) / 2.0**53).tolist()
    return BufferedToeplitz(tuple(gaps[0::2]), tuple(gaps[1::2]))


def _as_numbers(factor: BufferedToeplitz) -> Floats:
    gaps = np.array([each for pair in zip(factor.poles, factor.zeros, strict=True) for each in pair])
    odds = np.log(gaps) - np.log1p(-gaps)
    return np.concatenate([odds[:1], np.log(np.diff(odds))])
