"""Mechanisms that learn from the rows of a table as they are, in one charge.

Most learners see sums alone. A kernel sees rows, so it proves its own price; here it only becomes a step that
the gate charges for, runs and releases.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sfumato.curator.lower.computed import ComputedColumns
from sfumato.curator.plan.caveats import describe_truncation
from sfumato.curator.plan.priced import Plan
from sfumato.engines.program import Total, UnitFigures
from sfumato.engines.rows import Ordered, Position
from sfumato.oracle.blocks import Among, Choose, Column, Constant, Every
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.blocks import Value
    from sfumato.privacy.events import Event


class RowKernel(Protocol):
    """A mechanism over rows that gives away no more than its event says. What is released is plain JSON."""

    @property
    def passes(self) -> int:
        """About how often it goes over the rows, from public facts: what a hostile session's slot follows."""

    def event(self) -> Event:
        """Return the price of one release."""

    def release(self, exact: NDArray[np.int64]) -> object:
        """Release something about rows, one row a figure and one column a unit."""


@tagged("Learnt", "program", "kernel")
@dataclass(frozen=True, slots=True)
class KernelStep:
    """One step of a charge: the rows an engine reads, and the kernel that releases something about them."""

    program: UnitFigures
    kernel: RowKernel

    @property
    def passes(self) -> int:
        """About how often the rows are gone over."""
        return self.kernel.passes

    def event(self) -> Event:
        """Return the price of the kernel."""
        return self.kernel.event()

    def release(self, exact: NDArray[np.int64]) -> object:
        """Return what the kernel releases."""
        return self.kernel.release(exact)


@dataclass(frozen=True, slots=True)
class AuditedUnits:
    """The rows that a kernel was given, as an auditor compares them."""

    columns: NDArray[np.int64]

    def difference(self, other: AuditedUnits) -> int:
        """Return how many units are in only one of the two."""
        mine, theirs = (Counter(map(tuple, each.columns.T.tolist())) for each in (self, other))
        return ((mine - theirs) | (theirs - mine)).total()


def spread_rows(
    source: RowSource, figures: Sequence[Value], rows_each: int
) -> tuple[RowSource, tuple[Value, ...]]:
    """Return the figures of each of a unit's rows side by side: first whether there is a row, then its own.

    Rows are numbered in the keyed order of the snapshot, which looks at the unit's own rows alone.
    """
    layers = ComputedColumns(source)
    one: Value = Constant(1)
    each = (one, *layers.add_columns(figures))
    at = layers.source.next_at
    rows = Ordered(layers.source.rows, layers.source.where, (), (Position("row_number"),), at)
    found = tuple(
        Choose(Among(Column(at, "v0"), (place,)), value, Constant(0))
        for place in range(1, rows_each + 1)
        for value in each
    )
    return replace(layers.source, rows=rows, where=Every(), next_at=at + 1), found


def price_kernel(
    source: RowSource, figures: Sequence[Value], kernel: RowKernel, spend: Spend
) -> Plan[KernelStep, None]:
    """Return what is charged for a kernel over these figures of each unit's row."""
    program = UnitFigures(source.rows, source.where, tuple(map(Total, figures)))
    return Plan(
        source.table,
        spend,
        (KernelStep(program, kernel),),
        None,
        describe_truncation(source.table),
        reads=source.tables,
    )
