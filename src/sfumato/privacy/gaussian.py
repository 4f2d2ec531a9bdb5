"""Gaussian differential privacy in closed form: composition, the (ε, δ) profile and its inverses.

Gaussian events compose to one Gaussian event: with μ = √Σ 1/σ², all of them together reveal exactly as much
as telling N(0, 1) from N(μ, 1). Then δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (docs/proofs/curves.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.privacy.bisection import find_largest, find_smallest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.privacy.events import Gaussian

_SLACK = 2.0**-48


def compose_mu(counts: Iterable[tuple[Gaussian, int]]) -> float:
    """Return the μ of Gaussian DP of all these events together, each repeated as often as it says."""
    return math.sqrt(sum(times / (event.sigma * event.sigma) for event, times in counts))


def delta_bounds(mu: float, epsilon: float) -> tuple[float, float]:
    """Return numbers just below and just above the smallest δ for this ε."""
    # As e^ε is φ(near)/φ(far), both terms have φ(near) as a factor, and far out only their quotients are
    # compared. The slack covers what the special functions and the difference lose.
    from scipy.special import erfcx, log_ndtr, ndtr

    if mu == 0:
        return 0.0, 0.0
    near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    if near > 0:
        first, second = float(ndtr(near)), math.exp(min(0.0, epsilon + float(log_ndtr(far))))
        factor, slack = 1.0, _SLACK * (1 + abs(epsilon))
    else:
        first, second = float(erfcx(-near / math.sqrt(2))), float(erfcx(-far / math.sqrt(2)))
        factor, slack = math.exp(-near * near / 2) / 2, _SLACK * first * (1 + near * near)
    return max(0.0, factor * (first - second - slack)), min(1.0, factor * (first - second + slack))


def delta_of(mu: float, epsilon: float) -> float:
    """Return the smallest δ for this ε, rounded up."""
    return delta_bounds(mu, epsilon)[1]


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest ε for this δ, rounded up."""
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    return find_smallest(lambda epsilon: delta_of(mu, epsilon) <= delta, 0.0, mu)


def lower_epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest ε for this δ, rounded down."""
    return find_largest(lambda epsilon: delta_bounds(mu, epsilon)[0] > delta, 0.0, mu)


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ that is (ε, δ)-DP, rounded down."""
    return find_largest(lambda mu: delta_of(mu, epsilon) <= delta, 0.0, 1.0)


def tradeoff_of(mu: float, alpha: float) -> float:
    """Return the trade-off function: the least false negative rate at a false positive rate α."""
    from scipy.special import ndtr, ndtri

    return float(ndtr(-float(ndtri(alpha)) - mu))
