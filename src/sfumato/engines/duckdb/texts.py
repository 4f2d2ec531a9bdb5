"""The text of a Python object: the one that DuckDB gives the same value in a column of its own type.

pandas turns a column into objects when one value does not fit its type. Every other value must keep its text,
or one person's row would change how everybody's are read. Types without such a text are refused.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import singledispatch
from uuid import UUID

import numpy as np

from sfumato.engines.ingest import WRITTEN_OUT_BELOW

_PLAIN_BYTES = frozenset(range(32, 127)) - frozenset(b"\\'\"")


@singledispatch
def write_object(value: object) -> str:
    """Return the text of an object; TypeError for a type that no column can have, without the value."""
    raise TypeError("values of this type have no text")


@write_object.register
def _str(value: str) -> str:
    return str.__str__(value)


@write_object.register(bool)
@write_object.register(np.bool_)
def _bool(value: object) -> str:
    return "true" if value else "false"


@write_object.register(int)
@write_object.register(np.integer)
def _integer(value: int) -> str:
    return str(int(value))


@write_object.register(float)
@write_object.register(np.float16)
@write_object.register(np.float32)
def _float(value: float) -> str:
    """Widen to a double first; whole ones are the integers they were before a NaN came beside them."""
    double = float(value)
    return str(int(double)) if double.is_integer() and abs(double) < WRITTEN_OUT_BELOW else repr(double)


@write_object.register
def _decimal(value: Decimal) -> str:
    """Drop zeros at the end: how many there are follows from a column's other values."""
    if value.is_infinite():
        return repr(float(value))
    digits = format(value, "f")
    shortest = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return shortest if value else "0"


@write_object.register
def _date(value: date) -> str:
    return f"{value.year:04}-{value.month:02}-{value.day:02}"


@write_object.register
def _datetime(value: datetime) -> str:
    """Write a moment, in UTC where its zone is known."""
    if value.tzinfo is None:
        return f"{_date(value)} {_clock(value)}"
    moment = value.astimezone(UTC)
    return f"{_date(moment)} {_clock(moment)}+00"


@write_object.register
def _time(value: time) -> str:
    if value.tzinfo is not None:
        raise TypeError("a time of day with a zone has no text")
    return _clock(value)


def _clock(value: datetime | time) -> str:
    """Write a time of day; pandas counts nanoseconds apart from microseconds."""
    nanoseconds = value.microsecond * 1000 + getattr(value, "nanosecond", 0)
    fraction = f".{nanoseconds:09}".rstrip("0") if nanoseconds else ""
    return f"{value.hour:02}:{value.minute:02}:{value.second:02}{fraction}"


@write_object.register
def _uuid(value: UUID) -> str:
    return str(value)


@write_object.register
def _bytes(value: bytes) -> str:
    return "".join(chr(byte) if byte in _PLAIN_BYTES else f"\\x{byte:02X}" for byte in value)
