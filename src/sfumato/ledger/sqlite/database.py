"""One connection to a file: threads use it in turns, it is closed before a fork, errors are ours.

The fork matters even if the child never uses the connection. SQLite notes in the process's memory which files
it has locked. A child inherits the note without the lock, opens the file again, believes the note, and its
commits can vanish with the parent's log.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sfumato.errors import LedgerError
from sfumato.ledger import tables
from sfumato.ledger.database import LedgerDatabase
from sfumato.ledger.failures import (
    busy_error,
    missing_error,
    require_agreement,
    require_same_ledger,
    unconfirmed_error,
)
from sfumato.ledger.sqlite.connection import open_connection
from sfumato.ledger.sqlite.errors import SqliteErrors
from sfumato.ledger.sqlite.files import identify_file, identify_files, list_files
from sfumato.ledger.sqlite.locks import require_locks
from sfumato.ledger.sqlite.mark import Mark, MarkedBatch, missing_mark_error
from sfumato.ledger.sqlite.redo import (
    ADD_ENTRY,
    KEEP_ANSWER,
    MOVE_END,
    read_end,
    require_witness,
    require_witnessed,
    settle_with_mark,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.ledger.sqlite.files import Identity
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")

_ENTRY_ROW = attrgetter("seq", "kind", "body", "prev", "hash")
_CONTENT = attrgetter("kind", "body")
_TRANSLATED = SqliteErrors()


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
            except Exception:
                raise
            except BaseException:
                self._mark.forget()  # an interruption may have come between two of its fields
                raise
            finally:
                self._end_write(db)

    def settle(self) -> None:
        """Bring back entries that only the mark holds, or refuse a ledger that is too short."""
        if not self._looks_settled():
            self.write(lambda db: self.begin(db, lambda: require_witness(db, self._mark)))

    def require_locks(self) -> None:
        """Refuse to go on where locks do nothing."""
        with _TRANSLATED:
            require_locks(self._mark.path)

    def adopt_mark(self, *, missing: bool, shorter: bool = False) -> None:
        """Make the mark that lies here the ledger's own, wherever it came from.

        `missing` accepts a ledger without a mark, and `shorter` one that lacks entries that its mark names.
        """
        with self.turn, _TRANSLATED:
            self._mark.create()
            with self._mark.locked(self._timeout), self.lend_connection() as db:
                if not self._mark.is_blank():
                    self._redo(db, shorter)
                elif not missing:
                    raise missing_mark_error()
                if not shorter:
                    require_witnessed(db, self._mark)
                self._adopt_mark(db)

    def begin(self, db: Any, ask: Callable[[], T]) -> T:
        self._mark.lock(self._timeout)
        self._require_same_files()  # only now, as the wait may have been long
        self._begin_locked(db)
        return ask()

    def require_text(self, *texts: str) -> None:
        """Accept every text: SQLite can keep them all."""

    def commit(self, db: Any, done: Transaction, mark_written: Callable[[], None]) -> None:
        require_agreement(self._append(db, done, mark_written), "where the chain ends")

    def commit_at_once(self, db: Any, done: Transaction, mark_written: Callable[[], None]) -> bool:
        # Another writer is not waited for: it is about to change the books that were decided by.
        if not self._mark.try_lock():
            return False
        self._begin_locked(db)
        if self._append(db, done, mark_written):
            return True
        self._end_write(db)
        return False

    def close(self) -> None:
        with self.turn:
            self._close_connection()
            self._mark.close()

    def _looks_settled(self) -> bool:
        """Return whether SQLite is seen to hold what the mark says, without a wait for other writers."""
        # Through an object of its own: beside a writer, it may miss a record in front of one that it finds.
        with self.turn, _TRANSLATED, closing(Mark(os.path.realpath(self._path))) as mark:
            # Read before SQLite is: unless a writer is at work or has died, SQLite holds all of it by then.
            marked = mark.read()
            with self.lend_connection() as db:
                holds = not marked[0] or tables.has_entry(db, *marked)
            return holds and mark.witness.is_at(marked, mark.noted)

    def _begin_locked(self, db: sqlite3.Connection) -> None:
        """Begin a transaction of the only writer, on the newest state."""
        if self._mark.is_full:
            self._renew_full_mark(db)
        db.execute("BEGIN IMMEDIATE")
        self._mark.read()
        if not self._mark.is_settled:
            self._mark.search()  # or what SQLite holds would be written over records that are only damaged
            self._settle(db)

    def _end_write(self, db: sqlite3.Connection) -> None:
        """Undo what is open, and let others write."""
        try:
            self._roll_back(db)
        finally:
            self._mark.unlock()

    def _append(self, db: sqlite3.Connection, done: Transaction, mark_written: Callable[[], None]) -> bool:
        """Write and commit, if the chain ends where the transaction began. The caller holds the lock."""
        if self._mark.end != done.start:
            # Someone else has written, or the newest record was damaged since. SQLite knows what it said.
            self._mark.search()
            self._settle(db)
        # Moves the end only if it is where the books say, so a decision from old books writes nothing.
        if db.execute(MOVE_END, (*done.end, *done.start)).rowcount != 1:
            return False
        for entry in done.entries:
            db.execute(ADD_ENTRY, _ENTRY_ROW(entry))
        if done.answers:
            db.executemany(KEEP_ANSWER, done.answers)
        mark_written()
        # This is the one wait for the disk. Until SQLite has committed too, nobody sees the entries.
        self._mark.append(MarkedBatch(done.start, done.end, list(map(_CONTENT, done.entries)), done.answers))
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            # It may have happened all the same. Look, through a connection that has not failed.
            self._close_connection()
            if self._may_have_entry(*done.end):
                raise unconfirmed_error() from error
            self._mark.undo(done.start)
            raise
        self._mark.settle()
        self._mark.witness.move(done.start, done.end, self._mark.noted)
        # A commit to files that nobody else opens does not count.
        self._require_same_files()
        require_same_ledger(self._mark.is_in_place(), "another mark lies at its path")
        return True

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _settle(self, db: sqlite3.Connection) -> None:
        """Let SQLite and the mark hold the same entries before anything is decided."""
        if settle_with_mark(db, self._mark):
            db.execute("COMMIT")
            db.execute("BEGIN IMMEDIATE")

    def _redo(self, db: sqlite3.Connection, shorter: bool) -> None:
        """Bring back what the mark holds, even if it was copied from elsewhere."""
        try:
            self._mark.read(copied=True)
            db.execute("BEGIN IMMEDIATE")
            settle_with_mark(db, self._mark)
            db.execute("COMMIT")
        except LedgerError as error:
            if not (shorter and error.code == "SF-L132"):
                raise
        finally:
            self._roll_back(db)

    def _adopt_mark(self, db: sqlite3.Connection) -> None:
        """Begin the mark anew, as this ledger's own."""
        end = read_end(db)
        if not _move_log(db, "FULL"):
            raise busy_error()
        self._mark.begin_anew(end)

    def _renew_full_mark(self, db: sqlite3.Connection) -> None:
        """Begin a full mark anew. It waits for no reader: it tries again once as much again is written."""
        end = read_end(db)
        # Otherwise it holds entries that SQLite lacks, and they come first.
        if self._mark.read() == end and _move_log(db, "PASSIVE"):
            self._mark.begin_anew(end, adopt=False)
        else:
            self._mark.postpone()

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
        same = identify_files(self._files) == self._identities
        require_same_ledger(same, "other files lie at its path than were opened")


def _move_log(db: sqlite3.Connection, how: Literal["PASSIVE", "FULL"]) -> bool:
    """Move SQLite's log into its main file. Returns False if someone reads an older state.

    The caller holds the mark's lock, so nobody writes and no second checkpoint runs meanwhile.
    """
    busy, pages, moved = db.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
    return not busy and pages == moved
