"""The budget of one fit: what it may cost in all, divided between Gaussian noise and pure ε."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import GaussianSpend, Needs, PureSpend, parse_spend
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.oracle.blocks import share_of
from sfumato.privacy import composition, events
from sfumato.privacy.exact import parse_exact, parse_positive, round_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.plan.spend import Spend
    from sfumato.privacy.account import Allowance

_NEEDS = Needs((SumSensitivity(1, 1),))


def _no_budget() -> Allowance:
    """Raise: a fit is not given a share of a budget, so no budget is looked up."""
    raise AssertionError("share")


@dataclass(frozen=True, slots=True)
class FitBudget:
    """What a fit may cost, and the parts that pay for its questions.

    `main` and `aside` together are (ε, δ)-private, or ρ-zCDP, by composition: ε₁ + ε₂ with δ for the Gaussian
    part alone; or ε₁²/2 + ρ₂.

    Because : docs/proofs/learners.md
    """

    main: Spend
    """Pays for sums: Gaussian noise where there is a δ or a ρ, else pure ε."""
    aside: PureSpend | None
    """Pays for what pure ε does better, such as single numbers and choices."""
    alone: PureSpend
    """Pure ε that may take the place of `main`, or of what is left of it after the share `first`."""
    words: str
    """What was typed, for people to read."""
    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None
    whole: events.Event | None = None
    """The price of a mechanism that proves its own, where sums do not pay for the fit."""
    first: Fraction = Fraction(0)
    """Share of `main` that is spent before it is decided whether `alone` pays for the rest."""

    @classmethod
    def of(cls, amounts: Mapping[str, Any], aside: Fraction, first: Fraction = Fraction(0)) -> FitBudget:
        """Read what was typed: epsilon, epsilon and delta, or rho. `aside` and `first` are shares."""
        if not amounts or amounts.keys() == {"delta"}:
            raise UsageError(
                "SF-N109", "State how much this fit may cost.", try_="epsilon=1.0, or epsilon=1.0, delta=1e-6"
            )
        # This refuses amounts that contradict each other.
        whole = parse_spend(amounts, _NEEDS, _no_budget)
        if "rho" in amounts:
            return cls._concentrated(parse_positive(amounts["rho"], "rho"), aside, first, str(whole))
        epsilon, delta = (
            parse_positive(amounts["epsilon"], "epsilon"),
            parse_exact(amounts.get("delta", 0), "delta"),
        )
        rest = dict(amounts, epsilon=epsilon * (1 - aside))
        if delta and first:
            # A fit goes on in one of two ways, and each has half of δ.
            rest["delta"] = delta / 2
        main = parse_spend(rest, _NEEDS, _no_budget) if aside or first else whole
        # What was spent before the decision is gone in either way.
        left = epsilon * (1 - aside) - _spent(main, first, delta / 2)
        set_aside = PureSpend(epsilon * aside) if aside else None
        return cls(main, set_aside, PureSpend(left), str(whole), epsilon, delta, None, first=first)

    @classmethod
    def _concentrated(cls, rho: Fraction, aside: Fraction, first: Fraction, words: str) -> FitBudget:
        # Pure ε is ε²/2-zCDP, so a share of ρ buys ε = √(2ρ·share).
        main = parse_spend({"rho": rho * (1 - aside)}, _NEEDS, _no_budget)
        one, rest = (_root_down(2 * rho * share) for share in (aside, (1 - aside) * (1 - first)))
        set_aside = PureSpend(one) if aside else None
        return cls(main, set_aside, PureSpend(rest), words, None, Fraction(0), rho, first=first)

    @property
    def sums(self) -> tuple[events.Event, ...]:
        """The price of the whole fit if `main` pays for sums."""
        first = () if self.aside is None else (events.Pure(self.aside.epsilon),)
        return (*first, to_event(self.main))

    @property
    def events(self) -> tuple[events.Event, ...]:
        """The price of the whole fit: of a mechanism that proves its own, or else of sums."""
        return self.sums if self.whole is None else (self.whole,)

    def __str__(self) -> str:
        return self.words or (f"ε = {format_number(self.epsilon)}" if self.epsilon else "")


def to_event(amount: Spend) -> events.Event:
    """Return a spend as the event that an accountant composes."""
    if isinstance(amount, GaussianSpend):
        return events.Gaussian(amount.multiplier)
    return events.Pure(amount.epsilon)


def _spent(main: Spend, share: Fraction, delta: Fraction) -> Fraction:
    """Return the ε that a share of a spend costs at this δ."""
    if isinstance(main, PureSpend) or not share:
        return main.epsilon * share if isinstance(main, PureSpend) else Fraction(0)
    return round_up(composition.epsilon([to_event(share_of(main, share))], delta))


def _root_down(square: Fraction) -> Fraction:
    """Return a square root, rounded down: less ε than was paid for is spent, never more."""
    bits = 2**60
    return Fraction(math.isqrt(math.floor(square * bits * bits)), bits)
