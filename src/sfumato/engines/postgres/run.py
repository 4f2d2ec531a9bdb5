"""Answering: a program on prepared snapshots, as exact integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString, cast

from sfumato.engines.compile import Layout, compile_program
from sfumato.engines.postgres.connection import open_reader
from sfumato.engines.postgres.dialect import PostgresDialect
from sfumato.engines.postgres.prepare import hash_name, name_table
from sfumato.engines.rows import list_scans
from sfumato.engines.shapes import shape_answer
from sfumato.engines.watch import reach_engine
from sfumato.errors import EngineError

if TYPE_CHECKING:
    from psycopg import Connection

    from sfumato.engines.program import Answer, EngineProgram


def answer_program(program: EngineProgram[Answer], connection: Connection[Any], schema: str) -> Answer:
    """Return exact integers in the shape that the program says; 64-bit where all fit, else Python's own."""
    names = {scan.snapshot for scan in list_scans(program.rows)}
    layouts = {name: _layout(connection, schema, name) for name in names}
    cursor = connection.execute(compile_program(program, layouts, PostgresDialect()).encode())
    rows, width = cursor.fetchall(), len(cursor.description or ())
    columns = [[row[place] for row in rows] for place in range(width)]
    return cast("Answer", shape_answer(program, columns))


def require_snapshots(program: EngineProgram[Any], dsn: str, schema: str) -> None:
    """Raise EngineError unless the server answers and has the tables of a program. No row is read."""
    names = {scan.snapshot for scan in list_scans(program.rows)}
    tables = [f"{hash_name(name)}_{part}" for name in names for part in ("rows", "columns")]
    query = (
        "SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = %s AND relname = ANY(%s)"
    )
    try:
        found = _count_tables(dsn, query, schema, tables)
    except EngineError:
        # A server that was started again has closed the connection that waited; a new one may be had.
        found = _count_tables(dsn, query, schema, tables)
    with reach_engine("PostgreSQL", "a table of the snapshot is not there", LookupError):
        if found != len(tables):
            raise LookupError


def _count_tables(dsn: str, query: LiteralString, schema: str, tables: list[str]) -> int:
    import psycopg

    with (
        reach_engine("PostgreSQL", "the database cannot be opened", psycopg.Error),
        open_reader(dsn) as reader,
    ):
        return int(reader.execute(query, [schema, tables]).fetchall()[0][0])


def _layout(connection: Connection[Any], schema: str, snapshot: str) -> Layout:
    columns = f"SELECT declared, stored FROM {name_table(schema, snapshot, 'columns')}"  # noqa: S608  name of ours
    declared = dict(connection.execute(columns.encode()).fetchall())
    kinds = {
        (relation, name): kind
        for relation, name, kind in connection.execute(
            "SELECT relname, attname, format_type(atttypid, NULL) FROM pg_attribute "
            "JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE nspname = %s AND relname = ANY(%s) AND attnum > 0",
            [schema, [f"{hash_name(snapshot)}_{name}" for name in ("rows", "units")]],
        ).fetchall()
    }
    units = (
        name_table(schema, snapshot, "units") if (f"{hash_name(snapshot)}_units", "unit") in kinds else None
    )
    rows, stored = name_table(schema, snapshot, "rows"), f"{hash_name(snapshot)}_rows"
    texts = frozenset(name for name, column in declared.items() if kinds[stored, column] == "text")
    return Layout(rows, units, declared, (stored, "place") in kinds, texts=texts)
