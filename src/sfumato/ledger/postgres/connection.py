"""Opens connections to a PostgreSQL server, and gives them the calls of sqlite3's."""

from __future__ import annotations

import logging
import select
import time
from contextlib import suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from sfumato.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from types import ModuleType

GRACE = 2.0
"""Seconds that a server gets beyond the longest wait for a lock, before its silence is an error."""

SETTINGS = {
    "synchronous_commit": "on",
    # A warning is all that tells of a commit that no standby has confirmed.
    "client_min_messages": "warning",
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
        self.warnings: list[Any] = []
        """What the server has said beside its results, until `take_warnings`."""
        raw.add_notice_handler(self.warnings.append)

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        return self.raw.execute(_mark_parameters(sql), parameters or None)

    def take_warnings(self) -> bool:
        """Return whether the server has warned since the last call."""
        warned = bool(self.warnings)
        self.warnings.clear()
        return warned

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
    settings = {
        **SETTINGS,
        "search_path": schema,
        "lock_timeout": str(milliseconds),
        # A writer whose machine is gone must not hold the lock until the server's own patience ends.
        "idle_in_transaction_session_timeout": str(milliseconds + int(1000 * GRACE)),
    }
    raw = _connection_class().connect(**_choose_options(address, settings, timeout))
    raw.patience = timeout + GRACE
    return PostgresConnection(raw)


def _choose_options(address: str, settings: dict[str, str], timeout: float) -> dict[str, Any]:
    """Return what an address says, except where the ledger depends on something else."""
    own = import_psycopg().conninfo.conninfo_to_dict(address)
    # All settings go with the first message: every check opens a connection of its own. The last one wins.
    options = [str(own.get("options") or ""), *(f"-c {name}={value}" for name, value in settings.items())]
    return {
        **choose_timeouts(timeout),
        **own,
        "options": " ".join(options).strip(),
        "client_encoding": "utf8",
        "autocommit": True,  # transactions are opened by name
        # A charge is always the same few statements, so the server keeps their plans after three uses.
        "prepare_threshold": 3,
    }


def choose_timeouts(timeout: float) -> dict[str, int]:
    """Return the options that notice a server, or a way to it, that is gone. An address may set others."""
    seconds = max(2, int(timeout))
    return {
        "connect_timeout": seconds,
        "tcp_user_timeout": 1000 * seconds,
        "keepalives": 1,
        "keepalives_idle": seconds,
        "keepalives_interval": max(1, seconds // 3),
        "keepalives_count": 3,
    }


def import_psycopg() -> ModuleType:
    """Return the driver, which comes with the `postgres` extra."""
    try:
        import psycopg
    except ImportError:
        raise missing_extra("postgres", "A ledger in PostgreSQL needs the psycopg package.") from None
    return psycopg  # type: ignore[no-any-return,unused-ignore]


@cache
def _connection_class() -> Any:
    """Return psycopg's class with a limit to the server's silence, and a quiet end.

    A lab is rarely closed, and psycopg warns about that. It also logs the second error of a broken pipeline,
    where the first one is raised.
    """
    psycopg = import_psycopg()

    class ImpatientConnection(psycopg.Connection):  # type: ignore[misc,name-defined,unused-ignore]
        patience = 0.0

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return super().wait(_limit_silence(gen, self.patience), *arguments, **options)
            except psycopg.errors.ConnectionTimeout:
                # Or the session would go on waiting for a standby, long after everyone has left it.
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=GRACE)
                self.pgconn.finish()
                raise

        def __del__(self) -> None:
            if hasattr(self, "pgconn"):
                self.pgconn.finish()

    def is_not_ours(record: logging.LogRecord) -> bool:
        pipeline = next(iter(record.args or ()), None)
        return not isinstance(getattr(pipeline, "_conn", None), ImpatientConnection)

    logging.getLogger("psycopg").addFilter(is_not_ours)
    return ImpatientConnection


def _limit_silence(driver: Generator[int, int, Any], patience: float) -> Generator[int, int, Any]:
    """Pass on what a generator of the driver waits for, until nothing has come for so many seconds.

    No option of a connection does this: a server whose machine still acknowledges packets counts as alive.
    """
    deadline = time.monotonic() + patience
    try:
        wanted = next(driver)
        while True:
            ready = yield wanted
            if ready:
                deadline = time.monotonic() + patience
            elif time.monotonic() >= deadline:
                raise import_psycopg().errors.ConnectionTimeout("the server is silent")
            wanted = driver.send(ready)
    except StopIteration as end:
        return end.value
    finally:
        _end_generator(driver)


def _end_generator(driver: Generator[int, int, Any]) -> None:
    """End a generator of the driver that is left half-way, as by Ctrl-C or a timeout.

    Its own cleaning up fails then, or waits for the server once more. If that happened when it is freed, at
    whatever time, Python could only report the error. Nothing is lost by it: the connection is closed.
    """
    for _ in range(2):  # the second time ends the waiting of the first
        with suppress(Exception):
            driver.close()


@lru_cache(maxsize=1024)
def _mark_parameters(sql: str) -> str:
    return sql.replace("?", "%s")
