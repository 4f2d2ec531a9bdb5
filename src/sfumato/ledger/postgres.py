"""The ledger in a PostgreSQL schema, shared by several machines.

One row is locked by whoever writes, until its commit is on disk: the chain has one end, so it has one writer
at a time. Threads of a process share a commit. Entries can only be added: a trigger refuses all else, and the
role that `writer` names is not even allowed to try.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import tables
from sfumato.ledger.receipts import Key
from sfumato.ledger.server import ServerDatabase
from sfumato.ledger.store import PATIENCE, StoredLedger

if TYPE_CHECKING:
    from sfumato.ledger.tables import Connection
    from sfumato.ledger.verify import Books

VERSION = 1

_NAME = re.compile("[a-z_][a-z0-9_]{0,62}")

# Texts are compared by their bytes, as in Python and in SQLite, whatever language the server speaks.
_TABLES = (
    "CREATE TABLE ledger (version INTEGER PRIMARY KEY)",
    """CREATE TABLE entries (
        seq BIGINT PRIMARY KEY,
        kind TEXT COLLATE "C" NOT NULL,
        body TEXT COLLATE "C" NOT NULL,
        prev TEXT COLLATE "C" NOT NULL,
        hash TEXT COLLATE "C" NOT NULL
    )""",
    """CREATE TABLE accounts (
        account TEXT COLLATE "C" PRIMARY KEY,
        terms BIGINT NOT NULL REFERENCES entries,
        spent TEXT COLLATE "C" NOT NULL
    )""",
    """CREATE TABLE charges (
        seq BIGINT PRIMARY KEY REFERENCES entries,
        request TEXT COLLATE "C" NOT NULL,
        payers TEXT COLLATE "C" NOT NULL,
        key TEXT COLLATE "C"
    )""",
    # Of a hash, since an index takes no text of any length. It guards; what is looked up goes by the key.
    "CREATE UNIQUE INDEX payers ON charges (md5(payers), key)",
    "CREATE INDEX keys ON charges (key)",
    "CREATE INDEX requests ON charges (request)",
    """CREATE TABLE answers (
        charge BIGINT PRIMARY KEY REFERENCES charges,
        seq BIGINT NOT NULL UNIQUE REFERENCES entries,
        nonce TEXT COLLATE "C" NOT NULL,
        answer TEXT COLLATE "C" NOT NULL
    )""",
    """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'entries are never changed or removed'; END $$""",
    """CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
        FOR EACH STATEMENT EXECUTE FUNCTION refuse()""",
    "INSERT INTO ledger VALUES (1)",
)

_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ledger, entries, accounts, charges, answers TO {role}",
    "GRANT INSERT ON entries, accounts, charges, answers TO {role}",
    "GRANT UPDATE (terms, spent) ON accounts TO {role}",
    "GRANT UPDATE ON ledger TO {role}",  # to lock its row
)

_COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0
        AND NOT a.attisdropped
    ORDER BY c.relname COLLATE "C", a.attnum
"""

_GUARDED = """
    SELECT count(*) FROM pg_trigger
    WHERE tgrelid = 'entries'::regclass AND tgname = 'entries_stay' AND tgenabled = 'O'
"""

_SHAPE = {
    "accounts": "account text, terms bigint, spent text",
    "answers": "charge bigint, seq bigint, nonce text, answer text",
    "charges": "seq bigint, request text, payers text, key text",
    "entries": "seq bigint, kind text, body text, prev text, hash text",
    "ledger": "version integer",
}
_EXPECTED = [(table, *column.split()) for table, columns in _SHAPE.items() for column in columns.split(", ")]


class PostgresLedger(StoredLedger):
    """See `Ledger` for what each call promises. `address` is what psycopg connects to."""

    def __init__(self, address: str, schema: str, key: str | Path | None, patience: float) -> None:
        _require_name(schema)
        self._address, self._schema = address, schema
        self._key_file = None if key is None else Path(key).absolute()
        super().__init__(patience)

    @classmethod
    def create(
        cls,
        address: str,
        *,
        schema: str = "sfumato_ledger",
        key: str | Path | None = None,
        writer: str | None = None,
        patience: float = PATIENCE,
    ) -> Self:
        """A new ledger in a new schema. `key` is a local file for signing, `writer` a role to charge."""
        for name in (schema, writer or "none"):
            _require_name(name)
        database = ServerDatabase(address, schema, patience)
        with closing(database), database.connected() as db:
            _create(db, schema, writer)
        if key is not None:
            Key(Path(key).absolute()).make()
        return cls.open(address, schema=schema, key=key, patience=patience)

    @classmethod
    def open(
        cls,
        address: str,
        *,
        schema: str = "sfumato_ledger",
        key: str | Path | None = None,
        patience: float = PATIENCE,
    ) -> Self:
        """An existing ledger, once all of it has been verified."""
        ledger = cls(address, schema, key, patience)
        try:
            ledger.verify()
        except LedgerError:
            ledger.close()
            raise
        return ledger

    def _connection(self) -> ServerDatabase:
        return ServerDatabase(self._address, self._schema, self._patience)

    def _check(self, db: Connection) -> Books:
        _require_tables(db)
        return tables.check(db)

    def _key(self) -> Key:
        if self._key_file is None:
            raise UsageError(
                "SF-L310",
                "This ledger was opened without a key for receipts.",
                try_="PostgresLedger.open(…, key=…)",
            )
        return Key(self._key_file)


def _create(db: Connection, schema: str, writer: str | None) -> None:
    """All at once, or nothing."""
    db.execute("BEGIN")
    (there,) = db.execute("SELECT count(*) FROM pg_namespace WHERE nspname = ?", (schema,)).fetchone()
    if there:
        db.execute("ROLLBACK")
        raise UsageError(
            "SF-L304", "There is a schema where the ledger should go.", try_="PostgresLedger.open"
        )
    db.execute(f"CREATE SCHEMA {schema}")
    for statement in _TABLES:
        db.execute(statement)
    for right in _RIGHTS if writer else ():
        db.execute(right.format(schema=schema, role=writer))
    db.execute("COMMIT")


def _require_tables(db: Connection) -> None:
    """The columns are those of this version, and the trigger on the entries is on."""
    same = db.execute(_COLUMNS).fetchall() == _EXPECTED
    if not (same and _value(db, _GUARDED) == 1 and _value(db, "SELECT min(version) FROM ledger") == VERSION):
        raise LedgerError(
            "SF-L103",
            "This schema is not a ledger of this version.",
            try_="the schema of a ledger made with PostgresLedger.create",
        )


def _value(db: Connection, query: str) -> object:
    return db.execute(query).fetchone()[0]


def _require_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            "SF-L302", "The ledger cannot keep this.", rule="a schema or role is a plain lower-case name"
        )
