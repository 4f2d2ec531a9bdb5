"""Where released answers are kept as feeds: one private SQLite file in the lab's folder.

Rows here are copies of answers that the ledger released. Losing the file loses addresses, and no budget: the
same questions, asked again, are replays and put their feeds back.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.files.durable import create_empty_private_file
from sfumato.lab.feeds.feed import RELEASED, Feed, FeedCard
from sfumato.lab.feeds.naming import require_feed_name
from sfumato.lab.feeds.tabulate import digest_table, tabulate_answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

MOST_FEEDS = 10_000
"""Most feeds that one analyst keeps. A bound on the file's size; no promise of privacy rests on it."""
_WAIT = 10.0
_TABLE = """CREATE TABLE IF NOT EXISTS feeds (
    owner TEXT NOT NULL, name TEXT NOT NULL, question TEXT NOT NULL, card TEXT NOT NULL,
    digest TEXT NOT NULL, rows BLOB NOT NULL, PRIMARY KEY (owner, name)) WITHOUT ROWID"""
_INDEX = "CREATE INDEX IF NOT EXISTS feeds_by_question ON feeds (owner, question)"
_KEEP = "INSERT OR REPLACE INTO feeds (owner, name, question, card, digest, rows) VALUES (?, ?, ?, ?, ?, ?)"


class FeedShelf:
    """The feeds of every analyst. Each finds their own; the steward's are those without a name."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def keep_answer(
        self,
        owner: str | None,
        answer: Any,
        question: str,
        name: str | None = None,
        spend: Mapping[str, Any] | None = None,
    ) -> Feed:
        """Keep an answer under a name, in place of what had it, and return its feed.

        Without a name it gets one from its entry. Call this with what was released to the owner alone.
        """
        table = tabulate_answer(answer)
        entries, head = _list_receipts(answer)
        digest = digest_table(table)
        notes = tuple(answer.to_dict().get("bias", ())) if hasattr(answer, "to_dict") else ()
        card = FeedCard("", RELEASED, owner, normalize_text(question), entries, head, notes, spend or {})
        with self._open() as connection:
            named = self._choose_name(connection, card, digest) if name is None else require_feed_name(name)
            self._require_room(connection, owner, named)
            card = replace(card, name=named)
            row = (owner or "", named, card.question, json.dumps(card.to_dict()), digest, _pack(table))
            connection.execute(_KEEP, row)
        return Feed(card, digest, lambda: table)

    def list_feeds(self, owner: str | None) -> tuple[Feed, ...]:
        """Return the feeds of one owner, by name."""
        found = self._select("SELECT card, digest FROM feeds WHERE owner = ? ORDER BY name", owner or "")
        return tuple(self._make_feed(*row) for row in found)

    def find_feed(self, owner: str | None, name: str) -> Feed | None:
        """Return a feed by its name, if this owner has it."""
        asked = "SELECT card, digest FROM feeds WHERE owner = ? AND name = ?"
        return next((self._make_feed(*row) for row in self._select(asked, owner or "", name)), None)

    def remove_feed(self, owner: str | None, name: str) -> bool:
        """Forget a feed, and return whether there was one. The answer stays in the ledger."""
        with self._open() as connection:
            asked = "DELETE FROM feeds WHERE owner = ? AND name = ?"
            return bool(connection.execute(asked, (owner or "", name)).rowcount)

    def _make_feed(self, card: str, digest: str) -> Feed:
        said = FeedCard.from_dict(json.loads(card))
        return Feed(said, digest, lambda: self._load(said.owner, said.name))

    def _load(self, owner: str | None, name: str) -> pa.Table:
        for (packed,) in self._select(
            "SELECT rows FROM feeds WHERE owner = ? AND name = ?", owner or "", name
        ):
            return _unpack(packed)
        raise no_such_feed(name)

    def _select(self, asked: str, *values: str) -> list[tuple[Any, ...]]:
        if not self._file.exists():
            return []
        with self._open() as connection:
            return connection.execute(asked, values).fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction: it is held by no thread and passes no fork."""
        if not self._file.exists():
            with suppress(FileExistsError):
                create_empty_private_file(self._file)
        with closing(sqlite3.connect(self._file, timeout=_WAIT)) as connection:
            connection.execute("PRAGMA synchronous=NORMAL")  # a feed that is lost can be kept again
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                connection.execute(_TABLE)
                connection.execute(_INDEX)
                connection.execute("PRAGMA user_version=1")
            with connection:
                yield connection

    def _choose_name(self, connection: sqlite3.Connection, card: FeedCard, digest: str) -> str:
        """Return a name that follows from the entry, with a hash behind it for other texts of one entry."""
        plain = f"entry_{card.entries[0]}" if card.entries else f"facts_{digest[:8]}"
        asked = "SELECT question, digest FROM feeds WHERE owner = ? AND name = ?"
        taken = connection.execute(asked, (card.owner or "", plain)).fetchone()
        return plain if taken in (None, (card.question, digest)) else f"{plain}_{digest[:8]}"

    def _require_room(self, connection: sqlite3.Connection, owner: str | None, name: str) -> None:
        asked = "SELECT COUNT(*), MAX(name = ?) FROM feeds WHERE owner = ?"
        many, there = connection.execute(asked, (name, owner or "")).fetchone()
        if many >= MOST_FEEDS and not there:
            raise PolicyError("SF-F105", f"At most {MOST_FEEDS:,} feeds are kept.", try_="remove some first")


def normalize_text(question: str) -> str:
    """Return a question without what stands around it. Nothing inside changes: texts in it are exact."""
    return question.strip().rstrip(";").rstrip()


def no_such_feed(name: str) -> PolicyError:
    """Return the refusal of a feed that is not there, or not for whoever asks: both say the same."""
    return PolicyError(
        "SF-F103", "There is no such feed for you.", asked=name[:80], try_="/feeds lists yours"
    )


def _list_receipts(answer: Any) -> tuple[tuple[int, ...], str]:
    receipts = getattr(answer, "receipts", None) or tuple(filter(None, [getattr(answer, "receipt", None)]))
    return tuple(each.entry for each in receipts), receipts[-1].head if receipts else ""


def _pack(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@lru_cache(maxsize=64)
def _unpack(packed: bytes) -> pa.Table:
    import pyarrow as pa

    with pa.ipc.open_file(pa.py_buffer(packed)) as reader:
        return reader.read_all()
