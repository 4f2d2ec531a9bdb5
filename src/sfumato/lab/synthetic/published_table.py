"""A published synthetic table: a file that everyone may download, and a card that says what it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.files.durable import replace_file, replace_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

    import pyarrow as pa

    from sfumato.curator.payer import LabAccess

TABLE, TWIN = "table", "twin"


@dataclass(frozen=True, slots=True, repr=False)
class PublishedTable:
    """A synthetic table that the steward paid for. Reading and saving it is free, and it never changes."""

    lab: LabAccess
    path: Path
    """Where it lies, without an ending: .parquet is the table, .json and .md are its card."""
    card: Mapping[str, Any]
    """What it is: its guarantee, how the budget was divided, its generator and date, what it cannot show."""

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.card["name"])

    @property
    def kind(self) -> str:
        """Whether it is a table to learn from or a twin to rehearse with."""
        return str(self.card["kind"])

    @property
    def day(self) -> date:
        """When it was published, in UTC."""
        return date.fromisoformat(self.card["published"])

    @property
    def is_current(self) -> bool:
        """Whether the table still has the snapshot that this was made of."""
        known = self.lab.contents.tables.get(self.card["table"])
        return known is not None and known.snapshot_name == self.card["snapshot"]

    @property
    def heading(self) -> str:
        """What it is, when it was published, and whether the data have changed since."""
        changed = "" if self.is_current else "; the table has changed since"
        what = "synthetic table" if self.kind == TABLE else "twin"
        return (
            f"{self.name}: a {what} of '{self.card['table']}', {self.card['rows']:,} rows"
            f"\n(published {self.day}{changed}; {self.card['cost']})"
        )

    def read(self) -> pa.Table:
        """Return the table."""
        from pyarrow import parquet

        return parquet.read_table(self.path.with_suffix(".parquet"))

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it to a .parquet or .csv file, with its card beside it as .card.json and .card.md."""
        target = check_table_target(path)
        if target.suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(self.read(), target)
        else:
            target.write_bytes(self.path.with_suffix(".parquet").read_bytes())
        for ending in (".json", ".md"):
            card = self.path.with_suffix(ending).read_bytes()
            target.with_name(f"{target.stem}.card{ending}").write_bytes(card)
        return target

    def describe(self) -> dict[str, Any]:
        """Return the card, ready for JSON."""
        return {"synthetic": self.name, "current": self.is_current, **self.card}

    def __str__(self) -> str:
        return self.heading

    def __repr__(self) -> str:
        return f"PublishedTable({self.name!r}); .read() gives the table, .save(path) writes it with its card"

    def _repr_html_(self) -> str:
        fields = ("table", "rows", "published", "cost")
        return viz.definition_table([("name", self.name), *((each, str(self.card[each])) for each in fields)])


def check_table_target(path: str | PathLike[str]) -> Path:
    """Return the path if a table can be written there; else raise, before anything is drawn or paid for."""
    target = Path(path)
    if target.suffix not in (".parquet", ".csv") or not target.parent.is_dir():
        raise UsageError(
            "SF-U102",
            "A synthetic table is written to a .parquet or .csv file in a folder that exists.",
            got=str(path),
            try_="--output visits.parquet",
        )
    return target


def list_published(lab: LabAccess) -> Iterator[PublishedTable]:
    """Yield the synthetic tables that were published, oldest first."""
    found = []
    for card in lab.synthetic_folder.glob("*.json") if lab.synthetic_folder.is_dir() else ():
        found.append(PublishedTable(lab, card.with_suffix(""), _read_card(card)))
    yield from sorted(found, key=lambda each: (each.card["number"], each.name))


def keep_table(
    lab: LabAccess, digest: str, table: pa.Table, card: dict[str, Any], text: str
) -> PublishedTable:
    """Write a table and its card, which comes last, so that a crash leaves no card without its table."""
    import io

    from pyarrow import parquet

    folder = lab.synthetic_folder
    path = folder / digest
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    replace_file(path.with_suffix(".parquet"), buffer.getvalue())
    replace_file(path.with_suffix(".md"), text.encode())
    replace_json(path.with_suffix(".json"), card)
    return PublishedTable(lab, path, card)


def _read_card(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _ = found["number"], found["name"], found["table"]
    except (ValueError, KeyError, TypeError) as problem:
        raise UsageError(
            "SF-C112", "The card of a published table cannot be read.", file=path.name
        ) from problem
    return found
