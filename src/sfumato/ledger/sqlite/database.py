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
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from sfumato.errors import LedgerError
from sfumato.ledger import tables
from sfumato.ledger.chain import half_a_character
from sfumato.ledger.files import files, identities, identity, require_same
from sfumato.ledger.group_commit import busy, unconfirmed
from sfumato.ledger.shared import Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.ledger.files import Identity
    from sfumato.ledger.tables import Connection
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")

SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # without it macOS calls a write durable that the disk has not kept
    "PRAGMA trusted_schema = OFF",
)

_MOVE = "UPDATE ledger SET entries = ?, head = ? WHERE entries = ? AND head = ?"
_ROW = attrgetter("seq", "kind", "body", "prev", "hash")
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
        self._paths = files(path, path)
        self._patience = patience
        self._main = main
        self._files: tuple[Identity | None, ...] = ()
        self._connection: sqlite3.Connection | None = None
        self._waits = patience

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone."""
        with self.turn, CODED:
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

    def write(self, work: Callable[[Any], T]) -> T:
        """As the only writer among all processes: those who come while it waits go with it."""
        with self.turn, CODED:
            db = self._connection or self._open()
            try:
                if self._waits:
                    self._wait(db, 0)
                _begin(db, self._patience)
                self.require_same_files()  # only now, as the wait may have been long
                return work(db)
            finally:
                self.rollback(db)

    def begin(self, db: Connection, ask: Callable[[], T]) -> T:
        return ask()

    def require_text(self, *texts: str) -> None:
        """SQLite keeps every text."""

    def commit(self, db: Any, done: Transaction, written: Callable[[], None]) -> None:
        tables.require(self.commit_at_once(db, done, written), "where the chain ends")

    def commit_at_once(self, db: Any, done: Transaction, written: Callable[[], None]) -> bool:
        if db.execute(_MOVE, (*done.head, *done.before)).rowcount != 1:
            return False
        db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", map(_ROW, done.entries))
        if done.answers:
            db.executemany("INSERT INTO answers VALUES (?, ?, ?)", done.answers)
        written()
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            # It may have happened all the same: look, through a connection that has not failed.
            self.close()
            if self._may_hold(*done.head):
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
        same = identities(self._paths) == self._files
        require_same(same, "other files lie at its path than were opened")

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
        real = os.path.realpath(self._path)
        self._connection, self._waits = _connect(real, self._patience), self._patience
        self._paths = files(self._path, real)
        self._files = (self._main, *identities(self._paths)[1:])
        return self._connection


class Coded:
    """Turns every error of SQLite within its `with` into one of ours."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        match error:
            case None:
                return
            case sqlite3.Error():
                raise _coded(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) from error
            case UnicodeDecodeError():
                # The message of an error can quote the damage, and then Python cannot read the message.
                raise _coded(sqlite3.SQLITE_CORRUPT) from error
            case UnicodeEncodeError():
                raise half_a_character() from None


CODED = Coded()


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


def _begin(db: sqlite3.Connection, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(_POLL)
