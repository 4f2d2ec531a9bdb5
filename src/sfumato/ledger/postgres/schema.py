"""The tables of a PostgreSQL ledger, whether a schema has them, and how older ones become them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import former, tables
from sfumato.ledger.chain import GENESIS
from sfumato.ledger.sqlite.schema import VERSION, newer

if TYPE_CHECKING:
    from sfumato.ledger.books import Books
    from sfumato.ledger.tables import Connection

# Texts are compared by their bytes, as in Python and in SQLite, whatever language the server speaks.
_TABLES = (
    """CREATE TABLE ledger (
        version INTEGER PRIMARY KEY,
        identity TEXT COLLATE "C" NOT NULL,
        entries BIGINT NOT NULL,
        head TEXT COLLATE "C" NOT NULL
    ) WITH (fillfactor = 10)""",  # one row that is always written anew: its old versions have room
    """CREATE TABLE entries (
        seq BIGINT PRIMARY KEY,
        kind TEXT COLLATE "C" NOT NULL,
        body TEXT COLLATE "C" NOT NULL,
        prev TEXT COLLATE "C" NOT NULL,
        hash TEXT COLLATE "C" NOT NULL
    )""",
    """CREATE TABLE answers (
        charge BIGINT PRIMARY KEY,
        nonce TEXT COLLATE "C" NOT NULL,
        answer TEXT COLLATE "C" NOT NULL
    )""",
    """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'entries are never changed or removed'; END $$""",
    """CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
        FOR EACH STATEMENT EXECUTE FUNCTION refuse()""",
)
_TO_SECOND = ("""ALTER TABLE ledger ADD COLUMN identity TEXT COLLATE "C" NOT NULL DEFAULT ''""",)
_TO_THIRD = (
    "DROP TABLE charges CASCADE",  # with the references to it
    "DROP TABLE accounts",
    "DROP TABLE IF EXISTS reservations",
    "ALTER TABLE answers DROP COLUMN seq",
    "ALTER TABLE ledger ALTER COLUMN identity DROP DEFAULT",
    "ALTER TABLE ledger ADD COLUMN entries BIGINT NOT NULL DEFAULT 0",
    """ALTER TABLE ledger ADD COLUMN head TEXT COLLATE "C" NOT NULL DEFAULT ''""",
    "ALTER TABLE ledger ALTER COLUMN entries DROP DEFAULT, ALTER COLUMN head DROP DEFAULT",
    "ALTER TABLE ledger SET (fillfactor = 10)",
)

_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ledger, entries, answers TO {role}",
    "GRANT INSERT ON entries, answers TO {role}",
)
_RIGHT_TO_END = "GRANT UPDATE (entries, head) ON ledger TO {role}"
_NO_OTHER = "REVOKE UPDATE ON ledger FROM {role}"
_WRITERS = """
    SELECT DISTINCT quote_ident(grantee) FROM information_schema.role_table_grants
    WHERE table_schema = current_schema() AND table_name = 'answers' AND privilege_type = 'INSERT'
        AND grantee <> (SELECT tableowner FROM pg_tables
            WHERE schemaname = current_schema() AND tablename = 'answers')
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
_THIRD = {
    "answers": "charge bigint, nonce text, answer text",
    "entries": _FIRST["entries"],
    "ledger": "version integer, identity text, entries bigint, head text",
}
_SHAPES = {1: _FIRST, 2: _SECOND, 3: _THIRD}


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
    db.execute("INSERT INTO ledger VALUES (?, ?, 0, ?)", (VERSION, secrets.token_hex(16), GENESIS))
    for right in (*_RIGHTS, _RIGHT_TO_END) if writer else ():
        db.execute(right.format(schema=schema, role=writer))
    db.execute("COMMIT")


def is_old(db: Connection) -> bool:
    """Of a version that can be brought forward. A newer one is refused by that name."""
    there = db.execute("SELECT to_regclass('ledger') IS NOT NULL").fetchone()[0]
    version = _version(db) if there else 0
    if version > VERSION:
        raise newer(version)
    return 0 < version < VERSION


def migrate(db: Connection) -> None:
    """In one transaction. What the chain says is not touched, and all of it is verified."""
    db.execute("BEGIN")
    db.execute("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
    if is_old(db):
        _bring_forward(db, _version(db))
        check(db)
    db.execute("COMMIT")


def _bring_forward(db: Connection, version: int) -> None:
    _require(db, version)
    books = former.check(db, version)
    for statement in (*(_TO_SECOND if version == 1 else ()), *_TO_THIRD):
        db.execute(statement)
    if version == 1:
        db.execute("UPDATE ledger SET identity = ?", (secrets.token_hex(16),))
    end = (VERSION, books.seq, books.head)
    db.execute("UPDATE ledger SET version = ?, entries = ?, head = ?", end)
    for (role,) in db.execute(_WRITERS).fetchall():
        for right in (_NO_OTHER, _RIGHT_TO_END):
            db.execute(right.format(role=role))


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
