"""One connection to a file: threads use it in turns, it is closed before a fork, errors are ours.

The fork matters even if the child never uses the connection. SQLite notes in the process's memory which files
it has locked. A child inherits the note without the lock, opens the file again, believes the note, and its
commits can vanish with the parent's log.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import LedgerError
from sfumato.ledger import tables
from sfumato.ledger.database import LedgerDatabase
from sfumato.ledger.failures import require_agreement, require_same_ledger, unconfirmed_error
from sfumato.ledger.sqlite.connection import open_connection
from sfumato.ledger.sqlite.errors import ErrorTranslator, is_busy
from sfumato.ledger.sqlite.files import identify_file, identify_files, list_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.ledger.sqlite.files import Identity
    from sfumato.ledger.tables import SqlConnection
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")

_POLL_SECONDS = 0.002
"""Pause between attempts to lock the file, in seconds.

Even pauses give all waiting processes the same chance. SQLite's own pauses grow, and starve the unlucky: see
docs/decisions/0003-ledger.md. No privacy depends on it.
"""

_MOVE_END = "UPDATE ledger SET entries = ?, head = ? WHERE entries = ? AND head = ?"
_ENTRY_ROW = attrgetter("seq", "kind", "body", "prev", "hash")
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
        self._files = list_files(path, path)
        self._identities: tuple[Identity | None, ...] = ()
        self._connection: sqlite3.Connection | None = None
        self._busy_timeout = timeout

    @contextmanager
    def lend_connection(self) -> Iterator[sqlite3.Connection]:
        with self.turn, _TRANSLATED:
            db = self._connection or self._open()
            self._set_busy_timeout(db, self._timeout)
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
        """Call `work` as the only writer among all processes.

        Threads that come while this waits for the file's lock are still part of the batch.
        """
        with self.turn, _TRANSLATED:
            db = self._connection or self._open()
            try:
                if self._busy_timeout:
                    self._set_busy_timeout(db, 0)
                _lock_file(db, self._timeout)
                self._require_same_files()  # only now, as the wait may have been long
                return work(db)
            finally:
                self._roll_back(db)

    def begin(self, db: SqlConnection, ask: Callable[[], T]) -> T:
        return ask()  # `write` holds the lock already

    def require_text(self, *texts: str) -> None:
        """Accept every text: SQLite can keep them all."""

    def commit(self, db: Any, done: Transaction, mark_written: Callable[[], None]) -> None:
        require_agreement(self.commit_at_once(db, done, mark_written), "where the chain ends")

    def commit_at_once(self, db: Any, done: Transaction, mark_written: Callable[[], None]) -> bool:
        # Moves the end only if it is where the books say, so a decision from old books writes nothing.
        if db.execute(_MOVE_END, (*done.end, *done.start)).rowcount != 1:
            return False
        db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", map(_ENTRY_ROW, done.entries))
        if done.answers:
            db.executemany("INSERT INTO answers VALUES (?, ?, ?)", done.answers)
        mark_written()
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            # It may have happened all the same. Look, through a connection that has not failed.
            self.close()
            if self._may_have_entry(*done.end):
                raise unconfirmed_error() from error
            raise
        self._require_same_files()  # a commit to files that nobody else opens does not count
        return True

    def close(self) -> None:
        with self.turn:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _may_have_entry(self, seq: int, head: str) -> bool:
        try:
            with self.lend_connection() as db:
                return tables.has_entry(db, seq, head)
        except LedgerError:
            return True  # nobody can tell, so it must be taken as spent

    def _roll_back(self, db: sqlite3.Connection) -> None:
        """Undo what is open. Closing undoes it too, if the database refuses."""
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()

    def _open(self) -> sqlite3.Connection:
        require_same_ledger(identify_file(self._path) == self._main, "another file lies at its path")
        real = os.path.realpath(self._path)
        self._connection, self._busy_timeout = open_connection(real, self._timeout), self._timeout
        self._files = list_files(self._path, real)
        # The main file keeps the identity it had when the ledger was constructed.
        self._identities = (self._main, *identify_files(self._files)[1:])
        return self._connection

    def _set_busy_timeout(self, db: sqlite3.Connection, timeout: float) -> None:
        """Set how long SQLite itself waits for others: not at all to lock the file, see `_POLL_SECONDS`."""
        if self._busy_timeout != timeout:
            db.execute(f"PRAGMA busy_timeout = {int(1000 * timeout):d}")
            self._busy_timeout = timeout

    def _require_same_files(self) -> None:
        """Refuse to go on if the files at the path are not the ones that the connection has open."""
        same = identify_files(self._files) == self._identities
        require_same_ledger(same, "other files lie at its path than were opened")


def _lock_file(db: sqlite3.Connection, timeout: float) -> None:
    """Begin a transaction as the only writer."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_SECONDS)
