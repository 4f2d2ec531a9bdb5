"""Rows with computed columns, layer upon layer: a value that several columns use is computed once."""

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
"""Steps from zero to a feature's bound on the grid that all features share. Privacy does not depend on it."""
_LENGTHS = 1024
"""How many lengths of rows clipping tells apart: more lose less. Privacy does not depend on it."""


class ColumnBuilder(Protocol):
    """Rows to which columns can be added."""

    def add_columns(self, values: Sequence[Value]) -> list[Column]:
        """Add values as columns and return those, for use in further values."""


class ComputedColumns:
    """Rows of an engine to which computed columns are added."""

    def __init__(self, source: RowSource) -> None:
        self.source = source

    def add_columns(self, values: Sequence[Value]) -> list[Column]:
        """Add values as columns and return those, for use in further values."""
        at = self.source.next_at
        rows = Computed(self.source.rows, tuple(values), at)
        self.source = replace(self.source, rows=rows, next_at=at + 1)
        return [Column(at, f"v{place}") for place in range(len(values))]


def grid_factor(bound: int) -> int:
    """Return the factor that puts an integer from −bound to bound on the shared grid."""
    return max(1, _FINE // bound)


def clip_to_norm(
    layers: ColumnBuilder,
    values: Sequence[Value],
    bounds: Sequence[int],
    norm: int,
    one: int,
    beside: int = 0,
) -> list[Column]:
    """Return a row's integers on a common grid, where `one` stands for 1, clipped to an l2 norm of `norm`.

    A value v within ±bound becomes v·grid_factor(bound)·one / 2¹⁶. Rows are told apart by squared length
    in 1,024 steps, and multiplied by what makes the longest row of a step as long as `norm`. Rounding is
    towards zero, so it lengthens no row. The last `beside` values are scaled with the vector and do not count
    in its length.
    """
    fine = layers.add_columns(
        [Multiply(v, Constant(grid_factor(bound))) for v, bound in zip(values, bounds, strict=True)]
    )
    inner = len(fine) - beside
    reach = sum((grid_factor(bound) * bound) ** 2 for bound in bounds[:inner])
    step = reach // _LENGTHS + 1
    # Each value is added as a column before it is used again: SQL would repeat the whole expression.
    (length,) = layers.add_columns([sum_values([Multiply(each, each) for each in fine[:inner]])])
    entries = tuple(_clipping_factor((place + 1) * step, norm, one) for place in range(_LENGTHS))
    (factor,) = layers.add_columns([Lookup(Divide(length, Constant(step)), entries)])
    return layers.add_columns([divide_toward_zero(Multiply(each, factor), _FINE * _FINE) for each in fine])


def _clipping_factor(squared: int, norm: int, one: int) -> int:
    """Return the factor after which a vector of this squared length, divided by 2³², is within the norm."""
    return min(one * _FINE, math.isqrt(norm * norm * _FINE**4 // squared))


def divide_toward_zero(value: Value, by: int) -> Value:
    """Return the quotient by a positive number, rounded towards zero."""
    negative = Multiply(Divide(Multiply(value, Constant(-1)), Constant(by)), Constant(-1))
    return Choose(AtLeast(value, 0), Divide(value, Constant(by)), negative)


def sum_values(values: Sequence[Value]) -> Value:
    """Return the sum of values, added in halves: engines refuse what is nested a thousand deep."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return Add(sum_values(values[:middle]), sum_values(values[middle:]))
