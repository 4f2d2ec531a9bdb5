"""Conversion from Rényi curves and zCDP to (ε, δ), for runs of any kind."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.privacy.account import ORDERS
from sfumato.privacy.divergences import NO_BOUND
from sfumato.privacy.events import (
    Concentrated,
    DiscreteGaussian,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    Parallel,
    RenyiCurve,
    Repeated,
    Sequential,
    SpreadExponential,
    SpreadLaplace,
)
from sfumato.privacy.exact import parse_positive, parse_probability

if TYPE_CHECKING:
    from sfumato.privacy.exact import Number

DENSE: tuple[float, ...] = tuple(
    sorted({*ORDERS, *(1 + 2 ** (step / 8) / 16 for step in range(64)), *map(float, range(2, 65))})
)
"""Orders at which a curve is converted: the account's, and many where the best ones usually are."""

_SLACK = 2.0**-40  # far above the rounding of the double arithmetic it covers

Events = Event | Iterable[Event]
"""One event, or several, one after the other."""


def compose_events(events: Events) -> Event:
    """Return several events as one."""
    return events if isinstance(events, Event) else Sequential(events)


def renyi_epsilon(events: Events, delta: Number) -> float:
    """Return an ε for this δ by Rényi divergences alone, rounded up; side δ is subtracted from δ first."""
    event = compose_events(events)
    share = float(parse_probability(delta, "delta") - event.side_delta())
    return _least(event, share)


def renyi_delta(events: Events, epsilon: Number) -> float:
    """Return a δ for this ε by Rényi divergences alone, rounded up; side δ is included."""
    event, e = compose_events(events), float(epsilon)
    curve, side = event.curve(), float(event.side_delta())
    least = min(_delta(order, curve(order), e) for order in _list_orders(event))
    return min(1.0, (side + least) * (1 + _SLACK))


@singledispatch
def rho(event: Event) -> Fraction:
    """Return a ρ for which the event is ρ-zCDP apart from side δ: divergence at most ρ·α at every α."""
    epsilon = event.pure()
    if epsilon is None:
        raise UsageError("SF-N309", "There is no proven ρ for this event.", got=event.tag)
    return epsilon * epsilon / 2


@rho.register
def _(event: Gaussian) -> Fraction:
    return 1 / (2 * event.sigma * event.sigma)


@rho.register
def _(event: DiscreteGaussian) -> Fraction:
    return event.l1**2 / (2 * event.sigma * event.sigma)


@rho.register
def _(event: Concentrated) -> Fraction:
    return event.rho


@rho.register
def _(event: Exponential) -> Fraction:
    return event.epsilon * event.epsilon / 8


@rho.register
def _(event: SpreadLaplace) -> Fraction:
    return event.l2_squared / (2 * event.scale * event.scale)


@rho.register
def _(event: SpreadExponential) -> Fraction:
    return sum((rho(cell) * cells for cell, cells in event.list_cells().items()), Fraction(0))


@rho.register
def _(event: Sequential) -> Fraction:
    return sum((rho(part) for part in event.events), Fraction(0))


@rho.register
def _(event: Parallel) -> Fraction:
    return max((rho(part) for part in event.events), default=Fraction(0))


@rho.register
def _(event: Repeated) -> Fraction:
    return rho(event.event) * event.times


@rho.register
def _(event: Grouped) -> Fraction:
    return rho(event.reduce_group())


def rho_epsilon(rho: Number, delta: Number) -> float:
    """Return the least ε for this δ of anything that is ρ-zCDP, by its Rényi curve ρ·α."""
    rate, share = float(parse_positive(rho, "rho")), float(parse_probability(delta, "delta"))
    # The best order without the logarithmic terms; orders around it are tried, and any of them is valid.
    best = 1 + math.sqrt(max(-math.log(share), 1e-9) / rate) if share else math.inf
    around = (1 + (best - 1) * 2 ** (step / 64) for step in range(-128, 129))
    return min((_epsilon(order, rate * order, share) for order in around), default=math.inf)


def excess_loss(share: float) -> float:
    """Return the t for which (ε, δ) bounds the privacy loss by ε + t except with the chance δ/share.

    Under (ε, δ)-DP the likelihood ratio of what is released exceeds e^(ε + t) with a chance of at most
    δ/(1 − e^−t), for every t > 0. That it exceeds e^ε can be far likelier than δ (docs/proofs/curves.md).
    """
    return -math.log1p(-share)


def _list_orders(event: Event) -> set[float]:
    """Return the orders at which a curve is converted: the dense ones, and those of claims inside it."""
    if isinstance(event, RenyiCurve):
        # A double just above a stated order would be beyond it.
        return {*DENSE, *(_round_order(order) for order, _ in event.points)}
    inside = (getattr(event, "event", None), *getattr(event, "events", ()))
    return set(DENSE).union(*(_list_orders(part) for part in inside if part is not None))


def _round_order(order: Fraction) -> float:
    near = float(order)
    return near if near <= order or near <= 1 + 2.0**-40 else math.nextafter(near, 1.0)


def _least(event: Event, delta: float) -> float:
    """Return the least ε over many orders."""
    if delta <= 0:
        return math.inf
    curve = event.curve()
    return max(0.0, min(_epsilon(order, curve(order), delta) for order in _list_orders(event)))


def _epsilon(order: float, divergence: float, delta: float) -> float:
    """Return the ε of a divergence at one order, by Canonne, Kamath and Steinke 2020, Proposition 12."""
    # The slack covers the rounding of doubles, so that ε is an upper bound.
    if divergence >= NO_BOUND:
        return math.inf
    found = divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return found + _SLACK * (1 + abs(found))


def _delta(order: float, divergence: float, epsilon: float) -> float:
    """Return the δ of a divergence at one order, by the same proposition solved for δ."""
    log = (order - 1) * (divergence - epsilon + math.log1p(-1 / order)) - math.log(order)
    return math.exp(min(0.0, log + _SLACK * (1 + (order - 1) * (divergence + abs(epsilon)))))
