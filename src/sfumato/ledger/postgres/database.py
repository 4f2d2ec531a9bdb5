"""One connection to a server: threads use it in turns, it is closed before a fork, errors are ours."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import LedgerError, UsageError
from sfumato.errors.interrupts import find_interrupt
from sfumato.ledger import tables
from sfumato.ledger.database import LedgerDatabase
from sfumato.ledger.failures import require_agreement, unconfirmed_error
from sfumato.ledger.postgres.connection import import_psycopg, open_connection
from sfumato.ledger.postgres.durability import CONFIRM, confirm_all, require_durable_server
from sfumato.ledger.postgres.errors import PostgresErrors, is_lock_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.ledger.postgres.connection import PostgresConnection
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")

_POLL_SECONDS = 0.1
"""Pause between attempts to look up a commit whose connection was lost, in seconds."""

# Nothing is written if the chain ends elsewhere. A writer that was there first is waited for.
_APPEND = """
    WITH moved AS (UPDATE ledger SET entries = ?, head = ? WHERE entries = ? AND head = ? RETURNING 1) {kept}
    INSERT INTO entries SELECT * FROM unnest(%b::BIGINT[], %b::TEXT[], %b::TEXT[], %b::TEXT[], %b::TEXT[])
        WHERE EXISTS (SELECT 1 FROM moved)
"""
_KEEP_ANSWERS = """
    , kept AS (
        INSERT INTO answers SELECT * FROM unnest(%b::BIGINT[], %b::TEXT[], %b::TEXT[])
            WHERE EXISTS (SELECT 1 FROM moved)
    )
"""
# Lists of any length are one statement, whose plan the server keeps.
_STATEMENTS = {False: _APPEND.format(kept=""), True: _APPEND.format(kept=_KEEP_ANSWERS)}
_ENTRY_ROW = attrgetter("seq", "kind", "body", "prev", "hash")
_TRANSLATED = PostgresErrors()


class PostgresDatabase(LedgerDatabase):
    """Opens when first used.

    `timeout` is how many seconds to wait for other writers, and for the server.
    """

    def __init__(self, address: str, schema: str, timeout: float) -> None:
        super().__init__()
        self._address = address
        self._schema = schema
        self._timeout = timeout
        self._connection: PostgresConnection | None = None

    @contextmanager
    def lend_connection(self) -> Iterator[PostgresConnection]:
        with self.turn, _TRANSLATED:
            if self._connection is None or not self._connection.is_usable():
                self.close()
                self._connection = self._open()
            try:
                yield self._connection
            except Exception:
                raise
            except BaseException:
                self.close()  # after Ctrl-C the driver may be wrong about what it has sent and received
                raise

    @contextmanager
    def lend_snapshot(self) -> Iterator[PostgresConnection]:
        with self.lend_connection() as db, self._rolling_back(db):
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            db.execute("SET LOCAL enable_seqscan = on")  # all of each table is read
            yield db

    def write(self, work: Callable[[Any], T]) -> T:
        with self.lend_connection() as db, self._rolling_back(db):
            return work(db)

    def begin(self, db: Any, ask: Callable[[], T]) -> T:
        """Lock the one row of `ledger`, then ask, in one round trip.

        Each statement sees what was committed before it began, so the lock has to come first.
        """
        try:
            with db.raw.pipeline():
                db.execute("BEGIN")
                db.execute("SELECT version FROM ledger FOR UPDATE")
                return ask()
        except import_psycopg().Error:
            # After a broken pipeline, the driver is wrong about which statements are prepared.
            self.close()
            raise

    def require_text(self, *texts: str) -> None:
        # Refused here, as an error inside of a batch would fail the jobs of other threads too.
        if any("\0" in text for text in texts):
            rule = "PostgreSQL keeps no text with a zero character"
            raise UsageError("SF-L302", "The ledger cannot keep this.", rule=rule)

    def commit(self, db: Any, done: Transaction, mark_written: Callable[[], None]) -> None:
        """Write without a wait for the disk, then wait for it outside of the lock.

        The log is sequential, so a later commit that is durable makes all earlier ones durable. Sessions that
        wait at the same time share one sync: docs/proofs/durability.md.
        """

        def send() -> Any:
            with db.raw.pipeline():
                db.execute("SET LOCAL synchronous_commit = off")
                sent = _append(db, done)
                mark_written()
                db.execute("COMMIT")
                db.execute(CONFIRM)
            return sent

        written = self._count_written(send, done) == len(done.entries)
        require_agreement(written, "where the chain ends")

    def commit_at_once(self, db: Any, done: Transaction, mark_written: Callable[[], None]) -> bool:
        # A statement outside of a transaction is a transaction by itself, which waits for the disk.
        mark_written()
        return self._count_written(lambda: _append(db, done), done) > 0

    def confirm(self, db: Any) -> None:
        confirm_all(db, self._timeout)

    def close(self) -> None:
        with self.turn:
            if self._connection is not None:
                self._connection.raw.close()
            self._connection = None

    def _open(self) -> PostgresConnection:
        db = open_connection(self._address, self._schema, self._timeout)
        try:
            require_durable_server(db)
        except Exception:
            db.raw.close()
            raise
        return db

    def _count_written(self, send: Callable[[], Any], done: Transaction) -> int:
        """Return how many entries were written durably.

        If the connection is lost, or the server warns, they are looked up and confirmed by a later commit.
        """
        lost = None
        try:
            written = int(send().rowcount)
        except import_psycopg().Error as error:
            self.close()
            # Nothing was written, or Ctrl-C is behind the error, and whoever pressed it is not kept waiting.
            if is_lock_refused(error) or find_interrupt(error):
                raise
            lost = error
        if lost is None and not (self._connection and self._connection.take_warnings()):
            return written
        if self._has_confirmed_entry(*done.end):
            return len(done.entries)
        if lost is not None:
            raise lost
        return 0

    def _has_confirmed_entry(self, seq: int, head: str) -> bool:
        """Look up an entry as the next writer, so that the lost session has ended one way or the other.

        PostgreSQL shows what is not yet durable, so an entry that is there is confirmed too.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                found = self.write(lambda db: self.begin(db, partial(tables.has_entry, db, seq, head)))
                if found:
                    with self.lend_connection() as db:
                        self.confirm(db)
                return found
            except LedgerError as error:
                if time.monotonic() >= deadline:
                    raise unconfirmed_error() from error
            time.sleep(_POLL_SECONDS)

    @contextmanager
    def _rolling_back(self, db: PostgresConnection) -> Iterator[None]:
        """Undo what is open at the end. Closing undoes it too, if the server is gone."""
        try:
            yield
        finally:
            try:
                if not db.raw.closed and db.raw.info.transaction_status:
                    db.execute("ROLLBACK")
            except import_psycopg().Error:
                self.close()


def _append(db: Any, done: Transaction) -> Any:
    """Send everything that a transaction writes as one statement."""
    columns = [*zip(*done.answers, strict=True), *zip(*map(_ENTRY_ROW, done.entries), strict=True)]
    return db.execute(_STATEMENTS[bool(done.answers)], [*done.end, *done.start, *map(list, columns)])
