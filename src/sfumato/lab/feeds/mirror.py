"""Feeds as tables of a PostgreSQL schema, which any tool can read that speaks SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.engines.postgres.mirror import MirrorTable, write_mirror
from sfumato.lab.feeds.listing import list_published_feeds, list_released_feeds
from sfumato.lab.feeds.naming import make_unique, simplify_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.payer import LabAccess
    from sfumato.engines.postgres.mirror import MirrorChanges
    from sfumato.lab.feeds.feed import Feed

_LONGEST = 63
"""Bytes after which PostgreSQL cuts a name off."""


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What a mirror wrote, left as it was, and removed."""

    changes: MirrorChanges

    def __str__(self) -> str:
        parts = {
            "written": self.changes.written,
            "unchanged": self.changes.left,
            "removed": self.changes.removed,
        }
        said = [f"{word}: {', '.join(names)}" for word, names in parts.items() if names]
        return "\n".join([f"schema {self.changes.schema}", *(said or ["there is nothing to mirror yet"])])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        changes = self.changes
        return {
            "schema": changes.schema,
            "written": list(changes.written),
            "unchanged": list(changes.left),
            "removed": list(changes.removed),
        }


def mirror_feeds(lab: LabAccess, address: str, analysts: tuple[str, ...], reader: str | None) -> MirrorReport:
    """Write every published feed, and those of these analysts, into the schema that an address names."""
    tables = [_make_table(name, feed) for name, feed in _name_tables(lab, analysts)]
    return MirrorReport(write_mirror(address, lab.ledger.read_identity(), tables, reader))


def _name_tables(lab: LabAccess, analysts: tuple[str, ...]) -> Iterator[tuple[str, Feed]]:
    feeds = list(list_published_feeds(lab))
    names = [feed.name for feed in feeds]
    for analyst in dict.fromkeys(analysts):
        for feed in list_released_feeds(lab, analyst):
            feeds.append(feed)
            names.append(simplify_name(f"{analyst}_{feed.name}"))
    return zip(make_unique(names), feeds, strict=True)


def _make_table(name: str, feed: Feed) -> MirrorTable:
    """Return a feed as a table. Its comment holds the hash of its rows, so that a change is noticed."""
    rows = feed.to_arrow()
    notes = "".join(f"\nNot covered by the intervals: {note}" for note in feed.card.notes)
    comment = f"{feed.card.sentence}{notes}\nsha256 {feed.digest}"
    return MirrorTable(name, rows.rename_columns(make_unique(map(_shorten, rows.column_names))), comment)


def _shorten(name: str) -> str:
    """Return a column's name without what PostgreSQL would cut off or cannot keep."""
    cut = name.replace("\0", "").encode()[: _LONGEST - 3].decode(errors="ignore")
    return cut or "column"
