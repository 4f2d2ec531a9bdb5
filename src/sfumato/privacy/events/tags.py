"""Events from their canonical form. The set of tags is closed, so no data can name code to run."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from sfumato.errors import SfumatoError, UsageError
from sfumato.privacy.events import best_of, claims, composite, grouped, key_release, sampled, simple, spread
from sfumato.privacy.events.event import INNER, Event
from sfumato.privacy.neighbours import Neighbours

# Only classes that these modules define: a subclass made elsewhere is never built from data.
EVENTS: dict[str, type[Event]] = {
    kind.tag: kind
    for module in (simple, claims, spread, key_release, composite, grouped, sampled, best_of)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == module.__name__
}

DEEPEST = 20
"""Deepest nesting of events that is read back."""

# Digits are limited, because reading very long integers takes quadratic time.
_EXACT = re.compile(r"\d{1,400}(/[1-9]\d{0,399})?")
_FIELDS = {written: name for name, written in INNER.items()}
_RELATIONS = {relation.value: relation for relation in Neighbours}


def from_dict(fields: Any) -> Event:
    """Return the event that `to_dict` wrote; refuse anything else, unknown tags and fields included."""
    return _event(fields, DEEPEST)


def _event(fields: Any, depth: int) -> Event:
    tag = fields.get("event") if isinstance(fields, dict) and depth else None
    kind = EVENTS.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise UsageError("SF-N308", "This is not the canonical form of an event.", known=", ".join(EVENTS))
    try:
        event = kind(**{_FIELDS.get(name, name): _value(part, depth) for name, part in _rest(fields)})
    except (TypeError, AttributeError) as error:
        raise UsageError("SF-N308", f"The fields of '{kind.tag}' are not those of that event.") from error
    except SfumatoError as error:
        raise UsageError(
            "SF-N308", f"The fields of '{kind.tag}' are not valid.", why=error.sentence
        ) from error
    return event


def _rest(fields: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, part) for name, part in fields.items() if name != "event"]


def _pair(numbers: list[Any]) -> tuple[int | Fraction, ...]:
    """Return a list inside a list, which holds numbers alone: whole ones, or exact ones as text."""
    return tuple(number if type(number) is int else _read_exact(number) for number in numbers)


def _read_exact(value: Any) -> Fraction:
    if not isinstance(value, str) or not _EXACT.fullmatch(value):
        raise UsageError("SF-N308", "A number in an event must be written as a whole number or a fraction.")
    return Fraction(value)


def _value(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return _event(value, depth - 1)
    if isinstance(value, list):
        return tuple(_pair(part) if isinstance(part, list) else _event(part, depth - 1) for part in value)
    if not isinstance(value, str):
        return value
    if value in _RELATIONS:
        return _RELATIONS[value]
    return _read_exact(value)
