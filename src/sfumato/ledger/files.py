"""Which files lie at a ledger's path.

An open connection goes on with the files it opened, whatever is put in their place. Then two processes each
have a ledger, and a budget, of their own. So device and inode are compared at every use.
"""

from __future__ import annotations

import os

from sfumato.errors import LedgerError

Identity = tuple[int, int]
"""Device and inode."""


Files = tuple[Identity | None, Identity | None, Identity | None]
"""The ledger's file, its log and the log's index; none where there is no such file."""


def files(path: str, real: str) -> Files:
    """`real` is where symbolic links in `path` led on opening: SQLite names the other two after it."""
    return identity(path), identity(f"{real}-wal"), identity(f"{real}-shm")


def identity(path: str) -> Identity | None:
    """Asked of the path alone: to open and close the file here would drop SQLite's locks on it."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def require_same(same: bool, why: str) -> None:
    if not same:
        raise LedgerError(
            "SF-L112",
            "The ledger was replaced or removed while it was in use, so nothing is answered.",
            why=why,
            try_="end every process that uses it, open it anew, and check it against a receipt",
        )
