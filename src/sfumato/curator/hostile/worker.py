"""What runs in worker processes. The first of them reads nothing: it imports, waits, and forks the others.

A worker reads rows, adds noise, and sends noisy answers alone. When it ends, the exact numbers end with it.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.curator.gate import NothingReadError, read_steps
from sfumato.curator.hostile.apart import ANSWERED, FAILED, UNREAD, receive_message, send_message
from sfumato.engines.limits import RunLimits, limit_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.plan.priced import Step

ORDER = struct.Struct("!cq")
"""What the host tells the first process: a letter and the number of a process."""
FORK, LEARNER, END = b"f", b"l", b"e"
READY = b"r"
"""What the first process says once, when it has imported."""

_PRELOADED = (
    "sfumato.engines.router",
    "duckdb",
    "pyarrow",
    "sfumato.oracle.over_tables",
    "psycopg",
    "threadpoolctl",  # imported with NumPy sums otherwise, which only long programs need
)
"""What questions need, imported once and shared by all workers."""
_LEARNERS = ("sfumato.learn", "sfumato.learn.evaluation_kernel")


def main() -> None:
    """Serve orders until the host is gone, then end every worker."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    _import_modules(_PRELOADED)
    orders.sendall(ORDER.pack(READY, 0))
    children: set[int] = set()
    killed: set[int] = set()
    try:
        while True:
            _wait_for_order(orders, killed)
            order, received, _, _ = socket.recv_fds(orders, ORDER.size, 1)
            if len(order) < ORDER.size:
                return
            kind, process = ORDER.unpack(order)
            if kind != END:
                _import_modules(_LEARNERS if kind == LEARNER else ())
                children.add(_fork_worker(orders, received[0]))
            elif process in children:
                # None is reaped that was not killed here, so its number cannot be another process's.
                os.kill(process, signal.SIGKILL)
                children.remove(process)
                killed.add(process)
    finally:
        for process in children:
            os.kill(process, signal.SIGKILL)
        for process in children | killed:
            os.waitpid(process, 0)
        os._exit(0)  # the interpreter's own end takes a while, and there is nothing left to be done


def _wait_for_order(orders: socket.socket, killed: set[int]) -> None:
    """Return when there is an order; meanwhile reap workers that were killed.

    A worker with much memory takes long to end. If an order waited for that, the next question's reply would
    tell when this one's worker was done and how much it held.
    """
    waiting = select.poll()
    waiting.register(orders, select.POLLIN)
    while not waiting.poll(_LOOK_AGAIN if killed else None):
        killed -= {process for process in killed if os.waitpid(process, os.WNOHANG)[0]}


_LOOK_AGAIN = 20
"""Milliseconds until the workers that were killed are looked at again. Privacy does not depend on it."""


def _fork_worker(orders: socket.socket, connection: int) -> int:
    me = os.getpid()
    process = os.fork()
    if process == 0:
        try:
            _end_with(me)
            orders.close()
            _serve(socket.socket(fileno=connection))
        finally:
            os._exit(0)
    os.close(connection)
    orders.sendall(ORDER.pack(FORK, process))
    return process


def _import_modules(names: Sequence[str]) -> None:
    for name in names:
        with suppress(ImportError):  # an extra that is not installed is not needed
            importlib.import_module(name)


def _end_with(parent: int) -> None:
    """Have this process killed when its parent is gone, even if that was killed. Only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before
            os._exit(0)


_SIGNAL_AT_PARENTS_DEATH = 1
"""PR_SET_PDEATHSIG of Linux."""


# ---- one worker --------------------------------------------------------------------------------------------


def _serve(host: socket.socket) -> None:
    """Answer one question."""
    try:
        _, body = receive_message(host)
        folder, schema, seconds, memory, steps = pickle.loads(body)  # noqa: S301  from the host, on a pipe of ours
        _limit_process(memory)
        send_message(host, ANSWERED, _answer(Path(folder), schema, seconds, memory, steps).encode())
    except Exception as problem:
        kind = UNREAD if isinstance(problem, NothingReadError) else FAILED
        with suppress(OSError):
            send_message(host, kind, traceback.format_exc().encode(errors="replace"))


def _answer(folder: Path, schema: str, seconds: float, memory: int, steps: Sequence[Step]) -> str:
    from sfumato.engines.router import EngineRouter

    # The engine gets less than the process, so that it is the first to run out and can say so.
    # No row goes to a disk, where a worker that was killed would leave it.
    with limit_runs(RunLimits(seconds, memory * 3 // 4, spill=0)):
        return read_steps(steps, EngineRouter(folder, schema))


def _limit_process(memory: int) -> None:
    """Give this process so much memory beside what it began with."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of memory would hold rows
    if sys.platform == "linux":
        # Not the address space: threads reserve much more of it than they ever use.
        most = _count_data() + memory
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    else:
        with suppress(ValueError, OSError):  # where the system knows no such limit, the engine's own holds
            resource.setrlimit(resource.RLIMIT_AS, (_OTHERS + memory, _OTHERS + memory))


_OTHERS = 2**32
"""Bytes of address space that libraries take, at most, where the system does not count them."""


def _count_data() -> int:
    """Return the bytes of memory that this process may write to: the same for every worker."""
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    return pages * resource.getpagesize()
