"""Sums over one's own arrays: the integers that an engine would answer with, computed by NumPy.

The meaning of every value is that of the engines (docs/proofs/statistics.md); nothing here is missing, since
own arrays are made total before. Doubles are used only where every integer on the way fits one exactly.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.statistics import (
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
    Key,
    Least,
    Less,
    Lookup,
    Multiply,
    Not,
    Predicate,
    Same,
    Some,
    Tallied,
    Value,
    span,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Doubles = NDArray[np.float64]

_EXACT = 2**53
"""Doubles hold every integer up to here."""
_LARGEST = 2**62
_OF_TWO: dict[type[Any], Any] = {
    Add: np.add,
    Multiply: np.multiply,
    Divide: np.floor_divide,
    Least: np.minimum,
    Greatest: np.maximum,
}


class Arrays:
    """Columns of whole numbers, held in doubles, with the bounds they were clipped to; and sums over them."""

    def __init__(self, columns: Mapping[Column, Doubles], spans: Mapping[Column, tuple[int, int]]) -> None:
        self._columns = columns
        self.spans = spans
        self.rows = len(next(iter(columns.values())))

    def sums(self, keys: Sequence[Key], terms: Sequence[Value]) -> NDArray[Any]:
        """One row a term, one column a cell; rows whose key is outside its cells belong to none."""
        return _Scan(self, keys).totals(terms)

    def histograms(self, groupings: Sequence[Sequence[Key]], terms: Sequence[Value]) -> list[NDArray[Any]]:
        """The same by each of several groupings; what they share is computed once."""
        scan = _Scan(self, ())
        return [scan.by(keys).totals(terms) for keys in groupings]

    def tallied(self, keys: Sequence[Key], values: Sequence[Value], size: int) -> Tallied:
        """How often each integer below `size` occurs in each cell, for each value: as an engine answers."""
        scan, many = _Scan(self, keys), len(values)
        places = np.concatenate([scan.places(value, at, many, size) for at, value in enumerate(values)])
        return Tallied(*np.unique(places, return_counts=True), size)

    def with_values(self, values: Sequence[Value]) -> tuple[Arrays, list[Value]]:
        """The same columns, and these values as further ones."""
        scan, first = _Scan(self, ()), len(self._columns)
        names = [Column(3, f"v{first + place}") for place in range(len(values))]
        columns = {
            name: scan.value(value).astype(np.float64) for name, value in zip(names, values, strict=True)
        }
        spans = {name: span(value, self.spans) for name, value in zip(names, values, strict=True)}
        return Arrays({**self._columns, **columns}, {**self.spans, **spans}), list(names)

    def beside(self, columns: Mapping[Column, Doubles], spans: Mapping[Column, tuple[int, int]]) -> Arrays:
        """The same columns, and these."""
        return Arrays({**self._columns, **columns}, spans)

    def column(self, column: Column) -> Doubles:
        return self._columns[column]


class _Scan:
    """One pass: parts that several terms share are computed once."""

    def __init__(self, arrays: Arrays, keys: Sequence[Key]) -> None:
        self._arrays = arrays
        self._values: dict[int, Any] = {}
        self._stacks: dict[tuple[Column, ...], Doubles] = {}
        self._held: list[Any] = []  # identities are only good while what they name is held
        self._spans: dict[int, tuple[int, int]] = {}
        self._reaches: dict[int, int] = {}
        self._parts: dict[int, tuple[tuple[Value, int], int]] = {}
        self.by(keys)

    def by(self, keys: Sequence[Key]) -> _Scan:
        """The same pass, with sums by these keys from here on."""
        self._cells = math.prod(key.size for key in keys)
        self._cell = self._of_cells(keys) if keys else None
        return self

    def totals(self, terms: Sequence[Value]) -> NDArray[Any]:
        if self._cell is None:
            products = self._products(terms)
            return _narrow([[products.get(id(term)) or self._total(term)] for term in terms])
        return _narrow([self._grouped(term) for term in terms])

    def places(self, value: Value, at: int, many: int, size: int) -> Ints:
        """Where each row that is in a cell counts on the long grid of cells, values and integers."""
        found = self.value(value)
        cell = np.zeros(self._arrays.rows, dtype=np.int64) if self._cell is None else self._cell
        inside = (cell < self._cells) & (found >= 0) & (found < size)
        here: Ints = (cell[inside] * many + at) * size + found[inside]
        return here

    def _of_cells(self, keys: Sequence[Key]) -> Ints:
        """The number of each row's cell, and one past the last for rows that are in none."""
        cell, inside = np.zeros(self._arrays.rows, dtype=np.int64), np.ones(self._arrays.rows, dtype=bool)
        for key in keys:
            part = self.value(key.value)
            inside &= (part >= 0) & (part < key.size)
            cell = cell * key.size + part
        return np.where(inside, cell, self._cells)

    def _total(self, term: Value) -> int:
        if term is COUNT:
            return self._arrays.rows
        if isinstance(term, Column) and self._reach(term) * self._arrays.rows < _EXACT:
            return int(self._arrays.column(term).sum())
        return _sum(self.value(term), self._reach(term))

    def _factors(self, term: Value) -> tuple[tuple[Value, int], tuple[Value, int]] | None:
        """The two parts of a product that doubles sum exactly, each with the constant it is multiplied by."""
        if not isinstance(term, Multiply):
            return None
        one, other = self._factor(term.left), self._factor(term.right)
        reach = one[1] * other[1]
        return (one[0], other[0]) if reach * self._arrays.rows < _EXACT else None

    def _factor(self, part: Value) -> tuple[tuple[Value, int], int]:
        """A part, the constant it is multiplied by, and how far both reach."""
        found = self._parts.get(id(part))
        if found is None:
            self._held.append(part)
            inner, number = _factored(part)
            found = self._parts[id(part)] = (inner, number), abs(number) * self._reach(inner)
        return found

    def _products(self, every: Sequence[Value]) -> dict[int, int]:
        """Sums of products of two parts, all of them as one product of matrices, by the term's identity."""
        found = [(term, pair) for term in every if (pair := self._factors(term)) is not None]
        terms, pairs = [term for term, _ in found], [pair for _, pair in found]
        places: dict[int, int] = {}
        parts: list[Doubles] = []
        for part, _ in itertools.chain.from_iterable(pairs):
            if id(part) not in places:
                places[id(part)] = len(parts)
                parts.append(self._double(part))
        if not parts:
            return {}
        sums = self._by_all(stacked(parts), pairs, places)
        return {
            id(term): int(sums[places[id(one)], places[id(other)]]) * first * second
            for term, ((one, first), (other, second)) in zip(terms, pairs, strict=True)
        }

    def _by_all(self, parts: Doubles, pairs: Any, places: dict[int, int]) -> Doubles:
        """Every part by every other; where one part meets all others, by that one alone."""
        right = {places[id(other)] for _, (other, _) in pairs}
        if len(right) > 1:
            found: Doubles = parts @ parts.T
            return found
        (one,) = right
        found = np.zeros((len(parts), len(parts)))
        found[:, one] = parts @ parts[one]
        return found

    def _double(self, part: Value) -> Doubles:
        return self._arrays.column(part) if isinstance(part, Column) else self.value(part).astype(np.float64)

    def _grouped(self, term: Value) -> Any:
        size = self._cells + 1
        if term is COUNT:
            return np.bincount(self._cell, minlength=size)[:-1]  # type: ignore[arg-type]
        values = self.value(term)
        if self._reach(term) * self._arrays.rows < _EXACT:
            sums = np.bincount(self._cell, weights=values, minlength=size)[:-1]  # type: ignore[arg-type]
            return sums.astype(np.int64)
        return [_sum(values[self._cell == cell], self._reach(term)) for cell in range(self._cells)]

    def _reach(self, term: Value) -> int:
        if id(term) in self._reaches:
            return self._reaches[id(term)]
        self._held.append(term)
        reach = max(map(abs, span(term, self._arrays.spans, self._spans)))
        if reach > _LARGEST:
            raise OverflowError("a value lies beyond 2^62")
        self._reaches[id(term)] = reach
        return reach

    # ---- values and conditions ----

    def value(self, value: Value) -> Ints:
        if id(value) not in self._values:
            self._held.append(value)
            self._reach(value)
            self._values[id(value)] = self._computed(value)
        found: Ints = self._values[id(value)]
        return found

    def _computed(self, value: Value) -> Any:
        match value:
            case Column():
                return self._arrays.column(value).astype(np.int64)
            case Constant(int(number)):
                return np.full(self._arrays.rows, number, dtype=np.int64)
            case Lookup(of, entries):
                return np.array(entries, dtype=np.int64)[self.value(of)]
            case Choose(condition, then, otherwise):
                return np.where(self.condition(condition), self.value(then), self.value(otherwise))
            case Add() if self._is_linear(value):
                return self._combined(value)
            case Add() | Multiply() | Divide() | Least() | Greatest():
                right = value.right.value if isinstance(value.right, Constant) else self.value(value.right)
                return _OF_TWO[type(value)](self.value(value.left), right)
        raise TypeError(type(value).__name__)

    def _is_linear(self, value: Add) -> bool:
        """Whether it is a sum of at least four columns with public weights, exact in doubles on the way."""
        weights = _weights(value)
        if weights is None or len(weights) <= 4:
            return False
        return self._reach(value) + abs(weights.get(None, 0)) < _EXACT // 4

    def _combined(self, value: Add) -> Ints:
        """As one product of a vector and a matrix."""
        weights = dict(_weights(value) or {})
        constant = weights.pop(None, 0)
        columns = tuple(name for name in weights if name is not None)
        if columns not in self._stacks:
            self._stacks[columns] = stacked([self._arrays.column(name) for name in columns])
        found = np.array([float(weights[name]) for name in columns]) @ self._stacks[columns]
        return found.astype(np.int64) + constant

    def condition(self, predicate: Predicate) -> Any:
        if id(predicate) not in self._values:
            self._held.append(predicate)
            self._values[id(predicate)] = self._decided(predicate)
        return self._values[id(predicate)]

    def _decided(self, predicate: Predicate) -> Any:
        match predicate:
            case AtLeast(part, bound):
                return self.value(part) >= bound
            case AtMost(part, bound):
                return self.value(part) <= bound
            case Among(part, values):
                return np.isin(self.value(part), values)
            case Less(left, right):
                return self.value(left) < self.value(right)
            case Same(left, right):
                return self.value(left) == self.value(right)
            case Not(part):
                return ~self.condition(part)
            case Every(parts):
                return np.logical_and.reduce([self.condition(part) for part in parts])
            case Some(parts):
                return np.logical_or.reduce([self.condition(part) for part in parts])
        raise TypeError(type(predicate).__name__)


def stacked(rows: Sequence[Doubles]) -> Doubles:
    """As one matrix; rows of one that lie there in this order are not copied."""
    base: Any = rows[0].base
    if (
        isinstance(base, np.ndarray)
        and base.ndim == 2
        and base.size
        and all(_is_row(row, base) for row in rows)
    ):
        first, *others = [(row.ctypes.data - base.ctypes.data) / base.strides[0] for row in rows]
        if [first, *others] == list(range(int(first), int(first) + len(rows))):
            found: Doubles = base[int(first) : int(first) + len(rows)]
            return found
    return np.array(rows)


def _is_row(row: Doubles, base: NDArray[Any]) -> bool:
    return row.base is base and row.shape == base.shape[1:] and row.strides == base.strides[1:]


def _factored(part: Value) -> tuple[Value, int]:
    """A part, and the constant it is multiplied by."""
    match part:
        case Multiply(inner, Constant(int(number))):
            return inner, number
    return part, 1


def _weights(value: Value) -> dict[Column | None, int] | None:
    """Of a sum of columns, the weight of each, and under None what is added; None where it is no such sum."""
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


def _sum(values: Ints, reach: int) -> int:
    """In 64 bits, in parts so short that none overflows."""
    longest = max(1, _LARGEST // max(1, reach))
    if len(values) <= longest:
        return int(values.sum())
    return sum(int(values[at : at + longest].sum()) for at in range(0, len(values), longest))


def _narrow(sums: list[Any]) -> NDArray[Any]:
    """64-bit integers where all fit, else Python's own."""
    try:
        return np.array(sums, dtype=np.int64)
    except OverflowError:
        return np.array([[int(each) for each in row] for row in sums], dtype=object)
