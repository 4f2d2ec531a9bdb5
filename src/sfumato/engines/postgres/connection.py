"""How PostgreSQL is opened: with settings of ours, so that the server's own change neither meaning nor text.

Names are looked up in the system's own schema, so nothing that others put into the database is called.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from sfumato.engines.limits import current_limits
from sfumato.engines.postgres.sources import ADDRESS
from sfumato.engines.watch import reach_engine
from sfumato.errors import UsageError, missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

_ALWAYS = {
    "search_path": "pg_catalog, pg_temp",
    "TimeZone": "'UTC'",
    "DateStyle": "'ISO, YMD'",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
    "synchronous_commit": "on",
    "jit": "off",
}
_NETWORK = {
    "connect_timeout": 30,
    "tcp_user_timeout": 30_000,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""After a minute without a sign of life, the server or network is gone. An address may say otherwise."""
_OLDEST = 14
"""The first version with infinite decimals and exact seconds."""


class IdleReaders:
    """Keeps one connection of a reader for each database, from the check before a charge to the question.

    A fork closes them first: a child that let go of one would end its parent's.
    """

    def __init__(self) -> None:
        self._turn = Lock()
        self._idle: dict[str, Connection[Any]] = {}
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._turn.release, after_in_child=self._turn.release
        )

    def take(self, dsn: str) -> Connection[Any]:
        """Return the connection that waits, or a new one."""
        with self._turn:
            idle = self._idle.pop(dsn, None)
        return _open_session(dsn, {"default_transaction_read_only": "on"}) if idle is None else idle

    def put(self, dsn: str, connection: Connection[Any]) -> None:
        """Keep a connection for the next question, if it is in order and none waits already."""
        with self._turn:
            if connection.info.transaction_status == 0 and dsn not in self._idle:
                self._idle[dsn] = connection
                return
        connection.close()

    def _before_fork(self) -> None:
        self._turn.acquire()
        while self._idle:
            self._idle.popitem()[1].close()


IDLE_READERS = IdleReaders()


@contextmanager
def open_reader(dsn: str) -> Iterator[Connection[Any]]:
    """Open one transaction that cannot write and sees one state of the data.

    EngineError says that the database could not be reached, so that nothing was asked of it.
    """
    why = "the database cannot be opened"
    with ExitStack() as stack:
        with reach_engine("PostgreSQL", why, UsageError, import_library().Error):
            connection = IDLE_READERS.take(dsn)
            stack.callback(IDLE_READERS.put, dsn, connection)
            stack.enter_context(connection.transaction())
            # Twice read-only: the setting holds for the session, the level for one state of the data.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            milliseconds = max(1, int(1000 * current_limits().seconds))
            connection.execute(f"SET LOCAL statement_timeout = {milliseconds}".encode())
        yield connection


@contextmanager
def open_writer(dsn: str) -> Iterator[Connection[Any]]:
    """Open one transaction: all that is made in it is there afterwards, durably, or none of it."""
    with _open_session(dsn, {}) as connection, connection.transaction():
        yield connection


def _open_session(dsn: str, settings: dict[str, str]) -> Connection[Any]:
    connection = _connected(dsn)
    try:
        _require_known(connection)
        every = _ALWAYS | settings
        connection.execute("; ".join(f"SET {name} = {value}" for name, value in every.items()))
    except BaseException:
        connection.close()
        raise
    return connection


def identify_database(dsn: str) -> tuple[str, ...]:
    """Return what tells databases apart in an address, whoever opens it."""
    psycopg = import_library()
    try:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        raise UsageError("SF-C201", "This is not the address of a database.", accepted=ADDRESS) from None
    return tuple(str(parts.get(name) or "") for name in ("host", "hostaddr", "port", "dbname"))


def import_library() -> Any:
    """Return the driver, which comes with the `postgres` extra."""
    try:
        import psycopg
    except ImportError:
        raise missing_extra("postgres", "A source in PostgreSQL needs the library psycopg.") from None
    return psycopg


def _connected(dsn: str) -> Connection[Any]:
    psycopg = import_library()
    try:
        known = psycopg.conninfo.conninfo_to_dict(dsn)
        connection: Connection[Any] = psycopg.connect(
            autocommit=True, **{**_NETWORK, **known, "client_encoding": "utf8"}
        )
        return connection
    except psycopg.Error:
        # PostgreSQL's own words name hosts and users.
        raise UsageError(
            "SF-C209",
            "The database cannot be opened.",
            why="there is no such server, database or user, or the password is another",
            try_="psql with the same address",
        ) from None


def _require_known(connection: Connection[Any]) -> None:
    version = connection.info.server_version // 10_000
    encoding = connection.info.parameter_status("server_encoding")
    if version < _OLDEST or encoding != "UTF8":
        raise UsageError(
            "SF-C211",
            "This database cannot hold snapshots.",
            version=str(version),
            encoding=str(encoding),
            needed=f"PostgreSQL {_OLDEST} or newer, and a database in UTF8",
        )
