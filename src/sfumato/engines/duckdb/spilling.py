"""Folders for what does not fit in DuckDB's memory: in the lab's folder, and gone with their process."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "spilling"


class SpillFolder:
    """A folder that exists as long as this object.

    Its lock tells others that it is in use. The system lets go of the lock of a process that was killed, and
    whoever makes the next folder removes that process's.
    """

    def __init__(self, beside: Path) -> None:
        parent = beside / _NAME
        # mkdir's mode passes through the umask, and the folder may be there already.
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        parent.chmod(0o700)
        with _locked(parent):
            remove_abandoned(parent)
            self.path = Path(tempfile.mkdtemp(dir=parent))
            lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
        self.remove = weakref.finalize(self, _remove, self.path, lock)


def open_spill_folder(beside: Path) -> SpillFolder | None:
    """Return a folder, or none where nothing can be written: what does not fit in memory then fails."""
    try:
        return SpillFolder(beside)
    except OSError:
        return None


def remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes that were killed."""
    for folder in parent.iterdir():
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            _remove(folder, lock)


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
