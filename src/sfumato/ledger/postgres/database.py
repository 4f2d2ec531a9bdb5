"""One connection to a PostgreSQL server: taken in turns, closed before a fork, errors always coded."""

from __future__ import annotations

import select
import time
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import LedgerError, UsageError, missing_extra
from sfumato.ledger import tables
from sfumato.ledger.chain import half_a_character
from sfumato.ledger.group_commit import busy, unconfirmed
from sfumato.ledger.shared import Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")

_POLL = 0.1
_BUSY = ("55P03", "40P01", "57014")  # a lock not had in time, a deadlock, a statement that took too long
_FULL = ("53100",)
_DAMAGED = ("XX001", "XX002")

_SETTINGS = {
    "synchronous_commit": "on",
    "default_transaction_isolation": r"read\ committed",
    "statement_timeout": "0",
    "enable_seqscan": "off",  # a plan made while the tables were small stays when they are not
    "jit": "off",
}


_APPEND = """
    WITH moved AS (UPDATE ledger SET entries = ?, head = ? WHERE entries = ? AND head = ? RETURNING 1) {kept}
    INSERT INTO entries SELECT * FROM (VALUES {entries}) AS given WHERE EXISTS (SELECT 1 FROM moved)
"""
"""Nothing is written where the chain ends elsewhere. Who wrote there first is waited for, disk and all."""
_KEPT = """
    , kept AS (
        INSERT INTO answers SELECT * FROM (VALUES {answers}) AS given WHERE EXISTS (SELECT 1 FROM moved)
    )
"""


class Dressed:
    """A psycopg connection with the calls of sqlite3's, and its mark for a parameter."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        return self.raw.execute(_marked(sql), parameters or None)


class ServerDatabase(Shared):
    """Opens when first used. `patience` is how many seconds to wait for other writers, and for the server."""

    def __init__(self, address: str, schema: str, patience: float) -> None:
        super().__init__()
        self._address = address
        self._schema = schema
        self._patience = patience
        self._connection: Dressed | None = None

    @contextmanager
    def connected(self) -> Iterator[Dressed]:
        with self.turn, self.coded():
            if self._connection is None or self._connection.raw.closed or _hung_up(self._connection.raw):
                self.close()
                self._connection = self._open()
            yield self._connection

    @contextmanager
    def reading(self) -> Iterator[Dressed]:
        with self.connected() as db, self._undone(db):
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            db.execute("SET LOCAL enable_seqscan = on")  # all of it is read
            yield db

    def write(self, work: Callable[[Any], T]) -> T:
        with self.connected() as db, self._undone(db):
            return work(db)

    def begin(self, db: Any, ask: Callable[[], T]) -> T:
        """In one trip. Each statement sees what was committed before it began, so the lock comes first."""
        try:
            with db.raw.pipeline():
                _lock(db)
                return ask()
        except driver().Error:
            self.close()  # after a pipeline that broke off, the driver is wrong about what was prepared
            raise

    def require_text(self, *texts: str) -> None:
        if any("\0" in text for text in texts):
            rule = "PostgreSQL keeps no text with a zero character"
            raise UsageError("SF-L302", "The ledger cannot keep this.", rule=rule)

    @contextmanager
    def coded(self) -> Iterator[None]:
        psycopg = driver()
        try:
            yield
        except psycopg.Error as error:
            raise _coded(psycopg, error) from error
        except UnicodeEncodeError:
            raise half_a_character() from None

    def commit_at_once(self, db: Any, done: Transaction, written: Callable[[], None]) -> bool:
        """A statement by itself is a transaction."""
        written()
        return self._written(lambda: _append(db, done), done) > 0

    def commit(self, db: Any, done: Transaction, written: Callable[[], None]) -> None:
        def send() -> Any:
            with db.raw.pipeline():
                sent = _append(db, done)
                written()
                db.execute("COMMIT")
            return sent

        wrote = self._written(send, done) == len(done.entries)
        tables.require(wrote, "where the chain ends")

    def _written(self, send: Callable[[], Any], done: Transaction) -> int:
        """How many entries. What others see is on the disk, so after a lost connection they are looked up."""
        try:
            return int(send().rowcount)
        except driver().Error as error:
            self.close()
            if error.sqlstate in _BUSY or not self._holds(*done.head):
                raise
            return len(done.entries)

    def close(self) -> None:
        with self.turn:
            if self._connection is not None:
                self._connection.raw.close()
            self._connection = None

    def _holds(self, seq: int, head: str) -> bool:
        """As the next writer: the lost session has then ended, one way or the other."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self.write(lambda db: self.begin(db, partial(tables.holds, db, seq, head)))
            except LedgerError as error:
                if time.monotonic() >= deadline:
                    raise unconfirmed() from error
            time.sleep(_POLL)

    @contextmanager
    def _undone(self, db: Dressed) -> Iterator[None]:
        """What is left open at the end is undone; closing undoes it too, should the server be gone."""
        try:
            yield
        finally:
            try:
                if not db.raw.closed and db.raw.info.transaction_status:
                    db.execute("ROLLBACK")
            except driver().Error:
                self.close()

    def _open(self) -> Dressed:
        """With all settings in the first message: a check opens a connection of its own each time."""
        waits = max(1, int(1000 * self._patience))
        settings = {**_SETTINGS, "search_path": self._schema, "lock_timeout": str(waits)}
        return Dressed(
            _closing().connect(
                self._address,
                autocommit=True,
                connect_timeout=max(2, int(self._patience)),
                client_encoding="utf8",
                options=" ".join(f"-c {name}={value}" for name, value in settings.items()),
                prepare_threshold=3,
            )
        )


@cache
def _closing() -> Any:
    """Nobody closes a lab, so a connection that nobody holds any more closes itself, and without a word."""

    class Closing(driver().Connection):  # type: ignore[misc,unused-ignore]
        def __del__(self) -> None:
            if hasattr(self, "pgconn"):
                self.pgconn.finish()

    return Closing


def driver() -> ModuleType:
    try:
        import psycopg
    except ImportError:
        raise missing_extra(
            "postgres", "SF-L311", "A ledger in PostgreSQL needs the psycopg package."
        ) from None
    return psycopg  # type: ignore[no-any-return,unused-ignore]


def _hung_up(raw: Any) -> bool:
    """The server has said something though nobody asked: goodbye, most likely.

    To be told now is better than in the middle of a commit, when nobody knows whether it happened.
    """
    waiting = select.poll()
    waiting.register(raw.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


def _lock(db: Any) -> None:
    db.execute("BEGIN")
    db.execute("SELECT version FROM ledger FOR UPDATE")


def _append(db: Any, done: Transaction) -> Any:
    values: list[Any] = [*done.head, *done.before]
    for kept in done.answers:
        values += kept
    for each in done.entries:
        values += (each.seq, each.kind, each.body, each.prev, each.hash)
    return db.execute(_statement(len(done.answers), len(done.entries)), values)


@lru_cache(maxsize=1024)
def _statement(answers: int, entries: int) -> str:
    kept = _KEPT.format(answers=", ".join(["(?::BIGINT, ?, ?)"] * answers)) if answers else ""
    return _APPEND.format(kept=kept, entries=", ".join(["(?::BIGINT, ?, ?, ?, ?)"] * entries))


@lru_cache(maxsize=1024)
def _marked(sql: str) -> str:
    return sql.replace("?", "%s")


def _coded(psycopg: ModuleType, error: Any) -> LedgerError:
    state = error.sqlstate
    if state in _BUSY:
        return busy()
    if state in _FULL:
        return LedgerError("SF-L105", "There is no room to write to the ledger.", try_="free some disk space")
    if state in _DAMAGED or isinstance(error, psycopg.IntegrityError):
        return LedgerError("SF-L102", "The ledger's tables are damaged, so nothing is answered.")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return LedgerError(
            "SF-L120",
            "The server does not let this role do that to the ledger.",
            why="the role lacks a right, or the server's disk is read-only",
            try_="the owner of the schema, to bring an older ledger forward",
        )
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return LedgerError("SF-L103", "This schema is not a ledger of this version.")
    return LedgerError("SF-L106", "The ledger cannot be read or written.", try_="sfumato ledger verify")
