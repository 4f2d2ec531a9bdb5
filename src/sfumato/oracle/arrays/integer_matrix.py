"""A matrix of whole numbers whose rows are computed a few at a time.

Most questions want sums or products of all features, for which rows never need to be laid out column by
column; memory that is new costs more than the sums themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.engines.kernels.threads import use_one_thread
from sfumato.oracle.arrays.integer_rows import ROWS_AT_HAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Column, Value

    Floats = NDArray[np.float64]


class IntegerMatrix:
    """The features of all rows, within ±2·ONE. `write` computes some rows into the array it is given."""

    def __init__(self, names: Sequence[Column], rows: int, write: Callable[[slice, Floats], None]) -> None:
        self.places: dict[Value, int] = {name: place for place, name in enumerate(names)}
        self.rows = rows
        self._write = write
        self._columns: Floats | None = None
        self._narrow: NDArray[np.int16] | None = None

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield all rows, a few at a time and always in the same memory."""
        place = np.empty((min(self.rows, ROWS_AT_HAND), len(self.places)))
        for at in range(0, self.rows, ROWS_AT_HAND):
            rows = slice(at, min(self.rows, at + ROWS_AT_HAND))
            block = place[: rows.stop - rows.start]
            self.write(rows, block)
            yield rows, block

    def write(self, rows: slice, out: Floats) -> None:
        """Write some rows into `out`, from what is kept or computed anew."""
        if self._columns is not None:
            out[...] = self._columns[:, rows].T
        elif self._narrow is not None:
            out[...] = self._narrow[rows]
        else:
            self._write(rows, out)

    @property
    def has_columns(self) -> bool:
        """Whether the matrix is laid out column by column already."""
        return self._columns is not None

    def lay_columns(self) -> Floats:
        """Return the matrix with one row a feature, and keep it from the first time on."""
        if self._columns is None:
            found = np.empty((len(self.places), self.rows))
            for rows, block in self.blocks():
                found[:, rows] = block.T
            self._columns = found
        return self._columns

    def column(self, name: Column) -> Floats:
        """Return one feature of all rows."""
        found: Floats = self.lay_columns()[self.places[name]]
        return found

    def sums(self) -> Floats:
        """Return the sum of each feature, and keep what was computed in 16 bits for the question after it.

        A product with ones is faster than a sum down columns and as exact.
        """
        found, narrow = np.zeros(len(self.places)), np.empty((self.rows, len(self.places)), dtype=np.int16)
        for rows, block in self.blocks():
            found += np.ones(len(block)) @ block
            # ±2·ONE fits in 16 bits, a quarter of the memory that has to be read again.
            narrow[rows] = block
        self._narrow = narrow
        return found

    def products(self) -> Floats:
        """Return the sums of the products of every feature with every other."""
        found = np.zeros((len(self.places), len(self.places)))
        # Blocks are too small for several threads to gain by sharing one.
        with use_one_thread():
            for _, block in self.blocks():
                found += block.T @ block
        return found
