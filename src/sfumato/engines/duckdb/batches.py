"""Columns of a snapshot in batches, as NumPy computes with them: read where they lie, however many rows."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.compile import compile_columns
from sfumato.engines.duckdb.dialect import DuckDBDialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from sfumato.engines.compile import Layout
    from sfumato.engines.kernels.long_programs import ColumnProgram
    from sfumato.engines.values import Column

    Doubles = NDArray[np.float64]

_ROWS = 2**17
"""Rows of a batch, which is about as many as DuckDB keeps together. For speed and memory alone."""


class BatchReading:
    """Sums a program batch by batch, until it is told to stop."""

    def __init__(self, cursor: DuckDBPyConnection, layouts: Mapping[str, Layout]) -> None:
        self._cursor, self._layouts = cursor, layouts
        self._ended = Event()

    def stop(self) -> None:
        """End the query that runs, and what is computed of its rows, as soon as can be."""
        self._ended.set()
        self._cursor.interrupt()

    def sum_columns(self, found: ColumnProgram) -> NDArray[Any]:
        """Return the sums of a program over columns that are read for it."""
        sums = found.begin()
        sql = compile_columns(found, self._layouts, DuckDBDialect())
        for batch in self._cursor.sql(sql).to_arrow_reader(_ROWS):
            if self._ended.is_set():
                raise InterruptedError
            sums.add(_BatchColumns(found.columns, batch), batch.num_rows)
        return sums.finish()


class _BatchColumns:
    """The columns of one batch, in doubles: 0 where one is missing."""

    def __init__(self, names: Sequence[Column], batch: Any) -> None:
        self._arrays = dict(zip(names, batch.columns, strict=True))
        self._read: dict[Column, tuple[Doubles, NDArray[np.bool_] | None]] = {}

    def read(self, column: Column, rows: slice) -> Doubles:
        """Return a column of some rows."""
        return self._column(column)[0][rows]

    def find_missing(self, column: Column, rows: slice) -> NDArray[np.bool_] | None:
        """Return in which of these rows a column is missing."""
        missing = self._column(column)[1]
        return None if missing is None else missing[rows]

    def stack(self, columns: Sequence[Column], rows: slice) -> Doubles:
        """Return several columns of some rows, one row a column."""
        return np.array([self.read(column, rows) for column in columns])

    def _column(self, column: Column) -> tuple[Doubles, NDArray[np.bool_] | None]:
        if column not in self._read:
            self._read[column] = _read_array(self._arrays[column])
        return self._read[column]


def _read_array(array: Any) -> tuple[Doubles, NDArray[np.bool_] | None]:
    """Read the buffers of an Arrow array of integers; Arrow's own way would import pandas."""
    bits, numbers = array.buffers()
    inside = slice(array.offset, array.offset + len(array))
    found = np.frombuffer(numbers, dtype=np.dtype(str(array.type)))[inside].astype(np.float64)
    if bits is None or not array.null_count:
        return found, None
    known = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")[inside]
    missing = known == 0
    found[missing] = 0.0
    return found, missing
