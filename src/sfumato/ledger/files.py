"""Which files lie at a ledger's path.

An open connection goes on with the files it opened, whatever is put in their place. Then two processes each
have a ledger, and a budget, of their own. So device and inode are compared at every use.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from sfumato.errors import LedgerError

Identity = tuple[int, ...]
"""Inode and device."""

Paths = tuple[str, bytes, str]
"""Of the ledger's file, its log and the log's index."""

_HERE, _INODE = -100, 0x100  # AT_FDCWD and STATX_INO


class _Found(ctypes.Structure):
    """What statx fills in, the same on every Linux. The device it names unasked."""

    _fields_ = (
        ("_before", ctypes.c_uint32 * 8),
        ("inode", ctypes.c_uint64),
        ("_between", ctypes.c_uint64 * 12),
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("_after", ctypes.c_uint64 * 14),
    )


_statx: Any = getattr(ctypes.CDLL(None), "statx", None)


def files(path: str, real: str) -> Paths:
    """`real` is where symbolic links in `path` led on opening: SQLite names the other two after it."""
    return path, os.fsencode(f"{real}-wal"), f"{real}-shm"


def identities(paths: Paths) -> tuple[Identity | None, ...]:
    file, log, index = paths
    return identity(file), log_identity(log), identity(index)


def identity(path: str | bytes) -> Identity | None:
    """Asked of the path alone: to open and close the file here would drop SQLite's locks on it."""
    try:
        return os.stat(path)[1:3]
    except (OSError, ValueError):
        return None


def log_identity(path: bytes) -> Identity | None:
    """The same without its times, where the system can.

    Once they were looked at, Linux from 6.13 on gives the next write a time of its own. To note that takes
    longer than all else a commit does besides waiting for the disk.
    """
    found = _Found()
    if _statx is None or _statx(_HERE, path, 0, _INODE, ctypes.byref(found)) != 0:
        return identity(path)
    return found.inode, os.makedev(found.major, found.minor)


def require_same(same: bool, why: str) -> None:
    if not same:
        raise LedgerError(
            "SF-L112",
            "The ledger was replaced or removed while it was in use, so nothing is answered.",
            why=why,
            try_="end every process that uses it, open it anew, and check it against a receipt",
        )
