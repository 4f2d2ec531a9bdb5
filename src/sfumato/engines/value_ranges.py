"""Interval analysis: between which integers a value lies, whatever the row, and which values are doubles.

Ranges follow from declared bounds and from public numbers, never from data. Two things rest on them: how far
one row can move a sum, which privacy depends on (docs/proofs/statistics.md), and whether an engine may
compute a value in 64 bits, which changes how long a question takes and not its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.engines.values import (
    WIDEST,
    Add,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Double,
    Either,
    Folded,
    Greatest,
    Least,
    Length,
    Lookup,
    Multiply,
    Power,
    Quotient,
    RealConstant,
    RealFunction,
    UnitBlock,
    UnitDigest,
    Value,
    Whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    Range = tuple[int, int]
    """The least and the greatest integer; missing values lie in every range."""

NARROW = 2**62
"""Integers nearer to zero than this are computed in 64 bits, many times as fast as wider ones."""
_SMALL = 2**32
"""Years, months and lengths of texts are nearer to zero than this."""
_DOUBLES = (Double, RealConstant, Quotient, RealFunction, Power)


def value_range(value: Value, columns: Mapping[Column, Range]) -> Range:
    """Return the range of one value over columns of these ranges."""
    return ValueRanges(columns).find(value)


@dataclass(frozen=True, slots=True)
class ValueRanges:
    """Finds the ranges of values over columns of known ranges, each shared part once."""

    columns: Mapping[Column, Range]
    unknown: Range | None = None
    """The range of a column that is not among them; without one, such a column raises KeyError."""
    _known: dict[int, _Known] = field(default_factory=dict)
    """By identity, because comparing large values is slow; each value is held, so no identity is reused."""

    def find(self, value: Value) -> Range:
        """Return the least and the greatest integer that the value can be."""
        return self._find(value).range

    def reach(self, value: Value) -> int:
        """Return how far from zero the value can be."""
        low, high = self.find(value)
        return max(-low, high)

    def is_narrow(self, value: Value) -> bool:
        """Return whether 64 bits hold the value and every integer that it is computed from.

        Where no column has a range nothing is narrow: engines that state none compute no faster in 64 bits.
        """
        known = self._find(value)
        return bool(self.columns) and not known.double and known.widest < NARROW

    def is_double(self, value: Value) -> bool:
        """Return whether the value is a double."""
        return self._find(value).double

    def _find(self, value: Value) -> _Known:
        return self._known.get(id(value)) or self._learn(value)

    def _learn(self, value: Value) -> _Known:
        parts = [self._find(part) for part in _parts(value)]
        low, high = found = self._range(value, *(part.range for part in parts))
        sums, products = _partial_reaches(value, max(-low, high), parts)
        widest = max(sums, products, *(part.widest for part in parts))
        double = isinstance(value, _DOUBLES) or any(part.double for part in parts)
        known = self._known[id(value)] = _Known(value, found, sums, products, widest, double)
        return known

    def _range(self, value: Value, *parts: Range) -> Range:
        """Return the range of a value from those of its parts."""
        match value:
            case Column():
                return self.columns[value] if self.unknown is None else self.columns.get(value, self.unknown)
            case Constant(number):
                return number or 0, number or 0
            case Lookup(_, entries):
                return _range_of_entries(entries)
            case UnitBlock(_, count):
                return 0, count
            case Calendar() | Length():
                return -_SMALL, _SMALL
            case Whole(low=low, high=high):
                return low, high
            case Folded() | UnitDigest() | Double() | RealConstant() | Quotient() | RealFunction() | Power():
                return -WIDEST, WIDEST
        return _range_of_two(value, *parts)


@dataclass(frozen=True, slots=True)
class _Known:
    value: Value
    range: Range
    sums: int
    """How far from zero any of its addends come to, in whatever order they are added."""
    products: int
    """How far from zero any of its factors come to, in whatever order they are multiplied."""
    widest: int
    """How far from zero any integer is that it is computed from."""
    double: bool


def _partial_reaches(value: Value, reach: int, parts: list[_Known]) -> tuple[int, int]:
    """Return how far from zero partial sums and products of a value can be.

    Engines take addends and factors in an order of their own, through choices that they see are none: Spark
    makes (x·0)·(y·0) to (x·y)·(0·0), which overflows where x·y does.
    """
    match value:
        case Add():
            return sum(part.sums for part in parts), max(1, reach)
        case Multiply():
            return reach, parts[0].products * parts[1].products
        case Choose() | Either():
            return max(part.sums for part in parts), max(part.products for part in parts)
    return reach, max(1, reach)


def _parts(value: Value) -> tuple[Value, ...]:
    """Return what is computed in the same type: not conditions, and not places in a lookup table."""
    match value:
        case (
            Add(left, right)
            | Multiply(left, right)
            | Divide(left, right)
            | Least(left, right)
            | Greatest(left, right)
            | Either(left, right)
            | Choose(_, left, right)
        ):
            return left, right
    return ()


def _range_of_two(value: Value, left: Range, right: Range) -> Range:
    (low, high), (least, most) = left, right
    match value:
        case Add():
            return low + least, high + most
        case Multiply(one, other):
            corners = (low * least, low * most, high * least, high * most)
            # A square is not negative, whatever the sign of its root.
            return (max(0, min(corners)) if one is other else min(corners)), max(corners)
        case Divide(_, Constant(int(number))) if number > 0:
            return divide_towards_zero(low, number), divide_towards_zero(high, number)
        case Divide():
            # The divisor is an integer and not 0, or the quotient is missing.
            return -max(-low, high), max(-low, high)
        case Least():
            return min(low, least), min(_bounding(value, high, most), default=max(high, most))
        case Greatest():
            return max(_bounding(value, low, least), default=min(low, least)), max(high, most)
    return min(low, least), max(high, most)


def divide_towards_zero(number: int, by: int) -> int:
    """Return number / by rounded towards zero, for a positive divisor."""
    return number // by if number >= 0 else -(-number // by)


def _bounding(value: Least | Greatest, left: int, right: int) -> list[int]:
    """Return the ends of the sides that are never passed over: a missing one bounds nothing."""
    if not value.skips:
        return [left, right]
    sides = ((value.left, left), (value.right, right))
    return [end for side, end in sides if _is_never_missing(side)]


def _is_never_missing(value: Value) -> bool:
    match value:
        case Constant(number):
            return number is not None
        case Least(left, right, True) | Greatest(left, right, True):
            return _is_never_missing(left) or _is_never_missing(right)
    return False


# The rounds of a fit ask about the same few tables, of thousands of entries each.
@lru_cache(maxsize=32)
def _range_of_entries(entries: tuple[int | None, ...]) -> Range:
    listed = [entry for entry in entries if entry is not None]
    return min(listed, default=0), max(listed, default=0)
