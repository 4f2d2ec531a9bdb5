"""The sums of a program, computed by NumPy over columns that an engine reads in batches.

The SQL of a fit's round can be long: planning it takes seconds, however few rows there are. Here a value that
many terms share is computed once, a histogram is one pass over its rows, and sums of products are products of
matrices. The integers are those that the SQL of the program gives.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.kernels.column_facts import EXACT, LARGEST
from sfumato.engines.kernels.row_windows import RowWindow
from sfumato.engines.program import CellKey, Counted, Total
from sfumato.engines.values import Add, Among, Choose, Constant, Every, Multiply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.engines.kernels.column_facts import ColumnFacts
    from sfumato.engines.kernels.held_rows import RowBatch
    from sfumato.engines.kernels.row_windows import RowColumns
    from sfumato.engines.program import CellSums, Term
    from sfumato.engines.values import Value

    Ints = NDArray[np.int64] | NDArray[np.int32]
    Sums = NDArray[Any]

_WINDOW_BYTES = 2**25
"""Bytes for the values of the rows that are computed at a time. For speed and memory alone."""
_MOST_ROWS, _FEWEST_ROWS = 2**13, 2**8
_MOST_CELLS = 2**20
"""Cells in which one term is summed at once. For speed alone."""
_ZERO = Constant(0)
_LOW = 31
"""Bits of the lower part of a wide integer: doubles add up both parts of so many rows without rounding."""


class SumsOfCells:
    """Adds up the terms of a program in every cell, one batch of rows after the other."""

    def __init__(self, program: CellSums, facts: ColumnFacts, layers: Sequence[Value], parts: int) -> None:
        """Begin without rows. `layers` are values of computed columns, the innermost first, and `parts` is
        how many different values there are.
        """
        self._program, self._facts, self._layers = program, facts, layers
        self._size = min(_MOST_ROWS, max(_FEWEST_ROWS, _WINDOW_BYTES // (8 * parts)))
        self._rows = 0
        self._tasks = _list_tasks(program, facts)

    def add(self, batch: RowBatch, columns: RowColumns, *, keeps: bool) -> None:
        """Add the rows of a batch, and keep computed columns beside it if it is to be used again."""
        kept = {id(value): self._empty(value, batch.rows) for value in self._layers} if keeps else {}
        for start in range(0, batch.rows, self._size):
            window = RowWindow(self._facts, columns, slice(start, min(batch.rows, start + self._size)))
            self._add(window, kept)
        batch.computed.update(
            {
                known: (numbers, missing if missing.any() else None)
                for known, (numbers, missing) in kept.items()
            }
        )

    def _empty(self, value: Value, rows: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        kind = np.int32 if self._facts.reach(value) < 2**31 else self._facts.dtype(value)
        return np.empty(rows, dtype=kind), np.zeros(rows, dtype=bool)

    def _add(self, window: RowWindow, kept: Mapping[int, tuple[NDArray[Any], NDArray[np.bool_]]]) -> None:
        self._rows += window.count
        # In order, so that no value is computed by a call within a call within a call for every layer.
        for value in self._layers:
            numbers, missing = window.value(value), window.missing(value)
            if kept:
                kept[id(value)][0][window.rows] = numbers
                kept[id(value)][1][window.rows] = False if missing is None else missing
        cells = _WindowCells(window, self._program.keys)
        for task in self._tasks:
            task.add(cells, self._rows)

    def finish(self) -> Sums:
        """Return one row a term and one column a cell: 64-bit integers where all fit, else Python's own."""
        found: dict[int, Sums] = {}
        for task in self._tasks:
            found |= task.finish()
        return np.array([found[place] for place in range(len(self._program.terms))])


class _WindowCells:
    """The rows of a window, and the cell of each."""

    def __init__(self, window: RowWindow, keys: tuple[CellKey, ...]) -> None:
        self.window = window
        self._keys = keys
        self._located: dict[tuple[int, ...], tuple[Ints, int]] = {}

    def locate(self, more: tuple[CellKey, ...]) -> tuple[Ints, int]:
        """Return the number of each row's cell by the program's keys and more, and how many there are.

        Rows that are in none have the number after the last.
        """
        known = tuple(id(key.value) for key in more)
        if known not in self._located:
            self._located[known] = self._locate((*self._keys, *more))
        return self._located[known]

    def _locate(self, keys: tuple[CellKey, ...]) -> tuple[Ints, int]:
        window, facts = self.window, self.window.facts
        cells = math.prod(key.size for key in keys)
        cell = np.zeros(window.count, dtype=np.int32)
        outside = np.zeros(window.count, dtype=bool)
        for key in keys:
            part = window.value(key.value)
            if not facts.is_inside(key.value, key.size - key.nulls):
                missing = window.missing(key.value)
                missing = np.zeros(window.count, dtype=bool) if missing is None else missing
                beyond = (part < 0) | (part >= key.size - key.nulls)
                # The last place of a key is for rows where it is missing, if it has one for them.
                outside |= beyond & ~missing if key.nulls else beyond | missing
                part = np.where(missing, key.size - 1, np.where(beyond, 0, part))
            cell *= np.int32(key.size)
            cell += part.astype(np.int32)
        cell[outside] = cells
        return cell, cells


# ---- what is summed ----------------------------------------------------------------------------------------


def _list_tasks(program: CellSums, facts: ColumnFacts) -> list[_Histogram | _Products]:
    """Return tasks that together sum every term of a program."""
    products, others = [], []
    for place, term in enumerate(program.terms):
        pair = None if program.keys else _ProductTerm.find(place, term, facts)
        if pair is None:
            others.append((place, term))
        else:
            products.append(pair)
    tasks: list[_Histogram | _Products] = list(_list_histograms(program, others, facts))
    return [*tasks, _Products(products)] if products else tasks


def _list_histograms(
    program: CellSums, terms: Iterable[tuple[int, Term]], facts: ColumnFacts
) -> Iterable[_Histogram]:
    """Return one histogram for all terms that differ only in the one cell that they count in."""
    found: dict[tuple[int, ...], list[tuple[int, _CellTerm]]] = defaultdict(list)
    for place, term in terms:
        known = _CellTerm.find(term)
        found[known.identity].append((place, known))
    for each in found.values():
        first = each[0][1]
        sizes = [1 + max(term.cell[at] for _, term in each) for at in range(len(first.values))]
        if program.cells * math.prod(sizes) > _MOST_CELLS:
            # Cells that lie far apart are summed one by one.
            for place, _ in each:
                yield _Histogram(_CellTerm.of(program.terms[place]), {place: 0}, (), program, facts)
            continue
        keys = tuple(CellKey(value, size) for value, size in zip(first.values, sizes, strict=True))
        own = {place: _flat(term.cell, sizes) for place, term in each}
        yield _Histogram(first.term, own, keys, program, facts)


def _flat(cell: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the number of a cell, the last key fastest."""
    number = 0
    for place, size in zip(cell, sizes, strict=True):
        number = number * size + place
    return number


@dataclass(frozen=True, slots=True)
class _CellTerm:
    """A term that counts in one cell of some values, and adds 0 elsewhere; of no values, everywhere."""

    term: Value | None
    """None counts rows."""
    values: tuple[Value, ...] = ()
    cell: tuple[int, ...] = ()

    @property
    def identity(self) -> tuple[int, ...]:
        """By identity, since comparing deep values takes longer than summing them."""
        return (id(self.term), *map(id, self.values))

    @classmethod
    def find(cls, term: Term) -> _CellTerm:
        match term:
            case Counted():
                return cls(None)
            case Total(Choose(Every(parts), then, otherwise)) if otherwise == _ZERO and parts:
                alone = [each for each in parts if isinstance(each, Among) and len(each.values) == 1]
                cell = tuple(place for each in alone for place in each.values)
                if len(alone) == len(parts) and min(cell) >= 0:
                    return cls(then, tuple(each.part for each in alone), cell)
        return cls(cls.of(term))

    @staticmethod
    def of(term: Term) -> Value | None:
        """Return what is summed in every cell; None counts rows."""
        if not isinstance(term, Counted | Total):
            raise TypeError(type(term).__name__)
        return term.value if isinstance(term, Total) else None


class _Histogram:
    """One term, summed in every cell of the program and of keys of its own."""

    def __init__(
        self,
        term: Value | None,
        own: dict[int, int],
        keys: tuple[CellKey, ...],
        program: CellSums,
        facts: ColumnFacts,
    ) -> None:
        """Begin without rows. `own` is the cell of the own keys for each term, by its place."""
        self._term, self._keys, self._own, self._cells = term, keys, own, program.cells
        self._everywhere = not program.keys and not keys
        self._reach = 1 if term is None else facts.reach(term)
        self._sums: Sums = np.zeros(program.cells * math.prod(key.size for key in keys), dtype=np.int64)

    def add(self, cells: _WindowCells, rows: int) -> None:
        """Add a window, the last of so many rows."""
        if self._reach * rows >= LARGEST and self._sums.dtype != object:
            self._sums = self._sums.astype(object)
        values = None if self._term is None else cells.window.present(self._term)
        if self._everywhere and values is not None and self._reach * cells.window.count < EXACT:
            self._sums += int(values.sum())
            return
        number, size = cells.locate(self._keys)
        # The last cell is for rows that are in none, and is cut off.
        if values is None or self._reach * cells.window.count < EXACT:
            self._sums += np.bincount(number, weights=values, minlength=size + 1)[:size].astype(np.int64)
        else:
            self._sums = self._sums + _sum_wide(number, values.astype(np.int64), size)

    def finish(self) -> dict[int, Sums]:
        """Return the sums of each term by its place."""
        table = self._sums.reshape(self._cells, -1)
        return {place: table[:, own] for place, own in self._own.items()}


def _sum_wide(number: Ints, values: NDArray[np.int64], size: int) -> NDArray[np.object_]:
    """Return sums of integers that doubles cannot add: each as a high part and a low one."""
    parts = values >> _LOW, values & (2**_LOW - 1)
    high, low = (np.bincount(number, weights=each, minlength=size + 1)[:size] for each in parts)
    return np.asarray(high.astype(np.int64).astype(object) * 2**_LOW + low.astype(np.int64), dtype=object)


@dataclass(frozen=True, slots=True)
class _ProductTerm:
    """A term that is a product of two values and a number, plus a constant."""

    place: int
    product: Multiply
    left: Value
    right: Value
    times: int
    constant: int

    @classmethod
    def find(cls, place: int, term: Term, facts: ColumnFacts) -> _ProductTerm | None:
        """Return a term as a product whose sums over a window doubles hold exactly, or None."""
        match term:
            case Total(Multiply() as product):
                constant = 0
            case Total(Add(Multiply() as product, Constant(int(constant)))):
                pass
            case _:
                return None
        (left, one), (right, other) = _split_factor(product.left), _split_factor(product.right)
        exact = facts.reach(left) * facts.reach(right) * _MOST_ROWS < EXACT
        return cls(place, product, left, right, one * other, constant) if exact else None


def _split_factor(part: Value) -> tuple[Value, int]:
    """Return a value, and the constant it is multiplied by."""
    match part:
        case Multiply(inner, Constant(int(number))):
            return inner, number
    return part, 1


class _Products:
    """Sums of products over all rows, as the product of a matrix of left factors and one of right ones."""

    def __init__(self, terms: Sequence[_ProductTerm]) -> None:
        self._terms = terms
        self._left = {id(each.left): each.left for each in terms}
        self._right = {id(each.right): each.right for each in terms}
        self._sums: Sums = np.zeros((len(self._left), len(self._right)), dtype=object)
        self._present = dict.fromkeys((each.place for each in terms if each.constant), 0)

    def add(self, cells: _WindowCells, rows: int) -> None:
        """Add a window. A product with a missing factor is missing, and adds nothing."""
        window = cells.window
        left, right = (
            np.array([window.present(part) for part in each.values()], dtype=np.float64)
            for each in (self._left, self._right)
        )
        self._sums += (left @ right.T).astype(np.int64)
        for each in self._terms:
            if each.constant:
                missing = window.missing(each.product)
                self._present[each.place] += window.count - (0 if missing is None else int(missing.sum()))

    def finish(self) -> dict[int, Sums]:
        """Return the sums of each term by its place."""
        rows = {known: at for at, known in enumerate(self._left)}
        columns = {known: at for at, known in enumerate(self._right)}
        found = {}
        for each in self._terms:
            total = int(self._sums[rows[id(each.left)], columns[id(each.right)]]) * each.times
            total += each.constant * self._present.get(each.place, 0)
            found[each.place] = np.array([total], dtype=np.int64 if abs(total) < LARGEST else object)
        return found
