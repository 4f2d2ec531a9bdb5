"""Which files lie at a ledger's path.

An open connection goes on with the files it has opened, whatever is put in their place. Two processes could
then each have a ledger, and a budget, of their own. So device and inode are compared at every use.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

Identity = tuple[int, ...]
"""Inode and device of a file."""

Files = tuple[str, bytes, str]
"""Paths of the ledger, its write-ahead log and the log's index."""

_AT_FDCWD, _STATX_INO, _STATX_BTIME = -100, 0x100, 0x800


class _StatxResult(ctypes.Structure):
    """What statx fills in, which is the same on every Linux. The device is always filled in."""

    _fields_ = (
        ("_before", ctypes.c_uint32 * 8),
        ("inode", ctypes.c_uint64),
        ("_sizes", ctypes.c_uint64 * 5),
        ("born", ctypes.c_uint64 * 2),
        ("_times", ctypes.c_uint64 * 5),
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("_after", ctypes.c_uint64 * 14),
    )


_statx: Any = getattr(ctypes.CDLL(None), "statx", None)


def list_files(path: str, real: str) -> Files:
    """Return the three paths. SQLite names the log and its index after `real`, where links in `path` lead."""
    return path, os.fsencode(f"{real}-wal"), f"{real}-shm"


def identify_files(files: Files) -> tuple[Identity | None, ...]:
    """Return the identity of each file, or None for one that is missing."""
    file, log, index = files
    return identify_file(file), identify_log(log), identify_file(index)


def identify_file(path: str | bytes) -> Identity | None:
    """Return the inode and device at a path, without opening it: closing it would drop SQLite's locks."""
    # ValueError: a path with a zero character, which cannot exist either.
    try:
        return os.stat(path)[1:3]
    except (OSError, ValueError):
        return None


def identify_log(path: bytes) -> Identity | None:
    """Return the inode and device at a path, without asking for its times where the system allows that.

    From Linux 6.13 on, the first write after someone has asked for a file's times gets a new, precise time.
    Recording it takes longer than everything else in a commit but the wait for the disk.
    """
    found = _StatxResult()
    # Elsewhere than on Linux, or on failure, os.stat decides: it names the same numbers.
    if _statx is None or _statx(_AT_FDCWD, path, 0, _STATX_INO, ctypes.byref(found)) != 0:
        return identify_file(path)
    return found.inode, os.makedev(found.major, found.minor)


def identify_birth(path: str) -> tuple[int, int, int]:
    """Return the inode of a file and when it was made, in seconds and nanoseconds: no copy has the same.

    The time is 0 where the file system does not keep it. Devices are left out, since a restart renumbers
    them.
    """
    found = _StatxResult()
    wanted = _STATX_INO | _STATX_BTIME
    if _statx is None or _statx(_AT_FDCWD, os.fsencode(path), 0, wanted, ctypes.byref(found)) != 0:
        known = os.stat(path)
        return known.st_ino, int(getattr(known, "st_birthtime", 0)), 0
    return found.inode, found.born[0], found.born[1] & 0xFFFFFFFF
