"""Which files lie at a ledger's path.

An open connection goes on with the files it opened, whatever is put in their place. Then two processes each
have a ledger, and a budget, of their own. So device and inode are compared at every use.
"""

from __future__ import annotations

import os

from sfumato.errors import LedgerError

Identity = tuple[int, ...]
"""Inode and device."""


def files(path: str, real: str) -> tuple[str, str, str]:
    """The ledger's file, its log and the log's index.

    `real` is where symbolic links in `path` led on opening: SQLite names the other two after it.
    """
    return path, f"{real}-wal", f"{real}-shm"


def unchanged(paths: tuple[str, str, str], known: tuple[Identity | None, ...]) -> bool:
    """Whether these files lie there, all of them. Asked twice in every charge, so at once for all three."""
    file, log, index = paths
    try:
        return (os.stat(file)[1:3], os.stat(log)[1:3], os.stat(index)[1:3]) == known
    except (OSError, ValueError):
        return False


def identity(path: str) -> Identity | None:
    """Asked of the path alone: to open and close the file here would drop SQLite's locks on it."""
    try:
        return os.stat(path)[1:3]
    except (OSError, ValueError):
        return None


def require_same(same: bool, why: str) -> None:
    if not same:
        raise LedgerError(
            "SF-L112",
            "The ledger was replaced or removed while it was in use, so nothing is answered.",
            why=why,
            try_="end every process that uses it, open it anew, and check it against a receipt",
        )
