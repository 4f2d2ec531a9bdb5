"""What stands around every handler: limits on bodies, strict headers, and one sentence for failures.

Plain ASGI, so that answers are streamed and nothing is held in memory.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from sfumato.server.observing import log_request
from sfumato.server.problems import answer_problem, failure_error, too_large_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sfumato.server.context import ServerContext

UPLOADS = ("/api/uploads", "/register/upload")
"""Addresses that take a whole table as their body."""

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
"""What pages may load: nothing inline, nothing from elsewhere, and no text is ever run as a program."""

HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer browsers would send forms with the origin null, and no form could be told for our own.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_STRICT_TRANSPORT = "max-age=63072000; includeSubDomains"


class _TooLargeError(HTTPException):
    """A body turned out to be too long while it was read; FastAPI lets only its own errors through."""

    def __init__(self) -> None:
        super().__init__(413)


class RequestGuard:
    """Limits bodies, adds headers, counts and logs requests, and seals whatever fails inside."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        self._app, self._context = app, context
        self._headers = dict(HEADERS)
        if context.settings.is_secure:
            self._headers["Strict-Transport-Security"] = _STRICT_TRANSPORT

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answered = time.monotonic(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._handle(scope, receive, send_with_headers, lambda: bool(answered))
        log_request(self._context.counters, scope, answered, time.monotonic() - began)

    async def _handle(
        self, scope: Scope, receive: Receive, send: Send, has_begun: Callable[[], bool]
    ) -> None:
        most, request = self._most_bytes(scope), Request(scope)
        try:
            length = Headers(scope=scope).get("content-length", "0")
            if length.isdigit() and int(length) > most:
                raise _TooLargeError
            await self._app(scope, _count_bytes(receive, most), send)
        except _TooLargeError:
            if not has_begun():
                await answer_problem(request, too_large_error(most))(scope, receive, send)
        except ClientDisconnect:
            pass  # they left before all was sent: nothing failed, and nobody is there to be told
        except Exception:
            # What went wrong may name data, so it goes to the steward's file and nowhere else.
            incident = self._context.lab.incidents.record()
            if not has_begun():
                await answer_problem(request, failure_error(incident), 500)(scope, receive, send)

    def _most_bytes(self, scope: Scope) -> int:
        settings = self._context.settings
        return settings.most_upload_bytes if scope["path"] in UPLOADS else settings.most_body_bytes


def _count_bytes(receive: Receive, most: int) -> Receive:
    """Return a `receive` that stops once a body is too long, whatever its header said."""
    seen = 0

    async def count() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > most:
                raise _TooLargeError
        return message

    return count
