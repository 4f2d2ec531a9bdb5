"""One link of the chain: a number, a kind, a canonical body, and a hash over them and the link before."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, NoReturn, cast

from sfumato.errors import LedgerError, UsageError
from sfumato.privacy.canonical import canonical_json

Kind = Literal["account", "grant", "charge", "release", "reserve", "draw", "return"]

GENESIS = "0" * 64
"""What the first entry names as the hash before it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What happened, in the words that were hashed."""

    seq: int
    kind: Kind
    body: str
    prev: str
    hash: str

    @classmethod
    def after(cls, seq: int, head: str, kind: Kind, body: str) -> Entry:
        """The entry that follows number `seq`, whose hash is `head`."""
        return cls(seq + 1, kind, body, head, seal(seq + 1, kind, body, head))

    def summary(self) -> str:
        """Who and what, in a few words."""
        fields = read(self.body)
        match self.kind:
            case "charge":
                return f"{', '.join(fields['accounts'])}: {write(fields['about'])}"
            case "release":
                return f"answers entry {fields['charge']}"
            case "reserve":
                who = ", ".join(fields["accounts"])
                return f"{who}: {fields['steps']} steps of {write(fields['about'])}"
            case "draw" | "return":
                verb = "begins" if self.kind == "draw" else "gives back"
                return f"{verb} {fields['steps']} steps of entry {fields['charge']}"
            case _:
                return f"{fields['account']}: {write(fields['budget'])}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> str:
        """A line of an export. The body stays text, so that anyone can hash it without our JSON."""
        return canonical_json(self.to_dict())

    @classmethod
    def from_json(cls, line: str) -> Entry:
        try:
            return cls(**read(line))
        except (TypeError, ValueError, RecursionError) as error:
            raise LedgerError("SF-L111", "A line of this export is not an entry.") from error


def seal(seq: int, kind: str, body: str, prev: str) -> str:
    """SHA-256 of five lines of UTF-8: only the last may hold a line break, so no two entries share a text."""
    return digest(f"sfumato ledger 1\n{seq}\n{kind}\n{prev}\n{body}")


def digest(text: str) -> str:
    """SHA-256 of a text, as hexadecimal."""
    try:
        return sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        raise half_a_character() from None


def write(fields: dict[str, Any]) -> str:
    """The canonical text of a body; refuses what a later reader could not read back exactly."""
    try:
        text = canonical_json(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            "SF-L301",
            "The ledger keeps text, whole numbers, lists and objects of these.",
            try_="a fraction as text: str(Fraction('0.1'))",
        ) from error
    require_utf8(text)
    return text


def read(text: str) -> dict[str, Any]:
    """The fields of a body. A float is refused: no two readers need agree on it."""
    fields, end = _DECODER.raw_decode(text) if text.startswith("{") else (None, -1)
    if end != len(text):
        fields = _DECODER.decode(text)  # with spaces around it, or no JSON
    if type(fields) is not dict:
        raise TypeError("a body is a JSON object")
    return cast("dict[str, Any]", fields)


def require_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise half_a_character() from None


def half_a_character() -> UsageError:
    """In place of Python's own error, which carries the whole text: an answer nobody was given yet."""
    return UsageError("SF-L305", "This text holds half a character and cannot be kept.")


def _no_floats(literal: str) -> NoReturn:
    raise ValueError("a float has no place in the chain")


def now() -> str:
    """The time of an entry: a note, which nothing reads."""
    # Whole seconds: the span from charge to release would otherwise tell how long the data took.
    return _written(int(time.time()))


@lru_cache(maxsize=1)
def _written(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds")


_DECODER = json.JSONDecoder(parse_float=_no_floats, parse_constant=_no_floats)
