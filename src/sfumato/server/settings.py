"""How one server is set up: where people reach it, and the limits on what they send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How one server is set up. The defaults are for one machine, reached by the people who sit at it."""

    address: str = "http://127.0.0.1:8000"
    """Where people reach the server, without a slash at the end."""
    most_body_bytes: int = MEBIBYTE
    """Longest body of a request that is no upload."""
    most_upload_bytes: int = 256 * MEBIBYTE
    """Longest table that a steward may send."""
    requests_per_second: float = 50.0
    """Requests that one person, or one address without a token, may send per second in the long run."""
    request_burst: int = 400
    """Requests that they may send at once."""
    wrong_tokens_per_second: float = 1.0
    """Wrong tokens and passwords that one address may send per second in the long run."""
    wrong_token_burst: int = 20
    """Wrong tokens and passwords that one address may send at once."""
    most_questions: int = 64
    """Questions of one server process that are answered at a time; as many more may wait for their turn."""
    cookie_seconds: int = 12 * 3600
    """How long a person who signed in on the pages stays signed in."""
    sources: tuple[Path, ...] = ()
    """Folders on this machine from which a steward may register tables; without any, tables are sent."""
    databases: tuple[str, ...] = ()
    """Addresses of databases, and of schemas of Spark, whose tables a steward may register."""
    metrics_folder: Path | None = None
    """Where server processes that share a port count together; without it, each counts for itself."""

    @property
    def is_secure(self) -> bool:
        """Whether people reach the server by HTTPS, so that cookies are sent by no other way."""
        return self.address.startswith("https://")
