"""Published questions: what the steward asked for everyone and for how much, kept in a public file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.catalog import Table
from sfumato.errors import UsageError
from sfumato.files.durable import replace_json
from sfumato.privacy.exact import parse_exact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERSION = 1


@dataclass(frozen=True, slots=True)
class Publication:
    """A question and its spend, by which anyone finds the answer again. `request` is the hash of both."""

    text: str
    spend: Mapping[str, Any]
    request: str
    day: date | None = None
    """When it was published, in UTC; older files do not say."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """What was declared then about the tables that it is about: an answer is read by it, whatever came
    later. Older files do not say."""
    name: str | None = None
    """What the steward calls it, for files and mirrors; None where nothing was said."""

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What tells publications apart."""
        return self.request, tuple(sorted((name, table.identity) for name, table in self.tables.items()))

    def to_dict(self) -> dict[str, Any]:
        fields = {"text": self.text, "spend": write_spend(self.spend), "request": self.request}
        day = {} if self.day is None else {"day": self.day.isoformat()}
        tables = {name: table.to_dict() for name, table in self.tables.items()}
        named = {} if self.name is None else {"name": self.name}
        return fields | day | ({"tables": tables} if tables else {}) | named

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Publication:
        day = date.fromisoformat(fields["day"]) if "day" in fields else None
        tables = {name: Table.from_dict(name, each) for name, each in fields.get("tables", {}).items()}
        spend = read_spend(fields["spend"])
        return cls(fields["text"], spend, fields["request"], day, tables, fields.get("name"))


class Publications:
    """The published questions of a lab, in the order of their publication, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_all(self) -> tuple[Publication, ...]:
        """Return the publications in the file, oldest first."""
        if not self._path.exists():
            return ()
        try:
            body = json.loads(self._path.read_text(encoding="utf-8"))
            return tuple(Publication.from_dict(each) for each in body["published"])
        except (ValueError, KeyError, TypeError) as problem:
            raise UsageError(
                "SF-C112", "The file of published questions cannot be read.", file=self._path.name
            ) from problem

    def add_publication(self, publication: Publication) -> None:
        """Append a publication; one that is there already, the same request and snapshots, gets its name."""
        known = self.read_all()
        every = (*known, publication)
        if publication.key in {each.key for each in known}:
            every = tuple(_name_alike(each, publication) for each in known)
        if every != known:
            replace_json(self._path, {"version": VERSION, "published": [each.to_dict() for each in every]})


def _name_alike(known: Publication, again: Publication) -> Publication:
    """Return a publication with the name that it was given when it was published again."""
    renamed = again.name is not None and known.key == again.key
    return replace(known, name=again.name) if renamed else known


def write_spend(spend: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spend with its numbers as exact texts."""
    return {
        # error={"n": 25} is a dictionary of its own.
        name: write_spend(value) if isinstance(value, dict) else str(parse_exact(value, name))
        for name, value in spend.items()
    }


def read_spend(spend: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spend whose numbers are exact, as `write_spend` wrote them."""
    return {
        name: read_spend(value) if isinstance(value, dict) else Fraction(value)
        for name, value in spend.items()
    }
