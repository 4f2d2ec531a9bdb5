"""Answering: a program on an open snapshot, as a dense array of exact integers."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.duckdb.compile import compile_program
from sfumato.engines.duckdb.connection import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from sfumato.engines.program import Program


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An open snapshot: where declared columns are stored, and which file this is."""

    connection: DuckDBPyConnection
    columns: Mapping[str, str]
    inode: int


class Snapshots:
    """The snapshots this process has open, each once.

    A connection refuses a second call while one runs, so it is used under the lock and only to make cursors,
    one for each question. Letting go of it closes it once the last cursor is done; `close` would refuse while
    one runs. A fork waits for the questions under way and lets go of all first: a child can neither use nor
    end its parent's threads, nor open a lock that one of them held.
    """

    def __init__(self) -> None:
        self._turn = Condition(Lock())
        self._open: dict[tuple[Path, int | None], Snapshot] = {}
        self._under_way = 0
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._turn.release, after_in_child=self._turn.release
        )

    @contextmanager
    def reading(self, path: Path, threads: int | None) -> Iterator[Snapshot]:
        """A cursor of one's own on the file that is there now, which may have taken an older one's place."""
        with self._turn:
            self._under_way += 1
        try:
            yield self._cursor(path, threads)
        finally:
            with self._turn:
                self._under_way -= 1
                self._turn.notify_all()

    def let_go(self, path: Path) -> None:
        with self._turn:
            for key in [key for key in self._open if key[0] == path]:
                del self._open[key]

    def _cursor(self, path: Path, threads: int | None) -> Snapshot:
        inode = path.stat().st_ino
        with self._turn:
            known = self._open.get((path, threads))
            if known is None or known.inode != inode:
                known = self._open[path, threads] = _open(path, threads, inode)
            return replace(known, connection=known.connection.cursor())

    def _before_fork(self) -> None:
        self._turn.acquire()
        self._turn.wait_for(lambda: self._under_way == 0)
        self._open.clear()


SNAPSHOTS = Snapshots()


def answer(program: Program, snapshot: Snapshot) -> NDArray[np.int64] | NDArray[np.object_]:
    """One row a term, one column a cell; 64-bit where every sum fits, else Python integers."""
    with snapshot.connection as cursor:
        table = cursor.sql(compile_program(program, snapshot.columns)).to_arrow_table()
    cells, *sums = (column.combine_chunks() for column in table.columns)
    return _dense(cells.to_numpy(), [_words(column) for column in sums], program.cells)


def _dense(
    cells: NDArray[np.int64], sums: list[NDArray[np.int64]], size: int
) -> NDArray[np.int64] | NDArray[np.object_]:
    """Each sum is two words, low and high; it fits one when the high word only repeats the sign."""
    small = all((words[:, 1] == words[:, 0] >> 63).all() for words in sums)
    dense = np.zeros((len(sums), size), dtype=np.int64 if small else object)
    for row, words in zip(dense, sums, strict=True):
        row[cells] = words[:, 0] if small else _joined(words)
    return dense


def _joined(words: NDArray[np.int64]) -> NDArray[np.object_]:
    low, high = words[:, 0].astype(np.uint64).astype(object), words[:, 1].astype(object)
    return np.asarray(high * 2**64 + low, dtype=object)


def _words(sums: Any) -> NDArray[np.int64]:
    """Arrow keeps a HUGEINT as a 128-bit decimal of scale 0: read as it lies, never through a float."""
    words = np.frombuffer(sums.buffers()[1], dtype="<i8").reshape(-1, 2)
    return words[sums.offset : sums.offset + len(sums)]


def _open(path: Path, threads: int | None, inode: int) -> Snapshot:
    connection = open_reader(path, threads)
    columns = connection.execute("SELECT declared, stored FROM snapshot.columns").fetchall()
    return Snapshot(connection, dict(columns), inode)
