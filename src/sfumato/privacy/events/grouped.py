"""Group privacy: the price of an event for a group of k units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import UsageError
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import claims, simple, spread
from sfumato.privacy.events.composite import Repeated, Sequential
from sfumato.privacy.events.event import Event, require_event
from sfumato.privacy.events.key_release import KeyRelease
from sfumato.privacy.exact import parse_whole, round_up

if TYPE_CHECKING:
    from sfumato.privacy.divergences import Curve
    from sfumato.privacy.neighbours import Neighbours


@tagged("Grouped", "event", "k")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Grouped(Event):
    """An event priced for a group of `k` linked units that are added, removed or replaced together.

    Because : docs/proofs/events.md#groups
    """

    tag: ClassVar[str] = "grouped"
    event: Event
    k: int

    def __init__(self, event: Event, k: int) -> None:
        object.__setattr__(self, "event", require_event(event))
        object.__setattr__(self, "k", parse_whole(k, "k"))
        self.reduce_group()

    def reduce_group(self) -> Event:
        """Return an event without groups that costs at least as much."""
        return group(self.event, self.k)

    def pure(self) -> Fraction | None:
        return self.reduce_group().pure()

    def curve(self) -> Curve:
        return self.reduce_group().curve()

    def side_delta(self) -> Fraction:
        return self.reduce_group().side_delta()

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


def group(event: Event, k: int) -> Event:
    """Return the price of an event for a group of `k` units, as an event for one unit."""
    size = parse_whole(k, "k")
    return event if size == 1 else _group(event, size)


@singledispatch
def _group(event: Event, k: int) -> Event:
    # By pure ε alone, which adds up along a chain of k neighbours.
    epsilon = event.pure()
    if epsilon is None or event.side_delta():
        raise UsageError(
            "SF-N309",
            "There is no proven group price for this event.",
            got=event.tag,
            try_="make the group one unit with a joint contribution bound",
        )
    return simple.Pure(epsilon * k)


@_group.register
def _(event: simple.Laplace, k: int) -> Event:
    return simple.Laplace(event.scale / k)


@_group.register
def _(event: simple.DiscreteLaplace, k: int) -> Event:
    return simple.DiscreteLaplace(event.scale, event.l1 * k)


@_group.register
def _(event: simple.KNorm, k: int) -> Event:
    return simple.KNorm(event.scale, event.norm * k)


@_group.register
def _(event: spread.SpreadLaplace, k: int) -> Event:
    return spread.SpreadLaplace(event.scale, spread.scale_moves(event.moves, k), event.l2_squared * k * k)


@_group.register
def _(event: spread.SpreadExponential, k: int) -> Event:
    return spread.SpreadExponential(event.epsilon, spread.scale_moves(event.moves, k))


@_group.register
def _(event: simple.Gaussian, k: int) -> Event:
    return simple.Gaussian(event.sigma / k)


@_group.register
def _(event: claims.DiscreteGaussian, k: int) -> Event:
    return claims.DiscreteGaussian(event.sigma, event.l1 * k)


@_group.register
def _(event: simple.Concentrated, k: int) -> Event:
    return simple.Concentrated(event.rho * k * k)


@_group.register
def _(event: simple.Exponential, k: int) -> Event:
    return simple.Exponential(event.epsilon * k)


@_group.register
def _(event: simple.RandomizedAnswer, k: int) -> Event:
    return Repeated(event, k)


@_group.register(simple.ApproxDP)
@_group.register(simple.ThresholdedKeys)
@_group.register(KeyRelease)
def _(event: simple.ApproxDP | simple.ThresholdedKeys | KeyRelease, k: int) -> Event:
    delta = _group_delta(event.epsilon, event.delta, k)
    return simple.NonPrivate() if delta >= 1 else simple.ApproxDP(event.epsilon * k, delta)


@_group.register
def _(event: simple.NonPrivate, k: int) -> Event:
    return event


@_group.register
def _(event: Sequential, k: int) -> Event:
    return Sequential(group(part, k) for part in event.events)


@_group.register
def _(event: Repeated, k: int) -> Event:
    return Repeated(group(event.event, k), event.times)


@_group.register
def _(event: Grouped, k: int) -> Event:
    return group(event.event, event.k * k)


def _group_delta(epsilon: Fraction, delta: Fraction, k: int) -> Fraction:
    """Return δ·(1 + e^ε + … + e^((k−1)ε)), rounded up and at most 1."""
    if not epsilon or not delta:
        return min(Fraction(1), delta * k)
    step = float(epsilon)
    log_sum = (k - 1) * step + math.log(math.expm1(-k * step) / math.expm1(-step))
    return Fraction(1) if log_sum > 700 else min(Fraction(1), delta * round_up(math.exp(log_sum)))
