"""Composition of events: sequential, parallel, repeated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sfumato.privacy.canonical import tagged
from sfumato.privacy.events.event import NONE, Event, require_event, require_events
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.neighbours import Neighbours, common_relation

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from sfumato.privacy.divergences import Curve


@tagged("Sequential", "events")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sequential(Event):
    """Several events on the same people, one after the other."""

    tag: ClassVar[str] = "sequential"
    events: tuple[Event, ...]

    def __init__(self, events: Iterable[Event]) -> None:
        object.__setattr__(self, "events", require_events(events))
        common_relation(event.neighbours for event in self.events)

    def pure(self) -> Fraction | None:
        parts = _pure_parts(self.events)
        return None if parts is None else sum(parts, NONE)

    def curve(self) -> Curve:
        curves = [event.curve() for event in self.events]
        return lambda order: math.fsum(curve(order) for curve in curves)

    def side_delta(self) -> Fraction:
        return sum((event.side_delta() for event in self.events), NONE)

    @property
    def neighbours(self) -> Neighbours | None:
        return common_relation(event.neighbours for event in self.events)


@tagged("Parallel", "events")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Parallel(Event):
    """Events on separate groups of people: the most expensive one is the price.

    Each unit is in one part at most, whatever else it holds, and a unit that is replaced may change its
    part; so this is for adding or removing a unit, and for keys that are constant per unit.

    Because : docs/proofs/events.md#parallel
    """

    tag: ClassVar[str] = "parallel"
    events: tuple[Event, ...]

    def __init__(self, events: Iterable[Event]) -> None:
        object.__setattr__(self, "events", require_events(events))
        # Refuses parts that are priced for replacing a unit, which could change two parts at once.
        common_relation([Neighbours.ADD_REMOVE, *(event.neighbours for event in self.events)])

    def pure(self) -> Fraction | None:
        parts = _pure_parts(self.events)
        return None if parts is None else max(parts, default=NONE)

    def curve(self) -> Curve:
        curves = [event.curve() for event in self.events]
        return lambda order: max((curve(order) for curve in curves), default=0.0)

    def side_delta(self) -> Fraction:
        return max((event.side_delta() for event in self.events), default=NONE)

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours.ADD_REMOVE


@tagged("Repeated", "event", "times")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Repeated(Event):
    """One event, repeated this many times."""

    tag: ClassVar[str] = "repeated"
    event: Event
    times: int

    def __init__(self, event: Event, times: int) -> None:
        object.__setattr__(self, "event", require_event(event))
        object.__setattr__(self, "times", parse_whole(times, "times"))

    def pure(self) -> Fraction | None:
        once = self.event.pure()
        return None if once is None else once * self.times

    def curve(self) -> Curve:
        once = self.event.curve()
        return lambda order: self.times * once(order)

    def side_delta(self) -> Fraction:
        return self.event.side_delta() * self.times

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


def _pure_parts(events: tuple[Event, ...]) -> list[Fraction] | None:
    parts = [event.pure() for event in events]
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) else None
