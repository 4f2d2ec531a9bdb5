"""Composition of a run that is fixed in advance: the tightest proven ε for a δ, and δ for an ε.

These numbers are not a filter: stopping when one of them reaches a budget does not protect against an analyst
who chooses questions as answers come in. The account does that (privacy/account.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.privacy import gaussian
from sfumato.privacy.conversion import Events, compose_events, renyi_delta, renyi_epsilon
from sfumato.privacy.exact import parse_nonnegative, parse_probability
from sfumato.privacy.losses.distribution import STEP, gaussian_mu, has_curve_only, loss_distribution

if TYPE_CHECKING:
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

FIXED = "for runs fixed in advance; not a filter"


def epsilon(events: Events, delta: Number, *, lower: bool = False, step: float = STEP) -> float:
    """Return the ε of these events together at this δ: an upper bound, or with `lower` a lower bound.

    For runs fixed in advance; not a filter.
    """
    event, share = compose_events(events), float(parse_probability(delta, "delta"))
    normal = gaussian_mu(event)
    if normal is not None:
        found = gaussian.lower_epsilon_of if lower else gaussian.epsilon_of
        return found(normal, share) if share else math.inf
    if lower:
        return loss_distribution(event, step, lower=True).epsilon(share)
    # If side δ alone exceeds the δ asked for, only a pure ε could help.
    if event.side_delta() >= share:
        return _pure(event)
    least = min(_pure(event), renyi_epsilon(event, delta))
    return least if has_curve_only(event) else min(least, loss_distribution(event, step).epsilon(share))


def delta(events: Events, epsilon: Number, *, lower: bool = False, step: float = STEP) -> float:
    """Return the δ of these events together at this ε: an upper bound, or with `lower` a lower bound.

    For runs fixed in advance; not a filter.
    """
    event, exactly = compose_events(events), parse_nonnegative(epsilon, "epsilon")
    at, pure = float(exactly), event.pure()
    normal = gaussian_mu(event)
    if normal is not None:
        return gaussian.delta_bounds(normal, at)[0 if lower else 1]
    if lower:
        return loss_distribution(event, step, lower=True).delta(at)
    if pure is not None and pure <= exactly and not event.side_delta():
        return 0.0
    if event.side_delta() >= 1:
        return 1.0
    found = min(1.0, renyi_delta(event, at))
    return found if has_curve_only(event) else min(found, loss_distribution(event, step).delta(at))


def mu(events: Events) -> float:
    """Return the μ of Gaussian DP of Gaussian events together, exact up to a root.

    Other events have none: the central-limit μ of other runs is not a bound and is not offered.
    """
    found = gaussian_mu(compose_events(events))
    if found is None:
        raise UsageError(
            "SF-N309", "Only Gaussian events are Gaussian DP.", try_="sf.privacy.tradeoff(events)"
        )
    return found


def _pure(event: Event) -> float:
    """Return the pure ε, rounded up; infinity where there is none or δ is needed besides."""
    total = event.pure()
    return math.inf if total is None or event.side_delta() else math.nextafter(float(total), math.inf)
