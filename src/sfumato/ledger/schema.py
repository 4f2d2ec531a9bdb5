"""The tables of a SQLite ledger, and whether a file has them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError
from sfumato.ledger import tables

if TYPE_CHECKING:
    from sfumato.ledger.tables import Connection
    from sfumato.ledger.verify import Books

SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE ledger (version INTEGER PRIMARY KEY) STRICT;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;
CREATE TABLE accounts (
    account TEXT PRIMARY KEY,
    terms INTEGER NOT NULL REFERENCES entries,
    spent TEXT NOT NULL
) STRICT;
CREATE TABLE charges (
    seq INTEGER PRIMARY KEY REFERENCES entries,
    request TEXT NOT NULL,
    payers TEXT NOT NULL,
    key TEXT,
    UNIQUE (payers, key)
) STRICT;
CREATE INDEX requests ON charges (request);
CREATE TABLE answers (
    charge INTEGER PRIMARY KEY REFERENCES charges,
    seq INTEGER NOT NULL UNIQUE REFERENCES entries,
    nonce TEXT NOT NULL,
    answer TEXT NOT NULL
) STRICT;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END;
INSERT INTO ledger VALUES (1);
COMMIT;
"""


def create(db: sqlite3.Connection) -> None:
    """All tables at once or, if the process dies here, none."""
    db.executescript(SCHEMA)


def check(db: Connection) -> Books:
    """The tables are those of this version, the pages whole, and everything agrees with the chain."""
    _require_schema(db)
    tables.require(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the file's pages")
    return tables.check(db)


def _require_schema(db: Connection) -> None:
    """The tables and triggers are those of this version, to the letter."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        create(fresh)
        same = _schema(db) == _schema(fresh) and _version(db) == _version(fresh)
    if not same:
        raise other_version("the path of a ledger made with SqliteLedger.create")


def other_version(try_: str) -> LedgerError:
    return LedgerError("SF-L103", "This file is not a ledger of this version.", try_=try_)


def _schema(db: Connection) -> Any:
    return db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def _version(db: Connection) -> Any:
    return db.execute("SELECT version FROM ledger").fetchall()
