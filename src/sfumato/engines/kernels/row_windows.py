"""Values of rows, computed for some rows at a time.

Every value means what engines compute (docs/proofs/statistics.md). A value that is below 2^53 in every row is
held in doubles, which are exact for such integers and fast; any other in 64-bit integers. Where a value is
missing some number is held in its place, and what is missing is told by `RowWindow.missing`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Every,
    Greatest,
    Least,
    Less,
    Lookup,
    Missing,
    Multiply,
    Not,
    Predicate,
    Same,
    Some,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.engines.kernels.column_facts import ColumnFacts

    Ints = NDArray[np.int64]
    Doubles = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    Masks = Mask | None
    """Which rows, or none of them."""

_ONE, _NONE = Constant(1), Constant(0)
_OPERATIONS: dict[type[Any], Any] = {
    Add: np.add,
    Multiply: np.multiply,
    Least: np.minimum,
    Greatest: np.maximum,
}


class RowColumns(Protocol):
    """The columns of rows as whole numbers in doubles, 0 where one is missing."""

    def read(self, column: Column, rows: slice) -> Doubles:
        """Return a column of some rows."""

    def find_missing(self, column: Column, rows: slice) -> Masks:
        """Return in which of these rows a column is missing."""

    def stack(self, columns: Sequence[Column], rows: slice) -> Doubles:
        """Return several columns of some rows, one row a column."""


class RowWindow:
    """Computes values for some rows; parts that several values share are computed once."""

    def __init__(self, facts: ColumnFacts, columns: RowColumns, rows: slice) -> None:
        self.facts = facts
        self._columns = columns
        self._values: dict[int, Any] = {}
        self._missing: dict[int, Masks] = {}
        self._denied: dict[int, Mask] = {}
        self._stacks: dict[tuple[int, ...], Doubles] = {}
        self.rows = rows
        self.count = rows.stop - rows.start

    def value(self, value: Value) -> NDArray[Any]:
        """Return the value of each row, in doubles where they are exact and else in integers."""
        found: NDArray[Any] | None = self._values.get(id(value))
        if found is None:
            found = self._values[id(value)] = _COMPUTE[type(value)](self, value)
        return found

    def integers(self, value: Value) -> Ints:
        """Return the value of each row in 64-bit integers."""
        return self.value(value).astype(np.int64, copy=False)

    def present(self, value: Value) -> NDArray[Any]:
        """Return the value of each row, and 0 where it is missing."""
        found, missing = self.value(value), self.missing(value)
        return found if missing is None else np.where(missing, 0, found)

    def _read(self, column: Column) -> Any:
        inner = self.facts.computed.get(column)
        return self._columns.read(column, self.rows) if inner is None else self.value(inner)

    def _repeat(self, constant: Constant) -> Any:
        return np.full(self.count, constant.value or 0, dtype=self.facts.dtype(constant))

    def _look_up(self, value: Lookup) -> Any:
        entries, place = value.entries, self.integers(value.part)
        if not self.facts.is_inside(value.part, len(entries)):
            place = np.clip(place, 0, max(0, len(entries) - 1))
        return self.facts.list_entries(value)[place]

    def _read_calendar(self, value: Calendar) -> Any:
        days = self.integers(value.days)
        dates = days.astype("datetime64[D]")
        match value.field:
            case "year":
                found = dates.astype("datetime64[Y]").astype(np.int64) + 1970
            case "month":
                found = dates.astype("datetime64[M]").astype(np.int64) % 12 + 1
            case "day":
                found = (dates - dates.astype("datetime64[M]")).astype(np.int64) + 1
            case _:
                found = (days + 3) % 7 + 1  # 1970 began on a Thursday
        return found.astype(self.facts.dtype(value))

    def _either(self, value: Either) -> Any:
        missing, kind = self.missing(value.first), self.facts.dtype(value)
        found = self.value(value.first).astype(kind, copy=False)
        return found if missing is None else np.where(missing, self._part(value.second, kind), found)

    def _choose(self, value: Choose) -> Any:
        condition, kind = self.condition(value.condition), self.facts.dtype(value)
        # An indicator is by far the most common choice.
        if value.then == _ONE and value.otherwise == _NONE:
            return condition.astype(kind)
        return np.where(condition, self._part(value.then, kind), self._part(value.otherwise, kind))

    def _add(self, value: Add) -> Any:
        indicators = self.facts.find_indicators(value)
        if indicators is not None:
            return self._count_indicators(indicators).astype(self.facts.dtype(value), copy=False)
        parts = self.facts.find_weights(value)
        if parts is None:
            return self._combine(value)
        constant, weights, names = parts
        found = weights @ self._stack(names)
        found += constant
        return found

    def _count_indicators(self, indicators: Sequence[tuple[Predicate, int]]) -> Any:
        found = np.zeros(self.count, dtype=np.int16)
        for condition, weight in indicators:
            # One byte of a mask is 1 or 0, so nothing is converted.
            ones = self.condition(condition).view(np.int8)
            found += ones if weight == 1 else ones * np.int16(weight)
        return found

    def _stack(self, parts: tuple[Value, ...]) -> Doubles:
        """Return values of which a weighted sum is asked, one row each."""
        known = tuple(map(id, parts))
        if known not in self._stacks:
            columns = [part for part in parts if isinstance(part, Column) and part not in self.facts.computed]
            self._stacks[known] = (
                self._columns.stack(columns, self.rows)
                if len(columns) == len(parts)
                else np.array([self.value(part) for part in parts], dtype=np.float64)
            )
        return self._stacks[known]

    def _combine(self, value: Any) -> Any:
        compute, kind = _OPERATIONS[type(value)], self.facts.common_dtype(value)
        found = compute(*self._pair(value.left, value.right, kind))
        return found.astype(self.facts.dtype(value), copy=False)

    def _extreme(self, value: Least | Greatest) -> Any:
        found = self._combine(value)
        if value.skips:
            for side, other in ((value.left, value.right), (value.right, value.left)):
                missing = self.missing(side)
                if missing is not None:
                    found = np.where(missing, self._part(other, self.facts.dtype(value)), found)
        return found

    def _divide(self, value: Divide) -> Any:
        left, right = self._pair(value.left, value.right, self.facts.common_dtype(value))
        number = value.right.value if isinstance(value.right, Constant) else None
        if number and number > 0 and number & (number - 1) == 0:
            # A shift rounds down as well, in a fifth of the time.
            found = left >> (number.bit_length() - 1)
        else:
            right = np.where(right == 0, 1, right) if self.facts.can_be_zero(value.right) else right
            found = left // right
        if self.facts.can_be_negative(value.left) or self.facts.can_be_negative(value.right):
            # NumPy rounds quotients down, and SQL towards zero.
            found = found + ((found < 0) & (found * right != left))
        return found.astype(self.facts.dtype(value), copy=False)

    def _pair(self, left: Value, right: Value, kind: Any) -> tuple[Any, Any]:
        """Return both values, of which at least one is an array."""
        array = self.value(left).astype(kind, copy=False) if isinstance(right, Constant) else None
        return self._part(left, kind) if array is None else array, self._part(right, kind)

    def _part(self, part: Value, kind: Any) -> Any:
        """Return a value in a type that holds it; a constant is one number for all rows."""
        if isinstance(part, Constant):
            return kind(part.value or 0)
        return self.value(part).astype(kind, copy=False)

    # ---- missing values ----

    def missing(self, value: Value) -> Masks:
        """Return in which rows a value is missing."""
        if not self.facts.can_miss(value):
            return None
        if id(value) not in self._missing:
            self._missing[id(value)] = self._find_missing(value)
        return self._missing[id(value)]

    def _find_missing(self, value: Value) -> Masks:
        match value:
            case Column():
                inner = self.facts.computed.get(value)
                if inner is not None:
                    return self.missing(inner)
                return self._columns.find_missing(value, self.rows)
            case Constant():
                return np.ones(self.count, dtype=bool)
            case Either(first, second) | Least(first, second, True) | Greatest(first, second, True):
                both = self.missing(first), self.missing(second)
                return None if both[0] is None or both[1] is None else both[0] & both[1]
            case Lookup(place, entries):
                return self._outside(place, entries)
            case Choose(condition, then, otherwise):
                return _pick(self.condition(condition), self.missing(then), self.missing(otherwise))
            case Calendar(days):
                return self.missing(days)
            case Divide(left, right):
                zero = self.value(right) == 0 if self.facts.can_be_zero(right) else None
                return _any(self.missing(left), self.missing(right), zero)
            case Add(left, right) | Multiply(left, right) | Least(left, right) | Greatest(left, right):
                return _any(self.missing(left), self.missing(right))
        raise TypeError(type(value).__name__)

    def _outside(self, place: Value, entries: tuple[int | None, ...]) -> Masks:
        """Return the rows whose place has no entry."""
        numbers = self.integers(place)
        empty = np.array([entry is None for entry in entries] or [True])
        outside = (numbers < 0) | (numbers >= len(entries))
        return _any(self.missing(place), outside, empty[np.clip(numbers, 0, len(empty) - 1)])

    # ---- conditions ----

    def condition(self, predicate: Predicate) -> Mask:
        """Return which rows meet a condition."""
        found: Mask | None = self._values.get(id(predicate))
        if found is None:
            found = self._values[id(predicate)] = self._decide(predicate)
        return found

    def denied(self, predicate: Predicate) -> Mask:
        """Return which rows fail a condition; where it is unknown, a row neither meets nor fails it."""
        found = self._denied.get(id(predicate))
        if found is None:
            found = self._denied[id(predicate)] = self._deny(predicate)
        return found

    def _decide(self, predicate: Predicate) -> Any:
        match predicate:
            case Missing(part):
                missing = self.missing(part)
                return np.zeros(self.count, dtype=bool) if missing is None else missing
            case Not(part):
                return self.denied(part)
            case Every(parts):
                return reduce(np.logical_and, map(self.condition, parts), np.ones(self.count, dtype=bool))
            case Some(parts):
                return reduce(np.logical_or, map(self.condition, parts), np.zeros(self.count, dtype=bool))
        return self._where_known(predicate, self._compare(predicate))

    def _deny(self, predicate: Predicate) -> Any:
        match predicate:
            case Missing():
                return ~self.condition(predicate)
            case Not(part):
                return self.condition(part)
            case Every(parts):
                return reduce(np.logical_or, map(self.denied, parts), np.zeros(self.count, dtype=bool))
            case Some(parts):
                return reduce(np.logical_and, map(self.denied, parts), np.ones(self.count, dtype=bool))
        return self._where_known(predicate, ~self._compare(predicate))

    def _compare(self, predicate: Predicate) -> Any:
        """Return the outcome of a comparison, and any outcome where a side is missing."""
        match predicate:
            case AtLeast(part, bound):
                return self.value(part) >= bound
            case AtMost(part, bound):
                return self.value(part) <= bound
            case Among(part, (place,)):
                return self.value(part) == place
            case Among(part, places):
                return np.isin(self.integers(part), places)
            case Less(left, right):
                return np.less(*self._alike(left, right))
            case Same(left, right):
                return np.equal(*self._alike(left, right))
        raise TypeError(type(predicate).__name__)

    def _where_known(self, predicate: Any, outcome: Mask) -> Mask:
        sides = (predicate.left, predicate.right) if isinstance(predicate, Less | Same) else (predicate.part,)
        missing = _any(*map(self.missing, sides))
        return outcome if missing is None else outcome & ~missing

    def _alike(self, left: Value, right: Value) -> tuple[Any, Any]:
        """Return both values in doubles, or in integers where one is too wide for doubles."""
        # Comparing a double with a 64-bit integer would round the integer.
        wide = any(self.facts.dtype(each) is np.int64 for each in (left, right))
        return self._pair(left, right, np.int64 if wide else np.float64)


def _any(*masks: Masks) -> Masks:
    """Return the rows that are in any of these."""
    return reduce(lambda one, other: other if one is None else one if other is None else one | other, masks)


def _pick(condition: Mask, one: Masks, other: Masks) -> Masks:
    """Return the rows of one mask where a condition holds, and of the other elsewhere."""
    return _any(
        None if one is None else condition & one,
        None if other is None else ~condition & other,
    )


_COMPUTE: dict[type[Any], Any] = {
    Column: RowWindow._read,
    Constant: RowWindow._repeat,
    Calendar: RowWindow._read_calendar,
    Lookup: RowWindow._look_up,
    Choose: RowWindow._choose,
    Either: RowWindow._either,
    Add: RowWindow._add,
    Divide: RowWindow._divide,
    Multiply: RowWindow._combine,
    Least: RowWindow._extreme,
    Greatest: RowWindow._extreme,
}
"""How a value of each kind is computed: looked up, since there are many values for every few rows."""
