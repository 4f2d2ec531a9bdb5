"""How much a question may cost, and the noise that makes of it. Decided from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.noise import Gaussian, Laplace
from sfumato.privacy.calibration import gaussian_sigma, share_epsilon, share_sigma
from sfumato.privacy.exact import exact, positive, shown
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.privacy.budget import Budget

Noise = Laplace | Gaussian

_ROUNDING = 1 + Fraction(1, 2**24)  # above what rounding up each of many sums can add to a price


@dataclass(frozen=True, slots=True)
class Pure:
    """Pure ε, shared evenly by the sums: Laplace noise."""

    epsilon: Fraction

    def noise(self, sensitivity: int, sums: int) -> Noise:
        return Laplace(sensitivity * sums / self.epsilon)

    def __str__(self) -> str:
        return f"ε = {shown(self.epsilon)}"


@dataclass(frozen=True, slots=True)
class Rounded:
    """Gaussian noise, `multiplier` times the sensitivity for the sums together.

    k sums at √k times that each are one Gaussian mechanism at it: the squares of 1/multiplier add up.
    """

    multiplier: Fraction
    words: str

    def noise(self, sensitivity: int, sums: int) -> Noise:
        return Gaussian(root_up((sensitivity * self.multiplier) ** 2 * sums))

    def __str__(self) -> str:
        return self.words


Spend = Pure | Rounded


def spend(*, budget: Budget, sums: int, amounts: Mapping[str, Any]) -> Spend:
    """The spend that was typed: epsilon, epsilon and delta, rho, or a share of the budget; one of them."""
    match sorted(amounts):
        case ["epsilon"]:
            return Pure(positive(amounts["epsilon"], "epsilon"))
        case ["delta", "epsilon"]:
            return _approximate(positive(amounts["epsilon"], "epsilon"), exact(amounts["delta"], "delta"))
        case ["rho"]:
            return _concentrated(positive(amounts["rho"], "rho"))
        case ["share"]:
            return _share(budget, exact(amounts["share"], "share"), sums)
    raise UsageError(
        "SF-N109",
        "Say how much to spend, in one way.",
        got=", ".join(amounts) or "nothing",
        try_="epsilon=0.1, or epsilon=1 with delta=1e-8, or rho=0.01, or share=0.02",
    )


def _approximate(epsilon: Fraction, delta: Fraction) -> Spend:
    multiplier = exact(gaussian_sigma(epsilon, delta), "sigma")
    return Rounded(multiplier, f"ε = {shown(epsilon)}, δ = {shown(delta)}")


def _concentrated(rho: Fraction) -> Spend:
    """ρ = 1 / (2·multiplier²)."""
    return Rounded(root_up(1 / (2 * rho)), f"ρ = {shown(rho)}")


def _share(budget: Budget, share: Fraction, sums: int) -> Spend:
    """The noise with the smaller expected error among those that use this share of the budget."""
    pure = Pure(share_epsilon(budget, share))
    if not budget.delta:
        return pure
    multiplier = share_sigma(budget, share) * _ROUNDING
    rounded = Rounded(multiplier, f"{shown(share * 100)} % of the budget")
    errors = [each.noise(2**20, sums).expected_error() for each in (pure, rounded)]
    return pure if errors[0] <= errors[1] else rounded
