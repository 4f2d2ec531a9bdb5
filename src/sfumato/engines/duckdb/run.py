"""Answering: a program on an open snapshot, as a dense array of exact integers."""

from __future__ import annotations

import os
import time
from _thread import start_new_thread
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Lock, current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sfumato.engines.compile import Layout, compile_program, find_ranges
from sfumato.engines.duckdb.batches import BatchReading
from sfumato.engines.duckdb.connection import open_reader
from sfumato.engines.duckdb.dialect import DuckDBDialect
from sfumato.engines.duckdb.prepare import name_damage
from sfumato.engines.duckdb.spilling import SpillFolder, open_spill_folder
from sfumato.engines.kernels.held_rows import current_held_rows
from sfumato.engines.limits import current_limits
from sfumato.engines.program import (
    CellHistogram,
    CellHistograms,
    CellSums,
    HistogramCounts,
    IntegerKeys,
    KeyedSums,
    SumsByKey,
    UnitFigures,
)
from sfumato.engines.watch import reach_engine, watch_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from sfumato.engines.program import Answer, EngineProgram, Integers


_PAUSE = 0.05
"""Seconds between two looks for Ctrl-C, and between two attempts to stop a query."""
_FORK_PAUSE = 0.002
"""Seconds between two looks of a fork at who still reads."""


_CORRUPT = "Corrupt database file"
KEPT_OPEN = 16
"""Databases that stay open between questions: each keeps blocks of its files in memory, up to the limit, and
opening one takes up to a tenth of a second. Privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class OpenSnapshots:
    """Several snapshots that are open together: how each lies in its file, and which files these are."""

    connection: DuckDBPyConnection
    layouts: Mapping[str, Layout]
    inodes: tuple[int, ...]
    space: tuple[int, int]
    """Bytes of memory and of disk that it was opened with, which cannot be changed."""
    spill: SpillFolder | None
    """Removed when the last cursor has let go of it."""


class Snapshots:
    """Keeps the snapshots that this process has open, each once, and only the last few.

    A connection refuses a second call while one runs, so it is used under the lock and only to make cursors,
    one for each question. Letting go of it closes it once the last cursor is done; `close` would refuse while
    one runs. A fork waits for the questions under way and lets go of all first: a child can neither use nor
    end its parent's threads, nor open a lock that one of them held.
    """

    def __init__(self) -> None:
        # A plain lock: Ctrl-C on the way into the block of a condition leaves its lock held.
        self._turn = Lock()
        self._entry = Lock()
        """Held by a fork that waits, so that nobody begins to read before it."""
        self._open: dict[tuple[tuple[Path, ...], int | None], OpenSnapshots] = {}
        self._under_way: set[int] = set()
        """Threads that read. One that was interrupted may stay here until it reads again."""
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork
        )

    @contextmanager
    def open_cursor(self, paths: Mapping[str, Path], threads: int | None) -> Iterator[OpenSnapshots]:
        """Yield a cursor on the files that are there now, which may have taken the places of older ones.

        EngineError says that one of them cannot be opened, so that nothing was read.
        """
        import duckdb

        reader = get_ident()
        try:
            with self._entry, self._turn:
                self._under_way.add(reader)
            with reach_engine("DuckDB", "the snapshot's file is missing or damaged", OSError, duckdb.Error):
                cursor = self._cursor(paths, threads)
            yield cursor
        except duckdb.Error as problem:
            # After some errors a database refuses everything, so the next question opens the files anew.
            self._forget(*paths.values())
            if _CORRUPT in str(problem):
                for path in _find_damaged([*paths.values()], threads):
                    note_damage(path)
            raise
        finally:
            with self._turn:
                self._under_way.discard(reader)

    def forget_file(self, path: Path) -> None:
        """Close what has this file open, once the questions under way are answered."""
        self._forget(path)

    def _forget(self, *paths: Path) -> None:
        with self._turn:
            for key in [key for key in self._open if not set(key[0]).isdisjoint(paths)]:
                del self._open[key]

    def _cursor(self, paths: Mapping[str, Path], threads: int | None) -> OpenSnapshots:
        # A file that was replaced has another inode, and its old connection would answer about old rows.
        inodes = tuple(path.stat().st_ino for path in paths.values())
        if any(map(is_damaged, paths.values())):
            raise OSError("a question has found a block of the file damaged")
        key = tuple(paths.values()), threads
        with self._turn:
            known = self._open.pop(key, None)
            if known is None or (known.inodes, known.space) != (inodes, _space()):
                known = _open(paths, threads, inodes)
            self._open[key] = known
            if len(self._open) > KEPT_OPEN:
                del self._open[next(iter(self._open))]  # whose last question is the longest ago
            return replace(known, connection=known.connection.cursor())

    def _before_fork(self) -> None:
        self._entry.acquire()
        self._turn.acquire()
        # Whoever forks does not read. After Ctrl-C it may not have been noted that it no longer does.
        while not self._under_way <= {get_ident()}:
            self._turn.release()
            time.sleep(_FORK_PAUSE)
            self._turn.acquire()
        self._under_way.clear()
        self._open.clear()

    def _after_fork(self) -> None:
        self._turn.release()
        self._entry.release()


SNAPSHOTS = Snapshots()


def note_damage(path: Path) -> None:
    """Note for every process that this file is damaged, until another takes its place."""
    with suppress(OSError):
        name_damage(path).write_text(_describe_file(path), encoding="utf-8")


def is_damaged(path: Path) -> bool:
    """Return whether a question has found this very file damaged, so that no other is charged for it."""
    with suppress(FileNotFoundError):
        return name_damage(path).read_text(encoding="utf-8") == _describe_file(path)
    return False


def _find_damaged(paths: list[Path], threads: int | None) -> list[Path]:
    """Return which of several files are damaged, or all if that cannot be told.

    DuckDB does not say in which of them it found the block, so each is read whole, alone.
    """
    damaged = [path for path in paths if not _is_readable(path, threads)] if len(paths) > 1 else []
    return damaged or paths


def _is_readable(path: Path, threads: int | None) -> bool:
    import duckdb

    try:
        with open_reader({"snapshot": path}, threads) as connection:
            listed = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            for (table,) in listed:
                connection.execute(f"FROM snapshot.{table} AS t SELECT bit_xor(hash(t))").fetchall()
    except duckdb.Error:
        return False
    return True


def _describe_file(path: Path) -> str:
    found = path.stat()
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def answer_program(program: EngineProgram[Answer], opened: OpenSnapshots, folder: Path) -> Answer:
    """Return exact integers in the shape that the program says; 64-bit where all fit, else Python's own."""
    with opened.connection as cursor:
        reading = BatchReading(cursor, opened.layouts, opened.inodes)
        with watch_run(reading.stop, folder, opened.layouts):
            return _ask(partial(_answer, program, cursor, reading, opened.layouts), reading.stop)


def _answer(
    program: EngineProgram[Answer],
    cursor: DuckDBPyConnection,
    reading: BatchReading,
    layouts: Mapping[str, Layout],
) -> Answer:
    held = current_held_rows()
    columns = reading.find_program(program, cache(partial(find_ranges, program.rows, layouts)), held)
    if columns is not None:
        return cast("Answer", reading.sum_columns(columns, held))
    table = cursor.sql(compile_program(program, layouts, DuckDBDialect())).to_arrow_table()
    return cast("Answer", _shape_answer(program, table))


def _ask(read: Callable[[], Answer], stop: Callable[[], object]) -> Answer:
    """Return what is read, which Ctrl-C stops.

    DuckDB does not look for signals while it makes an Arrow table, and only the main thread gets them. So
    that thread waits, and another one asks.
    """
    if current_thread() is not main_thread():
        return read()
    # The process may exit before the other thread has quite ended, which then keeps what it refers to, and
    # DuckDB writes to standard error that its objects were leaked. So both lists are empty at the end.
    asked = [read]
    outcome: list[tuple[Answer | None, BaseException | None]] = []
    over, context = Lock(), copy_context()
    over.acquire()

    def ask() -> None:
        try:
            outcome.append((context.run(asked.pop()), None))
        except BaseException as problem:
            outcome.append((None, problem))
        finally:
            over.release()

    # A plain thread and a plain lock: Ctrl-C in the wait for a future, or for a thread to start, may leave a
    # lock held that the other thread needs.
    try:
        start_new_thread(ask, ())
        # With a timeout, because libraries such as Polars install signal handlers that restart system calls
        # (SA_RESTART): a wait without one would never return to Python, which raises KeyboardInterrupt.
        while not over.acquire(timeout=_PAUSE):
            pass
    except RuntimeError:
        raise  # no thread can be started
    except BaseException:
        # Once is not enough: a query that has not begun yet is not stopped.
        while not outcome:
            stop()
            over.acquire(timeout=_PAUSE)
        raise
    answer, problem = outcome.pop()
    if problem is not None:
        raise problem
    return cast("Answer", answer)


def _shape_answer(program: EngineProgram[Any], table: Any) -> Integers | HistogramCounts | SumsByKey:
    """Read Arrow's buffers as they lie; Python's own numbers would take most of a question's time."""
    if isinstance(program, CellHistogram):
        return HistogramCounts(_ascending(table.column(0)), None, program.size)
    columns = [_join_chunks(column) for column in table.columns]
    match program:
        case CellSums():
            return _dense(_as_it_lies(columns[0]), [_words(column) for column in columns[1:]], program.cells)
        case CellHistograms():
            places, counts = map(_as_it_lies, columns)
            order = np.argsort(places)
            return HistogramCounts(places[order], counts[order], program.size)
        case KeyedSums(keys=keys):
            names, (units, *sums) = columns[: len(keys)], map(_words, columns[len(keys) :])
            listed = _integer_keys(names) or list(zip(*map(_keys, names), strict=True))
            return SumsByKey(listed, _integers([units])[0], _integers(sums, len(listed)))
        case UnitFigures():
            return _integers([_words(column) for column in columns])
    raise TypeError(type(program).__name__)


def _join_chunks(column: Any) -> Any:
    """Return a column as one array."""
    import pyarrow

    # Of no chunks Arrow makes an array in a way that imports pandas, so that a question which finds no row
    # would take a fifth of a second more than one that finds a single unit.
    return column.combine_chunks() if column.num_chunks else pyarrow.nulls(0, column.type)


def _keys(column: Any) -> list[Any]:
    """Return keys as texts or as Python's integers, whichever type the engine computed them in."""
    return [key if key is None or isinstance(key, str) else int(key) for key in column.to_pylist()]


def _integer_keys(columns: list[Any]) -> IntegerKeys | None:
    """Return keys as they lie, where each is an integer of 64 bits at most and none is missing."""
    import pyarrow as pa

    found = []
    for column in columns:
        if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_decimal128(column.type)):
            return None
        if pa.types.is_integer(column.type):
            found.append(_as_it_lies(column).astype(np.int64))
            continue
        words = _words(column)
        if not (words[:, 1] == words[:, 0] >> 63).all():
            return None
        found.append(words[:, 0])
    return IntegerKeys(np.stack(found, axis=1)) if found else None


def _ascending(column: Any) -> NDArray[Any]:
    """Return all places in one array, sorted in place."""
    parts = [_as_it_lies(part) for part in column.chunks]
    places: NDArray[Any] = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    places.sort()
    return places


def _as_it_lies(column: Any) -> NDArray[Any]:
    """Read integers, none of them missing, from Arrow's buffer; Arrow's own way would import pandas."""
    # A slice shares its parent's buffer, so the offset counts.
    kind = np.dtype(str(column.type))
    return np.frombuffer(column.buffers()[1], dtype=kind)[column.offset : column.offset + len(column)]


def _integers(sums: list[NDArray[np.int64]], size: int | None = None) -> Integers:
    """Return one row a sum, in the order of the engine."""
    length = len(sums[0]) if size is None else size
    return _dense(np.arange(length), sums, length)


def _dense(cells: NDArray[np.int64], sums: list[NDArray[np.int64]], size: int) -> Integers:
    """Put sums of two words, low and high, into cells. One word holds a sum if the high one is its sign."""
    small = all((words[:, 1] == words[:, 0] >> 63).all() for words in sums)
    dense = np.zeros((len(sums), size), dtype=np.int64 if small else object)
    for row, words in zip(dense, sums, strict=True):
        row[cells] = words[:, 0] if small else _joined(words)
    return dense


def _joined(words: NDArray[np.int64]) -> NDArray[np.object_]:
    low, high = words[:, 0].astype(np.uint64).astype(object), words[:, 1].astype(object)
    return np.asarray(high * 2**64 + low, dtype=object)


def _words(sums: Any) -> NDArray[np.int64]:
    """Read the two words of each HUGEINT, which Arrow keeps as 128-bit decimals; never through a float."""
    words = np.frombuffer(sums.buffers()[1], dtype="<i8").reshape(-1, 2)
    return words[sums.offset : sums.offset + len(sums)]


def _open(paths: Mapping[str, Path], threads: int | None, inodes: tuple[int, ...]) -> OpenSnapshots:
    schemas = {name: f"snapshot{i}" for i, name in enumerate(paths)}
    spill = open_spill_folder(next(iter(paths.values())).parent) if current_limits().spill else None
    files = {schemas[name]: path for name, path in paths.items()}
    connection = open_reader(files, threads, None if spill is None else spill.path)
    layouts = {name: _layout(connection, schemas[name]) for name in paths}
    return OpenSnapshots(connection, layouts, inodes, _space(), spill)


def _space() -> tuple[int, int]:
    limits = current_limits()
    return limits.bytes_in_memory, limits.spill


def _layout(connection: DuckDBPyConnection, schema: str) -> Layout:
    described = connection.execute(f"FROM {schema}.columns").fetchall()
    columns = {declared: stored for declared, stored, *_ in described}
    bounds = [
        (declared, reach) for declared, _, *stated in described for reach in stated
    ]  # older ones do not
    reaches = {declared: reach for declared, reach in bounds if reach is not None}
    # Graphs and tables without a unit column have no table of units.
    units = f"{schema}.units" if "person" in _columns(connection, f"{schema}.units") else None
    rows = _columns(connection, f"{schema}.rows")
    texts = frozenset(declared for declared, stored in columns.items() if rows[stored] == "VARCHAR")
    return Layout(f"{schema}.rows", units, columns, "place" in rows, reaches, texts)


def _columns(connection: DuckDBPyConnection, table: str) -> dict[str, str]:
    """Return the types of a table's columns, none if it is not there.

    DuckDB's list of columns takes 20 times as long.
    """
    import duckdb

    try:
        described = connection.execute(f"FROM {table} LIMIT 0").description or ()
        return {name: str(kind) for name, kind, *_ in described}
    except duckdb.CatalogException:
        return {}
