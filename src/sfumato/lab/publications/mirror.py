"""Publications as tables of a PostgreSQL schema, which any tool can read that speaks SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.engines.postgres.mirror import MirrorTable, write_mirror
from sfumato.lab.publications.names import make_unique
from sfumato.lab.publications.public_tables import list_public_tables

if TYPE_CHECKING:
    from sfumato.curator.payer import LabAccess
    from sfumato.engines.postgres.mirror import MirrorChanges
    from sfumato.lab.publications.public_tables import PublicTable

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


def mirror_publications(lab: LabAccess, address: str, reader: str | None) -> MirrorReport:
    """Write every publication into the schema that an address names."""
    tables = [_make_table(each) for each in list_public_tables(lab)]
    return MirrorReport(write_mirror(address, lab.ledger.read_identity(), tables, reader))


def _make_table(table: PublicTable) -> MirrorTable:
    """Return a publication as a table. Its comment holds the hash of its rows: a change is noticed by it."""
    rows = table.rows
    notes = "".join(f"\nNot covered by the intervals: {note}" for note in table.notes)
    comment = f"{table.sentence}{notes}\nsha256 {table.digest}"
    return MirrorTable(
        table.name, rows.rename_columns(make_unique(map(_shorten, rows.column_names))), comment
    )


def _shorten(name: str) -> str:
    """Return a column's name without what PostgreSQL would cut off or cannot keep."""
    cut = name.replace("\0", "").encode()[: _LONGEST - 3].decode(errors="ignore")
    return cut or "column"
