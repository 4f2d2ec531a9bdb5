"""Calibration: how much noise, or how many people, a wish needs. What is returned was checked to meet it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.privacy import gaussian
from sfumato.privacy.account import NAT, ORDERS, SIDE, caps, price
from sfumato.privacy.bisection import find_smallest
from sfumato.privacy.composition import epsilon as composed_epsilon
from sfumato.privacy.conversion import rho_epsilon
from sfumato.privacy.events import Exponential, Gaussian, Pure, Repeated, Sampled
from sfumato.privacy.exact import parse_exact, parse_positive, parse_probability, parse_whole
from sfumato.privacy.gaussian_costs import price_coin_at

if TYPE_CHECKING:
    from sfumato.privacy.account import Caps, Cost
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
    target, share, times = parse_positive(epsilon, "epsilon"), _delta(delta), parse_whole(steps, "steps")

    def holds(sigma: float) -> bool:
        run = Repeated(Sampled(Gaussian(sigma), rate), times)
        return composed_epsilon(run, share, step=COARSE) <= target

    return find_smallest(holds, 0.25, 0.5, precision=1e-4)


def share_sigma(budget: Budget, share: Number, limits: Caps | None = None) -> Fraction:
    """Return the noise multiplier of a Gaussian event that uses this share of a budget, rounded up.

    Shares that add to 1 or less are all admitted together. `limits` are the filters of an account, where
    those are not the ones that a new account with this budget has.
    """
    part = _share(share)
    filtered = _find_filter(limits or caps(budget))
    # The closed form is a little too small after rounding up the price, so σ grows until the price fits.
    sigma, raised = math.sqrt(filtered.weight * NAT / float(part * filtered.cap)), 2.0**-40
    while filtered.read(price(Gaussian(sigma))) > part * filtered.cap:
        sigma, raised = sigma * (1 + raised), 2 * raised  # doubles, because these stay short as fractions
    return parse_exact(sigma, "sigma")


def share_epsilon(budget: Budget, share: Number, limits: Caps | None = None) -> Fraction:
    """Return the largest pure ε that uses this share of a budget, rounded down.

    Without δ it is the share of ε. With δ it is a share of the filter that Gaussian events use, which for
    small shares is far more; shares of both kinds that add to 1 or less are all admitted together.
    """
    part, known = _share(share), limits or caps(budget)
    if not known.admits_noise:
        return part * budget.epsilon
    filtered = _find_filter(known)
    low, high = 0, NAT * math.ceil(budget.epsilon) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = filtered.read_pure(Fraction(middle, NAT)) <= part * filtered.cap
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low, NAT)


def share_choice(budget: Budget, share: Number, limits: Caps | None = None) -> Fraction:
    """Return the largest ε of a choice of bounded range that uses this share of a budget, rounded down.

    At the Rényi orders a choice of 2/σ costs what Gaussian noise of σ does, and in Gaussian DP a little more.
    """
    part, known = _share(share), limits or caps(budget)
    filtered = _find_filter(known)
    low, high = 0, NAT * math.ceil(2 * budget.epsilon) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = filtered.read(price(Exponential(Fraction(middle, NAT)))) <= part * filtered.cap
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low, NAT)


def share_side(budget: Budget, share: Number, limits: Caps | None = None) -> Fraction:
    """Return this share of the side δ, which pays for keys and other (ε, δ)-priced steps, rounded down."""
    return Fraction(math.floor(_share(share) * (limits or caps(budget)).side), SIDE)


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


@dataclass(frozen=True, slots=True)
class _NoiseFilter:
    """The filter of a budget that admits the most Gaussian noise."""

    weight: float
    """What noise of σ = 1 costs at it."""
    cap: int
    order: int | None = None
    """Place of the Rényi order; None for the filter of Gaussian DP."""
    place: int = 0

    def read(self, cost: Cost) -> float:
        """Return what is charged to this filter; infinity where that is not known."""
        if self.order is not None:
            return cost.renyi[self.order]
        return math.inf if cost.gaussian is None else cost.gaussian[self.place]

    def read_pure(self, epsilon: Fraction) -> float:
        """Return what a pure question is charged to this filter."""
        if self.order is not None:
            return self.read(price(Pure(epsilon)))
        cost = price_coin_at(epsilon, self.place)
        return math.inf if cost is None else cost


def _find_filter(limits: Caps) -> _NoiseFilter:
    """Return the filter that admits the most Gaussian noise."""
    filters = [
        _NoiseFilter(order / 2, cap, at)
        for at, (order, cap) in enumerate(zip(ORDERS, limits.renyi, strict=True))
    ]
    if limits.gaussian is not None:
        filters.append(_NoiseFilter(1.0, limits.gaussian.most, None, limits.gaussian.place))
    best = max(filters, key=lambda each: each.cap / each.weight)
    if best.cap <= 0:
        raise UsageError(
            "SF-N316",
            "This budget cannot pay for Gaussian noise.",
            try_="a budget with a larger delta or epsilon",
        )
    return best


def _delta(delta: Number) -> Fraction:
    share = parse_probability(delta, "delta")
    if not share:
        raise UsageError("SF-N316", "Gaussian noise needs a delta above 0.", try_="delta=1e-6")
    return share


def _share(share: Number) -> Fraction:
    part = parse_exact(share, "share")
    if not 0 < part <= 1:
        raise UsageError(
            "SF-N101", "A share must be above 0 and at most 1.", got=str(share), try_="share=0.02"
        )
    return part
