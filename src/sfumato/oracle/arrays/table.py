"""One's own arrays as a table of integers, and sums over it: what an engine would answer, computed by NumPy.

No value is missing here, since own arrays were made total before. Doubles are used only where they hold every
integer on the way exactly.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.kernels.column_facts import EXACT, LARGEST, ColumnFacts
from sfumato.engines.kernels.row_windows import RowWindow
from sfumato.engines.value_ranges import ValueRanges
from sfumato.oracle.arrays.integer_matrix import IntegerMatrix
from sfumato.oracle.arrays.whole_columns import WholeColumns, stack_rows
from sfumato.oracle.blocks import (
    COUNT,
    Add,
    CellKey,
    Column,
    Constant,
    HistogramCounts,
    Multiply,
    Value,
    value_range,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Doubles = NDArray[np.float64]
    Factor = tuple[Value, int]

_ROWS = 2**13
"""Rows that are computed at a time, so that they stay in the processor's cache. For speed alone."""


class ArrayTable:
    """Columns of whole numbers, held in doubles, with the bounds they were clipped to."""

    def __init__(
        self,
        columns: Mapping[Column, Doubles],
        ranges: Mapping[Column, tuple[int, int]],
        matrices: Sequence[IntegerMatrix] = (),
    ) -> None:
        self._columns = columns
        self._matrices = tuple(matrices)
        self.ranges = ranges
        self.rows = matrices[0].rows if matrices else len(next(iter(columns.values())))

    def sums(self, keys: Sequence[CellKey], terms: Sequence[Value]) -> NDArray[Any]:
        """Return one row a term and one column a cell; a row whose key is outside its cells is in none."""
        return self.histograms([keys], terms)[0] if keys else _TableSums(self).totals(terms)

    def histograms(
        self, groupings: Sequence[Sequence[CellKey]], terms: Sequence[Value]
    ) -> list[NDArray[Any]]:
        """Return the sums by each of several groupings; what they share is computed once."""
        facts, found = self.find_facts(), [_GroupedSums(keys, len(terms)) for keys in groupings]
        for window in self._windows(facts):
            for each in found:
                each.add(window, facts, terms, self.rows)
        return [narrow_sums(each.sums) for each in found]

    def tally(self, keys: Sequence[CellKey], values: Sequence[Value], size: int) -> HistogramCounts:
        """Return how often each integer below `size` occurs in each cell, for each value."""
        window = RowWindow(self.find_facts(), WholeColumns(self.column), slice(0, self.rows))
        cell, cells = _cells(window, keys), math.prod(key.size for key in keys)
        places = []
        for at, value in enumerate(values):
            found = window.integers(value)
            inside = (cell < cells) & (found >= 0) & (found < size)
            # One number for cell, value and integer together, in the order that engines answer in.
            places.append((cell[inside] * len(values) + at) * size + found[inside])
        return HistogramCounts(*np.unique(np.concatenate(places), return_counts=True), size)

    def with_values(self, values: Sequence[Value]) -> tuple[ArrayTable, list[Value]]:
        """Return a table with these values as further columns, and those columns."""
        first, found = len(self._columns), self.compute(values)
        names = [Column(3, f"v{first + place}") for place in range(len(values))]
        columns = dict(zip(names, found, strict=True))
        ranges = {name: value_range(value, self.ranges) for name, value in zip(names, values, strict=True)}
        return self.extend(columns, ranges), list(names)

    def compute(self, values: Sequence[Value]) -> Doubles:
        """Return values of all rows, one row each."""
        found = np.empty((len(values), self.rows))
        for window in self._windows(self.find_facts()):
            for place, value in enumerate(values):
                found[place, window.rows] = window.value(value)
        return found

    def extend(
        self, columns: Mapping[Column, Doubles], ranges: Mapping[Column, tuple[int, int]]
    ) -> ArrayTable:
        """Return a table with these further columns and their ranges."""
        return ArrayTable({**self._columns, **columns}, {**self.ranges, **ranges}, self._matrices)

    def beside(
        self,
        columns: Mapping[Column, Doubles],
        ranges: Mapping[Column, tuple[int, int]],
        matrix: IntegerMatrix,
    ) -> ArrayTable:
        """Return a table with these further columns, of which the matrix holds some."""
        return ArrayTable({**self._columns, **columns}, ranges, (*self._matrices, matrix))

    def column(self, column: Column) -> Doubles:
        """Return one column of all rows."""
        for matrix in self._matrices:
            if column in matrix.places:
                return matrix.column(column)
        return self._columns[column]

    def find_matrix(self, columns: Iterable[Any]) -> IntegerMatrix | None:
        """Return the matrix that holds all of these and is not laid out column by column, if there is one."""
        wanted = list(columns)
        for matrix in self._matrices:
            if not matrix.has_columns and all(column in matrix.places for column in wanted):
                return matrix
        return None

    def matrix(self, columns: Sequence[Column]) -> IntegerMatrix:
        """Return these columns as a matrix, in this order."""
        for matrix in self._matrices:
            if list(matrix.places) == list(columns):
                return matrix
        stack = stack_rows([self.column(each) for each in columns])
        return IntegerMatrix(columns, self.rows, lambda rows, out: np.copyto(out, stack[:, rows].T))

    def find_facts(self) -> ColumnFacts:
        """Return what is public about values over these columns."""
        return ColumnFacts(ValueRanges(self.ranges))

    def _windows(self, facts: ColumnFacts) -> Iterator[RowWindow]:
        columns = WholeColumns(self.column)
        # One of no rows too, so that whatever is wrong with a value is found in every table.
        for at in range(0, max(1, self.rows), _ROWS):
            yield RowWindow(facts, columns, slice(at, min(self.rows, at + _ROWS)))


def _cells(window: RowWindow, keys: Sequence[CellKey]) -> Ints:
    """Return the number of each row's cell, and one past the last for rows that are in none."""
    cell, inside = np.zeros(window.count, dtype=np.int64), np.ones(window.count, dtype=bool)
    for key in keys:
        part, missing = window.integers(key.value), window.missing(key.value)
        inside &= (part >= 0) & (part < key.size)
        if missing is not None:
            inside &= ~missing
        cell = cell * key.size + part
    return np.where(inside, cell, math.prod(key.size for key in keys))


class _GroupedSums:
    """The sums of terms in every cell, over the rows that were added so far."""

    def __init__(self, keys: Sequence[CellKey], terms: int) -> None:
        self._keys = keys
        self._cells = math.prod(key.size for key in keys)
        self.sums: list[Any] = [np.zeros(self._cells, dtype=np.int64) for _ in range(terms)]

    def add(self, window: RowWindow, facts: ColumnFacts, terms: Sequence[Value], rows: int) -> None:
        """Add some of so many `rows` in all."""
        cell = _cells(window, self._keys)
        for at, term in enumerate(terms):
            # Every partial sum is an integer below 2^53, which doubles add without rounding.
            exact = facts.reach(term) * rows < EXACT
            self.sums[at] = self.sums[at] + (
                self._sum_doubles(window, cell, term)
                if exact
                else self._sum_integers(window, cell, term, facts)
            )

    def _sum_doubles(self, window: RowWindow, cell: Ints, term: Value) -> Ints:
        weights = None if term is COUNT else window.present(term)
        # The last cell is for rows that are in none, and is cut off.
        found = np.bincount(cell, weights=weights, minlength=self._cells + 1)
        return found[: self._cells].astype(np.int64)

    def _sum_integers(self, window: RowWindow, cell: Ints, term: Value, facts: ColumnFacts) -> NDArray[Any]:
        """Return sums in Python's own integers, which have no largest one."""
        values, reach = window.present(term).astype(np.int64, copy=False), facts.reach(term)
        return np.array([_sum(values[cell == each], reach) for each in range(self._cells)], dtype=object)


class _TableSums:
    """Sums over all rows; those of products of two values are computed as one product of matrices."""

    def __init__(self, arrays: ArrayTable) -> None:
        self._arrays = arrays
        self._facts = arrays.find_facts()
        self._rows = arrays.rows
        self._window = RowWindow(self._facts, WholeColumns(arrays.column), slice(0, arrays.rows))
        self._parts: dict[int, tuple[Factor, int]] = {}
        self._matrix_sums: dict[IntegerMatrix, list[float]] = {}

    def totals(self, terms: Sequence[Value]) -> NDArray[Any]:
        """Return the sum of each term, one row each."""
        # Learners shift squares by a constant, which would hide that they are products.
        moved = [_split_constant(term) for term in terms]
        products = self._products([term for term, _ in moved])
        return narrow_sums(
            [
                [(products[id(term)] if id(term) in products else self._total(term)) + self._rows * more]
                for term, more in moved
            ]
        )

    def _total(self, term: Value) -> int:
        if term is COUNT:
            return self._rows
        if self._facts.reach(term) * self._rows < EXACT:
            return self._exact(term)
        return _sum(self._window.present(term).astype(np.int64, copy=False), self._facts.reach(term))

    def _exact(self, term: Value) -> int:
        matrix = self._arrays.find_matrix([term]) if isinstance(term, Column) else None
        if matrix is None:
            return int(self._window.present(term).sum())
        # All columns of a matrix are summed at once, before any is laid out for itself.
        if matrix not in self._matrix_sums:
            self._matrix_sums[matrix] = matrix.sums().tolist()
        return int(self._matrix_sums[matrix][matrix.places[term]])

    def _factors(self, term: Value) -> tuple[Factor, Factor] | None:
        """Return the two factors of a product that doubles sum exactly, each with its constant."""
        if not isinstance(term, Multiply):
            return None
        one, other = self._factor(term.left), self._factor(term.right)
        # Both with their constants, so that the sum is exact before and after these are multiplied in.
        reach = one[1] * other[1]
        return (one[0], other[0]) if reach * self._rows < EXACT else None

    def _factor(self, part: Value) -> tuple[Factor, int]:
        """Return a factor, the constant it is multiplied by, and how far from 0 both together can be."""
        found = self._parts.get(id(part))
        if found is None:
            inner, number = _split_factor(part)
            found = self._parts[id(part)] = (inner, number), abs(number) * self._facts.reach(inner)
        return found

    def _products(self, every: Sequence[Value]) -> dict[int, int]:
        """Return the sums of products of two values, by the term's identity."""
        found = [(term, pair) for term in every if (pair := self._factors(term)) is not None]
        terms, pairs = [term for term, _ in found], [pair for _, pair in found]
        parts = list({id(part): part for part, _ in itertools.chain.from_iterable(pairs)}.values())
        if not parts:
            return {}
        # Parts are told apart by identity: comparing deep values costs more than summing them.
        places, sums = self._by_all(parts, {id(other) for _, (other, _) in pairs})
        return {
            id(term): int(sums[places[id(one)]][places[id(other)]]) * first * second
            for term, ((one, first), (other, second)) in zip(terms, pairs, strict=True)
        }

    def _by_all(self, parts: list[Value], right: set[int]) -> tuple[dict[int, int], list[list[float]]]:
        """Return where each factor stands, and the sums of their products.

        Where all products are with one factor, only those are computed.
        """
        matrix = self._arrays.find_matrix(parts)
        if matrix is not None:
            return {id(part): matrix.places[part] for part in parts}, matrix.products().tolist()
        places, rows = (
            {id(part): at for at, part in enumerate(parts)},
            stack_rows(list(map(self._double, parts))),
        )
        if len(right) > 1:
            return places, (rows @ rows.T).tolist()
        # A product with one vector, such as the target, takes a fraction of the time of all by all.
        (one,) = (places[each] for each in right)
        found = np.zeros((len(parts), len(parts)))
        found[:, one] = rows @ rows[one]
        return places, found.tolist()

    def _double(self, part: Value) -> Doubles:
        if isinstance(part, Column):
            return self._arrays.column(part)
        return self._window.present(part).astype(np.float64, copy=False)


def _split_constant(term: Value) -> tuple[Value, int]:
    """Return a term, and the constant that is added to it in every row."""
    match term:
        case Add(inner, Constant(int(number))):
            return inner, number
    return term, 0


def _split_factor(part: Value) -> Factor:
    """Return a value, and the constant it is multiplied by."""
    match part:
        case Multiply(inner, Constant(int(number))):
            return inner, number
    return part, 1


def _sum(values: Ints, reach: int) -> int:
    """Return a sum, added up in 64 bits in parts so short that none overflows."""
    longest = max(1, LARGEST // max(1, reach))
    if len(values) <= longest:
        return int(values.sum())
    return sum(int(values[at : at + longest].sum()) for at in range(0, len(values), longest))


def narrow_sums(sums: list[Any]) -> NDArray[Any]:
    """Return 64-bit integers where all fit, else Python's own."""
    try:
        return np.array(sums, dtype=np.int64)
    except OverflowError:
        return np.array([[int(each) for each in row] for row in sums], dtype=object)
