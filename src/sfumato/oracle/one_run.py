"""Runs that are charged as one (ε, δ), where an account does not admit the curve of their steps.

A run that is fixed in advance has a smaller (ε, δ) by itself than by the filters of an account. As one claim
it is charged its ε and, as side δ, its δ.

Because : docs/proofs/dp-sgd.md#as-one-run
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sfumato.privacy.account import SIDE
from sfumato.privacy.events import ApproxDP
from sfumato.privacy.exact import parse_probability
from sfumato.privacy.neighbours import common_relation

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.priced import Plan
    from sfumato.privacy.exact import Number


class Offer(Protocol):
    """Something that was priced and has read nothing."""

    @property
    def plan(self) -> Plan[Any, Any]:
        """What would be charged."""


Offered = TypeVar("Offered", bound=Offer)
Planned = TypeVar("Planned", bound="Plan[Any, Any]")


def state_one_run(epsilon: Number, delta: Number) -> ApproxDP:
    """Return what a run costs as a whole: its δ is rounded down to the units that a ledger counts in.

    So a run with all of an account's side δ fits into it.
    """
    units = math.floor(parse_probability(delta, "delta") * SIDE)
    return ApproxDP(epsilon, Fraction(units, SIDE))


def charge_as_one_run(plan: Planned, claim: ApproxDP) -> Planned:
    """Return a plan of a run that is (ε, δ)-private as a whole, charged so.

    Whoever calls this has found its noise so that it is, by an accounting of runs that are fixed in advance.
    Noise and price are hashed, so it is a request of its own.
    """
    # The price of a claim would hold for any neighbours, and that of the run may not.
    common_relation([plan.table.neighbours, plan.event.neighbours])
    return replace(plan, together=claim, named=("one run", *plan.named))


def choose_offer(
    payer: Payer,
    by_curve: Offered,
    claim: ApproxDP,
    price_whole: Callable[[ApproxDP], Offered],
    begun: str | None = None,
) -> Offered:
    """Return the offer by the curve of a run, or as one run where only that is admitted or was released.

    Which one follows from the ledger and from what is asked, before anything is charged. A run that goes on
    keeps the request that it was begun with.
    """
    plan = by_curve.plan
    if begun == plan.request or payer.was_answered(plan):
        return by_curve
    if not claim.delta or (begun is None and payer.can_afford(plan, plan.cost)):
        return by_curve
    whole = price_whole(claim)
    if begun == whole.plan.request or payer.was_answered(whole.plan):
        return whole
    return whole if payer.can_afford(whole.plan, whole.plan.cost) else by_curve
