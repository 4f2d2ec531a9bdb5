"""Waiting for the answer to a charge that someone else made, and seeing whether that process still lives.

Each process locks one byte, at a place that it draws, of a file that all processes on the machine share. The
system drops the lock when the process ends. The marks of its charges name the file and the byte, so whoever
waits for an answer can look whether the byte is locked. A charge that was made elsewhere, on another machine
or before this one was started again, names another file: nothing can be said about its process.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakSet

from sfumato.errors import LedgerError
from sfumato.ledger.sharing import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.api import Released

if sys.platform == "linux":
    from fcntl import F_OFD_GETLK, F_OFD_SETLK, F_UNLCK, F_WRLCK, fcntl

POLL_SECONDS = 0.02
"""Seconds between two looks at what others do. No privacy depends on it."""
_FLOCK = struct.Struct("hhqqi")
"""What Linux is told and tells about a lock: its kind, from where it counts, place, length and process."""
_FILE, _BYTE = 12, 12
"""Hexadecimal digits in a mark that name the file, and the byte that its process has locked."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class HolderLock:
    """The lock of this process, and a look at those of others. Without a file, nothing can be said of anyone.

    No decision about a budget rests on it: a wrong word would only end a wait too early.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._turn = Lock()
        self._name = ""
        self._file: int | None = None
        _locks.add(self)

    def take_name(self) -> str:
        """Lock a byte of one's own, once, and return what begins the marks of this process's charges."""
        with self._turn:
            if self._file is None and self._path is not None and sys.platform == "linux":
                with suppress(OSError):  # without it, others wait as long as they would for another machine
                    self._lock_byte(self._path)
            return self._name

    def has_ended(self, mark: str) -> bool:
        """Return whether the process that drew this mark is known to have ended."""
        name = self.take_name()
        if not name or mark[:_FILE] != name[:_FILE] or mark.startswith(name):
            return False
        place = mark[_FILE : _FILE + _BYTE]
        return len(mark) > _FILE + _BYTE and not self._is_locked(int(place, 16))

    def drop(self) -> None:
        """Let the lock go: this process answers none of its charges any more, or was forked from its holder.

        A child that kept the lock would let its parent seem alive for as long as it lives itself.
        """
        self._turn = Lock()  # after a fork, the thread that may hold the other one does not exist
        file, self._file, self._name = self._file, None, ""
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        # As the interpreter ends, modules lose their names first; the system then closes the file.
        if Lock is not None:
            self.drop()

    def _lock_byte(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            found = os.fstat(file)
            shared = f"{_BOOT.read_text().strip()} {found.st_dev} {found.st_ino}"
            byte = os.urandom(_BYTE // 2).hex()
            fcntl(file, F_OFD_SETLK, _FLOCK.pack(F_WRLCK, os.SEEK_SET, int(byte, 16), 1, 0))
        except BaseException:
            os.close(file)
            raise
        self._file, self._name = file, sha256(shared.encode()).hexdigest()[:_FILE] + byte

    def _is_locked(self, byte: int) -> bool:
        asked = _FLOCK.pack(F_WRLCK, os.SEEK_SET, byte, 1, 0)
        with self._turn, suppress(OSError):
            if self._file is not None:
                told = fcntl(self._file, F_OFD_GETLK, asked)
                return bool(_FLOCK.unpack(told)[0] != F_UNLCK)
        return True


_locks: WeakSet[HolderLock] = WeakSet()


def _drop_all() -> None:
    for each in list(_locks):
        each.drop()


os.register_at_fork(after_in_child=_drop_all)


# ---- waiting -----------------------------------------------------------------------------------------------


def await_answer(
    find: Callable[[], Released | None],
    has_ended: Callable[[], bool],
    finish_writes: Callable[[], object],
    timeout: float,
) -> Released:
    """Return the answer once `find` finds it, or raise when nobody makes it or the time is over.

    A process that has ended may have asked another one to write its answer, which does so within a certain
    time or never. After that time, `finish_writes` brings to an end what was begun, and `find` is asked once
    more.
    """
    deadline, ended_at = time.monotonic() + timeout, None
    while (answer := find()) is None:
        now = time.monotonic()
        if ended_at is None and has_ended():
            ended_at = now
        if ended_at is not None and now >= ended_at + PATIENCE:
            finish_writes()
            answer = find()
            if answer is None:
                raise _cut_off_error()
            return answer
        if now >= deadline:
            raise _pending_error()
        time.sleep(POLL_SECONDS)
    return answer


def _cut_off_error() -> LedgerError:
    return LedgerError(
        "SF-L124",
        "This key was charged, and its process ended before an answer was kept.",
        why="the charge stays: it may have been read for",
        try_="ask again without the key, or with a new one, which will be charged again",
    )


def _pending_error() -> LedgerError:
    return LedgerError(
        "SF-L107",
        "This key was charged, but no answer was kept.",
        why="whoever asked is still at work, or failed after the charge",
        try_="ask again without the key, which will be charged again",
    )
