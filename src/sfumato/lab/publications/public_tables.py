"""Publications as flat tables under names, for files and mirrors. Reading one is free, however often."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.release import Release
from sfumato.curator.catalog.publications import write_spend
from sfumato.errors import PolicyError, SfumatoError
from sfumato.lab.publications.names import make_unique, simplify_name
from sfumato.lab.publications.published import Published, list_publications

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.curator.payer import LabAccess
    from sfumato.lab.synthetic.published_table import PublishedTable

KINDS = ("int64", "double", "string", "bool", "date32[day]", "timestamp[s]")
"""The types that columns have; every format says how it writes each of them."""


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A published answer or synthetic table, with what it is and what was paid for it."""

    name: str
    """The name in addresses and in SQL."""
    text: str
    """The question; for synthetic rows, what they stand for."""
    rows: pa.Table = field(repr=False)
    """The rows, with the ends of its interval beside each number."""
    digest: str
    """Hash of names, types and cells."""
    entry: int | None = None
    """Number of the charge in the ledger; none for synthetic rows."""
    head: str = ""
    """Hash of the entry that keeps the answer."""
    notes: tuple[str, ...] = ()
    """What no interval covers, in words."""
    spend: Mapping[str, Any] = field(default_factory=dict)
    """What was typed as its price, numbers as exact texts."""

    @property
    def path(self) -> str:
        """The address on a server, without the ending that says the format."""
        return f"/published/{self.name}"

    @property
    def sentence(self) -> str:
        """The question, and where the ledger has what was paid for it."""
        if self.entry is None:
            return self.text
        return f"{self.text} (entry {self.entry} of the ledger, receipt {self.head})"

    def describe(self) -> dict[str, Any]:
        """Return what it is and what its columns are, ready for JSON."""
        return {
            "name": self.name,
            "path": self.path,
            "question": self.text,
            "entry": self.entry,
            "head": self.head,
            "notes": list(self.notes),
            "spend": dict(self.spend),
            "columns": [{"name": each.name, "type": str(each.type)} for each in self.rows.schema],
            "digest": self.digest,
        }


def list_public_tables(lab: LabAccess) -> tuple[PublicTable, ...]:
    """Return what was published, by name; what cannot be read any more is left out."""
    named: dict[str, Published | PublishedTable] = {}
    for place, each in enumerate(list_publications(lab), start=1):
        number = f"published_{place}" if isinstance(each, Published) else f"synthetic_{each.card['number']}"
        named[number] = each
        called = each.publication.name if isinstance(each, Published) else simplify_name(each.name)
        if called is not None:
            named[called] = each  # the newest of a name has its address
            del named[number]
    found = []
    for name, each in sorted(named.items()):
        try:
            found.append(_make_table(name, each))
        except SfumatoError:
            continue
    return tuple(found)


def find_public_table(lab: LabAccess, name: str) -> PublicTable:
    """Return the table of a publication, or refuse the name."""
    for table in list_public_tables(lab):
        if table.name == name:
            return table
    raise PolicyError(
        "SF-U101", "Nothing is published under this name.", asked=name[:80], try_="/published lists the names"
    )


def tabulate_answer(answer: Release | pa.Table) -> pa.Table:
    """Return an answer as a table. Columns and types follow from the question, rows keep their order."""
    table = answer.to_arrow(intervals=True) if isinstance(answer, Release) else answer
    return _simplify_types(table.rename_columns(make_unique(table.column_names)))


def digest_table(table: pa.Table) -> str:
    """Return a hash of names, types and cells, by which copies of an answer are told apart."""
    named = [[field.name, str(field.type)] for field in table.schema]
    cells = [column.to_pylist() for column in table.columns]
    return sha256(json.dumps([named, cells], default=_write_cell).encode()).hexdigest()


_MOST_KNOWN = 256
_KNOWN: dict[tuple[Any, ...], PublicTable] = {}
"""Publications that were read, by lab and publication, so that reading one again costs no planning."""


def _make_table(name: str, published: Published | PublishedTable) -> PublicTable:
    """Return a publication as a table. It is read once: what was published never changes."""
    key = _identify(published)
    if key not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.pop(next(iter(_KNOWN)), None)
        _KNOWN[key] = _read(published)
    return replace(_KNOWN[key], name=name)


def _identify(published: Published | PublishedTable) -> tuple[Any, ...]:
    place = published.lab.synthetic_folder
    if isinstance(published, Published):
        return place, published.publication.key, published.text
    return place, published.path


def _read(published: Published | PublishedTable) -> PublicTable:
    if isinstance(published, Published):
        answer = published.read()
        rows, receipt = tabulate_answer(answer), answer.receipt
        notes, spend = tuple(answer.to_dict()["bias"]), write_spend(published.spend)
        text = published.text.strip().rstrip(";").rstrip()
        return PublicTable("", text, rows, digest_table(rows), receipt.entry, receipt.head, notes, spend)
    rows = tabulate_answer(published.read())
    card = published.card
    text = f"Synthetic rows for '{card['table']}', published {published.day}: {card['cost']}"
    return PublicTable("", text, rows, digest_table(rows))


def _simplify_types(table: pa.Table) -> pa.Table:
    """Return the table with columns of the types in `KINDS` alone."""
    import pyarrow as pa

    kinds = []
    for column in table.schema:
        kind = column.type
        if str(kind) in KINDS:
            kinds.append(kind)
        elif pa.types.is_integer(kind):
            kinds.append(pa.int64())
        elif pa.types.is_floating(kind):
            kinds.append(pa.float64())
        elif pa.types.is_timestamp(kind):
            kinds.append(pa.timestamp("s"))
        else:
            kinds.append(pa.string())
    named = zip(table.column_names, kinds, strict=True)
    return table.cast(pa.schema([pa.field(name, kind) for name, kind in named])).replace_schema_metadata()


def _write_cell(cell: Any) -> str:
    if isinstance(cell, date):  # moments are dates too
        return cell.isoformat()
    raise TypeError(type(cell))
