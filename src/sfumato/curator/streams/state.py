"""What a stream keeps in the lab's folder: the memory of its noise, and in which ticks each unit has been.

All of it is secret and in a file that its owner alone can read. A tick is one transaction, which is durable
before the ledger hears of it. So after a crash a tick is either not read yet, or its one value is there.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_empty_private_file, create_private_folder, lock_folder
from sfumato.ledger import failpoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS stream (
        one INTEGER PRIMARY KEY CHECK (one = 1), mechanism TEXT NOT NULL, mark TEXT NOT NULL,
        ticks INTEGER NOT NULL, noise TEXT);
    CREATE TABLE IF NOT EXISTS answers (tick INTEGER PRIMARY KEY, answer TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS units (
        digest TEXT PRIMARY KEY, used INTEGER NOT NULL, last INTEGER NOT NULL, cell INTEGER NOT NULL,
        inside INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS leaving ON units (last) WHERE inside = 1;
"""


_ALWAYS = 2**40
"""More ticks than any unit may count in."""


@dataclass(frozen=True, slots=True)
class KeptStream:
    """Where a stream stands: how many ticks have a value, and the noise after them."""

    mechanism: str
    mark: str
    """Random text that stands for this state in the ledger, and says nothing of it."""
    ticks: int
    noise: str | None
    """The checkpoint of the noise after these ticks."""


@dataclass(frozen=True, slots=True)
class UnitTicks:
    """What is remembered of one unit."""

    used: int
    """Number of ticks, or of visits, in which it was counted."""
    last: int
    """The last tick in which it was counted, or where it was seen while it was present."""
    cell: int = 0
    """The group that it came into."""
    inside: bool = False
    """Whether it is present."""


class StreamState:
    """The file of one stream. Only one process at a time holds it."""

    def __init__(self, folder: Path, request: str) -> None:
        self._folder = folder / request[:32]
        self._file = self._folder / "state.sqlite"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other processes out while ticks are released."""
        with name_disk_errors():
            for each in (self._folder.parent, self._folder):
                create_private_folder(each)
        with lock_folder(self._folder):
            yield

    def read(self) -> KeptStream | None:
        """Return where the stream stands, or None if nothing of it is here."""
        if not self._file.exists():
            return None
        with self._connect() as db:
            asked = "SELECT mechanism, mark, ticks, noise FROM stream"
            found = db.execute(asked).fetchone()
        return None if found is None else KeptStream(*found)

    def begin(self, mechanism: str, mark: str, earlier: StreamState | None = None) -> KeptStream:
        """Keep the mechanism of a new stream, or return the one that is kept already.

        Units that were counted in an earlier block have been counted as often as they may.
        """
        with suppress(FileExistsError):
            create_empty_private_file(self._file)
        with self._connect() as db:
            db.executescript(_SCHEMA)
            if earlier is not None:
                db.execute("ATTACH ? AS earlier", (str(earlier._file),))
            db.execute("BEGIN IMMEDIATE")
            begun = "INSERT OR IGNORE INTO stream VALUES (1, ?, ?, 0, NULL)"
            if db.execute(begun, (mechanism, mark)).rowcount and earlier is not None:
                counted = f"SELECT digest, {_ALWAYS}, last, cell, 0 FROM earlier.units"  # noqa: S608
                db.execute(f"INSERT INTO main.units {counted}")
            db.commit()
        kept = self.read()
        if kept is None:
            raise AssertionError(self._file)
        return kept

    def read_answer(self, tick: int) -> str:
        """Return what the ledger is to keep for a tick that has a value."""
        with self._connect() as db:
            found: str = db.execute("SELECT answer FROM answers WHERE tick = ?", (tick,)).fetchone()[0]
        return found

    def find_units(self, digests: Iterable[str]) -> dict[str, UnitTicks]:
        """Return what is remembered of these units."""
        with self._connect() as db:
            db.execute("CREATE TEMP TABLE asked (digest TEXT PRIMARY KEY) WITHOUT ROWID")
            db.executemany("INSERT INTO asked VALUES (?)", ((each,) for each in digests))
            found = db.execute("SELECT digest, used, last, cell, inside FROM units JOIN asked USING (digest)")
            return {digest: _read_unit(*fields) for digest, *fields in found}

    def find_leaving(self, last: int) -> dict[str, UnitTicks]:
        """Return the units that are present and were last seen at this tick or before."""
        with self._connect() as db:
            asked = "SELECT digest, used, last, cell, inside FROM units WHERE inside = 1 AND last <= ?"
            return {digest: _read_unit(*fields) for digest, *fields in db.execute(asked, (last,))}

    def keep_tick(self, kept: KeptStream, answer: str, units: Mapping[str, UnitTicks]) -> None:
        """Keep a tick, durably: its value, the noise after it, and the units that were counted in it."""
        rows = ((digest, *_write_unit(unit)) for digest, unit in units.items())
        with self._connect() as db:
            db.executemany("INSERT OR REPLACE INTO units VALUES (?, ?, ?, ?, ?)", rows)
            db.execute("INSERT INTO answers VALUES (?, ?)", (kept.ticks - 1, answer))
            now = kept.mark, kept.ticks, kept.noise
            db.execute("UPDATE stream SET mark = ?, ticks = ?, noise = ?", now)
            failpoints.reach("tick:written")
            db.commit()
        failpoints.reach("tick:kept")

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with name_disk_errors(), closing(sqlite3.connect(self._file)) as db:
            # A commit is over when the journal's end has reached the disk, and so has its folder.
            db.execute("PRAGMA synchronous = EXTRA")
            yield db


def _read_unit(used: int, last: int, cell: int, inside: int) -> UnitTicks:
    return UnitTicks(used, last, cell, bool(inside))


def _write_unit(unit: UnitTicks) -> tuple[int, int, int, int]:
    return unit.used, unit.last, unit.cell, int(unit.inside)
