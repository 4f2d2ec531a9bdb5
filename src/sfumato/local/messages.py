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


def read_messages(
    question: Mapping[str, Any], messages: Iterable[Message], size: int | None = None
) -> list[Any]:
    """Return the reports of all messages, if all of them answer this question.

    A report is a whole number, or a list of `size` whole numbers if a size is given.
    """
    reports: list[Any] = []
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or message.get("question") != question["id"]:
            raise UsageError(
                "SF-N512",
                "A report was made for another question.",
                this=question["id"],
                try_="collect the reports of each question apart",
            )
        report = message.get("report")
        if not _is_report(report, size):
            kind = "whole number" if size is None else f"list of {size} whole numbers"
            raise UsageError(
                "SF-N512",
                f"Message {number} has no {kind} as its report.",
                try_="leave it out: every message is one person's report",
            )
        reports.append(report)
    return reports


def _is_report(report: Any, size: int | None) -> bool:
    if size is None:
        return isinstance(report, Integral)
    return (
        isinstance(report, list)
        and len(report) == size
        and all(isinstance(each, Integral) for each in report)
    )


def read_client() -> str:
    """Return the JavaScript module that answers questions in a browser, for a page to serve."""
    return Path(__file__).with_name("client.js").read_text(encoding="utf-8")
