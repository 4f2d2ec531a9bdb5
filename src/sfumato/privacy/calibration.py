"""Calibration: how much noise, or how many people, a wish needs. What is returned was checked to meet it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.privacy import gaussian
from sfumato.privacy.account import NAT, ORDERS, SIDE, Caps, caps, price
from sfumato.privacy.bisection import find_smallest
from sfumato.privacy.composition import epsilon as composed_epsilon
from sfumato.privacy.conversion import rho_epsilon
from sfumato.privacy.events import Gaussian, Pure, Repeated, Sampled
from sfumato.privacy.exact import parse_exact, parse_positive, parse_probability, parse_whole

if TYPE_CHECKING:
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.exact import Number

COARSE = 1e-3
"""Step of the loss grid on which a noise is searched for. It trades tightness for time; the bound
is an upper bound on every grid, so privacy does not depend on it."""


def gaussian_sigma(epsilon: Number, delta: Number, sensitivity: Number = 1) -> float:
    """Return the least σ of Gaussian noise that is (ε, δ)-DP for this l2 sensitivity, rounded up.

    This is the analytic calibration of Balle and Wang (2018), not the classic √(2·ln(1.25/δ))/ε.
    """
    e, d = float(parse_positive(epsilon, "epsilon")), float(_delta(delta))
    mu = gaussian.mu_of(e, d)
    # Raised by more than the division can lose to rounding.
    return float(parse_positive(sensitivity, "sensitivity")) / mu * (1 + 2.0**-40)


def sampled_sigma(rate: Number, steps: int, epsilon: Number, delta: Number) -> float:
    """Return the least noise multiplier for which `steps` Gaussian steps on Poisson samples are (ε, δ)-DP.

    For runs fixed in advance; not a filter.
    """
    target, share, times = (
        float(parse_positive(epsilon, "epsilon")),
        _delta(delta),
        parse_whole(steps, "steps"),
    )

    def holds(sigma: float) -> bool:
        run = Repeated(Sampled(Gaussian(sigma), rate), times)
        return composed_epsilon(run, share, step=COARSE) <= target

    return find_smallest(holds, 0.25, 0.5, precision=1e-4)


def share_sigma(budget: Budget, share: Number) -> Fraction:
    """Return the noise multiplier of a Gaussian event that uses this share of a budget, rounded up.

    Shares that add to 1 or less are all admitted together.
    """
    part = _share(share)
    order, cap = _gaussian_filter(caps(budget))
    # The closed form is a little too small after rounding up the price, so σ grows until the price fits.
    sigma, raised = math.sqrt(order * NAT / (2 * float(part * cap))), 2.0**-40
    while price(Gaussian(sigma)).renyi[ORDERS.index(order)] > part * cap:
        sigma, raised = sigma * (1 + raised), 2 * raised  # doubles, because these stay short as fractions
    return parse_exact(sigma, "sigma")


def share_epsilon(budget: Budget, share: Number) -> Fraction:
    """Return the largest pure ε that uses this share of a budget, rounded down.

    Without δ it is the share of ε. With δ it is a share of the filter that Gaussian events use, which for
    small shares is far more; shares of both kinds that add to 1 or less are all admitted together.
    """
    part, limits = _share(share), caps(budget)
    if not budget.delta or max(limits.renyi) <= 0:
        return part * budget.epsilon
    order, cap = _gaussian_filter(limits)
    at, allowed = ORDERS.index(order), part * cap
    low, high = 0, NAT * math.ceil(budget.epsilon) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = price(Pure(Fraction(middle, NAT))).renyi[at] <= allowed
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low, NAT)


def share_side(budget: Budget, share: Number) -> Fraction:
    """Return this share of the side δ, which pays for keys and other (ε, δ)-priced steps, rounded down."""
    return Fraction(math.floor(_share(share) * caps(budget).side), SIDE)


def rho_for(epsilon: Number, delta: Number) -> Fraction:
    """Return the largest ρ, rounded down, whose conversion is (ε, δ)-private."""
    wanted, share = float(parse_positive(epsilon, "epsilon")), _delta(delta)
    low, high = 0.0, wanted  # ρ-zCDP is never (ε, δ)-private for a small δ once ρ reaches ε
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_epsilon(middle, share) <= wanted else (low, middle)
    if not low:
        raise UsageError("SF-N316", "This delta is too small for so small an epsilon.", try_="delta=1e-6")
    return Fraction(low)


def sample_size(width: Number, error: Number, queries: int, epsilon: Number) -> int:
    """Return how many people `queries` averages of values in an interval of this `width` need: k·b/(γ·ε).

    Each average then has an expected Laplace error of at most `error`, and all cost ε together. The number
    of people is public here, and one person's value is replaced.
    """
    wanted = parse_positive(error, "error") * parse_positive(epsilon, "epsilon")
    return math.ceil(parse_whole(queries, "queries") * parse_positive(width, "width") / wanted)


def average_error(width: Number, n: int, epsilon: Number, queries: int = 1) -> Fraction:
    """Return the expected Laplace error of each of `queries` averages over n people: k·b/(n·ε)."""
    people = parse_whole(n, "n") * parse_positive(epsilon, "epsilon")
    return parse_whole(queries, "queries") * parse_positive(width, "width") / people


def _gaussian_filter(limits: Caps) -> tuple[float, int]:
    """Return the order that admits the most Gaussian events, and its cap."""
    order, cap = max(zip(ORDERS, limits.renyi, strict=True), key=lambda pair: pair[1] / pair[0])
    if cap <= 0:
        raise UsageError(
            "SF-N315",
            "This budget cannot pay for Gaussian noise.",
            try_="a budget with a larger delta or epsilon",
        )
    return order, cap


def _delta(delta: Number) -> Fraction:
    share = parse_probability(delta, "delta")
    if not share:
        raise UsageError("SF-N316", "Gaussian noise needs a delta above 0.", try_="delta=1e-6")
    return share


def _share(share: Number) -> Fraction:
    part = parse_exact(share, "share")
    if not 0 < part <= 1:
        raise UsageError(
            "SF-N317", "A share must be above 0 and at most 1.", got=str(share), try_="share=0.02"
        )
    return part
