"""The base class of events: what every event can answer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, cast

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_typed
from sfumato.privacy.divergences import NO_BOUND

if TYPE_CHECKING:
    from sfumato.privacy.divergences import Curve
    from sfumato.privacy.neighbours import Neighbours

NONE = Fraction(0)
"""No δ, or no ε, at all."""
INNER = {"event": "of"}
"""Name of a field in the canonical form, where "event" is the tag."""


class Event(ABC):
    """A priced use of the data, as a frozen value.

    Let P and Q be the laws of what was released from two neighbouring tables, given all that came
    before. An event states that P = (1 − δ)·P' + δ·P'' and Q = (1 − δ)·Q' + δ·Q'' for its side δ, and
    bounds the divergence between P' and Q', in both directions: by a pure ε, where there is one, and by a
    Rényi curve. With no side δ these are P and Q themselves.
    """

    __slots__ = ()

    tag: ClassVar[str]

    def __repr__(self) -> str:
        shown = (f"{each.name}={_show_field(getattr(self, each.name))}" for each in fields(cast("Any", self)))
        return f"{type(self).__name__}({', '.join(shown)})"

    @abstractmethod
    def pure(self) -> Fraction | None:
        """Return the smallest proven pure ε, exact or rounded up; None where there is no pure guarantee."""

    @abstractmethod
    def curve(self) -> Curve:
        """Return an upper bound, up to float rounding, on the Rényi divergence at orders above 1.

        From `NO_BOUND` on, which is beyond all budgets, it says that nothing is known at that order.
        """

    def side_delta(self) -> Fraction:
        """Return the δ paid outside the curve, exact or rounded up."""
        return NONE

    @property
    def neighbours(self) -> Neighbours | None:
        """The only neighbouring relation that this price holds for; None where the sensitivity decides."""
        return None

    def renyi(self, order: float) -> float:
        """Return the curve at one order above 1; near 1 it is the mean loss, far out the largest loss.

        It is infinite where nothing is known.
        """
        if not 1 < order < math.inf:
            raise UsageError("SF-N101", "A Rényi order must be a finite number above 1.", got=str(order))
        found = self.curve()(order)
        return found if found < NO_BOUND else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical form: a tag of a closed set, and exact numbers as text."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {"event": self.tag, **{INNER.get(name, name): _plain(getattr(self, name)) for name in names}}


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_dict()
    # Fractions are written as text: JSON numbers would be read back as doubles.
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Fraction) else value


def require_event(value: Any) -> Event:
    """Return an event; nothing else has a price."""
    if not isinstance(value, Event):
        raise UsageError("SF-N118", "An event is expected here.", got=type(value).__name__)
    return value


def require_events(values: Any) -> tuple[Event, ...]:
    """Return several events in order."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError("SF-N118", "Events are expected here.", got=type(values).__name__)
    return tuple(map(require_event, values))


def _show_field(value: object) -> str:
    """Return a field as it is typed; a number as a decimal if it is a short one."""
    if not isinstance(value, Fraction):
        return repr(value)
    typed = format_typed(value, 15)
    return typed if Fraction(typed) == value else repr(value)
