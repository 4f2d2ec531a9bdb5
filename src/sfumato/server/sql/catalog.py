"""The catalog that tools look at: tables of PostgreSQL's own, filled with what a visitor may read.

The columns of those tables, and the rows of pg_type, are those of PostgreSQL 15, and lie in `catalog.json`.
Tables that are not filled here are empty.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.description import name_type
from sfumato.lab.feeds.feed import RELEASED
from sfumato.server.sql.values import ARROW_KINDS, OIDS, TYPE_NAMES, list_plain_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.catalog.catalog import Table
    from sfumato.lab.feeds.feed import Feed

PUBLISHED, OWN, LIVE = "published", "released", "live"
VERSION = "15.0"
LONG_VERSION = f"PostgreSQL {VERSION} (sfumato: released answers, and questions with a price)"
_SPACES = {
    "pg_catalog": 11,
    "information_schema": 13000,
    "public": 2200,
    PUBLISHED: 16384,
    OWN: 16385,
    LIVE: 16386,
}
_FIRST = 20_000
_OWNER = 10
_HEAP = 2
FILLED = frozenset(
    (
        "pg_am",
        "pg_attribute",
        "pg_class",
        "pg_database",
        "pg_description",
        "pg_namespace",
        "pg_roles",
        "pg_tables",
        "pg_type",
    )
)
"""Tables of pg_catalog that have rows."""
_NEEDS_PRICE = (
    "Registered rows, never shown: ask with a price, as in /*+ epsilon=0.1 */ SELECT COUNT(*) FROM …"
)
_WORDS = {"number": "float", "date": "date", "timestamp": "timestamp", "text": "text", "boolean": "bool"}
_LONG = {
    "int": "bigint",
    "float": "double precision",
    "text": "text",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp without time zone",
}

Load = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table as tools see it."""

    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and kinds."""
    comment: str
    rows: list[list[Any]] | None = field(default=None, repr=False)
    """None for registered tables, whose rows are not here."""


def show_feed(feed: Feed) -> ShownTable:
    """Return a feed as tools see it."""
    table = feed.to_arrow()
    schema = OWN if feed.card.kind == RELEASED else PUBLISHED
    columns = tuple((each.name, ARROW_KINDS[str(each.type)]) for each in table.schema)
    return ShownTable(schema, feed.name, columns, feed.card.sentence, list_plain_rows(table))


def show_registered(table: Table) -> ShownTable:
    """Return a registered table as tools see it: its name and declared columns, and no row."""
    columns = tuple((name, _WORDS.get(name_type(each), "text")) for name, each in table.columns.items())
    return ShownTable(LIVE, table.name, columns, _NEEDS_PRICE)


@cache
def read_columns() -> dict[str, dict[str, tuple[tuple[str, str], ...]]]:
    """Return the columns of every table of the catalog, with their kinds."""
    found = _read_file()["columns"]
    return {
        schema: {
            name: tuple((column.split(" ")[0], column.split(" ")[1]) for column in columns.split(", "))
            for name, columns in tables.items()
        }
        for schema, tables in found.items()
    }


def fill_catalog(tables: Sequence[ShownTable], user: str, database: str) -> Load:
    """Return all schemas with their tables and rows, ready for the desk."""
    known = read_columns()
    # A name without a schema is found in this order.
    load: Load = {"pg_catalog": {}, PUBLISHED: {}, OWN: {}, "information_schema": {}}
    for schema, named in known.items():
        load[schema] = {name: {"columns": columns, "rows": []} for name, columns in named.items()}
    load["pg_catalog"]["pg_type"]["rows"] = _read_file()["types"]
    for name, oid in _SPACES.items():
        _add(load, "pg_namespace", oid=oid, nspname=name, nspowner=_OWNER)
        _add(load, "schemata", catalog_name=database, schema_name=name, schema_owner=user)
    _add(load, "pg_am", oid=_HEAP, amname="heap", amtype="t")
    _add(
        load,
        "pg_database",
        oid=1,
        datname=database,
        datdba=_OWNER,
        encoding=6,
        datallowconn=1,
        datcollate="C",
        datctype="C",
        datlocprovider="c",
    )
    _add(
        load,
        "pg_roles",
        oid=_OWNER,
        rolname=user,
        rolinherit=1,
        rolcanlogin=1,
        rolsuper=0,
        rolcreaterole=0,
        rolcreatedb=0,
        rolconnlimit=-1,
        rolreplication=0,
        rolbypassrls=0,
    )
    for place, table in enumerate(tables):
        _add_table(load, _FIRST + place, table, database)
    return load


def _add_table(load: Load, oid: int, table: ShownTable, database: str) -> None:
    where = {"table_catalog": database, "table_schema": table.schema, "table_name": table.name}
    shown = {"oid": oid, "relname": table.name, "relnamespace": _SPACES[table.schema]}
    sizes = {"relnatts": len(table.columns), "reltuples": len(table.rows or ())}
    kind = "v" if table.rows is None else "r"
    _add(load, "pg_class", relkind=kind, **shown, **sizes, **_CLASS)
    _add(load, "pg_description", objoid=oid, classoid=1259, objsubid=0, description=table.comment)
    listed = {"table_type": "VIEW" if table.rows is None else "BASE TABLE", "is_insertable_into": "NO"}
    _add(load, "tables", is_typed="NO", **listed, **where)
    if table.rows is not None:
        load[table.schema][table.name] = {"columns": table.columns, "rows": table.rows}
        _add(load, "pg_tables", schemaname=table.schema, tablename=table.name, **_PLAIN_TABLE)
    for number, (name, kind) in enumerate(table.columns, start=1):
        _add_column(load, oid, number, name, kind)
        described = {"column_name": name, "ordinal_position": number, "data_type": _LONG[kind]}
        udt = {"udt_catalog": database, "udt_schema": "pg_catalog", "udt_name": TYPE_NAMES[kind]}
        _add(load, "columns", **described, **udt, **_COLUMN, **where)


def _add_column(load: Load, oid: int, number: int, name: str, kind: str) -> None:
    storage = "x" if kind == "text" else "p"
    named = {"attrelid": oid, "attname": name, "attnum": number, "atttypid": OIDS[kind]}
    _add(load, "pg_attribute", attstorage=storage, **named, **_ATTRIBUTE)


_PLAIN_TABLE = dict.fromkeys(("hasindexes", "hasrules", "hastriggers", "rowsecurity"), 0)
_CLASS: dict[str, Any] = {
    "relowner": _OWNER,
    "relpersistence": "p",
    "relreplident": "n",
    "relam": _HEAP,
    "reltype": 0,
    **dict.fromkeys(("relhasindex", "relisshared", "relhasrules", "relhastriggers", "relhassubclass"), 0),
    **dict.fromkeys(("relrowsecurity", "relforcerowsecurity", "relispartition", "relchecks"), 0),
    **dict.fromkeys(("reltoastrelid", "reloftype", "reltablespace", "relpages", "relallvisible"), 0),
}
_ATTRIBUTE: dict[str, Any] = {
    "atttypmod": -1,
    "attstattarget": -1,
    "attislocal": 1,
    **dict.fromkeys(("attisdropped", "attnotnull", "atthasdef", "attcollation", "attndims"), 0),
    **dict.fromkeys(("atthasmissing", "attinhcount"), 0),
    **dict.fromkeys(("attidentity", "attgenerated", "attcompression"), ""),
}
_COLUMN = {"is_nullable": "YES", "is_updatable": "NO", "is_generated": "NEVER", "is_identity": "NO"}


def _add(load: Load, table: str, **cells: Any) -> None:
    schema = "pg_catalog" if table.startswith("pg_") else "information_schema"
    into = load[schema][table]
    into["rows"].append([cells.get(name) for name, _ in into["columns"]])


@cache
def _read_file() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("catalog.json").read_text(encoding="utf-8"))
    return found
