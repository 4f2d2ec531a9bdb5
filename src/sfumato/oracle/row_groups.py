"""Rows as the cells of their columns, those that are alike counted, for mechanisms over many marginals.

An engine groups the rows by their cells. A mechanism that sees the groups proves its own price; here it only
becomes a step that the gate charges for, runs and releases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.curator.lower.computed import sum_values
from sfumato.curator.plan.caveats import clamped, describe_truncation
from sfumato.curator.plan.priced import Plan
from sfumato.engines.program import Counted, IntegerKeys, KeyedSums
from sfumato.oracle.blocks import Constant, Multiply
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.plan.spend import Spend
    from sfumato.engines.program import SumsByKey
    from sfumato.oracle.blocks import Value
    from sfumato.privacy.events import Event

    Ints = NDArray[np.int64]

_WIDEST = 2**62
"""Cells of several columns are one number below this, so that engines group by few and short keys."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows as the cells of their columns, each with the number of rows that are alike, in no order."""

    columns: tuple[Ints, ...]
    counts: Ints

    def count(self, columns: Sequence[int], sizes: Sequence[int]) -> Ints:
        """Return how many rows lie in each cell of some columns, flat: the last column fastest."""
        cell = np.zeros(len(self.counts), dtype=np.int64)
        for column in columns:
            cell = cell * sizes[column] + self.columns[column]
        cells = math.prod(sizes[column] for column in columns)
        # Doubles hold sums of counts exactly up to 2^53 rows.
        return np.bincount(cell, weights=self.counts, minlength=cells).astype(np.int64)

    def merge(self, maps: Sequence[Ints]) -> RowGroups:
        """Return the same rows in other cells: `maps` has the new cell of each, column by column."""
        pairs = zip(self.columns, maps, strict=True)
        return RowGroups(tuple(into[column] for column, into in pairs), self.counts)


class GroupKernel(Protocol):
    """A mechanism over groups of rows that gives away no more than its event says. It releases plain JSON."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""

    @property
    def passes(self) -> int:
        """About how often it goes over the rows, from public facts: what a hostile session's slot follows."""

    def event(self) -> Event:
        """Return the price of one release."""

    def release(self, rows: RowGroups) -> object:
        """Release something about the rows."""


@tagged("GroupedRows", "program", "kernel")
@dataclass(frozen=True, slots=True)
class GroupStep:
    """One step of a charge: groups that an engine counts, and a kernel that releases something about them."""

    program: KeyedSums
    kernel: GroupKernel

    @property
    def passes(self) -> int:
        """About how often the rows are gone over."""
        return self.kernel.passes

    def event(self) -> Event:
        """Return the price of the kernel."""
        return self.kernel.event()

    def release(self, exact: SumsByKey) -> object:
        """Return what the kernel releases."""
        return self.kernel.release(_unpack(exact, self.kernel.sizes))


def price_groups(
    source: RowSource, cells: Sequence[Value], kernel: GroupKernel, spend: Spend
) -> Plan[GroupStep, None]:
    """Return what is charged for a kernel over rows that are grouped by these cells, none of them missing."""
    keys = pack_cells(cells, kernel.sizes)
    program = KeyedSums(source.rows, source.where, keys, (Counted(),))
    bias = (
        *describe_truncation(*source.tables),
        clamped("Numbers"),
    )
    return Plan(source.table, spend, (GroupStep(program, kernel),), None, bias, reads=source.tables)


def pack_cells(cells: Sequence[Value], sizes: Sequence[int]) -> tuple[Value, ...]:
    """Return the cells of all columns as few numbers, by which an engine groups."""
    return tuple(_pack(part, cells, sizes) for part in _split(sizes))


def _split(sizes: Sequence[int]) -> list[range]:
    """Return runs of columns whose cells together are one number each."""
    found, start, cells = [], 0, 1
    for at, size in enumerate(sizes):
        if cells * size > _WIDEST:
            found.append(range(start, at))
            start, cells = at, 1
        cells *= size
    return [*found, range(start, len(sizes))]


def _pack(part: range, cells: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Return the cells of a run of columns as one number, the last column fastest."""
    factor, found = 1, []
    for at in reversed(part):
        found.append(cells[at] if factor == 1 else Multiply(cells[at], Constant(factor)))
        factor *= sizes[at]
    return sum_values(found)


def _unpack(exact: SumsByKey, sizes: Sequence[int]) -> RowGroups:
    # Where no row is left there are no groups either, and that must look like any other answer.
    listed = exact.keys.words if isinstance(exact.keys, IntegerKeys) else exact.keys
    words = np.array(listed, dtype=np.int64).reshape(len(exact.keys), len(_split(sizes)))
    columns: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(sizes)
    for place, part in enumerate(_split(sizes)):
        rest = words[:, place]
        for at in reversed(part):
            rest, columns[at] = np.divmod(rest, sizes[at])
    counts = np.asarray(exact.sums[0] if len(exact.keys) else [], dtype=np.int64)
    return RowGroups(tuple(columns), counts)
