"""The tables of a SQLite ledger: how they are created and checked."""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError
from sfumato.ledger import tables
from sfumato.ledger.books import Books
from sfumato.ledger.chain import GENESIS
from sfumato.ledger.failures import require_agreement
from sfumato.ledger.versions import VERSION, require_known

if TYPE_CHECKING:
    from sfumato.ledger.tables import SqlConnection

# The text of each statement is part of the format: a file is recognized by the exact text of its tables.
_TABLES = (
    """CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT""",
    """CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END""",
    """CREATE TRIGGER entries_remain BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END""",
    """CREATE TABLE ledger (
    version INTEGER PRIMARY KEY,
    identity TEXT NOT NULL,
    entries INTEGER NOT NULL,
    head TEXT NOT NULL
) STRICT""",
    """CREATE TABLE answers (
    charge INTEGER PRIMARY KEY,
    nonce TEXT NOT NULL,
    answer TEXT NOT NULL
) STRICT""",
)

# What `hash_entry` hashes, put together by SQLite: in Python this takes four times as long.
_SELECT_HASHED = """SELECT prev, hash, CAST(
    'sfumato ledger 1' || char(10) || seq || char(10) || kind || char(10) || prev || char(10) || body AS BLOB
) FROM entries WHERE seq <= ? ORDER BY seq"""


def create_tables(db: sqlite3.Connection) -> None:
    """Create all tables in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        db.execute(statement)
    new = Books()
    db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", (VERSION, secrets.token_hex(16), new.seq, new.head))
    db.execute("COMMIT")


def check_ledger(db: SqlConnection, checkpoint: Books | None = None) -> Books:
    """Check that tables and pages are sound and agree with the chain. Returns the books.

    A checkpoint is used if the chain, hashed again from its first entry, comes to it.
    """
    _require_schema(db)
    # A replay does not notice damage in pages that it does not read.
    sound = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    require_agreement(sound, "the file's pages")
    if checkpoint is not None and not _leads_to(db, checkpoint):
        checkpoint = None  # the replay says what is wrong
    return tables.check_tables(db, checkpoint)


def _leads_to(db: SqlConnection, checkpoint: Books) -> bool:
    """Return whether the entries up to a checkpoint are those that it was made from."""
    head = GENESIS
    for prev, noted, text in db.execute(_SELECT_HASHED, (checkpoint.seq,)):
        if prev != head or noted != (head := sha256(text).hexdigest()):
            return False
    return head == checkpoint.head


def _require_schema(db: SqlConnection) -> None:
    """Refuse a file whose tables and triggers are not, to the letter, those of this version."""
    there = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'ledger'").fetchone() == (1,)
    version = _read_version(db) if there else 0
    require_known(version)
    # A trigger or a column that someone has added is a difference too, so all of the schema is compared with
    # that of a new ledger.
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in _TABLES:
            fresh.execute(statement)
        same = _read_schema(db) == _read_schema(fresh)
    if not (same and version == VERSION):
        raise LedgerError(
            "SF-L103",
            "This file is not a ledger of this version.",
            try_="the path of a ledger that SqliteLedger.create made",
        )


def _read_schema(db: SqlConnection) -> Any:
    return db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def _read_version(db: SqlConnection) -> int:
    found = db.execute("SELECT version FROM ledger").fetchall()
    return int(found[0][0]) if len(found) == 1 else 0
