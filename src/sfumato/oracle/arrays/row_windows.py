"""Values of the rows of own arrays, computed for some rows at a time.

Every value means what engines compute (docs/proofs/statistics.md). A value that is below 2^53 in every row is
held in doubles, which are exact for such integers and fast; any other in 64-bit integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.value_ranges import ValueRanges
from sfumato.oracle.blocks import (
    COUNT,
    Add,
    Among,
    AtLeast,
    AtMost,
    Choose,
    Column,
    Constant,
    Divide,
    Every,
    Greatest,
    Least,
    Less,
    Lookup,
    Multiply,
    Not,
    Predicate,
    Same,
    Some,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Doubles = NDArray[np.float64]

EXACT = 2**53
"""Doubles hold every integer up to here."""
LARGEST = 2**62
"""No value lies further from 0: sums of two still fit in 64 bits."""
_NONE = Constant(0)
_MANY = 4
"""A weighted sum of more columns than this is one product of a vector and a matrix. For speed alone."""
_OPERATIONS: dict[type[Any], Any] = {
    Add: np.add,
    Multiply: np.multiply,
    Divide: np.floor_divide,
    Least: np.minimum,
    Greatest: np.maximum,
}


class ColumnFacts:
    """What is public about columns of own arrays and values over them, found once for each scan.

    Values are looked up by their identity, so whoever asks holds them until the scan is done.
    """

    def __init__(self, column: Callable[[Column], Doubles], ranges: Mapping[Column, tuple[int, int]]) -> None:
        self.column = column
        self._ranges = ValueRanges(ranges)
        self._reaches: dict[int, int] = {}
        self._doubled: dict[int, bool] = {}
        self._sums: dict[int, tuple[int, Doubles, Doubles] | None] = {}
        self._stacks: dict[tuple[Column, ...], Doubles] = {}

    def reach(self, value: Value) -> int:
        """Return how far from 0 the value can be in any row."""
        if id(value) in self._reaches:
            return self._reaches[id(value)]
        reach = self._ranges.reach(value)
        if reach > LARGEST:
            raise OverflowError("a value lies beyond 2^62")
        self._reaches[id(value)] = reach
        return reach

    def dtype(self, value: Value) -> type[np.float64] | type[np.int64]:
        """Return the type that the value is held in."""
        return np.float64 if self.reach(value) < EXACT else np.int64

    def uses_doubles(self, value: Any) -> bool:
        """Return whether a value of two parts is computed in doubles, where it and both parts are exact."""
        found = self._doubled.get(id(value))
        if found is None:
            # Floor division is left to integers: a quotient of doubles could round up to the next one.
            exact = all(self.reach(each) < EXACT for each in (value, value.left, value.right))
            found = self._doubled[id(value)] = exact and not isinstance(value, Divide)
        return found

    def find_weights(self, value: Add) -> tuple[int, Doubles, Doubles] | None:
        """Return the constant, weights and columns of a sum of many columns; None for other values."""
        if id(value) not in self._sums:
            self._sums[id(value)] = self._find_weights(value)
        return self._sums[id(value)]

    def _find_weights(self, value: Add) -> tuple[int, Doubles, Doubles] | None:
        weights = _weights(value)
        if weights is None or len(weights) <= _MANY:
            return None
        constant = weights.pop(None, 0)
        names = tuple(name for name in weights if name is not None)
        # All partial sums must stay exact, whatever order BLAS adds them in.
        if sum(abs(weights[name]) * self.reach(name) for name in names) + abs(constant) >= EXACT:
            return None
        if names not in self._stacks:
            self._stacks[names] = stack_rows([self.column(name) for name in names])
        return constant, np.array([float(weights[name]) for name in names]), self._stacks[names]


class RowWindow:
    """Computes values for some rows; parts that several values share are computed once."""

    def __init__(self, columns: ColumnFacts, rows: slice) -> None:
        self._columns = columns
        self._values: dict[int, Any] = {}
        self.rows = rows
        self.count = rows.stop - rows.start

    def value(self, value: Value) -> NDArray[Any]:
        """Return the value of each row, in doubles where they are exact and else in integers."""
        found: NDArray[Any] | None = self._values.get(id(value))
        if found is None:
            found = self._values[id(value)] = self._compute(value)
        return found

    def integers(self, value: Value) -> Ints:
        """Return the value of each row in 64-bit integers."""
        return self.value(value).astype(np.int64, copy=False)

    def _compute(self, value: Value) -> Any:
        match value:
            case Column():
                return self._columns.column(value)[self.rows]
            case Constant(int(number)):
                return np.full(self.count, number, dtype=self._columns.dtype(value))
            case Lookup(of, entries):
                return np.array(entries, dtype=np.int64).astype(self._columns.dtype(value))[self.integers(of)]
            case Choose():
                return self._choose(value)
            case Add() if (parts := self._columns.find_weights(value)) is not None:
                constant, weights, stack = parts
                found = weights @ stack[:, self.rows]
                found += constant
                return found
            case Add() | Multiply() | Divide() | Least() | Greatest():
                return self._combine(value)
        raise TypeError(type(value).__name__)

    def _choose(self, value: Choose) -> Any:
        condition, kind = self.condition(value.condition), self._columns.dtype(value)
        # An indicator is by far the most common choice.
        if value.then == COUNT and value.otherwise == _NONE:
            return condition.astype(kind)
        return np.where(condition, self._part(value.then, kind), self._part(value.otherwise, kind))

    def _combine(self, value: Any) -> Any:
        compute, left, right = _OPERATIONS[type(value)], value.left, value.right
        if not self._columns.uses_doubles(value):
            found = compute(*self._pair(left, right, np.int64))
            return found.astype(self._columns.dtype(value), copy=False)
        # At least one side must be an array, so that there is one number for each row.
        first = self.value(left) if isinstance(right, Constant) else self._double(left)
        return compute(first, self._double(right))

    def _double(self, part: Value) -> Any:
        """Return a value that is held in doubles; a constant is one number for all rows."""
        return float(part.value or 0) if isinstance(part, Constant) else self.value(part)

    def _pair(self, left: Value, right: Value, kind: Any) -> tuple[Any, Any]:
        """Return both values, of which at least one is an array."""
        array = self.value(left).astype(kind, copy=False) if isinstance(right, Constant) else None
        return self._part(left, kind) if array is None else array, self._part(right, kind)

    def _part(self, part: Value, kind: Any) -> Any:
        if isinstance(part, Constant):
            return kind(part.value)
        return self.value(part).astype(kind, copy=False)

    # ---- conditions ----

    def condition(self, predicate: Predicate) -> NDArray[np.bool_]:
        """Return whether each row meets a condition."""
        found: NDArray[np.bool_] | None = self._values.get(id(predicate))
        if found is None:
            found = self._values[id(predicate)] = self._decide(predicate)
        return found

    def _decide(self, predicate: Predicate) -> Any:
        match predicate:
            case AtLeast(part, bound):
                return self.value(part) >= bound
            case AtMost(part, bound):
                return self.value(part) <= bound
            case Among(part, values):
                return np.isin(self.integers(part), values)
            case Less(left, right):
                return np.less(*self._alike(left, right))
            case Same(left, right):
                return np.equal(*self._alike(left, right))
            case Not(part):
                return ~self.condition(part)
            case Every(parts):
                return np.logical_and.reduce([self.condition(part) for part in parts])
            case Some(parts):
                return np.logical_or.reduce([self.condition(part) for part in parts])
        raise TypeError(type(predicate).__name__)

    def _alike(self, left: Value, right: Value) -> tuple[Any, Any]:
        """Return both values in doubles, or in integers where one is too wide for doubles."""
        # Comparing a double with a 64-bit integer would round the integer.
        doubles = all(self._columns.dtype(each) is np.float64 for each in (left, right))
        return self._pair(left, right, np.float64 if doubles else np.int64)


def _weights(value: Value) -> dict[Column | None, int] | None:
    """Return the weight of each column of a sum, with the constant under None; None for other values."""
    found: dict[Column | None, int] = {}
    parts = [value]
    while parts:
        match parts.pop():
            case Add(left, right):
                parts += [left, right]
            case Column() as column:
                found[column] = found.get(column, 0) + 1
            case Multiply(Column() as column, Constant(int(number))):
                found[column] = found.get(column, 0) + number
            case Constant(int(number)):
                found[None] = found.get(None, 0) + number
            case _:
                return None
    return found


def stack_rows(rows: Sequence[Doubles]) -> Doubles:
    """Return rows as one matrix; rows that lie in one in this order already are not copied."""
    base: Any = rows[0].base
    if (
        isinstance(base, np.ndarray)
        and base.ndim == 2
        and base.size
        and all(_is_row(row, base) for row in rows)
    ):
        # Rows that follow one another in memory are a view of the matrix they came from.
        first, *others = [(row.ctypes.data - base.ctypes.data) / base.strides[0] for row in rows]
        if [first, *others] == list(range(int(first), int(first) + len(rows))):
            found: Doubles = base[int(first) : int(first) + len(rows)]
            return found
    return np.array(rows)


def _is_row(row: Doubles, base: NDArray[Any]) -> bool:
    return row.base is base and row.shape == base.shape[1:] and row.strides == base.strides[1:]
