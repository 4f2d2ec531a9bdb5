"""One feed: a table that was released, under its name, with the receipt of what was paid for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

PUBLISHED = "published"
RELEASED = "released"
SYNTHETIC = "synthetic"


@dataclass(frozen=True, slots=True)
class FeedCard:
    """What is said about a feed beside its rows."""

    name: str
    kind: str
    """`published` or `synthetic`, for everyone; `released`, for whoever paid."""
    owner: str | None
    """The analyst who paid for it; None for the steward."""
    question: str
    entries: tuple[int, ...]
    """Numbers of the charges in the ledger."""
    head: str
    """Hash of the entry that keeps the answer; empty where there is none."""
    notes: tuple[str, ...] = ()
    """What no interval covers, in words."""
    spend: Mapping[str, Any] = field(default_factory=dict)
    """What was typed as its price, numbers as exact texts."""

    @property
    def sentence(self) -> str:
        """The question, and where the ledger has what was paid for it."""
        if not self.entries:
            return self.question
        many = "entry" if len(self.entries) == 1 else "entries"
        head = f", receipt {self.head}" if self.head else ""
        return f"{self.question} ({many} {', '.join(map(str, self.entries))} of the ledger{head})"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "owner": self.owner,
            "question": self.question,
            "entries": list(self.entries),
            "head": self.head,
            "notes": list(self.notes),
            "spend": dict(self.spend),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> FeedCard:
        """Return the card that `to_dict` wrote."""
        lists = {name: tuple(fields[name]) for name in ("entries", "notes")}
        return cls(**{**fields, **lists})


@dataclass(frozen=True, slots=True)
class Feed:
    """A released table at a fixed address. Reading it is free, however often."""

    card: FeedCard
    digest: str
    """Hash of names, types and cells."""
    load: Callable[[], pa.Table] = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name in addresses and in SQL."""
        return self.card.name

    @property
    def path(self) -> str:
        """The address on a server, without the ending that says the format."""
        return f"/feeds/{RELEASED if self.card.kind == RELEASED else PUBLISHED}/{self.name}"

    def to_arrow(self) -> pa.Table:
        """Return the rows, with the ends of its interval beside each number."""
        return self.load()

    def __str__(self) -> str:
        return f"{self.name}: {self.card.sentence}\n{self.path}.csv, .parquet or .json"

    __repr__ = __str__
