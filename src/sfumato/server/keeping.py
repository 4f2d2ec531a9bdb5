"""What people asked over HTTP and were answered, so that they find it again and can refine it.

The ledger keeps the answers; this file keeps the questions as they were asked, which the ledger has as text
for people only. It is written after the release, so a crash may lose one: asking again is free.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sfumato.server.stores import PrivateStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY, entry INTEGER NOT NULL, analyst TEXT NOT NULL, question TEXT NOT NULL,
    spend TEXT NOT NULL, refines INTEGER, answer TEXT NOT NULL, at REAL NOT NULL,
    UNIQUE (entry, analyst)) STRICT;
"""
_FIELDS = "entry, analyst, question, spend, refines, answer, at"


@dataclass(frozen=True, slots=True)
class KeptRelease:
    """A question as someone asked it, and the answer that they got."""

    entry: int
    """Number of the charge's entry in the ledger."""
    analyst: str
    """Who asked; an empty text for a steward."""
    question: dict[str, Any]
    spend: dict[str, Any]
    refines: int | None
    """Entry of the answer that this one refines."""
    answer: dict[str, Any]
    at: datetime

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "entry": self.entry,
            "analyst": self.analyst,
            "question": self.question,
            "spend": self.spend,
            "refines": self.refines,
            "answer": self.answer,
            "at": self.at.isoformat(timespec="seconds"),
        }


class ReleaseStore:
    """Answers that were given over HTTP, by the entry of their charge and by who got them."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._store = PrivateStore(path, _SCHEMA)

    def keep_release(
        self,
        entry: int,
        analyst: str,
        question: dict[str, Any],
        spend: dict[str, Any],
        answer: dict[str, Any],
        refines: int | None = None,
    ) -> None:
        """Keep an answer for the one who got it. The first time it was given stays."""
        values = (entry, analyst, *map(json.dumps, (question, spend)), refines, json.dumps(answer))
        with self._store.change() as file:
            file.execute(
                f"INSERT INTO releases ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  fixed names
                " ON CONFLICT DO NOTHING",
                (*values, self._clock()),
            )

    def find_release(self, entry: int, analyst: str | None) -> KeptRelease | None:
        """Return what an analyst got for an entry; for None, what anyone got."""
        rows = self._store.read_rows(
            f"SELECT {_FIELDS} FROM releases WHERE entry = ? AND (? IS NULL OR analyst = ?)"  # noqa: S608
            " ORDER BY id LIMIT 1",
            (entry, analyst, analyst),
        )
        return next(map(_read, rows), None)

    def list_releases(self, analyst: str | None, limit: int = 100) -> tuple[KeptRelease, ...]:
        """Return what an analyst got, newest first; for None, what everyone got."""
        rows = self._store.read_rows(
            f"SELECT {_FIELDS} FROM releases WHERE ? IS NULL OR analyst = ?"  # noqa: S608
            " ORDER BY id DESC LIMIT ?",
            (analyst, analyst, limit),
        )
        return tuple(map(_read, rows))

    def close(self) -> None:
        """Close the file."""
        self._store.close()


def _read(row: Any) -> KeptRelease:
    entry, analyst, question, spend, refines, answer, at = row
    return KeptRelease(
        entry,
        analyst,
        json.loads(question),
        json.loads(spend),
        refines,
        json.loads(answer),
        datetime.fromtimestamp(at, UTC),
    )
