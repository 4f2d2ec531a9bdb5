"""Processes of one machine that write at the same time: one of them leads and writes for the others.

Whoever binds a name leads; the kernel frees the name when the leader ends, however it ends. The others send
it their charges and releases, and it writes them in one commit with its own. It replies once that commit is
confirmed. A process that gets no reply looks for its entries under the lock of the chain, and writes what is
not there by itself. docs/proofs/durability.md proves that nothing is lost.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from weakref import WeakMethod

    from sfumato.ledger.tables import SqlConnection

    Reply = list[Any]
    Requests = list[tuple[float, list[Any]]]
    Write = Callable[[Callable[[], Requests], Callable[[float], bool]], list[tuple[int, str] | None]]

PROTOCOL = 1
"""Processes that speak another one do not find each other."""

PATIENCE = 2.0
"""Seconds after which a process that got no reply writes by itself. No privacy depends on it."""

REST = 30.0
"""Seconds for which such a process asks nobody. No privacy depends on it."""

_MAX_BYTES = 100_000
_CREDENTIALS = struct.Struct("3i")

# The same server since its start, the same ledger, and a role with the same rights.
_SELECT_PLACE = """
    SELECT extract(epoch FROM pg_postmaster_start_time())::TEXT, current_setting('port'),
        current_database()::TEXT, current_schema()::TEXT, session_user::TEXT, current_user::TEXT,
        identity, version
    FROM ledger
"""


class SharedWriting:
    """How one process takes part: it leads, or asks the leader, or neither."""

    def __init__(self) -> None:
        self._name = b""
        self._leader: Leader | None = None
        self._channel: socket.socket | None = None
        self._asks_after = 0.0

    def ask(self, db: SqlConnection, messages: list[list[Any]], write: WeakMethod[Write]) -> Reply | None:
        """Have the leader write, and return number and hash of each entry, or None where it declined.

        None as a whole says that nobody was asked, perhaps since this process leads from now on. An OSError
        says that the leader may or may not have written, or may do so until the deadline.
        """
        if sys.platform != "linux" or time.monotonic() < self._asks_after:
            return None
        channel = self._find_leader(db, write)
        if channel is None:
            return None
        deadline = time.monotonic() + PATIENCE
        request = json.dumps([deadline, messages]).encode()
        if len(request) > _MAX_BYTES:
            return None
        try:
            channel.send(request)
            received = channel.recv(_MAX_BYTES)
            replies: Reply = json.loads(received) if received else []
            if len(replies) != len(messages):
                raise ConnectionResetError
            return replies
        except BaseException as error:
            # Or a late reply would be taken for that to the next request.
            self._drop_channel()
            if isinstance(error, TimeoutError):
                # Only after the deadline is it sure that the leader will not begin to write this.
                time.sleep(max(0.0, deadline - time.monotonic()))
                self._asks_after = deadline + REST
            raise

    def stop(self) -> None:
        """Lead no longer, and ask nobody: the connection to the server is being closed."""
        self._name = b""
        self._drop_channel()
        if self._leader is not None:
            self._leader.stop()

    def forget(self) -> None:
        """Close what a fork has copied, or the name would stay bound while the child lives."""
        if self._leader is not None:
            self._leader.close_all()

    def _find_leader(self, db: SqlConnection, write: WeakMethod[Write]) -> socket.socket | None:
        """Return a connection to the leader, if another process leads. If there is none, this one does."""
        if self._channel is not None or (self._leader is not None and self._leader.is_leading()):
            return self._channel
        if not self._name:
            place = [PROTOCOL, os.getuid(), *db.execute(_SELECT_PLACE).fetchone()]
            self._name = b"\0sfumato-" + sha256(json.dumps(place).encode()).hexdigest().encode()
        self._channel = _connect(self._name)
        if self._channel is None:
            self._leader = Leader.begin(self._name, write)
        return self._channel

    def _drop_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None


class Leader(threading.Thread):
    """Writes for other processes, until it is stopped or a write fails."""

    def __init__(self, listener: socket.socket, write: WeakMethod[Write]) -> None:
        super().__init__(name="sfumato-ledger-leader", daemon=True)
        self._listener, self._write = listener, write
        self._others: dict[int, socket.socket] = {}
        self._waiting = select.poll()
        self._stopped = False

    @classmethod
    def begin(cls, name: bytes, write: WeakMethod[Write]) -> Leader | None:
        """Return the leader in this process, or None if another one was faster."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(name)
            listener.listen(128)
        except OSError:
            listener.close()
            return None
        leader = cls(listener, write)
        leader.start()
        return leader

    def run(self) -> None:
        self._waiting.register(self._listener, select.POLLIN)
        try:
            while True:
                ready = [number for number, _ in self._waiting.poll()]
                if self._listener.fileno() in ready:
                    self._accept()
                else:
                    self._write_and_reply()
        except Exception:  # noqa: S110 - the others see that the connection ends, and look for their entries
            pass
        finally:
            self.close_all()

    def stop(self) -> None:
        """Take no more requests. The thread closes the sockets once it has noticed."""
        self._stopped = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def is_leading(self) -> bool:
        return self.is_alive() and not self._stopped

    def close_all(self) -> None:
        for each in (self._listener, *self._others.values()):
            each.close()

    def _is_timely(self, deadline: float) -> bool:
        # Once it was stopped, what this process writes may go to another server.
        return not self._stopped and time.monotonic() < deadline

    def _accept(self) -> None:
        other, _ = self._listener.accept()  # raises once the listener was shut down
        if not _is_same_user(other):
            other.close()
            return
        other.settimeout(PATIENCE)
        self._others[other.fileno()] = other
        self._waiting.register(other, select.POLLIN)

    def _write_and_reply(self) -> None:
        write = self._write()
        if write is None:
            raise ConnectionResetError  # the ledger is no longer in use
        asked: list[tuple[socket.socket, Requests]] = []

        def receive() -> Requests:
            # A second attempt is about the same requests.
            asked.extend(() if asked else self._receive_all())
            return [each for _, requests in asked for each in requests]

        written = iter(write(receive, self._is_timely))
        for other, requests in asked:
            with suppress(OSError):  # it has gone, and nobody is told
                other.send(json.dumps([next(written) for _ in requests]).encode())

    def _receive_all(self) -> list[tuple[socket.socket, Requests]]:
        """Return the next request of everyone who has sent one."""
        asked = []
        for number, _ in self._waiting.poll(0):
            other = self._others.get(number)
            received = b"" if other is None else _receive(other)
            if other is not None and received:
                deadline, messages = json.loads(received)
                asked.append((other, [(deadline, message) for message in messages]))
            elif other is not None:
                self._waiting.unregister(other)
                del self._others[number]
                other.close()
        return asked


def _receive(other: socket.socket) -> bytes:
    """Return what the other end has sent, or nothing if it has gone."""
    try:
        return other.recv(_MAX_BYTES)
    except OSError:
        return b""


def _connect(name: bytes) -> socket.socket | None:
    """Return a connection to the leader, if there is one of the same user."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        channel.settimeout(PATIENCE)
        channel.connect(name)
        if _is_same_user(channel):
            return channel
    except OSError:
        pass
    channel.close()
    return None


def _is_same_user(other: socket.socket) -> bool:
    """Return whether the process at the other end belongs to the same user, as the kernel says."""
    told = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(told)[1] == os.getuid())
