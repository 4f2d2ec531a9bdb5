"""The tables of a PostgreSQL ledger: how they are created and checked."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import tables
from sfumato.ledger.chain import GENESIS
from sfumato.ledger.versions import VERSION, require_known

if TYPE_CHECKING:
    from sfumato.ledger.books import Books
    from sfumato.ledger.tables import SqlConnection

# Texts are compared by their bytes, as in Python and in SQLite, whatever language the server speaks.
_TABLES = (
    """CREATE TABLE ledger (
        version INTEGER PRIMARY KEY,
        identity TEXT COLLATE "C" NOT NULL,
        entries BIGINT NOT NULL,
        head TEXT COLLATE "C" NOT NULL
    ) WITH (fillfactor = 10)""",  # one row, written at every commit: room for its old versions on one page
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
# A writer may add entries and answers and move the end of the chain, and nothing else.
_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ledger, entries, answers TO {role}",
    "GRANT INSERT ON entries, answers TO {role}",
    "GRANT UPDATE (entries, head) ON ledger TO {role}",
)

_SELECT_COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0
        AND NOT a.attisdropped
    ORDER BY c.relname COLLATE "C", a.attnum
"""

# A trigger can be there and disabled.
_COUNT_GUARDS = """
    SELECT count(*) FROM pg_trigger
    WHERE tgrelid = 'entries'::regclass AND tgname = 'entries_stay' AND tgenabled = 'O'
"""

_COLUMNS = {
    "answers": "charge bigint, nonce text, answer text",
    "entries": "seq bigint, kind text, body text, prev text, hash text",
    "ledger": "version integer, identity text, entries bigint, head text",
}


def create_tables(db: SqlConnection, schema: str, writer: str | None) -> None:
    """Create the schema and all tables in one transaction."""
    db.execute("BEGIN")
    (there,) = db.execute("SELECT count(*) FROM pg_namespace WHERE nspname = ?", (schema,)).fetchone()
    if there:
        db.execute("ROLLBACK")
        raise UsageError(
            "SF-L304", "There is already a schema where the ledger should go.", try_="PostgresLedger.open"
        )
    # The name cannot be a parameter. It was checked to be a plain lower-case name.
    db.execute(f"CREATE SCHEMA {schema}")
    for statement in _TABLES:
        db.execute(statement)
    db.execute("INSERT INTO ledger VALUES (?, ?, 0, ?)", (VERSION, secrets.token_hex(16), GENESIS))
    for right in _RIGHTS if writer else ():
        db.execute(right.format(schema=schema, role=writer))
    db.execute("COMMIT")


def check_ledger(db: SqlConnection) -> Books:
    """Check that tables and trigger are sound and agree with the chain. Returns the books."""
    _require_schema(db)
    return tables.check_tables(db)


def _require_schema(db: SqlConnection) -> None:
    """Refuse a schema whose columns are not those of this version, or whose entries are not guarded."""
    there = db.execute("SELECT to_regclass('ledger') IS NOT NULL").fetchone()[0]
    version = _read_version(db) if there else 0
    require_known(version)
    shape = _COLUMNS.items()
    expected = [(table, *column.split()) for table, columns in shape for column in columns.split(", ")]
    same = db.execute(_SELECT_COLUMNS).fetchall() == expected
    guarded = same and db.execute(_COUNT_GUARDS).fetchone() == (1,)
    if not (guarded and version == VERSION):
        raise LedgerError(
            "SF-L103",
            "This schema is not a ledger of this version.",
            try_="the schema of a ledger that PostgresLedger.create made",
        )


def _read_version(db: SqlConnection) -> int:
    found = db.execute("SELECT version FROM ledger").fetchall()
    return int(found[0][0]) if len(found) == 1 else 0
