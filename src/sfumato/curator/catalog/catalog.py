"""The catalog: the tables of a lab, whose rows they hold, and what each column may contain.

The catalog is public. It is one JSON file, replaced as a whole, and holds nothing learnt from protected data
but bounds that were bought: those were charged, released with noise, and are as public as any answer.
"""

from __future__ import annotations

import fcntl
import json
import re
import secrets
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.curator.catalog.blocks import BudgetBlocks
from sfumato.curator.catalog.chosen import ChosenBound, keep_valid
from sfumato.curator.catalog.columns import DeclaredColumn, column_from_dict
from sfumato.curator.catalog.edge_lists import check_graph, prepare_graph, require_population
from sfumato.curator.catalog.grants import Grant
from sfumato.engines.snapshot import GraphPreparation, Preparation
from sfumato.errors import PolicyError, UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import replace_json
from sfumato.ledger.api import SnapshotRead
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.graph_units import Edge, Node, Protected, protected_from_dict
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import ROW, Unit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import TextIO

    from sfumato.curator.catalog.columns import UnboundedColumn
    from sfumato.curator.catalog.domains import Domain

VERSION = 2
_POLL_SECONDS = 0.02
# Names stand in SQL, in file names and in the ledger, and PostgreSQL keeps 63 characters of them.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A registered table. `snapshot` numbers its prepared copies, and is public."""

    name: str
    protects: Protected
    columns: Mapping[str, DeclaredColumn]
    snapshot: int = 1
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    public_rows: int | None = None
    """The number of rows, where that is public."""
    multiplicity: Mapping[str, int] = field(default_factory=dict)
    """The largest number of rows with one value, by column of a public table."""
    combinations: tuple[tuple[int | None, ...], ...] | None = None
    """The different rows of a public table, as integers of their columns without free texts; None if there
    are too many."""
    home: str = "duckdb"
    """Where its snapshot lies: in the lab's own folder, or in a database, which a digest identifies."""
    identity: str = ""
    """Random text that tells its snapshot from all others; empty if that is older than identities."""
    pace: int | None = None
    """Milliseconds that one pass over its rows takes at most, sorting them, as the steward declared."""
    through: Mapping[str, int] = field(default_factory=dict)
    """Up to which place of a column all rows are there, as the steward declared. Streams go no further."""
    blocks: BudgetBlocks | None = None
    """How its time is cut into blocks with a budget each, if it is."""
    block: str = ""
    """The block whose account pays, in a stream that is paid for block by block. It is never stored."""
    chosen: tuple[ChosenBound, ...] = ()
    """Bounds that were chosen privately, with what was paid for them."""

    def __repr__(self) -> str:
        return f"Table({self.name!r}, columns={list(self.columns)})"

    @property
    def unit(self) -> Unit:
        """The unit that owns the rows. No unit owns the edges of a graph, so it is refused there."""
        if isinstance(self.protects, Unit):
            return self.protects
        raise PolicyError(
            "SF-C213",
            f"'{self.name}' is a graph, and cannot be asked about as rows.",
            why="an edge belongs to two nodes, so no unit owns a row",
            try_=f's.graph("{self.name}").degrees(), or .edges()',
        )

    @property
    def population(self) -> str:
        """The name of the people or edges whose account pays."""
        everyone = self.protects.population(self.name)
        return name_newcomers(everyone, self.block) if self.block else everyone

    @property
    def relation(self) -> str:
        """What neighbouring tables differ in, as ledgers name it: these names never change."""
        changed = " edge" if isinstance(self.protects, Edge) else ""
        return f"{self.neighbours.value}{changed}"

    @property
    def snapshot_name(self) -> str:
        """The name of the prepared copy in its engine. No other copy has it, in this lab or another."""
        return f"{self.name}-{self.snapshot}{'.' if self.identity else ''}{self.identity}"

    @property
    def is_public(self) -> bool:
        """Whether the table protects no one."""
        return isinstance(self.protects, Unit) and self.protects.public

    def domain_of(self, name: str) -> Domain:
        """Return the domain of a declared column."""
        return self.columns[name].domain

    def is_constant(self, name: str) -> bool:
        """Return whether all rows of a unit have one value in a declared column."""
        return not self.is_public and (self.unit.max_rows == 1 or self.columns[name].constant)

    def make_preparation(self, key: bytes) -> Preparation | GraphPreparation:
        """Return how an engine prepares a snapshot; `key` orders the rows of a unit that are kept."""
        if not isinstance(self.protects, Unit):
            return prepare_graph(self.protects, key)
        stored = tuple(promise.make_stored_column(name) for name, promise in self.columns.items())
        constant = tuple(name for name, promise in self.columns.items() if promise.constant)
        return Preparation(self.unit.column, self.unit.max_rows, stored, key, constant)

    def to_dict(self) -> dict[str, Any]:
        columns = {name: promise.to_dict() for name, promise in self.columns.items()}
        fields = {"unit": self.protects.to_dict(), "columns": columns, "snapshot": self.snapshot}
        fields["neighbours"] = self.neighbours.value
        if self.public_rows is not None:
            fields["public_rows"] = self.public_rows
        # Left out where it is the default, so that catalogs of older versions read the same.
        if self.home != "duckdb":
            fields["home"] = self.home
        if self.identity:
            fields["identity"] = self.identity
        if self.pace is not None:
            fields["pace"] = self.pace
        if self.through:
            fields["through"] = dict(self.through)
        if self.blocks is not None:
            fields["blocks"] = self.blocks.to_dict()
        if self.chosen:
            fields["chosen"] = [each.to_dict() for each in self.chosen]
        if self.combinations is not None:
            fields["combinations"] = [list(row) for row in self.combinations]
        return fields | ({"multiplicity": dict(self.multiplicity)} if self.is_public else {})

    @classmethod
    def from_dict(cls, name: str, fields: dict[str, Any]) -> Table:
        columns = {column: column_from_dict(promise) for column, promise in fields["columns"].items()}
        listed = fields.get("combinations")
        return cls(
            name,
            protected_from_dict(fields["unit"]),
            columns,
            fields["snapshot"],
            Neighbours(fields["neighbours"]),
            fields.get("public_rows"),
            fields.get("multiplicity", {}),
            None if listed is None else tuple(map(tuple, listed)),
            fields.get("home", "duckdb"),
            fields.get("identity", ""),
            fields.get("pace"),
            fields.get("through", {}),
            BudgetBlocks.from_dict(fields["blocks"]) if "blocks" in fields else None,
            chosen=tuple(map(ChosenBound.from_dict, fields.get("chosen", ()))),
        )

    def with_chosen(self, chosen: Iterable[ChosenBound]) -> Table:
        """Return the table with those of these choices whose bounds it has."""
        return replace(self, chosen=keep_valid(chosen, self.protects, self.columns))


def name_newcomers(population: str, block: str) -> str:
    """Return the name of those of a population who come in one block; with no block, its beginning."""
    return f"{population} since {block}"


def split_snapshot_name(snapshot: str) -> tuple[str, str]:
    """Return the table that a snapshot is of, and the identity of the snapshot."""
    return snapshot.partition("-")[0], snapshot.partition(".")[2]


# ---- the file ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CatalogContents:
    """The contents of the catalog file."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    """The last snapshot of every table there ever was: a new table of an old name finds no old answers."""
    relations: Mapping[str, Neighbours] = field(default_factory=dict)
    """The neighbouring relation of every population there ever was, since its account stays."""
    begun: Mapping[str, str] = field(default_factory=dict)
    """The identity of the snapshot of each table that was begun last, whether or not it was finished."""
    grants: Mapping[str, Grant] = field(default_factory=dict)
    """What analysts were granted beside their quotas, by name, where it is not everything there is."""
    leftovers: tuple[str, ...] = ()
    """Snapshots that are no longer used and may still exist: half registered, replaced or dropped."""

    def read_of(self, table: Table) -> SnapshotRead:
        """Return what the ledger compares when the table's snapshot is read."""
        return SnapshotRead(table.name, table.identity, self.begun.get(table.name, ""))

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "tables": {name: table.to_dict() for name, table in self.tables.items()},
            "counters": dict(self.counters),
            "relations": {name: relation.value for name, relation in self.relations.items()},
            "begun": dict(self.begun),
            "leftovers": list(self.leftovers),
            # Left out where there are none, so that catalogs of older versions read the same.
            **(
                {"grants": {name: each.to_dict() for name, each in self.grants.items()}}
                if self.grants
                else {}
            ),
        }

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> CatalogContents:
        if body["version"] != VERSION:
            raise UsageError(
                "SF-C112",
                "The catalog was written by another version of sfumato.",
                version=str(body["version"]),
                needed=str(VERSION),
            )
        return cls(
            {name: Table.from_dict(name, fields) for name, fields in body["tables"].items()},
            body["counters"],
            {name: Neighbours(value) for name, value in body["relations"].items()},
            body.get("begun", {}),
            {name: Grant.from_dict(each) for name, each in body.get("grants", {}).items()},
            tuple(body["leftovers"]),
        )


class Catalog:
    """The tables of a lab: read again when the file changes, changed under a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Replaced as one, so that no thread takes what another has just read for the file's newest content.
        self._known: tuple[tuple[int, int], CatalogContents] | None = None

    @property
    def contents(self) -> CatalogContents:
        """What the file says now."""
        if not self._path.exists():
            return CatalogContents()
        stat = self._path.stat()
        # The file is replaced, never written into, so a new inode also tells of changes within one tick.
        seen, known = (stat.st_mtime_ns, stat.st_ino), self._known
        if known is None or known[0] != seen:
            self._known = known = seen, self._read()
        return known[1]

    @property
    def tables(self) -> Mapping[str, Table]:
        """The registered tables by name."""
        return self.contents.tables

    def find_table(self, name: str) -> Table:
        """Return the table of this very name, or the only one that differs in case; else refuse."""
        tables = self.tables
        near = [each for each in tables if each.casefold() == name.casefold()]
        if name in tables or len(near) == 1:
            return tables[name if name in tables else near[0]]
        if near:
            raise PolicyError(
                "SF-Q133",
                f"Table '{name[:80]}' is ambiguous.",
                try_=" or ".join(f'"{each}"' for each in near),
            )
        raise no_table_error(name, tables)

    @contextmanager
    def lock_for_change(self) -> Iterator[None]:
        """Allow one change at a time, over all processes."""
        with self._locked(".lock", fcntl.LOCK_EX):
            yield

    @contextmanager
    def lock_for_reading(self, snapshots: Collection[str]) -> Iterator[None]:
        """Allow any number of readers of these snapshots, and let none of them be erased meanwhile.

        Nobody waits for readers of other snapshots. What is erased has left the catalog before, so readers
        who look there first do not come in the way of who erases.
        """
        with ExitStack() as locks:
            for snapshot in sorted(snapshots):
                file = locks.enter_context(self._open_lock(snapshot))
                fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextmanager
    def lock_for_erasing(self, snapshot: str, patience: float) -> Iterator[bool]:
        """Let nobody read a snapshot meanwhile, in any process.

        Yields whether that could be had within so many seconds.
        """
        with self._open_lock(snapshot) as file:
            deadline = time.monotonic() + patience
            while not (alone := _try_lock(file)) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            yield alone
            if alone:
                self._lock_file(snapshot).unlink(missing_ok=True)

    def _lock_file(self, snapshot: str) -> Path:
        return self._path.parent / "reading" / quote(snapshot, safe="")

    def _open_lock(self, snapshot: str) -> TextIO:
        # The system releases the lock of a process that dies, so a crash leaves none behind.
        file = self._lock_file(snapshot)
        with name_disk_errors():
            file.parent.mkdir(mode=0o700, exist_ok=True)
            return file.open("a")

    @contextmanager
    def _locked(self, suffix: str, how: int) -> Iterator[None]:
        with open(self._path.with_suffix(suffix), "a") as lock:
            fcntl.flock(lock, how)
            yield

    def begin_snapshot(self, table: Table) -> Table:
        """Give a table its next snapshot, which counts as a leftover until the table is added."""
        # Written down before anything is prepared: after a crash, what lies there half-made is known.
        now = self.contents
        number = now.counters.get(table.name, 0) + 1
        numbered = replace(table, snapshot=number, identity=secrets.token_hex(16))
        self._write(
            begun={**now.begun, table.name: numbered.identity},
            leftovers=(*now.leftovers, numbered.snapshot_name),
        )
        return numbered

    def add_table(self, table: Table) -> None:
        """Add a table, or replace one of its name, whose snapshot becomes a leftover."""
        now = self.contents
        # The neighbouring relation of a population outlives its tables: its account was kept under it.
        relation = {} if table.is_public else {table.population: table.neighbours}
        self._write(
            tables={**now.tables, table.name: table},
            counters={**now.counters, table.name: table.snapshot},
            relations={**now.relations, **relation},
            leftovers=self._leftovers({table.name}, kept={table.snapshot_name}),
        )

    def set_pace(self, name: str, milliseconds: int) -> None:
        """Declare a table's pace. Its snapshot stays."""
        self.replace_terms(replace(self.find_table(name), pace=milliseconds))

    def replace_terms(self, table: Table) -> None:
        """Replace what is declared about a table. Its snapshot stays."""
        self._write(tables={**self.tables, table.name: table})

    def set_grant(self, analyst: str, grant: Grant | None) -> None:
        """Note what an analyst was granted; None where they have nothing any more."""
        others = {name: each for name, each in self.contents.grants.items() if name != analyst}
        # A grant of everything there is needs no note: the ledger has the quota.
        self._write(grants=others if grant in (None, Grant()) else {**others, analyst: grant})

    def remove_table(self, name: str) -> None:
        """Remove a table; its snapshot becomes a leftover."""
        tables = {other: table for other, table in self.tables.items() if other != name}
        self._write(tables=tables, leftovers=self._leftovers({name}))

    def forget_snapshot(self, snapshot: str) -> None:
        """Take an erased snapshot off the leftovers."""
        self._write(leftovers=tuple(left for left in self.contents.leftovers if left != snapshot))

    def _leftovers(self, gone: Collection[str], kept: Collection[str] = ()) -> tuple[str, ...]:
        replaced = [table.snapshot_name for name, table in self.tables.items() if name in gone]
        return tuple(left for left in (*self.contents.leftovers, *replaced) if left not in kept)

    def _write(self, **changes: Any) -> None:
        replace_json(self._path, replace(self.contents, **changes).to_dict())

    def _read(self) -> CatalogContents:
        try:
            return CatalogContents.from_dict(json.loads(self._path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError) as problem:  # cut off, or edited by hand
            raise UsageError("SF-C112", "The catalog file cannot be read.", file=self._path.name) from problem


def no_table_error(name: str, tables: Iterable[str]) -> PolicyError:
    """Return the refusal of a table that is not there, with those of which whoever asks may know."""
    known = ", ".join(tables) or "none yet"
    return PolicyError("SF-Q106", f"There is no table '{name[:80]}'.", registered=known)


def _try_lock(file: TextIO) -> bool:
    """Return whether a file could be locked against everyone else, without waiting."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# ---- declarations ------------------------------------------------------------------------------------------


def declare_table(
    name: str,
    unit: Protected | None,
    columns: Mapping[str, DeclaredColumn | UnboundedColumn] | None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    rows: int | None = None,
) -> Table:
    """Return a table from what the steward typed; refuse whatever is missing or unclear."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise UsageError(
            "SF-C113", "A table's name may have only letters, digits and underscores.", try_='"visits"'
        )
    if isinstance(unit, Node | Edge):
        public_rows = _public_rows(name, unit, neighbours, rows)
        return Table(name, check_graph(name, unit, columns), {}, 1, neighbours, public_rows)
    if not isinstance(unit, Unit):
        column = unit if isinstance(unit, str) else "patient_id"
        raise UsageError(
            "SF-U104",
            f"Say who is protected in '{name}'.",
            why="without a unit of protection nothing can be priced",
            try_=f'unit=sf.Unit("{column}", max_rows=20), or unit=sf.ROW when each row is one person',
        )
    promises = _check_columns(name, unit, columns or {})
    if unit.choice is not None:
        raise AssertionError("a bound is chosen before a table is declared")
    require_population(name, unit)
    return Table(name, unit, promises, 1, neighbours, _public_rows(name, unit, neighbours, rows))


def _check_columns(
    name: str, unit: Unit, columns: Mapping[str, DeclaredColumn | UnboundedColumn]
) -> dict[str, DeclaredColumn]:
    promises: dict[str, Any] = dict(columns)
    for column, promise in promises.items():
        if not isinstance(column, str) or not isinstance(promise, DeclaredColumn):
            raise UsageError(
                "SF-C114",
                f"Column '{column}' of '{name}' must be declared by sf.between, sf.one_of or sf.text.",
                try_='columns={"age": sf.between(0, 110), "ward": sf.one_of("A", "B")}',
            )
    # SQL's names do not tell upper from lower case, so such columns could not be told apart.
    if len({column.casefold() for column in promises}) < len(promises):
        raise UsageError(
            "SF-C113", f"Two columns of '{name}' differ only in case.", try_="rename one, or declare only one"
        )
    if unit.column in promises:
        raise UsageError(
            "SF-C114",
            f"'{unit.column}' is the column of the unit, so it cannot be declared as well.",
        )
    return promises


def _public_rows(name: str, unit: Protected, neighbours: Neighbours, rows: int | None) -> int | None:
    """Return the declared number of rows: public if, and only if, all neighbours have that many."""
    if not isinstance(neighbours, Neighbours):
        raise UsageError(
            "SF-U104",
            f"The neighbours of '{name}' must be sf.ADD_REMOVE or sf.REPLACE_ONE.",
            try_="sf.REPLACE_ONE",
        )
    # Under add-remove the number of rows is itself protected; under replace-one all neighbours have it.
    if neighbours is Neighbours.ADD_REMOVE and rows is None:
        return None
    if neighbours is Neighbours.REPLACE_ONE and unit == ROW and rows is not None:
        return parse_whole(rows, "rows")
    raise UsageError(
        "SF-U104",
        f"rows= must be given for '{name}' with sf.ROW and sf.REPLACE_ONE, and only then.",
        try_="unit=sf.ROW, neighbours=sf.REPLACE_ONE, rows=1000",
    )
