"""The version of the tables, which a ledger states."""

from __future__ import annotations

from sfumato.errors import LedgerError

VERSION = 5


def require_known(version: int) -> None:
    """Refuse a ledger whose tables this code does not know yet."""
    if version > VERSION:
        raise LedgerError(
            "SF-L103",
            "This ledger was made by a newer version of sfumato.",
            version=f"{version}; this sfumato knows up to {VERSION}",
            try_="pip install --upgrade sfumato",
        )
