"""Sets of items as a table of 0 and 1 that is never laid out: only what is held takes memory.

Sums over all items, and of all items, go through what is held; other values are computed from the few columns
that they use.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.kernels.column_facts import EXACT, split_sum
from sfumato.engines.kernels.row_windows import RowWindow
from sfumato.oracle.arrays.table import ArrayTable, narrow_sums
from sfumato.oracle.arrays.whole_columns import WholeColumns
from sfumato.oracle.blocks import Column, Multiply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import CellKey, Value

    Ints = NDArray[np.int64]
    Doubles = NDArray[np.float64]

_LAID_OUT = 128
"""Columns of items that are kept laid out for the next question. For speed alone."""


@dataclass(frozen=True, slots=True)
class HeldItems:
    """Which sets hold which items: pairs of places, each once, in the order of the items."""

    sets: int
    items: int
    at_set: Ints
    at_item: Ints

    @classmethod
    def of(cls, sets: int, items: int, at_set: Any, at_item: Any) -> HeldItems:
        """Return what pairs of places say, in whatever order and however often they are listed."""
        flat = np.unique(
            np.asarray(at_item, dtype=np.int64) * max(1, sets) + np.asarray(at_set, dtype=np.int64)
        )
        return cls(sets, items, *reversed(np.divmod(flat, max(1, sets))))

    def lay_out(self, item: int) -> Doubles:
        """Return 1 for each set that holds an item, else 0."""
        found = np.zeros(self.sets)
        first, last = np.searchsorted(self.at_item, [item, item + 1])
        found[self.at_set[first:last]] = 1.0
        return found

    def sum_by_set(self, weights: Doubles) -> Doubles:
        """Return the sum of the weights of the items that each set holds."""
        found = np.bincount(self.at_set, weights=weights[self.at_item], minlength=self.sets)
        return found.astype(np.float64, copy=False)

    def sum_by_item(self, weights: Doubles) -> Doubles:
        """Return the sum of the weights of the sets that hold each item."""
        found = np.bincount(self.at_item, weights=weights[self.at_set], minlength=self.items)
        return found.astype(np.float64, copy=False)


class ItemSetTable(ArrayTable):
    """Sets of items, and further columns that were computed of them."""

    def __init__(
        self,
        held: HeldItems,
        names: Sequence[Column],
        columns: Mapping[Column, Doubles],
        ranges: Mapping[Column, tuple[int, int]],
    ) -> None:
        self._columns, self._matrices = columns, ()
        self.ranges, self.rows = ranges, held.sets
        self._held = held
        self._places = {name: place for place, name in enumerate(names)}
        self._laid_out: OrderedDict[Column, Doubles] = OrderedDict()

    def column(self, column: Column) -> Doubles:
        if column not in self._places:
            return self._columns[column]
        if column not in self._laid_out:
            self._laid_out[column] = self._held.lay_out(self._places[column])
        self._laid_out.move_to_end(column)
        if len(self._laid_out) > _LAID_OUT:
            self._laid_out.popitem(last=False)
        return self._laid_out[column]

    def extend(
        self, columns: Mapping[Column, Doubles], ranges: Mapping[Column, tuple[int, int]]
    ) -> ItemSetTable:
        known = {**self._columns, **columns}
        return ItemSetTable(self._held, list(self._places), known, {**self.ranges, **ranges})

    def compute(self, values: Sequence[Value]) -> Doubles:
        found = [self._sum_items(value) for value in values]
        others = iter(super().compute([v for v, each in zip(values, found, strict=True) if each is None]))
        return np.array([next(others) if each is None else each for each in found]).reshape(
            len(values), self.rows
        )

    def _sum_items(self, value: Value) -> Doubles | None:
        """Return a weighted sum of items for each set; None for other values."""
        parts = split_sum(value)
        if parts is None or not all(part in self._places for part, _ in parts[1].values()):
            return None
        weights = np.zeros(self._held.items)
        for part, weight in parts[1].values():
            if isinstance(part, Column):
                weights[self._places[part]] = weight
        if np.abs(weights).sum() + abs(parts[0]) >= EXACT:
            return None
        return self._held.sum_by_set(weights) + parts[0]

    def sums(self, keys: Sequence[CellKey], terms: Sequence[Value]) -> NDArray[Any]:
        if keys:
            return super().sums(keys, terms)
        known = self._sums_by_item(terms)
        others = [term for term in terms if id(term) not in known]
        rest = iter(super().sums((), others).tolist() if others else ())
        return narrow_sums([[known[id(term)]] if id(term) in known else next(rest) for term in terms])

    def _sums_by_item(self, terms: Sequence[Value]) -> dict[int, int]:
        """Return the sums of terms that are an item, or an item times a value, by the term's identity."""
        window = RowWindow(self.find_facts(), WholeColumns(self.column), slice(0, self.rows))
        sums: dict[int, list[float]] = {}
        found = {}
        for term in terms:
            item, factor = (term.left, term.right) if isinstance(term, Multiply) else (term, None)
            if not isinstance(item, Column) or item not in self._places:
                continue
            if factor is not None and window.facts.reach(factor) * max(1, self.rows) >= EXACT:
                continue
            if id(factor) not in sums:
                weights = np.ones(self.rows) if factor is None else window.present(factor)
                sums[id(factor)] = self._held.sum_by_item(weights).tolist()
            found[id(term)] = int(sums[id(factor)][self._places[item]])
        return found
