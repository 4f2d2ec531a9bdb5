"""A process that answers SELECTs about released tables, and holds nothing else: no lab, and little memory.

It is started as a program of its own, with the standard library alone, and is killed when it takes too long.
It gets tables and SQL on its standard input, one JSON document a line, and writes one for each. The SQL was
written by sfumato; SQLite's authorizer lets it read and nothing more.
"""

from __future__ import annotations

import json
import re
import resource
import sqlite3
import sys
from datetime import datetime
from typing import Any

MEMORY = 512 * 2**20
SECONDS = 60
MOST_ROWS = 200_000
MOST_BYTES = 64 * 2**20
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_HEAVY = {"load_extension", "zeroblob", "randomblob", "readfile", "writefile", "edit", "fts3_tokenizer"}
_PLAIN = re.compile("[a-z_][a-z0-9_]*")
_DECLARED = {"int": "INTEGER", "float": "REAL", "bool": "INTEGER"}


def main() -> None:
    """Answer what comes until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    desk = None
    for line in sys.stdin:
        asked = json.loads(line)
        if "load" in asked:
            desk = open_desk(asked["load"], asked["settings"])
            reply: dict[str, Any] = {}
        else:
            assert desk is not None  # noqa: S101  tables come first
            reply = run_select(desk, asked["sql"], asked["values"])
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def open_desk(schemas: dict[str, Any], settings: dict[str, str]) -> sqlite3.Connection:
    """Return a database in memory with these tables, which can only be read from then on."""
    desk = sqlite3.connect(":memory:", isolation_level=None)
    desk.execute("PRAGMA case_sensitive_like = ON")
    desk.execute("PRAGMA temp_store = MEMORY")
    for schema, tables in schemas.items():
        desk.execute(f"ATTACH ':memory:' AS {_quote(schema)}")
        for name, table in tables.items():
            columns = ", ".join(
                f"{_quote(each)} {_DECLARED.get(kind, 'TEXT')}" for each, kind in table["columns"]
            )
            desk.execute(f"CREATE TABLE {_quote(schema)}.{_quote(name)} ({columns})")
            marks = ", ".join("?" * len(table["columns"]))
            desk.executemany(f"INSERT INTO {_quote(schema)}.{_quote(name)} VALUES ({marks})", table["rows"])  # noqa: S608
    _add_functions(desk, settings)
    limits = {
        sqlite3.SQLITE_LIMIT_LENGTH: 2**20,
        sqlite3.SQLITE_LIMIT_SQL_LENGTH: 200_000,
        sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
        sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
        sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
        sqlite3.SQLITE_LIMIT_ATTACHED: len(schemas),
    }
    for limit, most in limits.items():
        desk.setlimit(limit, most)
    desk.set_authorizer(_authorize)
    return desk


def run_select(desk: sqlite3.Connection, sql: str, values: list[Any]) -> dict[str, Any]:
    """Return the rows of a SELECT, or what is wrong with it in a few words."""
    try:
        cursor = desk.execute(sql, values)
        rows, size = [], 0
        for row in cursor:
            size += sum(len(cell) if isinstance(cell, str) else 8 for cell in row)
            rows.append(row)
            if len(rows) > MOST_ROWS or size > MOST_BYTES:
                return {"error": "for so many rows"}
        return {"names": [each[0] for each in cursor.description or ()], "rows": rows}
    except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError) as problem:
        return {"error": _explain(str(problem))}
    except MemoryError:
        return {"error": "for so much"}


def _explain(problem: str) -> str:
    """Return what to say of an error of SQLite's: names that are not there, and no more."""
    for start, words in (
        ("no such table: ", "for the table"),
        ("no such column: ", "for the column"),
        ("no such function: ", "for the function"),
        ("ambiguous column name: ", "for a column of two tables:"),
    ):
        if problem.startswith(start):
            return f"{words} {problem.removeprefix(start)[:100]}"
    return "this SELECT"


def _authorize(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action not in _READS or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _HEAVY):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# ---- what PostgreSQL has and SQLite lacks ------------------------------------------------------------------


def _add_functions(desk: sqlite3.Connection, settings: dict[str, str]) -> None:
    for name, value in {**_CONSTANTS, **_name_constants(settings)}.items():
        desk.create_function(name, 0, lambda value=value: value)
    for name in _SILENT:
        desk.create_function(name, -1, lambda *_: None)
    for name in _TRUE:
        desk.create_function(name, -1, lambda *_: 1)
    for name, (arguments, call) in {**_CALLS, **_catalog_calls(desk, settings)}.items():
        desk.create_function(name, arguments, call, deterministic=True)


def _name_constants(settings: dict[str, str]) -> dict[str, str]:
    return {
        "current_user": settings["user"],
        "current_database": settings["database"],
        "version": settings["version"],
    }


def _catalog_calls(desk: sqlite3.Connection, settings: dict[str, str]) -> dict[str, tuple[int, Any]]:
    """Return the functions that look something up in the catalog."""
    types = dict(desk.execute("SELECT oid, typname FROM pg_catalog.pg_type"))
    spaces = dict(desk.execute("SELECT oid, nspname FROM pg_catalog.pg_namespace"))
    classes = {
        oid: (spaces[space], name)
        for oid, name, space in desk.execute("SELECT oid, relname, relnamespace FROM pg_catalog.pg_class")
    }
    said = {
        (oid, part): text
        for oid, part, text in desk.execute(
            "SELECT objoid, objsubid, description FROM pg_catalog.pg_description"
        )
    }
    return {
        "format_type": (2, lambda oid, _: _FORMATS.get(types.get(oid, ""), types.get(oid))),
        "regtype_of": (1, lambda oid: _FORMATS.get(types.get(oid, ""), types.get(oid, oid))),
        "to_regtype": (1, lambda name: _find_type(types, name)),
        "regclass_of": (1, lambda asked: _find_class(classes, asked)),
        "to_regclass": (1, lambda asked: _find_class(classes, str(asked))),
        "regnamespace_of": (1, lambda asked: spaces.get(asked, asked)),
        "pg_get_userbyid": (1, lambda _: settings["user"]),
        "pg_table_is_visible": (1, lambda oid: int(classes.get(oid, ("",))[0] in _VISIBLE)),
        "obj_description": (-1, lambda oid, *_: said.get((oid, 0))),
        "col_description": (2, lambda oid, part: said.get((oid, part))),
        "current_setting": (-1, lambda name, *_: settings.get(str(name).lower(), "")),
    }


_VISIBLE = ("published", "released", "live", "pg_catalog")
_CONSTANTS = {
    "current_schema": "published",
    "pg_is_in_recovery": 0,
    "pg_my_temp_schema": 0,
    "pg_backend_pid": 0,
    "inet_server_addr": None,
    "inet_server_port": None,
    "txid_current": 0,
    "pg_export_snapshot": "00000000-00000000-1",
    "pg_postmaster_start_time": None,
}
_SILENT = (
    "pg_get_expr",
    "pg_get_indexdef",
    "pg_get_constraintdef",
    "pg_get_viewdef",
    "pg_get_partkeydef",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_serial_sequence",
    "pg_get_statisticsobjdef_columns",
    "pg_get_triggerdef",
    "pg_get_ruledef",
    "shobj_description",
    "json_build_object",
    "pg_table_size",
    "pg_relation_size",
    "pg_total_relation_size",
    "pg_tablespace_location",
    "array_upper",
    "array_length",
    "inet_client_addr",
    "inet_client_port",
)
_TRUE = (
    "pg_type_is_visible",
    "pg_function_is_visible",
    "pg_collation_is_visible",
    "pg_opclass_is_visible",
    "pg_opfamily_is_visible",
    "pg_relation_is_publishable",
    "has_schema_privilege",
    "has_table_privilege",
    "has_any_column_privilege",
    "has_database_privilege",
    "has_column_privilege",
)
_FORMATS = {
    "int8": "bigint",
    "int4": "integer",
    "int2": "smallint",
    "float8": "double precision",
    "float4": "real",
    "bool": "boolean",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "varchar": "character varying",
    "bpchar": "character",
    "time": "time without time zone",
}


def _find_type(types: dict[int, str], name: Any) -> int | None:
    wanted = str(name).lower()
    written = {long: short for short, long in _FORMATS.items()}
    return next((oid for oid, known in types.items() if known == written.get(wanted, wanted)), None)


def _find_class(classes: dict[int, tuple[str, str]], asked: Any) -> Any:
    """Return the number of a table by its name, or its name by its number."""
    if isinstance(asked, int) or str(asked).isdigit():
        schema, name = classes.get(int(asked), ("", str(asked)))
        return f"{schema}.{name}" if schema not in ("", "published", "pg_catalog") else name
    schema, _, name = str(asked).replace('"', "").rpartition(".")
    found = (oid for oid, (space, known) in classes.items() if known == name and schema in ("", space))
    return next(found, None)


def _in_array(value: Any, array: Any) -> int | None:
    if value is None or array is None:
        return None
    return int(str(value) in [each.strip('"') for each in str(array).strip("{}").split(",")])


def _search(text: Any, pattern: Any, flags: int) -> int | None:
    if text is None or pattern is None:
        return None
    try:
        return int(re.search(str(pattern), str(text), flags) is not None)
    except re.error:
        raise ValueError("pattern") from None


def _read_moment(value: Any) -> datetime:
    return datetime.fromisoformat(str(value))


def _write_moment(value: Any) -> str | None:
    return None if value is None else _read_moment(value).isoformat(sep=" ")


def _read_truth(value: Any) -> int | None:
    if value is None or isinstance(value, int | float):
        return None if value is None else int(bool(value))
    return int(str(value).lower() in ("t", "true", "yes", "on", "1"))


def _take_part(unit: str, value: Any) -> float | int | None:
    if value is None:
        return None
    at = _read_moment(value)
    parts = {
        "year": at.year,
        "month": at.month,
        "day": at.day,
        "hour": at.hour,
        "minute": at.minute,
        "second": at.second,
        "dow": at.isoweekday() % 7,
        "isodow": at.isoweekday(),
        "doy": at.timetuple().tm_yday,
        "week": at.isocalendar().week,
        "quarter": (at.month + 2) // 3,
    }
    return parts[unit]


def _cut_moment(unit: str, value: Any) -> str | None:
    if value is None:
        return None
    at = _read_moment(value)
    if unit == "quarter":
        at, unit = at.replace(month=at.month - (at.month - 1) % 3), "month"
    order = ["year", "month", "day", "hour", "minute", "second"]
    least = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
    cut: dict[str, Any] = {each: least[each] for each in order[order.index(unit) + 1 :]}
    return at.replace(**cut, microsecond=0).isoformat(sep=" ")


_CALLS: dict[str, tuple[int, Any]] = {
    "pg_encoding_to_char": (1, lambda _: "UTF8"),
    "pg_size_pretty": (1, lambda _: "0 bytes"),
    "set_config": (3, lambda _, value, __: value),
    "quote_ident": (1, lambda name: name if _PLAIN.fullmatch(str(name)) else _quote(str(name))),
    "current_schemas": (1, lambda _: "{published,released,live}"),
    "array_to_string": (-1, lambda value, *_: value),
    "in_array": (2, _in_array),
    "regex_like": (2, lambda text, pattern: _search(text, pattern, 0)),
    "regex_ilike": (2, lambda text, pattern: _search(text, pattern, re.IGNORECASE)),
    "date_of": (1, lambda value: None if value is None else _read_moment(value).date().isoformat()),
    "timestamp_of": (1, _write_moment),
    "boolean_of": (1, _read_truth),
    "date_part": (2, _take_part),
    "date_trunc": (2, _cut_moment),
}


if __name__ == "__main__":
    main()
