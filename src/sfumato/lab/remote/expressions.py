"""Expressions and aggregates as JSON, by a closed list of forms: no text that is run, and no code."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from sfumato.curator.question.measurement import (
    Aggregate,
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    ModeOf,
    QuantileOf,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import (
    Case,
    Comparison,
    Conjunction,
    Disjunction,
    Expression,
    FunctionCall,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Name,
    Negation,
    Truth,
    UnitAggregate,
)
from sfumato.errors import UsageError

FORMS: dict[str, type[Any]] = {
    "case": Case,
    "comparison": Comparison,
    "conjunction": Conjunction,
    "count": CountOf,
    "covariance": CovarianceOf,
    "disjunction": Disjunction,
    "distinct": DistinctUnits,
    "function": FunctionCall,
    "is_null": IsNull,
    "is_true": IsTrue,
    "like": Like,
    "literal": Literal,
    "mean": MeanOf,
    "mode": ModeOf,
    "name": Name,
    "negation": Negation,
    "quantile": QuantileOf,
    "sum": SumOf,
    "truth": Truth,
    "unit_figure": UnitAggregate,
    "variance": VarianceOf,
}
"""What a form may be called, and the frozen value that it stands for. Each checks its own fields."""

AGGREGATIONS = (
    *("bins", "correlation", "count", "covariance", "distinct", "max", "mean", "median", "min", "mode"),
    *("quantile", "stddev", "sum", "units", "variance"),
)
"""Functions of sfumato by whose names aggregates and bins may be written, such as sf.mean."""

MOST_PARTS = 2_000
"""Values that one form may be made of."""
MOST_LEVELS = 40
"""Forms within forms."""
_FRACTION = re.compile(r"-?[0-9]{1,1500}(/[0-9]{1,1500})?\Z", re.ASCII)
_TAGS = {kind: tag for tag, kind in FORMS.items()}


def encode_form(value: Aggregate | Expression) -> dict[str, Any]:
    """Return an expression or an aggregate as JSON."""
    found: dict[str, Any] = _encode(value)
    return found


def decode_form(written: object) -> Any:
    """Return the expression or aggregate that JSON stands for; what is not on the list is refused.

    It is written as a form, or by the name of a function: {"aggregate": "mean", "arguments": ["cost"]}.
    """
    if not isinstance(written, dict):
        raise unreadable_error("an aggregate")
    if "aggregate" in written:
        return _call_aggregation(written)
    return _FormReader().read(written, MOST_LEVELS)


def unreadable_error(what: str, **facts: str) -> UsageError:
    """Return the refusal of JSON that does not have a form that is known."""
    return UsageError(
        "SF-W104",
        f"This is not {what} in a form that is known.",
        **facts,
        try_='{"aggregate": "mean", "arguments": ["cost"]}',
    )


# ---- writing -----------------------------------------------------------------------------------------------


def _encode(value: Any) -> Any:
    tag = _TAGS.get(type(value))
    if tag is not None:
        return {"form": tag, **{each.name: _encode(getattr(value, each.name)) for each in fields(value)}}
    match value:
        case None | bool() | int() | str():
            return value
        case Fraction():
            return {"number": str(value)}
        case datetime():
            return {"moment": value.isoformat()}
        case date():
            return {"day": value.isoformat()}
        case tuple():
            return [_encode(each) for each in value]
    raise UsageError(
        "SF-W104",
        "This cannot be sent to a server.",
        got=type(value).__name__,
        try_="the same in SQL: s.sql(…)",
    )


# ---- reading -----------------------------------------------------------------------------------------------


class _FormReader:
    """Reads one form, and counts what it is made of."""

    def __init__(self) -> None:
        self._left = MOST_PARTS

    def read(self, written: Any, levels: int) -> Any:
        self._left -= 1
        if levels < 1 or self._left < 0:
            raise unreadable_error("an expression", most=f"{MOST_PARTS:,} parts in {MOST_LEVELS} levels")
        match written:
            case None | bool() | int() | str():
                return written
            case list():
                return tuple(self.read(each, levels - 1) for each in written)
            case {"form": str() as tag, **given} if tag in FORMS:
                return self._read_form(FORMS[tag], given, levels)
            case {"number": str() as text, **others} if not others:
                return read_fraction(text)
            case {"day": str() as text, **others} if not others:
                return _read_scalar(date.fromisoformat, text)
            case {"moment": str() as text, **others} if not others:
                return _read_scalar(datetime.fromisoformat, text)
        raise unreadable_error("an expression")

    def _read_form(self, kind: type[Any], given: dict[Any, Any], levels: int) -> Any:
        if not set(given) <= {each.name for each in fields(kind)}:
            raise unreadable_error("an expression")
        parts = {name: self.read(each, levels - 1) for name, each in given.items()}
        try:
            return kind(**parts)
        except TypeError:  # a field is missing
            raise unreadable_error("an expression") from None


def _read_scalar(read: Any, text: str) -> Any:
    try:
        return read(text)
    except (ValueError, ZeroDivisionError):
        raise unreadable_error("a value") from None


def read_fraction(text: str) -> Fraction:
    """Return a number that is written with digits alone, such as -1/3. Exponents could make it endless."""
    if not _FRACTION.match(text):
        raise unreadable_error("a number")
    return Fraction(_read_scalar(Fraction, text))


def _call_aggregation(written: dict[str, Any]) -> Any:
    from sfumato.queries import aggregations

    name, arguments = written.get("aggregate"), written.get("arguments", [])
    known = isinstance(name, str) and name in AGGREGATIONS and isinstance(arguments, list)
    if not known or set(written) - {"aggregate", "arguments"}:
        raise unreadable_error("an aggregate", known=", ".join(AGGREGATIONS))
    make: Any = getattr(aggregations, str(name))
    try:
        return make(*arguments)
    except (TypeError, ValueError):  # another number of arguments, or a list in the place of a text
        raise unreadable_error("an aggregate", got=str(name)) from None
