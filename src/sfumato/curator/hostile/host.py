"""Starting and ending worker processes: one that only forks, and a worker for each question."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time
import weakref
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING

from sfumato.curator.gate import NothingReadError
from sfumato.curator.hostile.apart import (
    ANSWERED,
    QUESTION,
    UNREAD,
    WorkerError,
    receive_message,
    send_message,
)
from sfumato.curator.hostile.worker import END, FORK, LEARNER, ORDER
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sfumato.curator.hostile.reading import Ask
    from sfumato.curator.plan.priced import Step

MEMORY = 2 * 2**30
"""Bytes that a worker may take beside its libraries. Whoever asks knows it."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads do not survive a fork, so no library may have some in the process that forks."""


class WorkerHost:
    """The worker processes of a lab.

    `places` is how many questions are read at the same time; others wait before they are charged.
    """

    def __init__(self, folder: Path, schema: str, *, memory: int = MEMORY, places: int | None = None) -> None:
        self._folder, self._schema, self._memory = folder, schema, memory
        self._places = BoundedSemaphore(places or os.cpu_count() or 1)
        self._turn = Lock()
        self._forker: _Forker | None = None

    def start(self) -> None:
        """Start the process that forks workers, unless it runs. It is ready a little later."""
        with self._turn:
            self._find_forker()

    @contextmanager
    def take_place(self) -> Iterator[None]:
        """Wait for a free place, and keep it until the block ends."""
        with self._places:
            # A lab's first question waits here until libraries are imported, which is no part of its slot.
            if self._forker is None or not self._forker.ready:
                with self._turn, suppress(OSError, EOFError):  # if it was ended, the fork finds out
                    self._find_forker().wait_until_ready()
            yield

    @contextmanager
    def start_worker(self, *, learns: bool = False) -> Iterator[Ask]:
        """Yield what asks a new worker, which ends with the block. Take a place first.

        `learns` says that the question needs the learners, which take a second or two to import once.
        """
        worker = self._fork(LEARNER if learns else FORK)
        try:
            yield worker.ask
        finally:
            worker.end()

    def close(self) -> None:
        """End all workers. A later question starts them anew."""
        with self._turn:
            if self._forker is not None:
                self._forker.close()
            self._forker = None

    def _fork(self, kind: bytes) -> _Worker:
        with self._turn:
            for _ in range(2):  # if the forking process was ended from outside, a new one takes its place
                forker = self._find_forker()
                with suppress(OSError, EOFError):
                    connection, process = forker.fork(kind)
                    return _Worker(forker, connection, process, self._folder, self._schema, self._memory)
                forker.close()
                self._forker = None
        raise UsageError(
            "SF-C221",
            "No worker can be started here; nothing was charged.",
            try_="tell the steward",
        )

    def _find_forker(self) -> _Forker:
        # After a fork of this process, the other's workers are not ours to talk to.
        if self._forker is None or self._forker.owner != os.getpid():
            self._forker = _Forker()
        return self._forker


class _Forker:
    """The process that forks workers, as seen from here."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        ours, theirs = socket.socketpair()
        paths = os.pathsep.join(path for path in sys.path if path)
        command = "from sfumato.curator.hostile.worker import main; main()"
        with theirs:
            process = subprocess.Popen(  # noqa: S603  our own interpreter and our own text
                [sys.executable, "-P", "-c", command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **_ONE_THREAD, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                # What libraries print when they fail may hold rows.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the process that asks
            )
        self._orders, self.ready = ours, False
        self.close = weakref.finalize(self, _stop, process, ours, self.owner)

    def wait_until_ready(self) -> None:
        """Return when it has imported what workers need."""
        if not self.ready:
            self._receive()
            self.ready = True

    def fork(self, kind: bytes) -> tuple[socket.socket, int]:
        """Return a connection to a new worker, and its number."""
        self.wait_until_ready()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._orders, [ORDER.pack(kind, 0)], [theirs.fileno()])
            return ours, self._receive()
        except BaseException:
            ours.close()
            raise

    def end(self, process: int) -> None:
        """Kill one worker; it is the forking process that does it, and the number is surely its child's."""
        with suppress(OSError):
            self._orders.sendall(ORDER.pack(END, process))

    def _receive(self) -> int:
        answer = self._orders.recv(ORDER.size, socket.MSG_WAITALL)
        if len(answer) < ORDER.size:
            raise EOFError
        return int(ORDER.unpack(answer)[1])


def _stop(process: subprocess.Popen[bytes], orders: socket.socket, owner: int) -> None:
    orders.close()  # which ends it, and its workers with it
    if os.getpid() == owner:
        process.wait()


class _Worker:
    """One worker, as seen from here."""

    def __init__(
        self,
        forker: _Forker,
        connection: socket.socket,
        process: int,
        folder: Path,
        schema: str,
        memory: int,
    ) -> None:
        self._forker, self._connection, self._process = forker, connection, process
        self._told = folder, schema, memory

    def ask(self, steps: Sequence[Step], seconds: float) -> str:
        """Return the worker's answer; one that is not there in time is never read."""
        folder, schema, memory = self._told
        body = pickle.dumps((str(folder), schema, seconds, memory, tuple(steps)))
        try:
            kind, found = self._exchange(body, time.monotonic() + seconds)
        except (OSError, EOFError) as problem:
            raise WorkerError(f"the worker was ended, or ended by itself: {problem!r}") from None
        finally:
            self.end()  # here, and not after the slot: what it leaves to be cleaned up takes time too
        if kind != ANSWERED:
            failure = NothingReadError if kind == UNREAD else WorkerError
            raise failure(found.decode(errors="replace"))
        return found.decode()

    def end(self) -> None:
        """Kill it, whatever it does."""
        if self._connection.fileno() >= 0:
            self._connection.close()
            self._forker.end(self._process)

    def _exchange(self, body: bytes, until: float) -> tuple[bytes, bytes]:
        self._connection.settimeout(max(0.001, until - time.monotonic()))
        send_message(self._connection, QUESTION, body)
        return receive_message(self._connection, until)
