"""Finds out whether the file system's locks work. On some network file systems they do nothing."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct

from sfumato.errors import LedgerError

_BYTE = 1 << 40
"""Place of the byte that is locked to find out. No file is that long."""

_SOUND_SINCE = (3, 51, 3)


def require_locks(path: str) -> None:
    """Refuse a file system on which two can hold the same lock: each would have a budget of its own.

    `path` is a file that SQLite does not open, since closing it would drop SQLite's locks.
    """
    first, second = (os.open(path, os.O_RDWR | os.O_CLOEXEC) for _ in range(2))
    try:
        if _excludes_flock(first, second) and _excludes_byte_lock(first, second):
            return
    finally:
        os.close(first)
        os.close(second)
    raise LedgerError(
        "SF-C211",
        "Locks do nothing on this file system, so nothing is answered.",
        why="two processes could each spend the whole budget",
        try_="keep the ledger on a local disk, or in PostgreSQL",
    )


def describe_old_sqlite() -> str | None:
    """Return a warning if SQLite is older than the repair of its log, or None."""
    if sqlite3.sqlite_version_info >= _SOUND_SINCE:
        return None
    return (
        f"SQLite {sqlite3.sqlite_version} can lose commits when two processes reset its log at once. The "
        "ledger lets only one do so, and its mark would reveal a loss. SQLite 3.51.3 repairs it."
    )


def _excludes_flock(first: int, second: int) -> bool:
    """Return whether whoever holds a file's lock keeps others out. Writers rely on this one."""
    for file in (first, second):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True  # kept out by the first, or by a process at work
        except OSError:
            return False
    return False


def _excludes_byte_lock(first: int, second: int) -> bool:
    """Return whether a lock of a process on a byte keeps others out. SQLite relies on this one."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return True  # only Linux has a lock that another one of the same process keeps out
    try:
        fcntl.lockf(first, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _BYTE)
        fcntl.fcntl(second, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _BYTE, 1, 0))
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        pass
    return False
