"""What the chain holds of an answer: a hash that fixes it and, without the nonce, tells nothing of it.

A count is one of some thousands, so whoever has a plain hash of it finds it by trying them all. The nonce
lies beside the answer and never enters the chain: an export shows that answers were given, and none of them.
"""

from __future__ import annotations

import secrets

from sfumato.ledger.chain import digest

_BYTES = 32


def fresh_nonce() -> str:
    """From the operating system at each call, so that forks share none. As hexadecimal."""
    return secrets.token_hex(_BYTES)


def commitment(nonce: str, answer: str) -> str:
    """SHA-256 of three lines of UTF-8: only the last may hold a line break, so no two pairs share a text.

    The first line keeps it apart from the hash of an entry.
    """
    return digest(f"sfumato answer 1\n{nonce}\n{answer}")
