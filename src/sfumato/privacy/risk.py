"""Risk as people ask for it: how often a guess about one person can be right, and the ε that keeps it so.

Someone guesses whether a person is in the data. Without the answers they are right as often as the likelier
case comes up, the baseline. These are bounds for any guesser (docs/proofs/attacks.md).
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number, format_share
from sfumato.privacy.events import Gaussian, Sequential
from sfumato.privacy.exact import Number, parse_exact, parse_nonnegative, parse_probability

if TYPE_CHECKING:
    from sfumato.privacy.events import Event

_MILLION = 10**6
_ROUNDED = 1 + Fraction(1, 10**6)
"""Above what prices are rounded up by."""


def guess_success(epsilon: Number, delta: Number = 0, prior: Number = 0.5) -> float:
    """Return the largest chance that a guess is right, for someone who thinks "in" has the chance `prior`.

    Among tests that (ε, δ) allows, prior·hits + (1 − prior)·(1 − false alarms) is largest at a corner: where
    nobody, or everybody but a δ, is called in, or where both kinds of error are equally frequent.
    """
    side, chance = float(parse_probability(delta, "delta")), float(parse_exact(prior, "prior"))
    shrunk = math.exp(-float(parse_nonnegative(epsilon, "epsilon")))
    even = (1 + side * shrunk) / (1 + shrunk)
    return min(1.0, max(1 - chance + chance * side, chance + (1 - chance) * side, even))


WEAK_QUERY = 10
"""The largest ε of one query without a warning: guesses from 50:50 are then wrong once in 22,000 times.

A larger ε makes the noise of a count smaller than a tenth of a person, which no analysis needs.
"""


def describe_weak_query(event: Event) -> str:
    """Return a warning about a query that promises almost no privacy; empty for other queries."""
    pure, usual = event.pure(), guess_success(WEAK_QUERY)
    success = None if pure is not None else event_success(event)
    weak = pure > WEAK_QUERY * _ROUNDED if pure is not None else success is not None and success > usual
    if not weak:
        return ""
    cost = "" if pure is None else f" of ε = {format_number(float(pure))}"
    return (
        f"A query{cost} promises almost no privacy: someone who is 50:50 unsure whether a person is in the "
        f"data may guess right in more than {format_share(usual, 3)} of cases. Usual queries cost ε below 1."
    )


def bound_risk(epsilon: Number, delta: Number, baseline: Number) -> float:
    """Return the largest chance, with you in the data, of what has the chance `baseline` without you.

    The first bound is the definition of (ε, δ) for the event, the second is the definition for its
    complement; with neighbours that add or remove a unit each holds in both directions.
    """
    side, chance = float(parse_probability(delta, "delta")), float(parse_exact(baseline, "baseline"))
    if not 0 <= chance <= 1:
        raise UsageError("SF-N101", "baseline must lie between 0 and 1.", got=str(baseline)[:40], try_="0.1")
    shrunk = math.exp(-float(parse_nonnegative(epsilon, "epsilon")))
    above = chance / shrunk if shrunk else 1.0
    return max(chance, min(1.0, above + side, 1 - shrunk * max(0.0, 1 - chance - side)))


def event_success(event: Event) -> float | None:
    """Return the largest chance that a guess from 50:50 is right after one event; None where not known."""
    steps = _list_steps(event)
    normal = [step for step in steps if isinstance(step, Gaussian)]
    if steps and len(normal) == len(steps):
        # Together they are Gaussian DP at this μ, and the best test is right with the chance Φ(μ/2).
        mu = math.sqrt(math.fsum(float(step.sigma) ** -2 for step in normal))
        return NormalDist().cdf(mu / 2)
    pure = event.pure()
    return None if pure is None else guess_success(pure, event.side_delta())


def _list_steps(event: Event) -> list[Event]:
    if not isinstance(event, Sequential):
        return [event]
    return [step for part in event.events for step in _list_steps(part)]


def epsilon_for_risk(risk: Number) -> Fraction:
    """Return the largest pure ε, in millionths, at which no guess from 50:50 is right more than `risk`."""
    most = parse_exact(risk, "risk")
    if Fraction(1, 2) < most < 1:
        # A guess is right with the chance e^ε/(1 + e^ε) at most, and rounding down only lowers it.
        millionths = math.floor(math.log(most / (1 - most)) * _MILLION)
        if millionths > 0:
            return Fraction(millionths, _MILLION)
    raise UsageError(
        "SF-N101",
        "A risk is the chance of a right guess from 50:50: above 0.5 and below 1.",
        got=str(risk)[:40],
        try_="risk=0.55",
    )
