"""What people read when a disk is full, cannot be written to, or fails."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import DiskError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def name_disk_errors() -> Iterator[None]:
    """Turn errors of the disk under the lab's folder into ones that say what to do. Others pass through."""
    try:
        yield
    except OSError as problem:
        named = _named(problem)
        if named is None:
            raise
        raise named from problem


def full_disk_error() -> DiskError:
    """Return the error for a disk without room."""
    return DiskError(
        "SF-C223",
        "The disk has no room for this, so nothing was changed.",
        try_="free some disk space, then the same call again",
    )


def _named(problem: OSError) -> DiskError | None:
    if problem.errno in _FULL:
        return full_disk_error()
    if problem.errno in _CLOSED:
        return DiskError(
            "SF-C224",
            "The lab's folder cannot be written to, so nothing was changed.",
            why="the disk is read-only, or the folder belongs to someone else",
            try_="the user who created the lab",
        )
    if problem.errno == errno.EIO:
        return DiskError(
            "SF-C224",
            "The disk under the lab's folder failed.",
            try_="check the disk, then the same call again",
        )
    return None
