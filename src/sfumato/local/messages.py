"""Questions as plain values that a client can read, and the messages that come back.

A question has an id, made of everything that its answers depend on. A message carries the id of the question
it answers, so that reports made with another ε or for other values are refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from fractions import Fraction

Message = Mapping[str, Any]


def describe_question(kind: str, odds: Fraction, **facts: Any) -> dict[str, Any]:
    """Return a question as plain values; the odds are texts, because JavaScript may not count as far."""
    question = {"kind": kind, "odds": [str(odds.numerator), str(odds.denominator)], **facts}
    text = json.dumps(question, sort_keys=True, separators=(",", ":"))
    return {"id": hashlib.sha256(text.encode()).hexdigest()[:16], **question}


def read_messages(question: Mapping[str, Any], messages: Iterable[Message], *fields: str) -> list[list[Any]]:
    """Return these fields of all messages, a list for each, if all of them answer this question."""
    columns: list[list[Any]] = [[] for _ in fields]
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or message.get("question") != question["id"]:
            raise UsageError(
                "SF-N512",
                "A report was made for another question.",
                this=question["id"],
                try_="collect the reports of each question apart",
            )
        for column, field in zip(columns, fields, strict=True):
            if not isinstance(value := message.get(field), Integral):
                raise UsageError(
                    "SF-N512",
                    f"Message {number} has no whole number as its {field}.",
                    try_="leave it out: every message is one person's report",
                )
            column.append(value)
    return columns


def read_client() -> str:
    """Return the JavaScript module that answers questions in a browser, for a page to serve."""
    return Path(__file__).with_name("client.js").read_text(encoding="utf-8")
