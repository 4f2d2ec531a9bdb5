"""Runs that are charged as one (ε, δ), where an account does not admit the curve of their steps.

A run that is fixed in advance has a smaller (ε, δ) by itself than by the filters of an account. As one claim
it is charged its ε, its δ as side δ, and at the other filters what its losses up to ε say.

Because : docs/proofs/dp-sgd.md#as-one-run
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sfumato.privacy import composition
from sfumato.privacy.account import SIDE
from sfumato.privacy.calibration import COARSE
from sfumato.privacy.events import PrivacyProfile
from sfumato.privacy.events.claims import LARGEST_EPSILON
from sfumato.privacy.exact import parse_positive, parse_probability
from sfumato.privacy.neighbours import common_relation

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.priced import Plan
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

_POINTS = 16
"""Number of smaller ε at which the δ of a run is stated. With 32 it would cost one per cent less."""


class Offer(Protocol):
    """Something that was priced and has read nothing."""

    @property
    def plan(self) -> Plan[Any, Any]:
        """What would be charged."""


Offered = TypeVar("Offered", bound=Offer)
Planned = TypeVar("Planned", bound="Plan[Any, Any]")


def round_side_delta(delta: Number) -> Fraction:
    """Return a δ, rounded down to the units that a ledger counts in.

    So a run with all of an account's side δ fits into it.
    """
    return Fraction(math.floor(parse_probability(delta, "delta") * SIDE), SIDE)


def can_be_one_run(epsilon: Number, delta: Number) -> bool:
    """Return whether a run of this ε and δ can be charged as one."""
    return round_side_delta(delta) > 0 and parse_positive(epsilon, "epsilon") <= LARGEST_EPSILON


def state_one_run(run: Event, epsilon: Number, delta: Fraction) -> PrivacyProfile:
    """Return what is known of a run that was shown to be (ε, δ)-private: its δ at smaller ε too.

    Its side δ is δ, and its losses up to ε cost the other filters what these smaller ε say. Every step of
    the run is dominated by a pair of laws that is fixed before the first: Gaussian noise, on all units or on
    Poisson samples.
    """
    # A double and a fraction can be equal and be read as different numbers, so it is read before it is kept.
    return _state_one_run(run, parse_positive(epsilon, "epsilon"), delta)


@lru_cache(maxsize=64)
def _state_one_run(run: Event, last: Fraction, delta: Fraction) -> PrivacyProfile:
    smaller = [last * step / _POINTS for step in range(_POINTS)]
    known = [(each, _find_delta(run, each)) for each in smaller]
    return PrivacyProfile([(last, delta), *(point for point in known if delta < point[1] < 1)])


def _find_delta(run: Event, epsilon: Fraction) -> Fraction:
    """Return the δ of a run that is fixed in advance, rounded up."""
    found = composition.delta(run, epsilon, step=COARSE)
    return Fraction(math.ceil(Fraction(found) * SIDE), SIDE)


def charge_as_one_run(plan: Planned, claim: PrivacyProfile) -> Planned:
    """Return a plan of one run, charged as what was stated of it.

    Noise and price are hashed, so it is a request of its own.
    """
    # The price of a claim would hold for any neighbours, and that of the run may not.
    common_relation([plan.table.neighbours, plan.event.neighbours])
    return replace(plan, together=claim, named=("one run", *plan.named))


def choose_offer(
    payer: Payer,
    by_curve: Offered,
    price_whole: Callable[[], Offered] | None,
    *,
    begun: str | None = None,
) -> Offered:
    """Return the offer by the curve of a run, or as one run where only that is admitted or was released.

    Which one follows from the ledger and from what is asked, before anything is charged. A run that goes on
    keeps the request that it was begun with.
    """

    def is_admitted(plan: Plan[Any, Any]) -> bool:
        return payer.can_afford(plan, plan.cost)

    plan = by_curve.plan
    if price_whole is None or begun == plan.request or payer.was_answered(plan):
        return by_curve
    if begun is None and is_admitted(plan):
        return by_curve
    whole = price_whole()
    if begun == whole.plan.request or payer.was_answered(whole.plan):
        return whole
    return whole if is_admitted(whole.plan) else by_curve
