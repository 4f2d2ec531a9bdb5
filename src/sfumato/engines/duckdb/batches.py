"""Columns of a snapshot in batches, as NumPy computes with them: read where they lie, however many rows."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.compile import compile_columns
from sfumato.engines.duckdb.dialect import DuckDBDialect
from sfumato.engines.kernels.held_rows import BatchColumns, RowBatch
from sfumato.engines.kernels.long_programs import find_column_program
from sfumato.engines.kernels.threads import use_one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from sfumato.engines.compile import Layout
    from sfumato.engines.kernels.held_rows import HeldRows
    from sfumato.engines.kernels.long_programs import ColumnProgram
    from sfumato.engines.program import EngineProgram
    from sfumato.engines.value_ranges import ValueRanges
    from sfumato.engines.values import Column

_ROWS = 2**17
"""Rows of a batch, which is about as many as DuckDB keeps together. For speed and memory alone."""


class BatchReading:
    """Sums a program batch by batch, until it is told to stop."""

    def __init__(
        self, cursor: DuckDBPyConnection, layouts: Mapping[str, Layout], files: tuple[int, ...]
    ) -> None:
        """Read by a cursor. `files` are the inodes of what it has open, so that a file that took the place of
        another is told from it.
        """
        self._cursor, self._layouts, self._files = cursor, layouts, files
        self._ended = Event()

    def stop(self) -> None:
        """End the query that runs, and what is computed of its rows, as soon as can be."""
        self._ended.set()
        self._cursor.interrupt()

    def find_program(
        self, program: EngineProgram[Any], find_ranges: Callable[[], ValueRanges], held: HeldRows
    ) -> ColumnProgram | None:
        """Return how a program is computed from columns, with what is held of its rows, if it is to be."""
        found = find_column_program(program, find_ranges, held.computed)
        if found is None or held.serves(self._describe(found), found.columns):
            return found
        # What was computed before is of no use without the rows it was computed of.
        found = find_column_program(program, find_ranges)
        if found is not None:
            held.begin(self._describe(found), found.columns)
        return found

    def _describe(self, found: ColumnProgram) -> object:
        """Return which rows a program is about."""
        return found.rows, found.program.where, self._files

    def sum_columns(self, found: ColumnProgram, held: HeldRows) -> NDArray[Any]:
        """Return the sums of a program over columns that are read for it, or that are held."""
        sums = found.begin()
        # Whether there are rows or not, so that the same is imported.
        with use_one_thread():
            for batch in held.list_batches(self._read(found, held.columns)):
                if self._ended.is_set():
                    raise InterruptedError
                sums.add(batch, BatchColumns(batch, found.ready), keeps=held.most > 0)
        held.keep_computed((*found.layers, *found.ready.values()))
        return sums.finish()

    def _read(self, found: ColumnProgram, columns: Sequence[Column]) -> Iterator[RowBatch]:
        sql = compile_columns(found, columns, self._layouts, DuckDBDialect())
        for batch in self._cursor.sql(sql).to_arrow_reader(_ROWS):
            read = map(_read_array, batch.columns)
            yield RowBatch(batch.num_rows, dict(zip(columns, read, strict=True)))


def _read_array(array: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Read the buffers of an Arrow array of integers as they lie; Arrow's own way would import pandas."""
    bits, numbers = array.buffers()
    inside = slice(array.offset, array.offset + len(array))
    found = np.frombuffer(numbers, dtype=np.dtype(str(array.type)))[inside]
    if bits is None or not array.null_count:
        return found, None
    return found, np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")[inside] == 0
