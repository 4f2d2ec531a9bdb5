"""Errors of a server, raised here as what they are: the same class, code, sentence and facts."""

from __future__ import annotations

import json
from typing import Any

from sfumato import errors
from sfumato.errors import PolicyError, SfumatoError, UsageError

_MEMBERS = ("type", "title", "code", "status", "detail", "instance", "kind")
"""Members of a problem document that are no facts."""
_KINDS: dict[str, type[SfumatoError]] = {
    name: getattr(errors, name) for name in errors.__all__ if name.endswith("Error")
}
_BY_STATUS: dict[int, type[SfumatoError]] = {400: UsageError, 403: PolicyError, 422: UsageError}


def read_problem(status: int, body: bytes) -> SfumatoError:
    """Return the error that a server's answer stands for."""
    try:
        written = json.loads(body)
        code, title = written["code"], written["title"]
        if not (isinstance(code, str) and isinstance(title, str)):
            raise TypeError(code)
    except (ValueError, KeyError, TypeError):
        return UsageError(
            "SF-W157",
            "The server's answer is not one of sfumato's.",
            status=str(status),
            try_="the address that `sfumato serve` prints",
        )
    kind = _KINDS.get(str(written.get("kind")), _BY_STATUS.get(status, SfumatoError))
    facts: dict[str, Any] = {f"{name}_": str(each) for name, each in written.items() if name not in _MEMBERS}
    return kind(code, title, **facts)


def raise_problem(said: dict[str, Any]) -> None:
    """Raise the error of a job."""
    raise read_problem(422, json.dumps(said).encode())
