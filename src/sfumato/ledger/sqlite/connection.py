"""Opens connections to a SQLite file."""

from __future__ import annotations

import sqlite3
from urllib.parse import quote

SETTINGS = (
    "PRAGMA journal_mode = WAL",
    # A commit is durable in the mark before it reaches SQLite's log, which need not be synced for that.
    "PRAGMA synchronous = NORMAL",
    # Only the holder of the mark's lock moves the log into the main file: two at once can lose commits in
    # SQLite before 3.51.3.
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA fullfsync = ON",  # without it, macOS calls a write durable that the disk has not kept
    "PRAGMA trusted_schema = OFF",
)


def open_connection(path: str, timeout: float) -> sqlite3.Connection:
    """Open a ledger's file, which must exist."""
    # mode=rw: a ledger that is gone must be missed, and not begun again with nothing spent.
    address = f"file:{quote(path)}?mode=rw"
    db = sqlite3.connect(address, timeout, isolation_level=None, check_same_thread=False, uri=True)
    try:
        for setting in SETTINGS:
            db.execute(setting)
        # SQLite creates the log and its index at the first read. They have to exist from here on, since the
        # identities of all three files are noted next.
        db.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except Exception:
        db.close()
        raise
    return db
