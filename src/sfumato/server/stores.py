"""SQLite files of the server in the lab's folder: private, and safe for several server processes.

What they hold can be lost without making budget: charges and answers are the ledger's.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sfumato.errors import DiskError
from sfumato.files.disk_errors import full_disk_error, name_disk_errors
from sfumato.files.durable import create_empty_private_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SECONDS = 30.0
"""How long a writer waits for another one."""
_SETTINGS = (
    # No write-ahead log: SQLite before 3.51.3 can lose commits where two processes move the log at once, and
    # a lost commit could be that of a revoked token.
    "journal_mode = TRUNCATE",
    "synchronous = FULL",
    "fullfsync = ON",
    "foreign_keys = ON",
    "trusted_schema = OFF",
)


class PrivateStore:
    """A SQLite file that its owner alone can read. Threads of a process take turns, and so do processes."""

    def __init__(self, path: Path, schema: str) -> None:
        self._lock = threading.Lock()
        with _name_errors():
            with suppress(FileExistsError):
                create_empty_private_file(path)
            self._file = sqlite3.connect(path, _SECONDS, isolation_level=None, check_same_thread=False)
            for setting in _SETTINGS:
                self._file.execute(f"PRAGMA {setting}")
            self._file.executescript(schema)

    def read_rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return the rows of a SELECT."""
        with self._lock, _name_errors():
            return self._file.execute(sql, values).fetchall()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection within one transaction, which is durable once the block has ended."""
        with self._lock, _name_errors(), self._file:
            self._file.execute("BEGIN IMMEDIATE")
            yield self._file

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


@contextmanager
def _name_errors() -> Iterator[None]:
    """Turn errors of the disk, and of SQLite, into ones that say what to do."""
    try:
        with name_disk_errors():
            yield
    except sqlite3.DatabaseError as problem:
        if getattr(problem, "sqlite_errorname", "") == "SQLITE_FULL":
            raise full_disk_error() from problem
        if isinstance(problem, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            raise
        raise DiskError(
            "SF-C224",
            "A file of the server cannot be used now, so nothing was changed.",
            try_="again later; the steward finds the reason in the server's log",
        ) from problem
