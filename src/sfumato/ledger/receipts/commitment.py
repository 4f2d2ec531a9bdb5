"""Commitments: what the chain holds of an answer, a hash that fixes it and reveals nothing of it.

A count is one of a few thousand numbers, so a plain hash of it could be found by trying them all. The hash
therefore covers a random nonce, which is kept beside the answer and never enters the chain. An export of the
chain shows that answers were given, and none of them.
"""

from __future__ import annotations

import secrets

from sfumato.ledger.chain import hash_text

_NONCE_BYTES = 32


def draw_nonce() -> str:
    """Return fresh random bytes in hexadecimal. The operating system draws them, so forks share none."""
    return secrets.token_hex(_NONCE_BYTES)


def commit_to_answer(nonce: str, answer: str) -> str:
    """Return the SHA-256 of three lines of UTF-8 in hexadecimal.

    Only the last line may hold a line break, so no two pairs have the same text. The first line differs from
    that of an entry, so a commitment is never an entry's hash.
    """
    return hash_text(f"sfumato answer 1\n{nonce}\n{answer}")
