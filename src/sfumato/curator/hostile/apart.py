"""Reading outside of the gate's thread: the messages of a worker and its host, and a thread instead."""

from __future__ import annotations

import struct
import time
from contextvars import copy_context
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING

from sfumato.engines.limits import RunLimits, limit_runs

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from sfumato.curator.plan.priced import Step

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


def ask_in_thread(read: Callable[[Sequence[Step]], str], steps: Sequence[Step], seconds: float) -> str:
    """Read in a thread that is given so much time. Its engine is told to end then.

    This is for Spark alone, whose driver lives in the steward's process: its memory is the cluster's matter.
    """
    found: Queue[str | Exception] = Queue()

    def run() -> None:
        try:
            with limit_runs(RunLimits(seconds)):
                found.put(read(steps))
        except Exception as problem:
            found.put(problem)

    Thread(target=copy_context().run, args=(run,), daemon=True).start()
    try:
        outcome = found.get(timeout=seconds)
    except Empty:
        raise WorkerError("no answer in its slot; the engine was told to end it") from None
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
