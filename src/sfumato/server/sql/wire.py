"""The socket of one client: whole messages in, buffered messages out, within limits of size and time."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from sfumato.server.sql.frames import FrameError

if TYPE_CHECKING:
    import socket
    import ssl

LONGEST_START = 10_000
"""Most bytes of a message from someone who has not been let in yet."""
_SEND_AT = 2**18


class ClientWire:
    """Reads and writes messages. A client that is silent for too long ends with a timeout.

    Before it is let in, it has one such time for all that it says: bytes one by one hold no place for longer.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._socket = connection
        self._socket.settimeout(seconds)
        self._until: float | None = time.monotonic() + seconds
        self._out = bytearray()
        self.longest = LONGEST_START
        self.is_encrypted = False

    def read_start(self) -> tuple[int, bytes]:
        """Return the version of the first message, or what stands in its place, and its body."""
        size = self._read_size(8)
        version = struct.unpack(">i", self._read_exactly(4))[0]
        return version, self._read_exactly(size - 8)

    def read_message(self) -> tuple[bytes, bytes]:
        """Return the next message: its tag and its body."""
        tag = self._read_exactly(1)
        return tag, self._read_exactly(self._read_size(4) - 4)

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Go on with TLS. Nothing was read beyond the request for it, so nobody can slip in plain text."""
        self._socket = context.wrap_socket(self._socket, server_side=True)
        self.is_encrypted = True

    def let_in(self, longest: int, seconds: float) -> None:
        """Allow longer messages and pauses to someone whose password was right."""
        self.longest, self._until = longest, None
        self._socket.settimeout(seconds)

    def send(self, content: bytes) -> None:
        """Send a message with the next flush, or sooner where many wait."""
        self._out += content
        if len(self._out) > _SEND_AT:
            self.flush()

    def flush(self) -> None:
        """Send all that waits."""
        if self._out:
            content, self._out = bytes(self._out), bytearray()
            self._socket.sendall(content)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _read_size(self, least: int) -> int:
        size: int = struct.unpack(">i", self._read_exactly(4))[0]
        if not least <= size <= self.longest:
            raise FrameError("a message is shorter or longer than it may be")
        return size

    def _read_exactly(self, size: int) -> bytes:
        parts, missing = [], size
        while missing > 0:
            self._require_time()
            part = self._socket.recv(min(missing, 2**16))
            if not part:
                raise ConnectionError("the client is gone")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _require_time(self) -> None:
        """Shorten the next wait to what is left of the time to be let in."""
        if self._until is not None:
            left = self._until - time.monotonic()
            if left <= 0:
                raise TimeoutError("the client was not let in in time")
            self._socket.settimeout(left)
