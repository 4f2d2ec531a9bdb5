"""The tables of a PostgreSQL ledger: how they are created, checked, and migrated from older versions."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import tables
from sfumato.ledger.chain import GENESIS
from sfumato.ledger.versions import VERSION, check_older_tables, newer_version_error

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
_TO_VERSION_2 = ("""ALTER TABLE ledger ADD COLUMN identity TEXT COLLATE "C" NOT NULL DEFAULT ''""",)
_TO_VERSION_3 = (
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

# A writer may add entries and answers and move the end of the chain, and nothing else.
_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ledger, entries, answers TO {role}",
    "GRANT INSERT ON entries, answers TO {role}",
)
_RIGHT_TO_MOVE_END = "GRANT UPDATE (entries, head) ON ledger TO {role}"
_REVOKE_OTHERS = "REVOKE UPDATE ON ledger FROM {role}"
# Roles that could add answers before a migration, and so have to be able to move the end after it.
_SELECT_WRITERS = """
    SELECT DISTINCT quote_ident(grantee) FROM information_schema.role_table_grants
    WHERE table_schema = current_schema() AND table_name = 'answers' AND privilege_type = 'INSERT'
        AND grantee <> (SELECT tableowner FROM pg_tables
            WHERE schemaname = current_schema() AND tablename = 'answers')
"""

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

_COLUMNS_1 = {
    "accounts": "account text, terms bigint, spent text",
    "answers": "charge bigint, seq bigint, nonce text, answer text",
    "charges": "seq bigint, request text, payers text, key text",
    "entries": "seq bigint, kind text, body text, prev text, hash text",
    "ledger": "version integer",
}
_COLUMNS_2 = _COLUMNS_1 | {
    "ledger": "version integer, identity text",
    "reservations": "charge bigint, steps bigint, drawn bigint, returned bigint",
}
_COLUMNS_3 = {
    "answers": "charge bigint, nonce text, answer text",
    "entries": _COLUMNS_1["entries"],
    "ledger": "version integer, identity text, entries bigint, head text",
}
_COLUMNS = {1: _COLUMNS_1, 2: _COLUMNS_2, 3: _COLUMNS_3, 4: _COLUMNS_3, 5: _COLUMNS_3}


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
    for right in (*_RIGHTS, _RIGHT_TO_MOVE_END) if writer else ():
        db.execute(right.format(schema=schema, role=writer))
    db.execute("COMMIT")


def is_older(db: SqlConnection) -> bool:
    """Return whether the tables are of an older version. A newer version is refused."""
    there = db.execute("SELECT to_regclass('ledger') IS NOT NULL").fetchone()[0]
    version = _read_version(db) if there else 0
    if version > VERSION:
        raise newer_version_error(version)
    return 0 < version < VERSION


def migrate_tables(db: SqlConnection) -> None:
    """Bring the tables to this version and commit. The chain stays as it is, and all of it is verified."""
    db.execute("BEGIN")
    # Writers lock the row of this table first, so they wait until the migration is committed.
    db.execute("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
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
    for statement in (*(_TO_VERSION_2 if version == 1 else ()), *_TO_VERSION_3):
        db.execute(statement)
    if version == 1:
        db.execute("UPDATE ledger SET identity = ?", (secrets.token_hex(16),))
    end = (VERSION, books.seq, books.head)
    db.execute("UPDATE ledger SET version = ?, entries = ?, head = ?", end)
    for (role,) in db.execute(_SELECT_WRITERS).fetchall():
        for right in (_REVOKE_OTHERS, _RIGHT_TO_MOVE_END):
            db.execute(right.format(role=role))


def check_ledger(db: SqlConnection) -> Books:
    """Check that tables and trigger are sound and agree with the chain. Returns the books."""
    is_older(db)  # names a newer version, where the next check would only say that the tables are others
    _require_schema(db, VERSION)
    return tables.check_tables(db)


def _require_schema(db: SqlConnection, version: int) -> None:
    """Refuse a schema whose columns are not those of this version, or whose entries are not guarded."""
    shape = _COLUMNS[version].items()
    expected = [(table, *column.split()) for table, columns in shape for column in columns.split(", ")]
    same = db.execute(_SELECT_COLUMNS).fetchall() == expected
    guarded = same and db.execute(_COUNT_GUARDS).fetchone() == (1,)
    if not (guarded and _read_version(db) == version):
        raise LedgerError(
            "SF-L103",
            "This schema is not a ledger of this version.",
            try_="the schema of a ledger that PostgresLedger.create made",
        )


def _read_version(db: SqlConnection) -> int:
    found = db.execute("SELECT version FROM ledger").fetchall()
    return int(found[0][0]) if len(found) == 1 else 0
