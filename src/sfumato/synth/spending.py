"""What a synthesis may cost, and how amounts of it become noise and choices.

An amount is ρ of concentrated privacy where there is a δ or a ρ, and else pure ε. Both add up over steps that
are chosen as answers come in, so a fit may decide as it goes how to spend what is left.

Because : docs/proofs/synth.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.errors import UsageError
from sfumato.noise import ExponentialMechanism, GaussianNoise, LaplaceNoise, QuantilesMechanism
from sfumato.noise.additive import SMALLEST
from sfumato.oracle.fit_budget import FitBudget
from sfumato.privacy.canonical import tagged
from sfumato.privacy.conversion import rho, rho_epsilon
from sfumato.privacy.events import Concentrated, Pure
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.noise.additive import Noise
    from sfumato.privacy.events import Event

_DIGITS = 2**40
"""Amounts are rounded down to so many parts, and noise up, which keeps exact fractions short."""


@tagged("Currency", "concentrated", "rows", "replaced")
@dataclass(frozen=True, slots=True)
class Currency:
    """How an amount pays for one noisy marginal or one choice.

    Privacy
    -------
    Protects : one unit of at most `rows` rows, added or removed, or replaced where `replaced` says so.
    Costs    : the amount: ρ of zCDP where `concentrated`, else pure ε.
    Because  : docs/proofs/synth.md#prices
    """

    concentrated: bool
    rows: int = 1
    replaced: bool = False

    @property
    def sensitivity(self) -> SumSensitivity:
        """How far a unit moves the cells of one marginal: all its rows may lie in one cell."""
        return SumSensitivity.of(((self.rows, 2 if self.replaced else 1),))

    def make_noise(self, amount: Fraction) -> Noise:
        """Return the noise of a marginal that an amount pays for."""
        moved = self.sensitivity
        if self.concentrated:
            return GaussianNoise(max(SMALLEST, _short_up(root_up(moved.l2**2 / (2 * amount)))))
        return LaplaceNoise(max(SMALLEST, _short_up(moved.l1 / amount)))

    def make_choice(self, amount: Fraction, weight: int) -> ExponentialMechanism:
        """Return the choice by a score that each row moves by at most `weight`."""
        epsilon = _root_down(8 * amount) if self.concentrated else amount
        return ExponentialMechanism(epsilon, weight * self.sensitivity.l1)

    def make_quantiles(self, amount: Fraction, shares: tuple[Fraction, ...]) -> QuantilesMechanism:
        """Return the choice of quantiles of one column that an amount pays for."""
        levels, rows = len(shares).bit_length(), self.sensitivity.l1
        # So many choices of ε/levels each, and a choice of ε costs ε²/8.
        epsilon = _root_down(8 * levels * amount) if self.concentrated else amount
        return QuantilesMechanism(epsilon / rows, shares)

    def price(self, event: Event) -> Fraction:
        """Return what an event costs in this currency."""
        if self.concentrated:
            return rho(event)
        epsilon = event.pure()
        if epsilon is None:
            raise AssertionError("pure ε pays for pure ε alone")
        return epsilon

    def make_event(self, amount: Fraction) -> Event:
        """Return the event of a fit that spends this amount in all."""
        return Concentrated(amount) if self.concentrated else Pure(amount)


class Purse:
    """An amount that steps are paid from; more than it holds is never spent."""

    def __init__(self, currency: Currency, amount: Fraction) -> None:
        self.currency, self.amount, self.left = currency, amount, amount

    def pay(self, event: Event) -> None:
        """Take the price of a step, before the step reads anything."""
        self.left -= self.currency.price(event)
        if self.left < 0:
            raise AssertionError("a step was not paid for")


def read_amount(budget: FitBudget) -> tuple[bool, Fraction]:
    """Return whether the budget pays in concentrated privacy, and the whole amount."""
    if budget.rho is not None:
        return True, budget.rho
    if budget.epsilon is None:
        raise AssertionError(budget)
    if not budget.delta:
        return False, budget.epsilon
    found = _find_rho(budget.epsilon, budget.delta)
    if not found:
        raise UsageError(
            "SF-N201",
            "The spend is too small for any noise that could be drawn.",
            try_="a larger epsilon, or a larger delta",
        )
    return True, found


def read_budget(typed: Mapping[str, Any]) -> FitBudget:
    """Return what was typed as the budget of a fit that proves its own price."""
    budget = FitBudget.of({name: value for name, value in typed.items() if value is not None}, Fraction(0))
    concentrated, amount = read_amount(budget)
    return replace(budget, whole=Currency(concentrated).make_event(amount))


def _find_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return about the greatest ρ that is (ε, δ)-private, from below."""
    low, high = 0.0, float(epsilon)
    # ρ-zCDP is at best (ρ, δ)-private, so ε itself is too much.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_epsilon(middle, delta) <= epsilon else (low, middle)
    return Fraction(math.floor(low * _DIGITS), _DIGITS)


def _short_up(number: Fraction) -> Fraction:
    return Fraction(math.ceil(number * 2**20), 2**20)


def _root_down(square: Fraction) -> Fraction:
    """Return a square root, rounded down: less is spent than was paid for, never more."""
    return Fraction(math.isqrt(math.floor(square * _DIGITS * _DIGITS)), _DIGITS)
