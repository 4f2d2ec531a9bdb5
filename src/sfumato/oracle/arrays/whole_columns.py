"""Columns of own arrays, of all rows at once: what values of a row are computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Column

    Doubles = NDArray[np.float64]


class WholeColumns:
    """Columns that are held for all rows, and in which nothing is missing."""

    def __init__(self, column: Callable[[Column], Doubles]) -> None:
        self.column = column
        self._stacks: dict[tuple[Column, ...], Doubles] = {}

    def read(self, column: Column, rows: slice) -> Doubles:
        """Return a column of some rows."""
        return self.column(column)[rows]

    def find_missing(self, column: Column, rows: slice) -> None:
        """Return that no row misses a column."""

    def stack(self, columns: Sequence[Column], rows: slice) -> Doubles:
        """Return several columns of some rows, one row a column."""
        names = tuple(columns)
        if names not in self._stacks:
            self._stacks[names] = stack_rows([self.column(name) for name in names])
        return self._stacks[names][:, rows]


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
