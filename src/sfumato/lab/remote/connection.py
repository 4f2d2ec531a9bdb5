"""The connection to a server: HTTP of the standard library, with verified certificates and retries."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import ssl
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from sfumato.errors import SfumatoError, UsageError
from sfumato.lab.remote.problems import read_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

_BUSY = (429, 502, 503, 504)
"""Answers of a server, or of a proxy before it, that say to come again."""
_PENDING = "SF-L107"
"""The first of two equal requests is still at work, or was cut off elsewhere after it was charged."""
_LATER = ("SF-W108", "SF-W157")
"""Too many requests at once; and what a proxy says while the server behind it is started."""
_SOON = 5.0
"""Seconds for which a request is sent again that found the server ill."""
_TOKEN = re.compile(r"[!-~]{1,500}\Z", re.ASCII)
_MOST_BYTES = 2**30
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
"""Seconds before a request is sent again; each time twice as many, up to the longest."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server answered."""

    status: int
    kind: str
    body: bytes

    def read_json(self) -> Any:
        """Return the body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise read_problem(self.status, b"") from None


@dataclass(frozen=True, slots=True)
class Connection:
    """Sends requests to one server. Whatever is sent may be sent again: requests that charge carry a key."""

    scheme: str
    host: str
    port: int | None
    path: str
    token: str = field(repr=False)
    timeout: float
    """Seconds without a byte after which an answer counts as lost."""
    patience: float
    """Seconds for which a request is sent again."""
    certificates: str | None = None

    @classmethod
    def open(
        cls,
        url: str,
        token: str,
        *,
        insecure: bool = False,
        timeout: float = 300.0,
        patience: float = 60.0,
        certificates: str | None = None,
    ) -> Connection:
        """Return a connection; wrong addresses and tokens are refused before anything is sent."""
        parts = _split_address(url)
        if parts.scheme == "http" and not insecure and not _is_loopback(str(parts.hostname)):
            raise UsageError(
                "SF-W130",
                "A token would travel in the clear to another machine.",
                address=f"http://{parts.hostname}",
                try_="https://…, or insecure=True where the network itself is encrypted",
            )
        if not isinstance(token, str) or not _TOKEN.match(token):
            raise UsageError(
                "SF-C201",
                "This is no token.",
                try_="the text that `sfumato user token` printed, without spaces",
            )
        whole = float(timeout), float(patience), certificates
        return cls(parts.scheme, str(parts.hostname), parts.port, parts.path.rstrip("/"), token, *whole)

    def get(self, path: str, **query: Any) -> Answered:
        """Return what the server has at a path."""
        asked = {name: each for name, each in query.items() if each is not None}
        return self.send("GET", path + (f"?{urlencode(asked)}" if asked else ""), None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send JSON, and return the JSON that comes back."""
        try:
            written = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError):
            raise UsageError(
                "SF-W104", "This cannot be sent to a server.", try_="numbers, texts, and lists of them"
            ) from None
        return self.send("POST", path, written).read_json()

    def send(self, method: str, path: str, body: bytes | None) -> Answered:
        """Send a request until it is answered, or until the time for that is over."""
        began, wait = time.monotonic(), _FIRST_WAIT
        while True:
            problem: SfumatoError
            try:
                answered = self._send_once(method, path, body)
                if answered.status < 300:
                    return answered
                problem = read_problem(answered.status, answered.body)
                most = self._find_patience(answered.status, problem)
            except (OSError, HTTPException) as lost:
                problem = self._lost_error(lost)
                most = 0.0 if isinstance(lost, ssl.SSLCertVerificationError) else self.patience
            if time.monotonic() + wait - began > most:
                raise problem
            # Not all at the same moment, where many were cut off at once.
            time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311  no secret
            wait = min(_LONGEST_WAIT, 2 * wait)

    def _find_patience(self, status: int, problem: SfumatoError) -> float:
        """Return for how many seconds a request that was refused is sent again."""
        if problem.code == _PENDING or (status in _BUSY and problem.code in _LATER):
            return self.patience
        # An ill ledger or an engine that is down may be back soon, and if it is not, people want to know.
        return min(self.patience, _SOON) if status in _BUSY else 0.0

    def _send_once(self, method: str, path: str, body: bytes | None) -> Answered:
        connection = self._connect()
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, */*",
            "Connection": "close",
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self.path + path, body, headers)
            answer = connection.getresponse()
            # A connection that is cut within the headers looks like an answer without a length.
            if answer.length is None and not answer.chunked:
                raise HTTPException("the answer was cut off")
            if (answer.length or 0) > _MOST_BYTES:
                raise HTTPException("the answer is too large")
            # All of it, without a limit: a limit would take an answer that was cut off for a whole one.
            content = answer.read()
            return Answered(answer.status, answer.headers.get("Content-Type", ""), content)
        finally:
            connection.close()

    def _connect(self) -> HTTPConnection:
        if self.scheme == "http":
            return HTTPConnection(self.host, self.port, timeout=self.timeout)
        context = ssl.create_default_context(cafile=self.certificates)
        return HTTPSConnection(self.host, self.port, timeout=self.timeout, context=context)

    def _lost_error(self, lost: Exception) -> UsageError:
        if isinstance(lost, ssl.SSLCertVerificationError):
            return UsageError(
                "SF-W130",
                "The server's certificate cannot be verified, so nothing was sent.",
                why=str(lost.verify_message),
                try_='certificates="ca.pem", where your organisation has an authority of its own',
            )
        return UsageError(
            "SF-W160",
            "The server cannot be reached.",
            address=f"{self.scheme}://{self.host}{'' if self.port is None else f':{self.port}'}",
            why=type(lost).__name__,
            try_="the same call again: with the same key, it is charged once",
        )


def quote_path(*parts: str) -> str:
    """Return a path made of parts, each with its odd characters quoted."""
    return "".join(f"/{quote(each, safe='')}" for each in parts)


def _split_address(url: str) -> Any:
    try:
        parts = urlsplit(url)
        known = (
            parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        )
    except (ValueError, AttributeError, TypeError):
        known = False
    if not known or parts.username or parts.query or parts.fragment or re.search(r"[\x00-\x20\x7f]", url):
        raise UsageError(
            "SF-C201",
            "This is no address of a server.",
            try_='sf.connect("https://lab.example.org", token="…")',
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
