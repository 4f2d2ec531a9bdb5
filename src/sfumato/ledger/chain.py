"""One link of the chain: a number, a kind, a canonical body, and a hash over these and the link before."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, NoReturn, cast

from sfumato.errors import LedgerError, UsageError
from sfumato.privacy.canonical import canonical_json

Kind = Literal[
    "account",
    "grant",
    "charge",
    "release",
    "reserve",
    "draw",
    "return",
    "unread",
    "resume",
    "lab",
    "snapshot",
]

GENESIS = "0" * 64
"""Hash that the first entry names as the one before it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, in exactly the text that was hashed."""

    seq: int
    kind: Kind
    body: str
    prev: str
    hash: str

    @classmethod
    def make_next(cls, seq: int, head: str, kind: Kind, body: str) -> Entry:
        """Return the entry that follows number `seq`, whose hash is `head`."""
        return cls(seq + 1, kind, body, head, hash_entry(seq + 1, kind, body, head))

    def summarize(self) -> str:
        """Describe the entry in a few words, for people who list the ledger."""
        fields = read_body(self.body)
        match self.kind:
            case "charge":
                return f"{', '.join(fields['accounts'])}: {write_body(fields['about'])}"
            case "release":
                return f"answers entry {fields['charge']}"
            case "reserve":
                who = ", ".join(fields["accounts"])
                return f"{who}: {fields['steps']} steps of {write_body(fields['about'])}"
            case "unread":
                return f"nothing was read for entry {fields['charge']}"
            case "lab":
                return f"belongs to lab {fields['lab']}"
            case "snapshot":
                return f"{fields['table']}: snapshot {fields['identity']}"
            case "resume":
                return f"begins entry {fields['charge']} again"
            case "draw" | "return":
                verb = "begins" if self.kind == "draw" else "gives back"
                return f"{verb} {fields['steps']} steps of entry {fields['charge']}"
            case _:
                return f"{fields['account']}: {write_body(fields['budget'])}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> str:
        """Return a line of an export. The body stays text, so anyone can hash it without our JSON writer."""
        return canonical_json(self.to_dict())

    @classmethod
    def from_json(cls, line: str) -> Entry:
        """Read a line of an export. Its hash is not checked here."""
        try:
            return cls(**read_body(line))
        except (TypeError, ValueError, RecursionError) as error:
            raise LedgerError("SF-L114", "A line of this export is not an entry.") from error


def hash_entry(seq: int, kind: str, body: str, prev: str) -> str:
    """Return the SHA-256 of five lines of UTF-8 in hexadecimal.

    Only the last line may hold a line break, so no two entries have the same text.
    """
    return hash_text(f"sfumato ledger 1\n{seq}\n{kind}\n{prev}\n{body}")


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal."""
    try:
        return sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        raise invalid_unicode_error() from None


def write_body(fields: dict[str, Any]) -> str:
    """Return the canonical text of a body. Refuses what a later reader could not read back exactly."""
    try:
        text = canonical_json(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            "SF-L302",
            "The ledger keeps text, whole numbers, and lists and objects of these.",
            try_="a fraction as text: str(Fraction('0.1'))",
        ) from error
    require_utf8(text)
    return text


def read_body(text: str) -> dict[str, Any]:
    """Return the fields of a body. Floats are refused, since two readers may round them differently."""
    fields, end = _DECODER.raw_decode(text) if text.startswith("{") else (None, -1)
    if end != len(text):
        # There is space around the JSON, or it is no JSON: the slower call decides, and raises if need be.
        fields = _DECODER.decode(text)
    if type(fields) is not dict:
        raise TypeError("a body is a JSON object")
    return cast("dict[str, Any]", fields)


def require_utf8(text: str) -> None:
    """Refuse a text that cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid_unicode_error() from None


def invalid_unicode_error() -> UsageError:
    """Return the error for a text with half of a surrogate pair.

    Python's own error carries the whole text, which may be an answer that nobody was given yet.
    """
    return UsageError("SF-L302", "This text is not valid Unicode: it holds half of a character.")


def read_date() -> str:
    """Return the day to note in an entry, in UTC. Nothing is decided by it."""
    # A finer time would tell how long data took to read: a program that asks in a loop charges for the next
    # question as soon as it has the last answer.
    return _format_date(int(time.time()) // 86_400)


@lru_cache(maxsize=1)
def _format_date(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days)).isoformat()


def _refuse_float(literal: str) -> NoReturn:
    raise ValueError("a float has no place in the chain")


_DECODER = json.JSONDecoder(parse_float=_refuse_float, parse_constant=_refuse_float)
