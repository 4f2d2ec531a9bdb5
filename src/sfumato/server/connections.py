"""Connections of HTTP on which requests must arrive in time.

uvicorn closes a connection that is idle after an answer, and waits for ever for the rest of a request.
Whoever opens many connections and sends a byte now and then would keep everyone else out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

FIRST_SECONDS = 20.0
"""Seconds in which a request must arrive, however short it is."""
BYTES_PER_SECOND = 32_768
"""Each second more is for so many bytes of it."""


class TimedConnection(H11Protocol):
    """A connection that is closed when a request, once it could begin, does not arrive in time."""

    _timer: asyncio.TimerHandle | None = None
    _until: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, which earns time for the rest of it."""
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_waiting()
            return
        if self._timer is None:
            self._await_request()
        self._until += len(data) / BYTES_PER_SECOND

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._until = self.loop.time() + FIRST_SECONDS
        self._timer = self.loop.call_at(self._until, self._look_again)

    def _look_again(self) -> None:
        """Close the connection, unless bytes that came have earned more time, or it is we who do not read."""
        if self.flow.read_paused:
            self._await_request()
        elif self.loop.time() < self._until:
            self._timer = self.loop.call_at(self._until, self._look_again)
        else:
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
