"""How PostgreSQL is opened: with settings of ours, so that the server's own change neither meaning nor text.

Names are looked up in the system's own schema, so nothing that others put into the database is called.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.engines.limits import current_limits
from sfumato.engines.postgres.sources import ADDRESS
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
_OLDEST = 14
"""The first version with infinite decimals and exact seconds."""


@contextmanager
def open_reader(dsn: str) -> Iterator[Connection[Any]]:
    """Open one transaction that cannot write and sees one state of the data."""
    milliseconds = max(1, int(1000 * current_limits().seconds))
    settings = {"statement_timeout": f"{milliseconds}", "default_transaction_read_only": "on"}
    # Twice read-only: the setting holds for the session, the level for one state of the data.
    with _opened(dsn, settings) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield connection


@contextmanager
def open_writer(dsn: str) -> Iterator[Connection[Any]]:
    """Open one transaction: all that is made in it is there afterwards, durably, or none of it."""
    with _opened(dsn, {}) as connection, connection.transaction():
        yield connection


@contextmanager
def _opened(dsn: str, settings: dict[str, str]) -> Iterator[Connection[Any]]:
    with _connected(dsn) as connection:
        _require_known(connection)
        every = _ALWAYS | settings
        connection.execute("; ".join(f"SET {name} = {value}" for name, value in every.items()))
        yield connection


def identify_database(dsn: str) -> tuple[str, ...]:
    """Return what tells databases apart in an address, whoever opens it."""
    psycopg = _library()
    try:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        raise UsageError("SF-C201", "This is not the address of a database.", accepted=ADDRESS) from None
    return tuple(str(parts.get(name) or "") for name in ("host", "hostaddr", "port", "dbname"))


def _library() -> Any:
    try:
        import psycopg
    except ImportError:
        raise missing_extra(
            "postgres", "SF-C212", "A source in PostgreSQL needs the library psycopg."
        ) from None
    return psycopg


def _connected(dsn: str) -> Connection[Any]:
    psycopg = _library()
    try:
        connection: Connection[Any] = psycopg.connect(
            dsn, autocommit=True, client_encoding="utf8", connect_timeout=30
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
