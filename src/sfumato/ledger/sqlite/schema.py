"""The tables of a SQLite ledger, whether a file has them, and how those of an older version become them."""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError
from sfumato.ledger import former, tables
from sfumato.ledger.books import Books

if TYPE_CHECKING:
    from sfumato.ledger.tables import Connection

VERSION = 3
"""Version 1 had no reservations, and its ledgers no identity. Version 2 kept totals and keys in tables."""

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
_FORMER = (
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
_FIRST = ("CREATE TABLE ledger (version INTEGER PRIMARY KEY) STRICT",)
_SECOND = (
    "CREATE TABLE ledger (version INTEGER PRIMARY KEY, identity TEXT NOT NULL) STRICT",
    """CREATE TABLE reservations (
    charge INTEGER PRIMARY KEY REFERENCES charges,
    steps INTEGER NOT NULL,
    drawn INTEGER NOT NULL,
    returned INTEGER NOT NULL
) STRICT""",
)
_THIRD = (
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
    1: (*_ENTRIES, *_FORMER, *_FIRST),
    2: (*_ENTRIES, *_FORMER, *_SECOND),
    3: (*_ENTRIES, *_THIRD),
}
_GONE = {
    1: ("answers", "charges", "accounts", "ledger"),
    2: ("reservations", "answers", "charges", "accounts", "ledger"),
}
"""What is dropped or made anew."""


def create(db: sqlite3.Connection) -> None:
    """All tables at once or, if the process dies here, none."""
    db.execute("BEGIN IMMEDIATE")
    for statement in _TABLES[VERSION]:
        db.execute(statement)
    _sign(db, secrets.token_hex(16), Books())
    db.execute("COMMIT")


def is_old(db: Connection) -> bool:
    """Of a version that can be brought forward. A newer one is refused by that name."""
    there = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'ledger'").fetchone() == (1,)
    found = _version(db) if there else []
    if found and found[0][0] > VERSION:
        raise newer(found[0][0])
    return len(found) == 1 and 0 < found[0][0] < VERSION


def migrate(db: Connection) -> None:
    """Ends a transaction. What the chain says is not touched, and all of it is verified."""
    if not is_old(db):  # someone was faster
        return
    ((version,),) = _version(db)
    _require_schema(db, version)
    books = former.check(db, version)
    identity = tables.identity(db) if version > 1 else secrets.token_hex(16)
    db.execute("CREATE TEMP TABLE kept AS SELECT charge, nonce, answer FROM answers")
    for table in _GONE[version]:
        db.execute(f"DROP TABLE {table}")
    for statement in _THIRD:
        db.execute(statement)
    db.execute("INSERT INTO answers SELECT charge, nonce, answer FROM temp.kept")
    db.execute("DROP TABLE temp.kept")
    _sign(db, identity, books)
    check(db)
    db.execute("COMMIT")


def check(db: Connection) -> Books:
    """The tables are those of this version, the pages whole, and everything agrees with the chain."""
    is_old(db)
    _require_schema(db, VERSION)
    tables.require(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the file's pages")
    return tables.check(db)


def newer(version: int) -> LedgerError:
    return LedgerError(
        "SF-L103",
        "This ledger was made by a newer version of sfumato.",
        version=f"{version}; this sfumato knows up to {VERSION}",
        try_="pip install --upgrade sfumato",
    )


def _sign(db: Connection, identity: str, books: Books) -> None:
    db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", (VERSION, identity, books.seq, books.head))


def _require_schema(db: Connection, version: int) -> None:
    """The tables and triggers are those of this version, to the letter."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in _TABLES[version]:
            fresh.execute(statement)
        same = _schema(db) == _schema(fresh)
    if not (same and _version(db) == [(version,)]):
        raise LedgerError(
            "SF-L103",
            "This file is not a ledger of this version.",
            try_="the path of a ledger made with SqliteLedger.create",
        )


def _schema(db: Connection) -> Any:
    return db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def _version(db: Connection) -> Any:
    return db.execute("SELECT version FROM ledger").fetchall()
