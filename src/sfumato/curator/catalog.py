"""What the steward promised: tables, whose rows they hold, and what each column may contain.

The catalog is public. It is one JSON file, replaced whole, and it never holds anything learnt from the data.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.curator.columns import Promise, promise_from_dict
from sfumato.engines.preparation import Preparation
from sfumato.errors import PolicyError, UsageError
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

VERSION = 1
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")


@dataclass(frozen=True, slots=True)
class Table:
    """A registered table. `snapshot` is the public counter of its prepared copy."""

    name: str
    unit: Unit
    columns: Mapping[str, Promise]
    snapshot: int = 1
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    public_rows: int | None = None
    """How many rows there are, where that is public."""
    multiplicity: Mapping[str, int] = field(default_factory=dict)
    """Of a public table, the largest number of rows with one value, by column."""

    @property
    def population(self) -> str:
        return self.unit.population(self.name)

    @property
    def snapshot_name(self) -> str:
        return f"{self.name}-{self.snapshot}"

    @property
    def is_public(self) -> bool:
        return False

    def preparation(self, key: bytes) -> Preparation:
        stored = tuple(promise.stored(name) for name, promise in self.columns.items())
        constant = tuple(name for name, promise in self.columns.items() if promise.constant)
        return Preparation(self.unit.column, self.unit.max_rows, stored, key, constant)

    def to_dict(self) -> dict[str, Any]:
        columns = {name: promise.to_dict() for name, promise in self.columns.items()}
        return {"unit": self.unit.to_dict(), "columns": columns, "snapshot": self.snapshot}

    @classmethod
    def from_dict(cls, name: str, fields: dict[str, Any]) -> Table:
        columns = {column: promise_from_dict(promise) for column, promise in fields["columns"].items()}
        return cls(name, Unit.from_dict(fields["unit"]), columns, fields["snapshot"])


class Catalog:
    """The tables of a lab, read afresh when the file changes, changed under a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._tables: dict[str, Table] = {}

    def tables(self) -> dict[str, Table]:
        if not self._path.exists():
            return {}
        stat = self._path.stat()
        if self._seen != (stat.st_mtime_ns, stat.st_ino):
            self._tables = self._read()
            self._seen = (stat.st_mtime_ns, stat.st_ino)
        return self._tables

    def table(self, name: str) -> Table:
        tables = self.tables()
        if name in tables:
            return tables[name]
        raise PolicyError(
            "SF-Q106", f"There is no table '{name[:80]}'.", registered=", ".join(tables) or "none yet"
        )

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One change at a time, over all processes."""
        with open(self._path.with_suffix(".lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def add(self, table: Table) -> None:
        tables = {**self.tables(), table.name: table}
        body = {"version": VERSION, "tables": {name: each.to_dict() for name, each in tables.items()}}
        fresh = self._path.with_suffix(".new")
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(body, file, indent=1, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)

    def _read(self) -> dict[str, Table]:
        try:
            body = json.loads(self._path.read_text(encoding="utf-8"))
            if body["version"] != VERSION:
                raise UsageError("SF-C111", "The catalog was written by another version of sfumato.")
            return {name: Table.from_dict(name, fields) for name, fields in body["tables"].items()}
        except (ValueError, KeyError, TypeError) as problem:
            raise UsageError("SF-C112", "The catalog file cannot be read.", file=self._path.name) from problem


def declared(name: str, unit: Unit | None, columns: Mapping[str, Promise] | None) -> Table:
    """A table from what the steward typed; whatever is missing or unclear is refused."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise UsageError("SF-C113", "A table's name is letters, digits and underscores.", try_='"visits"')
    if not isinstance(unit, Unit):
        raise UsageError(
            "SF-C102",
            f"Say who is protected in '{name}'.",
            why="without a unit of protection nothing can be priced",
            try_='unit=sf.Unit("patient_id", max_rows=20), or unit=sf.ROW when each row is one person',
        )
    promises = dict(columns or {})
    for column, promise in promises.items():
        if not isinstance(column, str) or not isinstance(promise, Promise):
            raise UsageError(
                "SF-C114",
                f"The promise about column '{column}' of '{name}' is not one sfumato knows.",
                try_='columns={"age": sf.between(0, 110), "ward": sf.one_of("A", "B")}',
            )
    if len({column.casefold() for column in promises}) < len(promises):
        raise UsageError(
            "SF-C123", f"Two columns of '{name}' differ only in case.", try_="rename one, or declare only one"
        )
    if ":" in unit.population(name):
        raise UsageError(
            "SF-C124",
            f"The name of the people in '{name}' has a colon in it.",
            try_='sf.Unit(…, of="patients") names them',
        )
    if unit.column in promises:
        raise UsageError(
            "SF-C115",
            f"'{unit.column}' says who a row is about, so it cannot be a column to ask about as well.",
        )
    return Table(name, unit, promises)
