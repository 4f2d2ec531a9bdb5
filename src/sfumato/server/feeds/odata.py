"""OData v4 documents: the service document, its metadata, and entity sets with rows.

Each feed is an entity set. Its key `row` is the number of the row, because an answer has no key of its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from sfumato.lab.feeds.feed import RELEASED
from sfumato.lab.feeds.naming import make_unique
from sfumato.lab.feeds.shelf import no_such_feed
from sfumato.server.feeds.formats import write_cell
from sfumato.server.feeds.odata_filter import KINDS, NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.lab.feeds.feed import Feed
    from sfumato.server.feeds.odata_options import FeedOptions

EDM_TYPES = {
    "int64": "Edm.Int64",
    "double": "Edm.Double",
    "string": "Edm.String",
    "bool": "Edm.Boolean",
    "date32[day]": "Edm.Date",
    "timestamp[s]": "Edm.DateTimeOffset",
}
_LONGEST = 128
"""Most characters of an identifier."""


@dataclass(frozen=True)
class EntitySet:
    """A feed as OData names it: identifiers for its name and columns, and a key."""

    name: str
    feed: Feed

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The properties, in the order of the columns, and the key last."""
        columns = self.feed.to_arrow().column_names
        return tuple(make_unique([*map(_make_identifier, columns), "row"]))

    @property
    def key(self) -> str:
        """The property that numbers rows."""
        return self.names[-1]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each property, for filters."""
        found = [KINDS[str(field.type)] for field in self.feed.to_arrow().schema]
        return dict(zip(self.names, [*found, NUMBER], strict=True))

    def list_rows(self) -> list[dict[str, Any]]:
        """Return every row, numbered from 1."""
        columns = [column.to_pylist() for column in self.feed.to_arrow().columns]
        size = self.feed.to_arrow().num_rows
        cells = zip(*columns, range(1, size + 1), strict=True)
        return [dict(zip(self.names, row, strict=True)) for row in cells]

    def write_type(self) -> str:
        """Return the type of its rows as CSDL."""
        fields = self.feed.to_arrow().schema
        properties = "".join(
            f"<Property Name={quoteattr(name)} Type={quoteattr(EDM_TYPES[str(field.type)])}/>"
            for name, field in zip(self.names, fields, strict=False)
        )
        key = quoteattr(self.key)
        return (
            f"<EntityType Name={quoteattr(self.name)}><Key><PropertyRef Name={key}/></Key>"
            f'<Property Name={key} Type="Edm.Int64" Nullable="false"/>{properties}</EntityType>'
        )


def list_entity_sets(feeds: Sequence[Feed]) -> dict[str, EntitySet]:
    """Return the entity sets of feeds by name; those that were released to someone say so in theirs."""
    ordered = sorted(feeds, key=lambda feed: (feed.card.kind == RELEASED, feed.name))
    names = [f"released_{each.name}" if each.card.kind == RELEASED else each.name for each in ordered]
    pairs = zip(make_unique(names), ordered, strict=True)
    return {name: EntitySet(name, feed) for name, feed in pairs}


def find_entity_set(sets: dict[str, EntitySet], name: str) -> EntitySet:
    """Return an entity set by its name, or refuse it."""
    if name not in sets:
        raise no_such_feed(name)
    return sets[name]


def write_service(sets: dict[str, EntitySet], root: str) -> bytes:
    """Return the service document: which entity sets there are, each with its question as the title."""
    value = [
        {"name": name, "kind": "EntitySet", "url": name, "title": each.feed.card.question[:200]}
        for name, each in sets.items()
    ]
    return _dump({"@odata.context": f"{root}/$metadata", "value": value})


def write_metadata(sets: dict[str, EntitySet]) -> bytes:
    """Return the metadata of all entity sets as CSDL."""
    types = "".join(each.write_type() for each in sets.values())
    entries = "".join(
        f"<EntitySet Name={quoteattr(name)} EntityType={quoteattr(f'sfumato.{name}')}/>" for name in sets
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>'
        '<edmx:Edmx Version="4.0" xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx"><edmx:DataServices>'
        '<Schema Namespace="sfumato" xmlns="http://docs.oasis-open.org/odata/ns/edm">'
        f'{types}<EntityContainer Name="feeds">{entries}</EntityContainer>'
        "</Schema></edmx:DataServices></edmx:Edmx>"
    ).encode()


def write_rows(entity_set: EntitySet, options: FeedOptions, root: str, *, large_as_text: bool) -> bytes:
    """Return a page of an entity set."""
    page, total, following = options.apply(entity_set.list_rows())
    shown = options.select or (entity_set.key, *entity_set.names[:-1])
    selected = "" if options.select is None else f"({','.join(shown)})"
    body: dict[str, Any] = {"@odata.context": f"{root}/$metadata#{entity_set.name}{selected}"}
    if options.count:
        body["@odata.count"] = str(total) if large_as_text else total
    body["value"] = [_write_row(row, shown, large_as_text) for row in page]
    if following is not None:
        body["@odata.nextLink"] = f"{root}/{entity_set.name}?{options.link_next(following)}"
    return _dump(body)


def write_row(entity_set: EntitySet, number: int, root: str, *, large_as_text: bool) -> bytes:
    """Return one row by its number."""
    rows = entity_set.list_rows()
    if not 1 <= number <= len(rows):
        raise no_such_feed(f"{entity_set.name}({number})")
    shown = (entity_set.key, *entity_set.names[:-1])
    context = {"@odata.context": f"{root}/$metadata#{entity_set.name}/$entity"}
    return _dump({**context, **_write_row(rows[number - 1], shown, large_as_text)})


def count_rows(entity_set: EntitySet, options: FeedOptions) -> bytes:
    """Return how many rows the filter keeps, as plain text."""
    return str(options.apply(entity_set.list_rows())[1]).encode()


def write_error(code: str, message: str) -> bytes:
    """Return an error as OData clients expect it."""
    return _dump({"error": {"code": code, "message": message}})


def _write_row(row: Mapping[str, Any], shown: Sequence[str], large_as_text: bool) -> dict[str, Any]:
    return {name: write_cell(row[name], large_as_text=large_as_text) for name in shown}


def _make_identifier(name: str) -> str:
    """Return the identifier that is nearest to the name of a column."""
    plain = re.sub(r"\W", "_", name)[:_LONGEST] or "column"
    return plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"[:_LONGEST]


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
