"""What is public about values of rows: how far from zero they lie, and whether they can be missing.

It is found once for each scan, and follows from declared bounds and from the program alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.values import (
    Add,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Greatest,
    Least,
    Lookup,
    Multiply,
    Predicate,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.engines.value_ranges import ValueRanges

    Doubles = NDArray[np.float64]
    Weights = tuple[int, Doubles, tuple[Value, ...]]
    """A constant, and the weight of each of several values."""
    Indicators = list[tuple[Predicate, int]]
    """Conditions, and what each adds where it holds."""
    Kind = type[np.int16] | type[np.float64] | type[np.int64]

EXACT = 2**53
"""Doubles hold every integer up to here."""
LARGEST = 2**62
"""No value lies further from 0: sums of two still fit in 64 bits."""
_SMALL = 2**15
"""Indicators, cells and the like are nearer to 0 than this, and held in 16 bits. For speed alone."""
_MANY = 4
"""A weighted sum of more values than this is one product of a vector and a matrix. For speed alone."""


class ColumnFacts:
    """Facts about the columns of rows and about values over them.

    Values are looked up by their identity, so whoever asks holds them until the scan is done.
    """

    def __init__(
        self,
        ranges: ValueRanges,
        computed: Mapping[Column, Value] | None = None,
        *,
        missing: bool = False,
    ) -> None:
        self.computed = computed or {}
        """The values of columns that no source of rows holds."""
        self._ranges = ranges
        self._columns_miss = missing
        self._reaches: dict[int, int] = {}
        self._kinds: dict[int, Kind] = {}
        self._common: dict[int, Kind] = {}
        self._sums: dict[int, Weights | None] = {}
        self._indicators: dict[int, Indicators | None] = {}
        self._missing: dict[int, bool] = {}
        self._lists: dict[int, NDArray[Any]] = {}

    def reach(self, value: Value) -> int:
        """Return how far from 0 the value can be in any row."""
        if id(value) in self._reaches:
            return self._reaches[id(value)]
        reach = self._ranges.reach(value)
        if reach > LARGEST:
            raise OverflowError("a value lies beyond 2^62")
        self._reaches[id(value)] = reach
        return reach

    def dtype(self, value: Value) -> Kind:
        """Return the type that the value is held in."""
        found = self._kinds.get(id(value))
        if found is None:
            found = self._kinds[id(value)] = self._find_dtype(value)
        return found

    def _find_dtype(self, value: Value) -> Kind:
        # Columns are read as doubles, and weighted sums are computed in them.
        if isinstance(value, Column) or (isinstance(value, Add) and self.find_weights(value) is not None):
            return np.float64
        reach = self.reach(value)
        return np.int16 if reach < _SMALL else np.float64 if reach < EXACT else np.int64

    def common_dtype(self, value: Any) -> Kind:
        """Return the type that a value of two parts is computed in, which holds it and both of them."""
        found = self._common.get(id(value))
        if found is None:
            found = self._common[id(value)] = self._find_common(value)
        return found

    def _find_common(self, value: Any) -> Kind:
        kinds = {self.dtype(each) for each in (value, value.left, value.right)}
        if kinds == {np.int16}:
            return np.int16
        # Floor division is left to integers: a quotient of doubles could round up to the next one.
        return np.int64 if np.int64 in kinds or isinstance(value, Divide) else np.float64

    def is_inside(self, place: Value, size: int) -> bool:
        """Return whether a value is a place of a list of this size in every row."""
        low, high = self._ranges.find(place)
        return low >= 0 and high < size and not self.can_miss(place)

    def can_be_negative(self, value: Value) -> bool:
        """Return whether a value is below 0 in any row."""
        return self._ranges.find(value)[0] < 0

    def can_be_zero(self, value: Value) -> bool:
        """Return whether a value is 0 in any row, or missing, which is computed with as 0."""
        low, high = self._ranges.find(value)
        return low <= 0 <= high or self.can_miss(value)

    def list_entries(self, value: Lookup) -> NDArray[Any]:
        """Return the entries of a list as an array, 0 for those that are missing."""
        found = self._lists.get(id(value))
        if found is None:
            numbers = [entry or 0 for entry in value.entries] or [0]
            found = self._lists[id(value)] = np.array(numbers, dtype=self.dtype(value))
        return found

    # ---- missing values ----

    def can_miss(self, value: Value) -> bool:
        """Return whether the value is missing in any row."""
        found = self._missing.get(id(value))
        if found is None:
            found = self._missing[id(value)] = self._can_miss(value)
        return found

    def _can_miss(self, value: Value) -> bool:
        match value:
            case Column():
                return self.can_miss(self.computed[value]) if value in self.computed else self._columns_miss
            case Constant(number):
                return number is None
            case Either(first, second) | Least(first, second, True) | Greatest(first, second, True):
                return self.can_miss(first) and self.can_miss(second)
            case Lookup(place, entries):
                return None in entries or not self.is_inside(place, len(entries))
            case Choose(_, then, otherwise):
                return self.can_miss(then) or self.can_miss(otherwise)
            case Calendar(days):
                return self.can_miss(days)
            case Divide(left, right):
                return self.can_miss(left) or self.can_be_zero(right)
            case Add(left, right) | Multiply(left, right) | Least(left, right) | Greatest(left, right):
                return self.can_miss(left) or self.can_miss(right)
        raise TypeError(type(value).__name__)

    # ---- weighted sums ----

    def find_indicators(self, value: Add) -> Indicators | None:
        """Return the weights of a sum of conditions that is held in 16 bits; None for other values."""
        if id(value) not in self._indicators:
            found = _split_indicators(value)
            small = found is not None and sum(abs(weight) for _, weight in found) < _SMALL
            self._indicators[id(value)] = found if small else None
        return self._indicators[id(value)]

    def find_weights(self, value: Add) -> Weights | None:
        """Return the constant, weights and parts of a sum of many values; None for other values."""
        if id(value) not in self._sums:
            self._sums[id(value)] = self._find_weights(value)
        return self._sums[id(value)]

    def _find_weights(self, value: Add) -> Weights | None:
        found = split_sum(value)
        if found is None or len(found[1]) <= _MANY:
            return None
        constant, parts = found
        # All partial sums must stay exact, whatever order BLAS adds them in.
        reach = sum(abs(weight) * self.reach(part) for part, weight in parts.values())
        if reach + abs(constant) >= EXACT:
            return None
        weights = np.array([float(weight) for _, weight in parts.values()])
        return constant, weights, tuple(part for part, _ in parts.values())


def _split_indicators(value: Value) -> Indicators | None:
    """Return a sum of values that are 1 where a condition holds and else 0, each with its weight."""
    found: Indicators = []
    parts = [(value, 1)]
    while parts:
        match parts.pop():
            case Add(left, right), times:
                parts += [(left, times), (right, times)]
            case Multiply(inner, Constant(int(number))), times:
                parts.append((inner, times * number))
            case Choose(condition, Constant(1), Constant(0)), times:
                found.append((condition, times))
            case Constant(0), _:
                pass
            case _:
                return None
    return found


def split_sum(value: Value) -> tuple[int, dict[Any, tuple[Value, int]]] | None:
    """Return a sum as a constant and the weights of columns and of what stands for missing ones.

    None stands for a sum of other values.
    """
    constant, found = 0, dict[Any, tuple[Value, int]]()
    parts = [(value, 1)]
    while parts:
        part, times = parts.pop()
        match part:
            case Add(left, right):
                parts += [(left, times), (right, times)]
            case Multiply(inner, Constant(int(number))):
                parts.append((inner, times * number))
            case Constant(int(number)):
                constant += times * number
            case Column() | Either():
                # Columns are told apart by name; comparing deep values would take longer than summing them.
                key = part if isinstance(part, Column) else id(part)
                found[key] = part, found.get(key, (part, 0))[1] + times
            case _:
                return None
    return constant, found
