"""Rows with columns that are computed from them, layer upon layer, so that no part is computed twice."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sfumato.engines.rows import Computed
from sfumato.engines.values import Add, AtLeast, Choose, Column, Constant, Divide, Lookup, Multiply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.engines.values import Value

_FINE = 2**16
"""The grid on which features of different bounds are made alike."""
_LENGTHS = 1024
"""How many lengths of rows are told apart."""


class ColumnBuilder(Protocol):
    """Rows that grow columns."""

    def add_columns(self, values: Sequence[Value]) -> list[Column]:
        """These values as columns, to be used by further ones."""


class ComputedColumns:
    """A source of rows that grows columns."""

    def __init__(self, source: RowSource) -> None:
        self.source = source

    def add_columns(self, values: Sequence[Value]) -> list[Column]:
        """These values as columns, to be used by further ones."""
        at = self.source.next_at
        rows = Computed(self.source.rows, tuple(values), at)
        self.source = replace(self.source, rows=rows, next_at=at + 1)
        return [Column(at, f"v{place}") for place in range(len(values))]


def grid_factor(bound: int) -> int:
    """What an integer from −bound to bound is multiplied by on the fine grid."""
    return max(1, _FINE // bound)


def clip_to_norm(
    layers: ColumnBuilder,
    values: Sequence[Value],
    bounds: Sequence[int],
    norm: int,
    one: int,
    beside: int = 0,
) -> list[Column]:
    """A row's integers on a common grid, where `one` stands for 1, as a vector no longer than `norm`.

    A value v within ±bound becomes v·fineness(bound)·one / 2¹⁶. Rows are told apart by their squared length
    in 1,024 steps, and multiplied by what makes the longest of their step as long as `norm`. Rounding is
    towards nothing, so it lengthens none. The last values, as many as are `beside` the vector, are multiplied
    with it and do not count in its length.
    """
    fine = layers.add_columns(
        [Multiply(v, Constant(grid_factor(bound))) for v, bound in zip(values, bounds, strict=True)]
    )
    inner = len(fine) - beside
    reach = sum((grid_factor(bound) * bound) ** 2 for bound in bounds[:inner])
    step = reach // _LENGTHS + 1
    (length,) = layers.add_columns([sum_values([Multiply(each, each) for each in fine[:inner]])])
    entries = tuple(_factor((place + 1) * step, norm, one) for place in range(_LENGTHS))
    (factor,) = layers.add_columns([Lookup(Divide(length, Constant(step)), entries)])
    return layers.add_columns([divide_toward_zero(Multiply(each, factor), _FINE * _FINE) for each in fine])


def _factor(squared: int, norm: int, one: int) -> int:
    """So that a vector of at most this squared length is, divided by 2³², at most as long as the norm."""
    return min(one * _FINE, math.isqrt(norm * norm * _FINE**4 // squared))


def divide_toward_zero(value: Value, by: int) -> Value:
    """Divided by a positive number, without the fraction."""
    negative = Multiply(Divide(Multiply(value, Constant(-1)), Constant(by)), Constant(-1))
    return Choose(AtLeast(value, 0), Divide(value, Constant(by)), negative)


def sum_values(values: Sequence[Value]) -> Value:
    """The sum, added up in halves: engines refuse what is nested a thousand deep."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return Add(sum_values(values[:middle]), sum_values(values[middle:]))
