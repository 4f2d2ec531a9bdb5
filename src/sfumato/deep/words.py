"""Many random words at once: AES in counter mode under keys that the operating system draws."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
except (
    ImportError
):  # the extra `torch` brings it; without it every bit is the operating system's, more slowly
    Cipher = None  # type: ignore[assignment, misc]

_BLOCK = 16
"""Bytes of a block of the cipher."""
SPARE = _BLOCK // 8
"""Words of room that the cipher needs beyond what it writes."""
_AT_ONCE = 1 << 15
_ZEROS = memoryview(bytes(8 * _AT_ONCE))
"""What is encrypted at a time."""
_FEW = 64
"""Words up to which the operating system is faster than setting up a cipher."""


class WordStream:
    """Independent, uniform 64-bit words under a key of its own, which ends with the stream."""

    def __init__(self) -> None:
        """Draw a key."""
        self._encrypt: Any = None
        if Cipher is not None:
            key, start = os.urandom(32), os.urandom(_BLOCK)
            self._encrypt = Cipher(algorithms.AES(key), modes.CTR(start)).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words that were never given before."""
        room = np.empty(count + SPARE, dtype=np.uint64)
        self.fill(room)
        return room[:count]

    def fill(self, room: NDArray[np.uint64]) -> None:
        """Fill all but the last `SPARE` places, which the cipher needs."""
        count = len(room) - SPARE
        if self._encrypt is None:
            room[:count] = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
            return
        for at in range(0, count, _AT_ONCE):
            some = min(_AT_ONCE, count - at)
            self._encrypt.update_into(_ZEROS[: 8 * some], room[at : at + some + SPARE].view(np.uint8).data)


class FreshSource:
    """Words under a new key at every call, so that no state is kept; few words are the operating system's."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` fresh words."""
        if count <= _FEW:
            return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        return WordStream().words(count)


FRESH = FreshSource()
