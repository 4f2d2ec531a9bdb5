"""Released tables written into a schema of PostgreSQL, for tools that read SQL.

One transaction replaces what has changed, so a reader sees all of the old tables or all of the new ones. Only
a schema that a mirror made is ever changed: its comment says whose it is. Names and texts are quoted, and
rows are sent as data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag

from sfumato.engines.postgres.connection import import_library, open_writer
from sfumato.engines.postgres.sources import is_address, quote_name
from sfumato.errors import PolicyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from psycopg import Connection

FORM = "postgresql://user@host/database#schema"
DEFAULT_SCHEMA = "sfumato_published"
COLUMN_TYPES = {
    "int64": "bigint",
    "double": "double precision",
    "string": "text",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[s]": "timestamp",
}
_MARK = "sfumato mirror of lab"


@dataclass(frozen=True, slots=True)
class MirrorTable:
    """A table as it should be in the schema."""

    name: str
    rows: pa.Table
    comment: str
    """What it is and its receipt. A table that has this comment already is left as it is."""


@dataclass(frozen=True, slots=True)
class MirrorChanges:
    """What a mirror did to its schema."""

    schema: str
    written: tuple[str, ...]
    left: tuple[str, ...]
    """Tables that had not changed."""
    removed: tuple[str, ...]


def write_mirror(
    address: str, lab: str, tables: Sequence[MirrorTable], reader: str | None = None
) -> MirrorChanges:
    """Make a schema hold these tables and no others, and let a role read them that may do nothing else."""
    dsn, schema = parse_mirror_address(address)
    psycopg = import_library()
    try:
        with open_writer(dsn) as connection:
            # Two mirrors of one schema take turns.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [schema])
            _require_own_schema(connection, schema, lab)
            changes = _change_tables(connection, schema, tables)
            if reader is not None:
                _grant_reading(connection, schema, reader)
        return changes
    except psycopg.errors.InsufficientPrivilege:
        raise _missing_right(schema, reader) from None
    except psycopg.Error:
        raise PolicyError(
            "SF-C209", "The database refused the mirror, so nothing was changed there.", try_="again later"
        ) from None


def parse_mirror_address(address: Any) -> tuple[str, str]:
    """Return the database and the schema that an address names. The error does not show it."""
    if not is_address(address):
        raise UsageError("SF-C201", "This is not the address of a schema in PostgreSQL.", accepted=FORM)
    dsn, schema = urldefrag(address)
    return dsn, unquote(schema) or DEFAULT_SCHEMA


def _require_own_schema(connection: Connection[Any], schema: str, lab: str) -> None:
    """Make the schema, or refuse one that is there and is no mirror of this lab."""
    mark = f"{_MARK} {lab}"
    asked = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"
    found = connection.execute(asked, [schema]).fetchone()
    if found is None:
        connection.execute(f"CREATE SCHEMA {quote_name(schema)}".encode())
        connection.execute(_comment("SCHEMA", quote_name(schema), mark))
    elif found[0] != mark:
        raise PolicyError(
            "SF-C110",
            "This schema is there already, and is no mirror of this lab.",
            why="a mirror replaces the tables of its schema, so it gets one of its own",
            try_="another name after #",
        )


def _change_tables(connection: Connection[Any], schema: str, tables: Sequence[MirrorTable]) -> MirrorChanges:
    known = _list_tables(connection, schema)
    written, left = [], []
    for table in tables:
        if known.get(table.name) == table.comment:
            left.append(table.name)
        else:
            _write_table(connection, schema, table)
            written.append(table.name)
    gone = sorted(set(known) - {table.name for table in tables})
    for name in gone:
        connection.execute(f"DROP TABLE {quote_name(schema)}.{quote_name(name)}".encode())
    return MirrorChanges(schema, tuple(written), tuple(left), tuple(gone))


def _list_tables(connection: Connection[Any], schema: str) -> dict[str, str | None]:
    """Return the tables of a schema with their comments."""
    found = connection.execute(
        "SELECT relname, obj_description(pg_class.oid, 'pg_class') FROM pg_class "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s AND relkind = 'r'",
        [schema],
    )
    return dict(found.fetchall())


def _write_table(connection: Connection[Any], schema: str, table: MirrorTable) -> None:
    """Write the rows of a table. Where its columns are the same it stays, and so do views on it."""
    final = f"{quote_name(schema)}.{quote_name(table.name)}"
    wanted = [(field.name, COLUMN_TYPES[str(field.type)]) for field in table.rows.schema]
    if _list_columns(connection, schema, table.name) == wanted:
        # Unlike TRUNCATE, this leaves the old rows to those who are reading them.
        connection.execute(f"DELETE FROM {final}".encode())  # noqa: S608  names are quoted
    else:
        connection.execute(f"DROP TABLE IF EXISTS {final}".encode())
        columns = ", ".join(f"{quote_name(name)} {kind}" for name, kind in wanted)
        connection.execute(f"CREATE TABLE {final} ({columns})".encode())
    with connection.cursor() as cursor, cursor.copy(f"COPY {final} FROM STDIN".encode()) as copy:
        for row in _list_rows(table.rows):
            copy.write_row(row)
    connection.execute(_comment("TABLE", final, table.comment))


def _list_columns(connection: Connection[Any], schema: str, table: str) -> list[tuple[str, str]]:
    """Return the columns of a table with their types, or none if there is no such table."""
    found = connection.execute(
        "SELECT attname, replace(format_type(atttypid, atttypmod), ' without time zone', '') "
        "FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [schema, table],
    )
    return found.fetchall()


def _list_rows(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    # PostgreSQL keeps no NUL in a text.
    columns = [
        [
            cell.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(cell, str) else cell
            for cell in column
        ]
        for column in rows.to_pydict().values()
    ]
    return zip(*columns, strict=True)


def _comment(kind: str, name: str, text: str) -> bytes:
    """Return the statement that sets a comment, which takes no parameters."""
    quoted = text.replace("\0", "").replace("'", "''")
    return f"COMMENT ON {kind} {name} IS '{quoted}'".encode()


def _grant_reading(connection: Connection[Any], schema: str, reader: str) -> None:
    """Let a role read every table of the schema. A new one may not log in before its owner says so."""
    there = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [reader]).fetchone()
    if there is None:
        connection.execute(f"CREATE ROLE {quote_name(reader)} NOLOGIN".encode())
    who, where = quote_name(reader), quote_name(schema)
    connection.execute(f"REVOKE ALL ON SCHEMA {where} FROM {who}".encode())
    connection.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA {where} FROM {who}".encode())
    connection.execute(f"GRANT USAGE ON SCHEMA {where} TO {who}".encode())
    connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {where} TO {who}".encode())


def _missing_right(schema: str, reader: str | None) -> PolicyError:
    role = "" if reader is None else f" CREATE ROLE {quote_name(reader)};"
    return PolicyError(
        "SF-C210",
        "The role in the address may not do this, so nothing was changed.",
        needed="to create a schema, and the reader's role if there is none",
        try_=f"GRANT CREATE ON DATABASE … TO …;{role} then mirror {schema} again",
    )
