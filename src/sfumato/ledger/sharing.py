"""Processes of one machine that write at the same time: one of them leads and writes for the others.

Whoever binds a name leads; the kernel frees the name when the leader ends, however it ends. The others send
it their charges and releases, and it writes them in one commit with its own. It replies once that commit is
confirmed. Names are no secret. So with a server a leader is believed only if the server shows that this very
process has a session of the same role, and requests count only from those who know which ledger it is. A
process that gets no reply looks for its entries under the lock of the chain, and writes what is not there by
itself. docs/proofs/durability.md proves that nothing is lost.
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
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from weakref import WeakMethod

    Reply = list[Any]
    Requests = list[tuple[float, list[Any]]]
    Write = Callable[[Callable[[], Requests], Callable[[float], bool]], list[tuple[int, str] | None]]

PROTOCOL = 3
"""Processes that speak another one do not find each other."""

PATIENCE = 2.0
"""Seconds after which a process that got no reply writes by itself. No privacy depends on it."""

REST = 30.0
"""Seconds for which such a process asks nobody. No privacy depends on it."""

_MAX_BYTES = 100_000
_CREDENTIALS = struct.Struct("3i")


class SharedPlace(Protocol):
    """Where processes meet that may write to the same ledger."""

    def describe(self) -> list[Any]:
        """Return what tells the ledger from all others, and those who may write to it from the rest."""

    def announce(self, badge: int) -> bool:
        """Show to the others that the process with this badge may write. Returns whether it could."""

    def is_announced(self, badge: int) -> bool:
        """Return whether the process with this badge has announced itself, or need not."""


class SharedWriting:
    """How one process takes part: it leads, or asks the leader, or neither."""

    def __init__(self) -> None:
        self._name = b""
        self._token = ""
        """Shows to a leader that a request comes from someone who has read which ledger it is."""
        self._leader: Leader | None = None
        self._channel: socket.socket | None = None
        self._asks_after = 0.0

    def ask(self, place: SharedPlace, messages: list[list[Any]], write: WeakMethod[Write]) -> Reply | None:
        """Have the leader write, and return number and hash of each entry, or None where it declined.

        None as a whole says that nobody was asked, perhaps since this process leads from now on. An OSError
        says that the leader may or may not have written, or may do so until the deadline.
        """
        if sys.platform != "linux" or time.monotonic() < self._asks_after:
            return None
        channel = self._find_leader(place, write)
        if channel is None:
            return None
        deadline = time.monotonic() + PATIENCE
        request = json.dumps([self._token, deadline, messages]).encode()
        if len(request) > _MAX_BYTES:
            return None
        try:
            channel.send(request)
            return _read_replies(channel.recv(_MAX_BYTES), len(messages))
        except BaseException as error:
            # Or a late reply would be taken for that to the next request.
            self._drop_channel()
            if isinstance(error, TimeoutError):
                # Only after the deadline is it sure that the leader will not begin to write this.
                time.sleep(max(0.0, deadline - time.monotonic()))
                self._asks_after = deadline + REST
            raise

    def stop(self) -> None:
        """Lead no longer, and ask nobody: the database is being closed."""
        self._name = b""
        self._drop_channel()
        if self._leader is not None:
            self._leader.stop()

    def __del__(self) -> None:
        self.stop()  # a ledger that is let go of is seldom closed

    def forget(self) -> None:
        """Close what a fork has copied, or the name would stay bound while the child lives."""
        if self._leader is not None:
            self._leader.close_all()

    def _find_leader(self, place: SharedPlace, write: WeakMethod[Write]) -> socket.socket | None:
        """Return a connection to the leader, if another process leads. If there is none, this one does."""
        if self._channel is not None or (self._leader is not None and self._leader.is_leading()):
            return self._channel
        if self._leader is not None and not self._leader.is_alive():
            self._leader.close_all()  # it was never started, and this process would ask itself
        if not self._name:
            self._choose_name(place)
        for _ in range(2):  # another one may begin to lead between the two calls
            self._channel = _connect(self._name)
            if self._channel is not None:
                self._require_announced(place, self._channel)
                break
            begun = Leader.begin(self._name, self._token, partial(self._announce, place), write)
            if begun is not None:
                self._leader = begun
                begun.start()  # only now: an interruption must not leave a leader that nobody knows
                break
        return self._channel

    def _choose_name(self, place: SharedPlace) -> None:
        met = json.dumps([PROTOCOL, os.getuid(), _identify_clock(), *place.describe()])
        self._name = b"\0sfumato-" + sha256(met.encode()).hexdigest().encode()
        # Everyone on the machine can list names, and none of them leads to this.
        self._token = sha256(f"sfumato token\n{met}".encode()).hexdigest()

    def _announce(self, place: SharedPlace) -> bool:
        return place.announce(_make_badge(self._name, os.getpid()))

    def _require_announced(self, place: SharedPlace, channel: socket.socket) -> None:
        """Ask nobody for a while if whoever has bound the name has not shown that it may write."""
        known = False
        try:
            known = place.is_announced(_make_badge(self._name, _read_peer(channel)[0]))
        finally:
            if not known:
                self._drop_channel()
                self._asks_after = time.monotonic() + REST

    def _drop_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None


class Leader(threading.Thread):
    """Writes for other processes, until it is stopped or a write fails."""

    def __init__(self, listener: socket.socket, token: str, write: WeakMethod[Write]) -> None:
        super().__init__(name="sfumato-ledger-leader", daemon=True)
        self._listener, self._token, self._write = listener, token, write
        self._others: dict[int, socket.socket] = {}
        self._waiting = select.poll()
        self._stopped = False

    @classmethod
    def begin(
        cls, name: bytes, token: str, announce: Callable[[], bool], write: WeakMethod[Write]
    ) -> Leader | None:
        """Return the leader in this process, or None if another one was faster or this one may not lead."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(name)
            if announce():  # before anyone can connect, who would look for it at once
                listener.listen(128)
                return cls(listener, token, write)
        except OSError:
            pass
        except BaseException:
            listener.close()
            raise
        listener.close()
        return None

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
            token, deadline, messages = json.loads(received) if received else ("", 0.0, [])
            if other is not None and compare_digest(str(token), self._token):
                asked.append((other, [(deadline, message) for message in messages]))
            elif other is not None:
                self._waiting.unregister(other)
                del self._others[number]
                other.close()
        return asked


def _read_replies(received: bytes, count: int) -> Reply:
    """Return the replies, each number and hash or None. Anything else is no word from a leader."""
    try:
        replies: Reply = json.loads(received)
        written = [(type(seq), type(head)) for seq, head in filter(None, replies)]
    except (TypeError, ValueError):
        raise ConnectionResetError from None
    if len(replies) != count or not {*written} <= {(int, str)}:
        raise ConnectionResetError
    return replies


def _receive(other: socket.socket) -> bytes:
    """Return what the other end has sent, or nothing if it has gone."""
    try:
        return other.recv(_MAX_BYTES)
    except OSError:
        return b""


def _identify_clock() -> int:
    """Return which monotonic clock this process has: deadlines on another one would mean nothing."""
    try:
        return os.stat("/proc/self/ns/time").st_ino
    except OSError:
        return 0  # a kernel with one clock for all


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
    """Return whether the process at the other end belongs to the same user."""
    return _read_peer(other)[1] == os.getuid()


def _read_peer(other: socket.socket) -> tuple[int, int]:
    """Return the numbers of the process at the other end and of its user, as the kernel says."""
    told = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(told)
    return process, user


def _make_badge(name: bytes, process: int) -> int:
    """Return a number of 63 bits for a process and a name. No later process of the same number has it."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            begun = file.read().rpartition(b")")[2].split()[19]
    except OSError:
        begun = b""  # it has ended, or is in a namespace that this process cannot see
    return int.from_bytes(sha256(b"%s\n%d\n%s" % (name, process, begun)).digest()[:8], "big") >> 1
