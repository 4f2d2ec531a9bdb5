"""Where surveys are kept: terms, rounds, digests of invitations, and how often each report came.

Reports are kept as counts: no row says which invitation a report came with, when, or in which order. Links
are random, and only their digests are kept, so whoever reads the file can answer for nobody. Nothing here can
create budget: a round is open only after the ledger has charged it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from sfumato.errors import DiskError, PolicyError, UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_empty_private_file, create_private_folder, lock_folder
from sfumato.lab.surveys.terms import SurveyTerms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

State = Literal["drafted", "open", "closing", "closed"]

LINK_BYTES = 24
"""Random bytes of a link: 192 bits, so that a link cannot be guessed."""
_WAIT = 30.0
_SETTINGS = (
    # A rollback journal whose removal is synced: what was confirmed survives a power failure, and no two
    # processes ever move a log at the same time.
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = EXTRA",
    "PRAGMA fullfsync = ON",
    "PRAGMA trusted_schema = OFF",
)
# Without row numbers: they would tell in which order invitations were made.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS survey (
    name TEXT PRIMARY KEY COLLATE NOCASE, identity TEXT NOT NULL, terms TEXT NOT NULL, link TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS round (
    survey TEXT NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, entry INTEGER, invited INTEGER,
    PRIMARY KEY (survey, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS invitation (
    digest BLOB PRIMARY KEY, survey TEXT NOT NULL, answered INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS report (
    survey TEXT NOT NULL, round INTEGER NOT NULL, value INTEGER NOT NULL, people INTEGER NOT NULL,
    PRIMARY KEY (survey, round, value)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class SurveyRound:
    """One round: whether it takes answers, and the entry of the ledger that charged it."""

    number: int
    state: State
    entry: int | None
    invited: int | None
    """Invitations that there were when it was closed; None while it is open, or where there are none."""


@dataclass(frozen=True, slots=True)
class SurveyRecord:
    """A survey as it is kept, with its newest round."""

    terms: SurveyTerms
    identity: str
    """Random text that tells this survey from any other of its name, before a round of it is charged."""
    link: str | None
    """The one link of an open survey. Links of invitations are not kept."""
    newest: SurveyRound

    @property
    def has_begun(self) -> bool:
        """Whether a round was ever open."""
        return self.newest.number > 1 or self.newest.state != "drafted"


@dataclass(frozen=True, slots=True)
class FoundLink:
    """What a link leads to."""

    record: SurveyRecord
    answered: int
    """Last round that was answered with it; 0 for none, and always for a link that all share."""


class SurveyStore:
    """The file of a lab's surveys. Every call opens it anew, so threads and processes share it freely."""

    def __init__(self, lab: Path) -> None:
        self._folder = lab / "surveys"
        self._file = self._folder / "surveys.sqlite"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one steward at a time create, open or close; answers need no lock but the database's."""
        with name_disk_errors():
            create_private_folder(self._folder)
            if not self._file.exists():
                with lock_folder(self._folder):
                    self._create()
            with lock_folder(self._folder):
                yield

    # ---- surveys ----

    def draft(self, terms: SurveyTerms) -> SurveyRecord:
        """Keep a new survey, closed to everyone, or return the draft of these terms that a crash has left."""
        kept = json.dumps(terms.to_dict(), ensure_ascii=False, sort_keys=True)
        link = None if terms.invited else draw_link()
        with self._write() as db:
            found = _find(db, terms.name)
            if found is not None and (found.terms != terms or found.has_begun):
                raise _exists_error(found.terms.name)
            if found is None:
                row = (terms.name, secrets.token_hex(16), kept, link)
                db.execute("INSERT INTO survey VALUES (?, ?, ?, ?)", row)
                db.execute("INSERT INTO round VALUES (?, 1, 'drafted', NULL, NULL)", (terms.name,))
        return self.read(terms.name)

    def read(self, name: str) -> SurveyRecord:
        """Return a survey, or refuse a name that none has."""
        found = None
        if isinstance(name, str) and self._file.exists():
            with self._read() as db:
                found = _find(db, name)
        if found is None:
            raise UsageError("SF-U101", "There is no survey of this name.", try_="lab.surveys()")
        return found

    def list_names(self) -> tuple[str, ...]:
        """Return the names of all surveys."""
        if not self._file.exists():
            return ()
        with self._read() as db:
            return tuple(name for (name,) in db.execute("SELECT name FROM survey ORDER BY name"))

    # ---- rounds ----

    def draft_round(self, name: str, number: int) -> None:
        """Keep that a round comes next, before it is charged."""
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO round VALUES (?, ?, 'drafted', NULL, NULL)", (name, number))

    def open_round(self, name: str, number: int, entry: int) -> None:
        """Take answers from now on. Call this once the round is charged, durably, by this entry."""
        with self._write() as db:
            db.execute(
                "UPDATE round SET state = 'open', entry = ? WHERE survey = ? AND number = ?"
                " AND state = 'drafted'",
                (entry, name, number),
            )

    def close_round(self, name: str, number: int, state: State) -> None:
        """Take no more answers; the state says whether the ledger has the counts already."""
        with self._write() as db:
            db.execute(
                "UPDATE round SET state = ?, invited = (SELECT COUNT(*) FROM invitation WHERE survey = ?)"
                " WHERE survey = ? AND number = ? AND state IN ('open', 'closing')",
                (state, name, name, number),
            )

    def read_round(self, name: str, number: int) -> SurveyRound | None:
        """Return a round, if there is one of this number."""
        with self._read() as db:
            row = db.execute(
                "SELECT number, state, entry, invited FROM round WHERE survey = ? AND number = ?",
                (name, number),
            ).fetchone()
        return None if row is None else SurveyRound(*row)

    # ---- invitations and answers ----

    def add_invitations(self, name: str, count: int) -> tuple[str, ...]:
        """Make invitations and return their links, which are kept nowhere."""
        links = [draw_link() for _ in range(count)]
        with self._write() as db:
            rows = [(_digest(link), name) for link in links]
            db.executemany("INSERT INTO invitation (digest, survey) VALUES (?, ?)", rows)
        return tuple(links)

    def replace_invitations(self, name: str, count: int | None = None) -> tuple[str, ...]:
        """Withdraw the invitations that were never answered; return links of as many new ones, or so many."""
        with self._write() as db:
            gone = db.execute("DELETE FROM invitation WHERE survey = ? AND answered = 0", (name,)).rowcount
            links = [draw_link() for _ in range(gone if count is None else count)]
            rows = [(_digest(link), name) for link in links]
            db.executemany("INSERT INTO invitation (digest, survey) VALUES (?, ?)", rows)
        return tuple(links)

    def count_invitations(self, name: str) -> int:
        """Return how many invitations there are."""
        with self._read() as db:
            (found,) = db.execute("SELECT COUNT(*) FROM invitation WHERE survey = ?", (name,)).fetchone()
        return int(found)

    def find_link(self, link: str) -> FoundLink | None:
        """Return what a link leads to, if it is one of ours."""
        if not self._file.exists() or not isinstance(link, str) or len(link) > 4 * LINK_BYTES:
            return None
        with self._read() as db:
            return _find_link(db, link)

    def take_answer(self, link: str, number: int, report: int) -> bool:
        """Count a report, once for each invitation and round; return whether it was counted now."""
        with self._write() as db:
            found = _find_link(db, link)
            if found is None:
                raise unknown_link_error()
            terms, newest = found.record.terms, found.record.newest
            if newest.number != number or newest.state != "open":
                raise _not_open_error()
            if terms.invited:
                if found.answered >= number:
                    return False
                update = "UPDATE invitation SET answered = ? WHERE digest = ?"
                db.execute(update, (number, _digest(link)))
            db.execute(
                "INSERT INTO report VALUES (?, ?, ?, 1)"
                " ON CONFLICT (survey, round, value) DO UPDATE SET people = people + 1",
                (terms.name, number, report),
            )
        return True

    def count_reports(self, terms: SurveyTerms, number: int) -> tuple[int, ...]:
        """Return how often each report came in a round."""
        with self._read() as db:
            asked = "SELECT value, people FROM report WHERE survey = ? AND round = ?"
            found = dict(db.execute(asked, (terms.name, number)).fetchall())
        return tuple(found.get(value, 0) for value in range(len(terms.choices)))

    # ---- the file ----

    def _create(self) -> None:
        if self._file.exists():
            return
        create_empty_private_file(self._file)
        with self._write() as db:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction that nobody else writes in; it is durable when this ends."""
        with self._open("rw") as db:
            for setting in _SETTINGS:
                db.execute(setting)
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with self._open("ro") as db:
            yield db

    @contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        try:
            address = f"file:{quote(str(self._file))}?mode={mode}"
            db = sqlite3.connect(address, timeout=_WAIT, isolation_level=None, uri=True)
            try:
                yield db
            finally:
                db.close()
        except sqlite3.Error as problem:
            raise DiskError(
                "SF-C224",
                "The file of surveys is busy, full, damaged or closed to this user; nothing was changed.",
                try_="the same call again; then look at the disk and at surveys/surveys.sqlite",
            ) from problem


def draw_link() -> str:
    """Return the random part of a link."""
    return secrets.token_urlsafe(LINK_BYTES)


def unknown_link_error() -> UsageError:
    """Return the refusal of a link that leads to no survey: mistyped, withdrawn, or never made."""
    return UsageError(
        "SF-U101", "This link leads to no survey.", try_="the whole link as you got it, or ask for a new one"
    )


def _digest(link: str) -> bytes:
    return hashlib.sha256(b"sfumato survey link " + link.encode("utf-8", "replace")).digest()


def _find(db: sqlite3.Connection, name: str) -> SurveyRecord | None:
    row = db.execute("SELECT name, identity, terms, link FROM survey WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    asked = "SELECT number, state, entry, invited FROM round WHERE survey = ? ORDER BY number DESC LIMIT 1"
    newest = SurveyRound(*db.execute(asked, (row[0],)).fetchone())
    return SurveyRecord(SurveyTerms.from_dict(json.loads(row[2])), row[1], row[3], newest)


def _find_link(db: sqlite3.Connection, link: str) -> FoundLink | None:
    digest = _digest(link)
    row = db.execute("SELECT survey, answered FROM invitation WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        # Few surveys have a link that all share, and digests are compared as those of invitations are.
        shared = db.execute("SELECT name, link FROM survey WHERE link IS NOT NULL").fetchall()
        row = next(((name, 0) for name, kept in shared if _digest(kept) == digest), None)
    record = None if row is None else _find(db, row[0])
    return None if record is None else FoundLink(record, row[1])


def _exists_error(name: str) -> PolicyError:
    return PolicyError(
        "SF-C110", f"There is a survey '{name}' already.", try_=f'lab.survey("{name}"), or another name'
    )


def _not_open_error() -> PolicyError:
    return PolicyError(
        "SF-P124",
        "This round of the survey takes no answers.",
        why="it has not begun, or it is over",
        try_="load the page again",
    )
