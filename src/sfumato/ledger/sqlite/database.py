"""One connection to a file: threads use it in turns, it is closed before a fork, errors are ours.

The fork matters even if the child never uses the connection. SQLite notes in the process's memory which files
it has locked. A child inherits the note without the lock, opens the file again, believes the note, and its
commits can vanish with the parent's log.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sfumato.errors import LedgerError
from sfumato.ledger import tables
from sfumato.ledger.database import LedgerDatabase
from sfumato.ledger.failures import busy_error, missing_error, require_same_ledger
from sfumato.ledger.sqlite import schema
from sfumato.ledger.sqlite.connection import open_connection
from sfumato.ledger.sqlite.errors import ErrorTranslator
from sfumato.ledger.sqlite.files import identify_birth, identify_file, identify_files, list_files
from sfumato.ledger.sqlite.locks import require_locks
from sfumato.ledger.sqlite.mark import Mark, MarkedBatch, missing_mark_error
from sfumato.ledger.sqlite.redo import read_end, require_witness, require_witnessed, settle_with_mark
from sfumato.ledger.tables import LACKING, require_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.ledger.books import Books
    from sfumato.ledger.sqlite.files import Identity
    from sfumato.ledger.sqlite.witness import End
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")

MOVED_AT_ONCE = 200
"""Commits after which their entries are moved to SQLite.

Chosen with `benchmarks/ledger.py`: fewer cost more time each. No privacy depends on it.
"""

_OTHER_FILES = "other files lie at its path than were opened"
_TRANSLATED = ErrorTranslator()


class SqliteDatabase(LedgerDatabase):
    """Opens when first used, and only the file that `main` identifies, however often it is opened again.

    `timeout` is how many seconds to wait for other processes.
    """

    def __init__(self, path: str, timeout: float, main: Identity | None) -> None:
        super().__init__()
        self._path = path
        self._timeout = timeout
        self._main = main
        self._mark = Mark(os.path.realpath(path))
        self._files = list_files(path, path)
        self._identities: tuple[Identity | None, ...] = ()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def lend_connection(self) -> Iterator[sqlite3.Connection]:
        with self.turn, _TRANSLATED:
            db = self._connection or self._open()
            self._require_same_files()
            yield db

    @contextmanager
    def lend_snapshot(self) -> Iterator[sqlite3.Connection]:
        with self.lend_connection() as db:
            try:
                db.execute("BEGIN")
                yield db
            finally:
                self._roll_back(db)

    def write(self, work: Callable[[Any], T]) -> T:
        with self.turn, _TRANSLATED:
            db = self._connection or self._open()
            try:
                return work(db)
            finally:
                self._mark.unlock()

    def settle(self, db: Any) -> None:
        """Let SQLite hold everything that only the mark holds."""
        self._mark.read()
        if self._mark.unsettled and read_end(db)[0] < self._mark.end[0]:
            with self._mark.locked(self._timeout):
                self._move_entries(db)
        self._mark.settle()

    def require_marked(self) -> None:
        """Bring back entries that only the mark holds, or refuse a ledger that is too short."""
        with self.turn, _TRANSLATED:
            marked = self._mark.read()
            with self.lend_connection() as db:
                holds = not marked[0] or tables.has_entry(db, *marked)
            sound = holds and self._mark.witness.is_at(marked, self._mark.noted)
        if not sound:
            self.write(lambda db: self.begin(db, lambda: self._require_witness(db)))

    def require_locks(self) -> None:
        """Refuse to go on where locks do nothing."""
        with _TRANSLATED:
            require_locks(self._mark.path)

    def begin_mark(self) -> None:
        """Begin the mark of a ledger that has none yet."""
        with self.turn, _TRANSLATED:
            self._mark.create()
            with self._mark.locked(self._timeout), self.lend_connection() as db:
                if self._mark.is_blank():
                    self._adopt_mark(db)

    def adopt_mark(self, *, missing: bool, shorter: bool = False) -> None:
        """Make the mark that lies here the ledger's own, wherever it came from.

        `missing` accepts a ledger without a mark, and `shorter` one that lacks entries that its mark names.
        """
        with self.turn, _TRANSLATED:
            self._mark.create()
            with self._mark.locked(self._timeout), self.lend_connection() as db:
                if not self._mark.is_blank():
                    self._redo(db, shorter)
                elif not missing and not schema.is_older(db):
                    raise missing_mark_error()
                if not shorter:
                    require_witnessed(db, self._mark)
                self._adopt_mark(db)

    def begin(self, db: Any, ask: Callable[[], T]) -> T:
        self._mark.lock(self._timeout)
        self._require_same_files()  # only now, as the wait may have been long
        self._make_room(db)
        return ask()

    def require_text(self, *texts: str) -> None:
        """Accept every text: SQLite can keep them all."""

    def commit(self, db: Any, done: Transaction, mark_written: Callable[[], None]) -> None:
        mark_written()
        self._mark.append(MarkedBatch(done.start, done.end, done.entries, done.answers))
        self._mark.witness.move(done.start, done.end, self._mark.noted)
        # A commit to files that nobody else opens does not count. SQLite's log is not part of it.
        same = self._mark.is_in_place() and identify_file(self._path) == self._main
        require_same_ledger(same, _OTHER_FILES)

    def commit_at_once(self, db: Any, done: Transaction, mark_written: Callable[[], None]) -> bool:
        # Another writer is not waited for: it has changed the books that were decided by.
        if not self._mark.try_lock():
            return False
        if not self._mark.is_newest() or self._mark.end != done.start:
            self._mark.unlock()
            return False
        self._make_room(db)
        self.commit(db, done, mark_written)
        return True

    def confirm(self, db: Any) -> None:
        self._mark.sync()

    def ask_newer(self, db: Any, books: Books) -> None:
        self._mark.read()

    def add_newer(self, db: Any, books: Books, found: Any, newest: End) -> None:
        """Take the newest entries from the mark. SQLite is asked for those that the mark no longer holds."""
        for batch in (*self._mark.list_newer(books.seq), MarkedBatch(self._mark.end, self._mark.end)):
            if books.seq < batch.start[0]:
                tables.add_newer(db, books, tables.query_newer(db, books), newest)
            for entry in batch.entries:
                if entry.seq > books.seq:
                    books.add_entry(entry)
                    require_known(books, newest)
        require_known(books, self._mark.end)
        require_same_ledger(books.seq >= max(newest, self._mark.end)[0], LACKING)

    def describe_place(self, db: Any) -> list[Any]:
        return ["file", os.stat(self._mark.path).st_dev, *identify_birth(self._mark.path)]

    def close(self) -> None:
        with self.turn:
            self.sharing.stop()
            if self._connection is not None and self._mark.unsettled:
                # What cannot be moved now is moved by whoever opens the ledger next.
                with suppress(LedgerError, OSError, sqlite3.Error), self._mark.locked(0):
                    self._move_entries(self._connection)
            self._close_connection()
            self._mark.close()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _make_room(self, db: sqlite3.Connection) -> None:
        """Move entries to SQLite once there are many. The caller holds the lock."""
        if self._mark.is_full:
            self._renew_full_mark(db)
        elif self._mark.unsettled >= MOVED_AT_ONCE:
            self._move_entries(db)

    def _move_entries(self, db: sqlite3.Connection) -> None:
        """Let SQLite hold what only the mark holds. The caller holds the lock."""
        self._require_same_files()
        self._mark.read()  # or SQLite would seem to be ahead of it
        try:
            db.execute("BEGIN IMMEDIATE")
            settle_with_mark(db, self._mark)
            db.execute("COMMIT")
        finally:
            self._roll_back(db)
        self._mark.settle()

    def _require_witness(self, db: sqlite3.Connection) -> None:
        self._move_entries(db)
        require_witness(db, self._mark)

    def _redo(self, db: sqlite3.Connection, shorter: bool) -> None:
        """Bring back what the mark holds, even if it was copied from elsewhere."""
        try:
            self._mark.read(copied=True)
            self._move_entries(db)
        except LedgerError as error:
            if not (shorter and error.code == "SF-L132"):
                raise

    def _adopt_mark(self, db: sqlite3.Connection) -> None:
        """Begin the mark anew, as this ledger's own."""
        end = read_end(db)
        if not _move_log(db, "FULL"):
            raise busy_error()
        self._mark.begin_anew(end)

    def _renew_full_mark(self, db: sqlite3.Connection) -> None:
        """Begin a full mark anew. It waits for no reader: it tries again once as much again is written."""
        self._move_entries(db)
        if _move_log(db, "PASSIVE"):
            self._mark.begin_anew(read_end(db), adopt=False)
        else:
            self._mark.postpone()

    def _roll_back(self, db: sqlite3.Connection) -> None:
        """Undo what is open. Closing undoes it too, if the database refuses."""
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            self._close_connection()

    def _open(self) -> sqlite3.Connection:
        if self._main is None:
            raise missing_error()
        require_same_ledger(identify_file(self._path) == self._main, "another file lies at its path")
        real = os.path.realpath(self._path)
        self._connection = open_connection(real, self._timeout)
        self._files = list_files(self._path, real)
        # The main file keeps the identity it had when the ledger was constructed.
        self._identities = (self._main, *identify_files(self._files)[1:])
        return self._connection

    def _require_same_files(self) -> None:
        """Refuse to go on if the files at the path are not the ones that the connection has open."""
        same = identify_files(self._files) == self._identities and self._mark.is_in_place()
        require_same_ledger(same, _OTHER_FILES)


def _move_log(db: sqlite3.Connection, how: Literal["PASSIVE", "FULL"]) -> bool:
    """Move SQLite's log into its main file. Returns False if someone reads an older state.

    The caller holds the mark's lock, so nobody writes and no second checkpoint runs meanwhile.
    """
    busy, pages, moved = db.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
    return not busy and pages == moved
