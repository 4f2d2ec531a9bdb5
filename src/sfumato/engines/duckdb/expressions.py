"""Values and conditions of a row as SQL, with the meaning that engines/values.py states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.values import (
    WIDEST,
    Add,
    Among,
    AtLeast,
    AtMost,
    Block,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Every,
    Folded,
    Greatest,
    Least,
    Length,
    Less,
    Lookup,
    Matches,
    Missing,
    Multiply,
    Not,
    Predicate,
    Same,
    Some,
    Spelled,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Name = Callable[[int, str], str]
    """The SQL name of a source's column."""

BLOCK = "\0block"
"""The name of a unit's block; no declared name holds this character."""
_LIMIT = 2**62
"""Values lie well within ±2^62: comparing with more than this changes nothing."""
_SHORT = 20
"""Longer lists are unnested: DuckDB parses one text far faster than as many integers."""
_FIELDS = {"year": "year", "month": "month", "day": "day", "weekday": "isodow"}
_SMALL, _LARGE = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def value(part: Value, name: Name) -> str:
    """An integer or a text, NULL where missing."""
    match part:
        case Column(at, column):
            return name(at, column)
        case Constant(number):
            return f"CAST({'NULL' if number is None else _wide_bounded(number)} AS HUGEINT)"
        case Add() | Multiply() | Divide() | Least() | Greatest() | Either():
            return _of_two(part, name)
        case Lookup(of, entries):
            return f"{listed(entries)}[greatest(CAST({value(of, name)} AS BIGINT), -1) + 1]"
        case Choose(when, then, otherwise):
            chosen = f"THEN {_wide(then, name)} ELSE {_wide(otherwise, name)}"
            return f"CASE WHEN {condition(when, name)} {chosen} END"
        case Block(at, count):
            return f"((CAST({name(at, BLOCK)} AS BIGINT) * {bounded(count)}) >> 16)"
        case Calendar() | Length() | Folded():
            return _of_one(part, name)


def _of_two(part: Add | Multiply | Divide | Least | Greatest | Either, name: Name) -> str:
    match part:
        case Add(left, right):
            return f"({_wide(left, name)} + {_wide(right, name)})"
        case Multiply(left, right):
            return f"({_wide(left, name)} * {_wide(right, name)})"
        case Divide(left, Constant(int(number))) if number:
            return f"({_wide(left, name)} // CAST({_wide_bounded(number)} AS HUGEINT))"
        case Divide(left, right):
            return f"({_wide(left, name)} // nullif({_wide(right, name)}, 0))"
        case Least(left, right):
            return _smaller(value(left, name), value(right, name))
        case Greatest(left, right):
            return _smaller(value(left, name), value(right, name), ">=", ">")
        case Either(first, second):
            return f"COALESCE({_wide(first, name)}, {_wide(second, name)})"


def _of_one(part: Calendar | Length | Folded, name: Name) -> str:
    match part:
        case Calendar(days, field):
            return f"{_FIELDS[field]}(DATE '1970-01-01' + CAST({value(days, name)} AS INTEGER))"
        case Length(text):
            return f"length({value(text, name)})"
        case Folded(text, upper):
            here, there = (_SMALL, _LARGE) if upper else (_LARGE, _SMALL)
            return f"translate({value(text, name)}, '{here}', '{there}')"


def condition(predicate: Predicate, name: Name) -> str:
    match predicate:
        case AtLeast(part, bound):
            return f"{value(part, name)} >= {_clamped(bound)}"
        case AtMost(part, bound):
            return f"{value(part, name)} <= {_clamped(bound)}"
        case Among(part, values):
            return _among(value(part, name), values)
        case Less(left, right):
            return f"{value(left, name)} < {value(right, name)}"
        case Same(left, right):
            return f"{value(left, name)} = {value(right, name)}"
        case Missing(part):
            return f"{value(part, name)} IS NULL"
        case Spelled() | Matches():
            return _of_text(predicate, name)
        case Not() | Every() | Some():
            return _of_conditions(predicate, name)


def _of_text(predicate: Spelled | Matches, name: Name) -> str:
    text = value(predicate.text, name)
    match predicate:
        case Spelled(_, words):
            return f"{text} IN ({', '.join(map(spelled, words))})" if words else _none(text)
        case Matches(_, pattern):
            return f"{text} LIKE {spelled(pattern)} ESCAPE '\\'"


def _of_conditions(predicate: Not | Every | Some, name: Name) -> str:
    match predicate:
        case Not(part):
            return f"NOT ({condition(part, name)})"
        case Every(parts):
            return joined("AND", (condition(part, name) for part in parts)) or "true"
        case Some(parts):
            return joined("OR", (condition(part, name) for part in parts)) or "false"


def joined(word: str, parts: Iterable[str]) -> str:
    return f" {word} ".join(f"({part})" for part in parts)


def spelled(word: str) -> str:
    """A text as the hexadecimal digits of its UTF-8: nothing that was typed stands in our SQL."""
    return f"decode(from_hex('{word.encode('utf-8', 'surrogatepass').hex()}'))"


def listed(entries: Iterable[int | None]) -> str:
    inside = ", ".join("NULL" if entry is None else str(bounded(entry)) for entry in entries)
    return f"CAST('[{inside}]' AS BIGINT[])"


def bounded(number: int) -> int:
    if _clamped(number) != number:
        raise OverflowError("a constant lies beyond 2^62")
    return number


def _wide_bounded(number: int) -> int:
    if abs(number) > WIDEST:
        raise OverflowError("a constant lies beyond 2^120")
    return number


def _wide(part: Value, name: Name) -> str:
    text = value(part, name)
    return (
        text
        if isinstance(part, Constant | Add | Multiply | Divide | Either | Choose)
        else f"CAST({text} AS HUGEINT)"
    )


def _smaller(left: str, right: str, first: str = "<=", second: str = "<") -> str:
    """By CASE, which keeps a missing value missing; least would pass over it."""
    return f"CASE WHEN {left} {first} {right} THEN {left} WHEN {right} {second} {left} THEN {right} END"


def _among(part: str, values: tuple[int, ...]) -> str:
    if not values:
        return _none(part)
    clamped = [_clamped(number) for number in values]
    if len(values) <= _SHORT:
        return f"{part} IN ({', '.join(map(str, clamped))})"
    return f"{part} IN (SELECT unnest({listed(clamped)}))"


def _none(part: str) -> str:
    """False, and unknown where missing, as a list with values would be."""
    return f"{part} <> {part}"


def _clamped(number: int) -> int:
    return max(-_LIMIT, min(number, _LIMIT))
