"""The messages of a worker and its host."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

QUESTION, ANSWERED, UNREAD, FAILED = b"q", b"a", b"u", b"f"
_HEADER = struct.Struct("!cQ")


class WorkerError(Exception):
    """A worker gave no answer in its time. What it says is for the steward alone."""


def send_message(to: socket.socket, kind: bytes, body: bytes) -> None:
    """Send a kind and a body."""
    to.sendall(_HEADER.pack(kind, len(body)))
    to.sendall(body)


def receive_message(source: socket.socket, until: float | None = None) -> tuple[bytes, bytes]:
    """Return a kind and a body, or raise when the other side is gone or the time is over."""
    kind, size = _HEADER.unpack(_receive(source, _HEADER.size, until))
    return kind, _receive(source, size, until)


def _receive(source: socket.socket, size: int, until: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        if until is not None:
            source.settimeout(max(0.001, until - time.monotonic()))
        part = source.recv(min(size - len(parts), 2**20))
        if not part:
            raise EOFError("the other side is gone")
        parts += part
    return bytes(parts)
