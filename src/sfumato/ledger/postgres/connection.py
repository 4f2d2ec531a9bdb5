"""Opens connections to a PostgreSQL server, and gives them the calls of sqlite3's."""

from __future__ import annotations

import select
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from sfumato.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

SETTINGS = {
    "synchronous_commit": "on",
    "default_transaction_isolation": r"read\ committed",
    "statement_timeout": "0",
    # A plan made while the tables were small is kept when they are not, so it must use the index.
    "enable_seqscan": "off",
    "jit": "off",
}


class PostgresConnection:
    """A psycopg connection with sqlite3's `execute`, which marks parameters with `?`."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        return self.raw.execute(_mark_parameters(sql), parameters or None)

    def is_usable(self) -> bool:
        """Return whether the connection is open and the server has sent nothing unasked.

        An unasked message is most likely the server's goodbye. It is better to notice it now than in the
        middle of a commit, when nobody could tell whether the commit happened.
        """
        if self.raw.closed:
            return False
        waiting = select.poll()
        waiting.register(self.raw.fileno(), select.POLLIN)
        return not waiting.poll(0)


def open_connection(address: str, schema: str, timeout: float) -> PostgresConnection:
    """Connect to a server. Timeouts below what it can measure are raised to that."""
    milliseconds = max(1, int(1000 * timeout))
    settings = {**SETTINGS, "search_path": schema, "lock_timeout": str(milliseconds)}
    return PostgresConnection(
        _connection_class().connect(
            address,
            autocommit=True,  # transactions are opened by name
            connect_timeout=max(2, int(timeout)),
            client_encoding="utf8",
            # All settings go with the first message: every check opens a connection of its own.
            options=" ".join(f"-c {name}={value}" for name, value in settings.items()),
            # A charge is always the same few statements, so the server keeps their plans after three uses.
            prepare_threshold=3,
        )
    )


def import_psycopg() -> ModuleType:
    """Return the driver, which comes with the `postgres` extra."""
    try:
        import psycopg
    except ImportError:
        raise missing_extra(
            "postgres", "SF-L311", "A ledger in PostgreSQL needs the psycopg package."
        ) from None
    return psycopg  # type: ignore[no-any-return,unused-ignore]


@cache
def _connection_class() -> Any:
    """Return psycopg's class with a quiet end: a lab is rarely closed, and psycopg warns about that."""

    class SelfClosingConnection(import_psycopg().Connection):  # type: ignore[misc,unused-ignore]
        def __del__(self) -> None:
            if hasattr(self, "pgconn"):
                self.pgconn.finish()

    return SelfClosingConnection


@lru_cache(maxsize=1024)
def _mark_parameters(sql: str) -> str:
    return sql.replace("?", "%s")
