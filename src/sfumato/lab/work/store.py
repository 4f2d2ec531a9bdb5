"""The file of requests for budget. It says who asked for more; no budget is in it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.errors import DiskError
from sfumato.files.disk_errors import full_disk_error
from sfumato.files.durable import create_empty_private_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "work.sqlite"
VERSION = 1
_TIMEOUT = 30.0
"""Seconds to wait for other processes that write."""
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS requests (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)",
)

Fields = dict[str, Any]


class WorkStore:
    """Requests by number, each as plain fields, for all processes on one machine."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def read_requests(self) -> dict[int, Fields]:
        """Return the fields of every request, by number."""
        found = self._read("SELECT number, body FROM requests ORDER BY number")
        return {number: json.loads(body) for number, body in found}

    @contextmanager
    def changing(self) -> Iterator[WorkChange]:
        """Allow one change at a time. It is durable once the block ends, and undone if the block raises."""
        with suppress(FileExistsError):
            create_empty_private_file(self._path)
        with self._connected() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                for statement in _SCHEMA:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
                yield WorkChange(db)
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def _read(self, statement: str, *values: object) -> list[Any]:
        if not self._path.exists() or self._path.stat().st_size == 0:
            return []
        with self._connected() as db:
            return db.execute(statement, values).fetchall()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # Not in WAL mode: folders are read from copies and read-only media, and few people write here.
        address = f"file:{quote(str(self._path))}?mode=rw"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=_TIMEOUT, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = FULL")
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if version > VERSION:
                    raise _unreadable_error("a newer version of sfumato has written to it")
                yield db
        except sqlite3.Error as problem:
            if getattr(problem, "sqlite_errorname", "") == "SQLITE_FULL":
                raise full_disk_error() from problem
            raise _unreadable_error(str(problem)) from problem


class WorkChange:
    """What can be changed in one transaction of the store."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add_request(self, fields: Fields) -> int:
        """Write a new request, and return its number."""
        number = self._db.execute("INSERT INTO requests (body) VALUES (?)", (_write(fields),)).lastrowid
        return int(number or 0)

    def list_requests(self) -> dict[int, Fields]:
        """Return all requests as they are now."""
        found = self._db.execute("SELECT number, body FROM requests ORDER BY number")
        return {number: json.loads(body) for number, body in found}

    def find_request(self, number: int) -> Fields | None:
        """Return the fields of a request as they are now."""
        found = self._db.execute("SELECT body FROM requests WHERE number = ?", (number,)).fetchone()
        return None if found is None else json.loads(found[0])

    def put_request(self, number: int, fields: Fields) -> None:
        """Write the new fields of a request."""
        self._db.execute("UPDATE requests SET body = ? WHERE number = ?", (_write(fields), number))


def _write(fields: Fields) -> str:
    return json.dumps(fields, ensure_ascii=True, sort_keys=True)


def _unreadable_error(why: str) -> DiskError:
    return DiskError(
        "SF-C224",
        "The file of requests for budget cannot be used.",
        file=FILE,
        why=why,
        try_="restore it from a copy of the lab's folder; budgets are in the ledger and not in it",
    )
