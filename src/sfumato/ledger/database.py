"""One SQLite connection to one file: taken in turns by threads, closed before a fork, errors always coded.

A connection must not cross a fork, not even unused. SQLite notes in the process's memory which files it
has locked; a child inherits the note without the lock, opens the file again, takes the note at its word,
and its commits can vanish with the parent's log. So every connection is closed before a fork and opened
again on either side when it is next needed.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from sfumato.errors import LedgerError
from sfumato.ledger import tables
from sfumato.ledger.entry import half_a_character
from sfumato.ledger.files import files, identity, require_same
from sfumato.ledger.group import busy, unconfirmed
from sfumato.ledger.shared import Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sfumato.ledger.files import Files, Identity
    from sfumato.ledger.tables import Connection, Pending

T = TypeVar("T")

SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # without it macOS calls a write durable that the disk has not kept
    "PRAGMA trusted_schema = OFF",
)

_MOVE = "UPDATE ledger SET entries = ?, head = ? WHERE entries = ? AND head = ?"
_POLL = 0.002  # seconds; even chances for all waiters, where SQLite's own growing pauses starve the unlucky
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT)


class Database(Shared):
    """Opens when first used, and only the file that `main` names, however often it is opened again.

    `patience` is how many seconds to wait for other processes.
    """

    def __init__(self, path: str, patience: float, main: Identity | None) -> None:
        super().__init__()
        self._path = path
        self._real = path
        self._patience = patience
        self._main = main
        self._files: Files | None = None
        self._connection: sqlite3.Connection | None = None
        self._waits = patience

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone."""
        with self.turn, coded():
            db = self._connection or self._open()
            self._wait(db, self._patience)
            self.require_same_files()
            yield db

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One unchanging view over several statements."""
        with self.connected() as db:
            try:
                db.execute("BEGIN")
                yield db
            finally:
                self.rollback(db)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The only writer among all processes, from here on: those who come while it waits go with it."""
        with self.turn, coded():
            db = self._connection or self._open()
            try:
                self._wait(db, 0)
                _begin(db, time.monotonic() + self._patience)
                self.require_same_files()  # only now, as the wait may have been long
                yield db
            finally:
                self.rollback(db)

    def begin(self, db: Connection, ask: Callable[[], T]) -> T:
        return ask()

    def coded(self) -> AbstractContextManager[None]:
        return coded()

    def require_text(self, *texts: str) -> None:
        """SQLite keeps every text."""

    def commit(self, db: Any, pending: Pending, written: Callable[[], None]) -> None:
        tables.require(self.commit_at_once(db, pending, written), "where the chain ends")

    def commit_at_once(self, db: Any, pending: Pending, written: Callable[[], None]) -> bool:
        if db.execute(_MOVE, (*pending.after, *pending.before)).rowcount != 1:
            return False
        rows = [(each.seq, each.kind, each.body, each.prev, each.hash) for each in pending.entries]
        db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)
        if pending.answers:
            db.executemany("INSERT INTO answers VALUES (?, ?, ?)", pending.answers)
        written()
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            # It may have happened all the same: look, through a connection that has not failed.
            self.close()
            if self._may_hold(*pending.after):
                raise unconfirmed() from error
            raise
        self.require_same_files()  # written where nobody else looks, it does not count
        return True

    def _may_hold(self, seq: int, head: str) -> bool:
        try:
            with self.connected() as db:
                return tables.holds(db, seq, head)
        except LedgerError:
            return True

    def require_same_files(self) -> None:
        """What lies at the path is still what the connection has open."""
        found = files(self._path, self._real)
        require_same(found == self._files, "other files lie at its path than were opened")

    def rollback(self, db: sqlite3.Connection) -> None:
        """Undo what is open. Closing undoes it too, should the database refuse."""
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()

    def close(self) -> None:
        with self.turn:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _wait(self, db: sqlite3.Connection, patience: float) -> None:
        """How long SQLite itself waits for others. Not at all to begin a transaction: see `_POLL`."""
        if self._waits != patience:
            db.execute(f"PRAGMA busy_timeout = {int(1000 * patience):d}")
            self._waits = patience

    def _open(self) -> sqlite3.Connection:
        require_same(identity(self._path) == self._main, "another file lies at its path")
        self._real = os.path.realpath(self._path)
        self._connection, self._waits = _connect(self._real, self._patience), self._patience
        self._files = (self._main, *files(self._path, self._real)[1:])
        return self._connection


@contextmanager
def coded() -> Iterator[None]:
    """Turn every error of SQLite into one of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _coded(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) from error
    except UnicodeDecodeError as error:
        # The message of an error can quote the damage, and then Python cannot read the message.
        raise _coded(sqlite3.SQLITE_CORRUPT) from error
    except UnicodeEncodeError:
        raise half_a_character() from None


def _coded(extended: int) -> LedgerError:
    result = extended & 0xFF
    if result in _BUSY:
        return busy()
    if result == sqlite3.SQLITE_FULL:
        return LedgerError("SF-L105", "There is no room to write to the ledger.", try_="free some disk space")
    if result in _DAMAGED:
        return LedgerError("SF-L102", "The ledger's file is damaged, so nothing is answered.")
    return LedgerError("SF-L106", "The ledger cannot be read or written.", try_="sfumato ledger verify")


def _connect(path: str, patience: float) -> sqlite3.Connection:
    # mode=rw: a ledger that is gone must be missed, not begun anew with nothing spent.
    address = f"file:{quote(path)}?mode=rw"
    db = sqlite3.connect(address, patience, isolation_level=None, check_same_thread=False, uri=True)
    try:
        for setting in SETTINGS:
            db.execute(setting)
        db.execute(
            "SELECT 1 FROM sqlite_schema"
        ).fetchone()  # from the first read on, log and index are there
    except Exception:
        db.close()
        raise
    return db


def _begin(db: sqlite3.Connection, deadline: float) -> None:
    while not _began(db, deadline):
        time.sleep(_POLL)


def _began(db: sqlite3.Connection, deadline: float) -> bool:
    try:
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() >= deadline:
            raise
        return False
    return True
