"""What the steward has in PostgreSQL, as a relation: columns s0, s1, … and what kind each is.

A kind comes from the table's own types, never from its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urldefrag

from sfumato.engines.ingest import DATES, NUMBERS, OTHERS, TEXTS, no_such_column, not_a_column_type
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

ADDRESS = "postgresql://user@host/database#schema.table"
_SCHEMES = ("postgresql://", "postgres://")


class Kind(Enum):
    """How the values of a column are read."""

    TEXT = "text"
    FLOAT = "floating point"
    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    DATE = "date"
    MOMENT = "date and time of day"
    BYTES = "bytes"
    OTHER = "times of day and such: readable as text only"


_KINDS = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), Kind.TEXT),
    **dict.fromkeys(("float4", "float8"), Kind.FLOAT),
    **dict.fromkeys(("int2", "int4", "int8"), Kind.INTEGER),
    **dict.fromkeys(("timestamp", "timestamptz"), Kind.MOMENT),
    **dict.fromkeys(("time", "uuid"), Kind.OTHER),
    "numeric": Kind.DECIMAL,
    "bool": Kind.BOOLEAN,
    "date": Kind.DATE,
    "bytea": Kind.BYTES,
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a table lies."""

    dsn: str
    schema: str
    table: str

    @property
    def quoted(self) -> str:
        return f"{quote_name(self.schema)}.{quote_name(self.table)}"


@dataclass(frozen=True, slots=True)
class SourceScan:
    """A relation to select from, whose columns s0, s1, … are those asked for, and their kinds."""

    relation: str
    kinds: tuple[Kind, ...]


def is_address(source: object) -> bool:
    """Return whether this is the address of a database, with or without a table."""
    return isinstance(source, str) and source.startswith(_SCHEMES)


def parse_address(source: str) -> Address:
    """Parse an address: behind # stand schema and table, %2E for a point in a name; else schema public."""
    # libpq does not know fragments, so what is before the # is an address of its own.
    dsn, place = urldefrag(source)
    schema, _, table = place.rpartition(".")
    if not table:
        # What was typed may hold a password, and is not shown.
        raise UsageError("SF-C201", "This address names no table.", accepted=ADDRESS)
    return Address(dsn, unquote(schema) or "public", unquote(table))


def quote_name(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def scan_source(connection: Connection[Any], address: Address, wanted: Sequence[str]) -> SourceScan:
    """Return the columns of these names, or raise an error that names the one that cannot be had."""
    types = _types(connection, address)
    kinds = tuple(_kind(name, types) for name in wanted)
    chosen = ", ".join(f"{quote_name(name)} AS s{i}" for i, name in enumerate(wanted)) or "1 AS s0"
    return SourceScan(f"(SELECT {chosen} FROM {address.quoted}) AS source", kinds)  # noqa: S608  names are quoted


_WORDS = {
    **dict.fromkeys((Kind.FLOAT, Kind.INTEGER, Kind.DECIMAL, Kind.BOOLEAN), NUMBERS),
    **dict.fromkeys((Kind.DATE, Kind.MOMENT), DATES),
    Kind.TEXT: TEXTS,
}


def list_columns(connection: Connection[Any], address: Address) -> dict[str, str]:
    """Return what kind of values each column of a table has, by its own types and no row."""
    types = _types(connection, address)
    kinds: dict[str, str] = {}
    for name in types:
        try:
            kinds[name] = _WORDS.get(_kind(name, types), OTHERS)
        except UsageError:  # a type that cannot be used
            kinds[name] = OTHERS
    return kinds


_TABLES = """
    SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'v', 'm', 'f', 'p') AND NOT relispartition
    AND nspname <> 'information_schema' AND NOT starts_with(nspname, 'pg_')
    AND NOT starts_with(nspname, 'sfumato_')
    AND has_schema_privilege(pg_namespace.oid, 'USAGE') AND has_table_privilege(pg_class.oid, 'SELECT')
    ORDER BY nspname, relname"""
"""Snapshots of labs are left out: what is in their schemas belongs to the labs."""


def list_tables_of(connection: Connection[Any]) -> list[str]:
    """Return the tables and views that may be read, each as it is written behind the # of an address."""
    return [".".join(map(_quote_part, row)) for row in connection.execute(_TABLES)]


def _quote_part(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")


def _kind(name: str, types: dict[str, tuple[str, bool, bool]]) -> Kind:
    """Choose a kind from an allowlist of the system's own types; labels of an enumeration are texts."""
    if name not in types:
        raise no_such_column(name, list(types))
    of_type, ours, is_enum = types[name]
    kind = Kind.TEXT if is_enum else _KINDS.get(of_type) if ours else None
    if kind is None:
        raise not_a_column_type(name, of_type)
    return kind


_TYPES = """
    WITH RECURSIVE typed AS (
        SELECT attnum, attname, atttypid AS type FROM pg_attribute
        WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT attnum, attname, typbasetype FROM typed JOIN pg_type ON pg_type.oid = type WHERE typtype = 'd')
    SELECT attname, typname, nspname = 'pg_catalog', typtype = 'e'
    FROM typed JOIN pg_type ON pg_type.oid = type JOIN pg_namespace ON pg_namespace.oid = typnamespace
    WHERE typtype <> 'd' ORDER BY attnum"""
"""A domain is read as the type it is made of."""


def list_required(connection: Connection[Any], address: Address) -> frozenset[str]:
    """Return the columns with a NOT NULL constraint."""
    required = "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND attnotnull"
    return frozenset(name for (name,) in connection.execute(required, [_find_table(connection, address)]))


def _types(connection: Connection[Any], address: Address) -> dict[str, tuple[str, bool, bool]]:
    table = _find_table(connection, address)
    return {name: (of, ours, enum) for name, of, ours, enum in connection.execute(_TYPES, [table])}


def _find_table(connection: Connection[Any], address: Address) -> int:
    """Return the number that PostgreSQL gave a table, or refuse one that does not exist."""
    found = connection.execute(
        "SELECT pg_class.oid FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = %s AND relname = %s AND relkind IN ('r', 'v', 'm', 'f', 'p')",
        [address.schema, address.table],
    ).fetchone()
    if found is None:
        raise UsageError("SF-C202", "There is no such table.", table=f"{address.schema}.{address.table}")
    return int(found[0])
