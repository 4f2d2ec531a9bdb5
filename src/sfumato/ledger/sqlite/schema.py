"""The tables of a SQLite ledger: how they are created, checked, and migrated from older versions."""

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
from sfumato.ledger.versions import VERSION, check_older_tables, newer_version_error

if TYPE_CHECKING:
    from sfumato.ledger.tables import SqlConnection

# The text of each statement is part of the format: a file is recognized by the exact text of its tables.
_ENTRIES = (
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
)
# Tables of versions 1 and 2 that repeat what the chain says.
_DERIVED = (
    """CREATE TABLE accounts (
    account TEXT PRIMARY KEY,
    terms INTEGER NOT NULL REFERENCES entries,
    spent TEXT NOT NULL
) STRICT""",
    """CREATE TABLE charges (
    seq INTEGER PRIMARY KEY REFERENCES entries,
    request TEXT NOT NULL,
    payers TEXT NOT NULL,
    key TEXT,
    UNIQUE (payers, key)
) STRICT""",
    "CREATE INDEX requests ON charges (request)",
    """CREATE TABLE answers (
    charge INTEGER PRIMARY KEY REFERENCES charges,
    seq INTEGER NOT NULL UNIQUE REFERENCES entries,
    nonce TEXT NOT NULL,
    answer TEXT NOT NULL
) STRICT""",
)
_VERSION_1 = ("CREATE TABLE ledger (version INTEGER PRIMARY KEY) STRICT",)
_VERSION_2 = (
    "CREATE TABLE ledger (version INTEGER PRIMARY KEY, identity TEXT NOT NULL) STRICT",
    """CREATE TABLE reservations (
    charge INTEGER PRIMARY KEY REFERENCES charges,
    steps INTEGER NOT NULL,
    drawn INTEGER NOT NULL,
    returned INTEGER NOT NULL
) STRICT""",
)
_VERSION_3 = (
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
_TABLES = {
    1: (*_ENTRIES, *_DERIVED, *_VERSION_1),
    2: (*_ENTRIES, *_DERIVED, *_VERSION_2),
    3: (*_ENTRIES, *_VERSION_3),
    4: (*_ENTRIES, *_VERSION_3),
    5: (*_ENTRIES, *_VERSION_3),
}
_DROPPED = {
    1: ("answers", "charges", "accounts", "ledger"),
    2: ("reservations", "answers", "charges", "accounts", "ledger"),
}
"""Tables of each older version that are dropped, some to be created again in another form."""


# What `hash_entry` hashes, put together by SQLite: in Python this takes four times as long.
_SELECT_HASHED = """SELECT prev, hash, CAST(
    'sfumato ledger 1' || char(10) || seq || char(10) || kind || char(10) || prev || char(10) || body AS BLOB
) FROM entries WHERE seq <= ? ORDER BY seq"""


def create_tables(db: sqlite3.Connection) -> None:
    """Create all tables in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    for statement in _TABLES[VERSION]:
        db.execute(statement)
    _write_end(db, secrets.token_hex(16), Books())
    db.execute("COMMIT")


def is_older(db: SqlConnection) -> bool:
    """Return whether the tables are of an older version. A newer version is refused."""
    there = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'ledger'").fetchone() == (1,)
    version = _read_version(db) if there else 0
    if version > VERSION:
        raise newer_version_error(version)
    return 0 < version < VERSION


def migrate_tables(db: SqlConnection) -> None:
    """Bring the tables to this version and commit. The chain stays as it is, and all of it is verified."""
    if is_older(db):  # else another process was faster
        _change_tables(db, _read_version(db))
        check_ledger(db)
    db.execute("COMMIT")


def _change_tables(db: SqlConnection, version: int) -> None:
    _require_schema(db, version)
    if version >= 3:
        db.execute("UPDATE ledger SET version = ?", (VERSION,))
        return
    books = check_older_tables(db, version)
    identity = tables.read_identity(db) if version > 1 else secrets.token_hex(16)
    # SQLite cannot drop a column that is unique, as `seq` was, so the answers are copied out and back.
    db.execute("CREATE TEMP TABLE kept AS SELECT charge, nonce, answer FROM answers")
    for table in _DROPPED[version]:
        db.execute(f"DROP TABLE {table}")
    for statement in _VERSION_3:
        db.execute(statement)
    db.execute("INSERT INTO answers SELECT charge, nonce, answer FROM temp.kept")
    db.execute("DROP TABLE temp.kept")
    _write_end(db, identity, books)


def check_ledger(db: SqlConnection, checkpoint: Books | None = None) -> Books:
    """Check that tables and pages are sound and agree with the chain. Returns the books.

    A checkpoint is used if the chain, hashed again from its first entry, comes to it.
    """
    is_older(db)  # names a newer version, where the next check would only say that the tables are others
    _require_schema(db, VERSION)
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


def _write_end(db: SqlConnection, identity: str, books: Books) -> None:
    db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", (VERSION, identity, books.seq, books.head))


def _require_schema(db: SqlConnection, version: int) -> None:
    """Refuse a file whose tables and triggers are not, to the letter, those of this version."""
    # A trigger or a column that someone has added is a difference too, so all of the schema is compared with
    # that of a new ledger.
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in _TABLES[version]:
            fresh.execute(statement)
        same = _read_schema(db) == _read_schema(fresh)
    if not (same and _read_version(db) == version):
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
