"""The tables of a PostgreSQL ledger, whether a schema has them, and how older ones become them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import tables
from sfumato.ledger.schema import VERSION, newer

if TYPE_CHECKING:
    from sfumato.ledger.tables import Connection
    from sfumato.ledger.verify import Books

# Texts are compared by their bytes, as in Python and in SQLite, whatever language the server speaks.
_RESERVATIONS = """CREATE TABLE reservations (
    charge BIGINT PRIMARY KEY REFERENCES charges,
    steps BIGINT NOT NULL,
    drawn BIGINT NOT NULL,
    returned BIGINT NOT NULL
)"""
_TABLES = (
    'CREATE TABLE ledger (version INTEGER PRIMARY KEY, identity TEXT COLLATE "C" NOT NULL)',
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
    _RESERVATIONS,
    """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'entries are never changed or removed'; END $$""",
    """CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
        FOR EACH STATEMENT EXECUTE FUNCTION refuse()""",
)
_TO_SECOND = (
    """ALTER TABLE ledger ADD COLUMN identity TEXT COLLATE "C" NOT NULL DEFAULT ''""",
    "ALTER TABLE ledger ALTER COLUMN identity DROP DEFAULT",
    _RESERVATIONS,
)

_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ledger, entries, accounts, charges, answers TO {role}",
    "GRANT INSERT ON entries, accounts, charges, answers TO {role}",
    "GRANT UPDATE (terms, spent) ON accounts TO {role}",
    "GRANT UPDATE ON ledger TO {role}",  # to lock its row
)
_MORE_RIGHTS = (
    "GRANT SELECT, INSERT ON reservations TO {role}",
    "GRANT UPDATE (drawn, returned) ON reservations TO {role}",
)
_WRITERS = """
    SELECT DISTINCT quote_ident(grantee) FROM information_schema.role_table_grants
    WHERE table_schema = current_schema() AND table_name = 'charges' AND privilege_type = 'INSERT'
        AND grantee <> (SELECT tableowner FROM pg_tables
            WHERE schemaname = current_schema() AND tablename = 'charges')
"""

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

_FIRST = {
    "accounts": "account text, terms bigint, spent text",
    "answers": "charge bigint, seq bigint, nonce text, answer text",
    "charges": "seq bigint, request text, payers text, key text",
    "entries": "seq bigint, kind text, body text, prev text, hash text",
    "ledger": "version integer",
}
_SECOND = _FIRST | {
    "ledger": "version integer, identity text",
    "reservations": "charge bigint, steps bigint, drawn bigint, returned bigint",
}
_SHAPES = {1: _FIRST, 2: _SECOND}


def create(db: Connection, schema: str, writer: str | None) -> None:
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
    db.execute("INSERT INTO ledger VALUES (?, ?)", (VERSION, secrets.token_hex(16)))
    for right in (*_RIGHTS, *_MORE_RIGHTS) if writer else ():
        db.execute(right.format(schema=schema, role=writer))
    db.execute("COMMIT")


def is_old(db: Connection) -> bool:
    """Of a version that can be brought forward. A newer one is refused by that name."""
    there = db.execute("SELECT to_regclass('ledger') IS NOT NULL").fetchone()[0]
    version = _version(db) if there else 0
    if version > VERSION:
        raise newer(version)
    return version == 1


def migrate(db: Connection) -> None:
    """In one transaction. What the chain says is not touched, and all of it is verified."""
    db.execute("BEGIN")
    db.execute("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
    if is_old(db):
        _require(db, 1)
        for statement in _TO_SECOND:
            db.execute(statement)
        db.execute("UPDATE ledger SET version = ?, identity = ?", (VERSION, secrets.token_hex(16)))
        for (role,) in db.execute(_WRITERS).fetchall():
            for right in _MORE_RIGHTS:
                db.execute(right.format(role=role))
        check(db)
    db.execute("COMMIT")


def check(db: Connection) -> Books:
    """The tables are those of this version, entries are guarded, and everything agrees with the chain."""
    is_old(db)
    _require(db, VERSION)
    return tables.check(db)


def _require(db: Connection, version: int) -> None:
    """The columns are those of this version, and the trigger on the entries is on."""
    shape = _SHAPES[version].items()
    expected = [(table, *column.split()) for table, columns in shape for column in columns.split(", ")]
    same = db.execute(_COLUMNS).fetchall() == expected
    guarded = same and db.execute(_GUARDED).fetchone() == (1,)
    if not (guarded and _version(db) == version):
        raise LedgerError(
            "SF-L103",
            "This schema is not a ledger of this version.",
            try_="the schema of a ledger made with PostgresLedger.create",
        )


def _version(db: Connection) -> int:
    found = db.execute("SELECT version FROM ledger").fetchall()
    return int(found[0][0]) if len(found) == 1 else 0
