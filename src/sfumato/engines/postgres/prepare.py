"""Preparing: rows with a unit, gridded and coded, at most `max_rows` a unit, in a schema of the lab's own.

The tables of a snapshot are those that engines/duckdb/prepare.py describes, with the same integers and texts,
the same units by their persons, blocks and places, and so the same rows kept. Unit codes are ranks by person.
All is made in one transaction.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.engines.ingest import (
    EXACT_BELOW,
    are_texts,
    derive_key,
    list_codes,
    read_survey,
    rounded_identifiers,
    write_survey,
    write_unit_survey,
    write_varying_survey,
)
from sfumato.engines.postgres.connection import open_writer
from sfumato.engines.postgres.rights import missing_rights, require_rights
from sfumato.engines.postgres.sources import Kind, parse_address, quote_name, scan_source
from sfumato.engines.postgres.stored import LAYERS, write_as_text
from sfumato.engines.snapshot import StoredCodes, StoredText
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    from sfumato.engines.postgres.sources import Address, SourceScan
    from sfumato.engines.snapshot import Preparation, SourceSurvey, StoredColumn


def build_snapshot(
    source: str, preparation: Preparation, schema: str, snapshot: str, survey: bool = False
) -> SourceSurvey | None:
    """Write the snapshot of a table: whole and durable, or not at all. Return a survey if asked."""
    found = None
    address = parse_address(source)
    with open_writer(address.dsn) as connection:
        require_rights(connection, address, schema)
        if not _there(connection, schema):
            _execute(connection, f"CREATE SCHEMA {quote_name(schema)}")
        _drop(connection, schema, snapshot)
        with _opened(connection, address, preparation) as rows:
            _fill_keys(connection, preparation)
            _execute(connection, _gridded(preparation, rows.relation, rows.kinds))
            _refuse_rounded_identifiers(connection, preparation, rows.kinds)
            found = _survey(connection, preparation, rows) if survey else None
            _keep(connection, preparation, schema, snapshot)
        _describe(connection, preparation, schema, snapshot)
    return found


def survey_source(source: str, preparation: Preparation) -> SourceSurvey:
    """Return exact counts of what a declaration does to a table. Nothing is kept in the database."""
    address = parse_address(source)
    with open_writer(address.dsn) as connection, _opened(connection, address, preparation) as rows:
        return _survey(connection, preparation, rows)


@contextmanager
def _opened(connection: Connection[Any], address: Address, preparation: Preparation) -> Iterator[SourceScan]:
    """Open the columns that are declared, and the lists of values. What PostgreSQL says is not shown."""
    import psycopg

    unit = [] if preparation.unit is None else [preparation.unit]
    rows = scan_source(connection, address, [*unit, *(column.name for column in preparation.columns)])
    try:
        _fill_lists(connection, preparation)
        yield rows
    except psycopg.errors.InsufficientPrivilege:
        raise missing_rights(
            [f"GRANT SELECT ON {address.quoted} TO {quote_name(connection.info.user)};"]
        ) from None
    except psycopg.DataError:
        # PostgreSQL's own words may quote a value.
        raise UsageError(
            "SF-C204",
            "The source cannot be read.",
            why="it is a view or a foreign table that fails on some row",
        ) from None


def _survey(connection: Connection[Any], preparation: Preparation, rows: SourceScan) -> SourceSurvey:
    """Count what the declaration does to the rows, by the layers that they are stored by."""
    kinds = rows.kinds[0 if preparation.unit is None else 1 :]
    floats = {i for i, kind in enumerate(kinds) if kind is Kind.FLOAT}
    counts = write_survey(preparation, "DOUBLE PRECISION", floats)
    layers = _layers(preparation, rows.relation, rows.kinds, marked=True)
    found = connection.execute(f"SELECT {counts} {layers}".encode()).fetchall()[0]
    if preparation.unit is None:
        return read_survey(preparation, found, None)
    named = f"SELECT {write_as_text('s0', rows.kinds[0])} AS unit FROM {rows.relation}"  # noqa: S608
    units = write_unit_survey(preparation, f"SELECT unit FROM ({named}) AS every WHERE unit <> ''")  # noqa: S608
    of_units = connection.execute(units.encode()).fetchall()[0]
    if not preparation.constant:
        return read_survey(preparation, found, of_units)
    varying = write_varying_survey(preparation, _stored(preparation, rows.relation, rows.kinds))
    return read_survey(preparation, found, of_units, connection.execute(varying.encode()).fetchall()[0])


def remove_snapshot(connection: Connection[Any], schema: str, snapshot: str) -> None:
    """Remove a snapshot; one that is not there is no error, nor is a schema that is not."""
    if _there(connection, schema):
        _drop(connection, schema, snapshot)


def _there(connection: Connection[Any], schema: str) -> bool:
    found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema])
    return found.fetchone() is not None


def name_table(schema: str, snapshot: str, name: str) -> str:
    """Return the quoted name of a snapshot's table; snapshots have longer names than tables may have."""
    return f"{quote_name(schema)}.{hash_name(snapshot)}_{name}"


def hash_name(snapshot: str) -> str:
    """Return the digest that the names of a snapshot's tables begin with."""
    return f"s{sha256(snapshot.encode()).hexdigest()[:32]}"


def _execute(connection: Connection[Any], sql: str) -> None:
    connection.execute(sql.encode())


def _drop(connection: Connection[Any], schema: str, snapshot: str) -> None:
    names = ("rows", "units", "columns")
    tables = ", ".join(name_table(schema, snapshot, name) for name in names)
    _execute(connection, f"SET LOCAL client_min_messages = warning; DROP TABLE IF EXISTS {tables}")


# ---- reading: every value made total, by rules that look at one row ----------------------------------------


def _gridded(preparation: Preparation, relation: str, kinds: tuple[Kind, ...]) -> str:
    return f"CREATE TEMP TABLE gridded ON COMMIT DROP AS {_stored(preparation, relation, kinds)}"


def _stored(preparation: Preparation, relation: str, kinds: tuple[Kind, ...]) -> str:
    """Write stored columns in layers that OFFSET 0 keeps apart: what is used often is computed once."""
    stored = [
        f"{LAYERS.store_column(column, _place(i, column))} AS c{i}"
        for i, column in enumerate(preparation.columns)
    ]
    return f"""
        SELECT {", ".join(["unit", *stored])}
        {_layers(preparation, relation, kinds)} WHERE unit <> ''"""


def _layers(preparation: Preparation, relation: str, kinds: tuple[Kind, ...], marked: bool = False) -> str:
    """Write where interpreted columns c0, … come from; if marked, n0, … say where the source has no value."""
    columns = preparation.columns
    first = 0 if preparation.unit is None else 1
    unit = "CAST('every row' AS TEXT)" if preparation.unit is None else write_as_text("s0", kinds[0])
    fields = [(i, column, kind) for i, (column, kind) in enumerate(zip(columns, kinds[first:], strict=True))]
    parsed = [f"{LAYERS.parse_column(column, f's{first + i}', kind)} AS c{i}" for i, column, kind in fields]
    interpreted = [f"{LAYERS.interpret_column(column, f'c{i}', kind)} AS c{i}" for i, column, kind in fields]
    if marked:
        parsed += [f"s{first + i} IS NULL AS n{i}" for i, _, _ in fields]
        interpreted += [f"n{i}" for i, _, _ in fields]
    lists = [f"LEFT JOIN pg_temp.list{i} ON read.c{i} = list{i}.value" for i in _listed(preparation)]
    return f"""
        FROM (
            SELECT {", ".join(["unit", *interpreted])}
            FROM (SELECT {", ".join([f"{unit} AS unit", *parsed])} FROM {relation} OFFSET 0) AS one OFFSET 0
        ) AS read {" ".join(lists)}"""  # noqa: S608


def _place(i: int, column: StoredColumn) -> str:
    return f"list{i}.code" if isinstance(column, StoredCodes) else f"read.c{i}"


def _listed(preparation: Preparation) -> dict[int, StoredCodes]:
    return {i: column for i, column in enumerate(preparation.columns) if isinstance(column, StoredCodes)}


def _fill_lists(connection: Connection[Any], preparation: Preparation) -> None:
    """Make the tables from value to code, without texts that PostgreSQL cannot hold."""
    for i, codes in _listed(preparation).items():
        of_type = 'TEXT COLLATE "C"' if are_texts(codes) else "DOUBLE PRECISION"
        _execute(connection, f"CREATE TEMP TABLE list{i} (value {of_type}, code BIGINT) ON COMMIT DROP")
        with connection.cursor() as cursor, cursor.copy(f"COPY pg_temp.list{i} FROM STDIN") as copy:
            for value, code in list_codes(codes).items():
                if not (isinstance(value, str) and _impossible(value)):
                    copy.write_row((value, code))
        # Autovacuum never sees temporary tables; without this the planner expects a long list.
        _execute(connection, f"ANALYZE pg_temp.list{i}")


def _fill_keys(connection: Connection[Any], preparation: Preparation) -> None:
    """Make the table of keys that digests are made with.

    They are copied, since a server may log and show the text and the parameters of every statement, but never
    what is copied. Whoever has a key can find out which digest is whose.
    """
    _execute(connection, "CREATE TEMP TABLE keys (person TEXT, secret TEXT, drawn TEXT) ON COMMIT DROP")
    keys = derive_key(preparation, "person"), derive_key(preparation, "unit"), secrets.token_hex(16)
    with connection.cursor() as cursor, cursor.copy("COPY pg_temp.keys FROM STDIN") as copy:
        copy.write_row(keys)


def _digest(key: str, unit: str) -> str:
    """Write the md5 of a key, by its name, and a unit."""
    return f"md5(concat((SELECT {key} FROM pg_temp.keys), ':', {unit}))"  # noqa: S608


_NOBODY = f"CAST({_digest('person', 'CAST(NULL AS TEXT)')} AS UUID)"
"""The digest of no identifier; concat passes over what is missing."""


def _impossible(text: str) -> bool:
    return "\0" in text or any("\ud800" <= each <= "\udfff" for each in text)


def _refuse_rounded_identifiers(
    connection: Connection[Any], preparation: Preparation, kinds: tuple[Kind, ...]
) -> None:
    if preparation.unit is None or kinds[0] is not Kind.FLOAT:
        return
    large = f"abs(CAST(unit AS DOUBLE PRECISION)) >= {EXACT_BELOW}"
    if connection.execute(f"SELECT 1 FROM pg_temp.gridded WHERE {large} LIMIT 1").fetchone():  # noqa: S608
        raise rounded_identifiers(preparation.unit)


# ---- keeping: which rows of a unit, by a rule that looks at that unit --------------------------------------


def _keep(connection: Connection[Any], preparation: Preparation, schema: str, snapshot: str) -> None:
    """Write the stored tables `rows` and, with a unit column, `units`."""
    rows, units = (name_table(schema, snapshot, name) for name in ("rows", "units"))
    if preparation.unit is None:
        _execute(connection, _every_row(preparation, rows))
        _execute(connection, f"ANALYZE {rows}")
        return
    _execute(connection, _units())
    _execute(
        connection,
        f"CREATE TABLE {units} AS SELECT code AS unit, person, of_unit AS rows, "  # noqa: S608
        f"{_unsigned('secret', 0, 2, 'INTEGER')} AS block FROM pg_temp.units",
    )
    _execute(connection, _ranked(preparation, rows))
    _execute(connection, _single(preparation, rows))
    # Questions are planned by the first statistics, and may come at once.
    _execute(connection, f"ANALYZE {rows}; ANALYZE {units}")


def _every_row(preparation: Preparation, rows: str) -> str:
    """Make each row a unit. Its block is drawn pseudorandomly, with a key that is then forgotten."""
    names = _names(preparation)
    number = "row_number() OVER () - 1"
    block = f"{_unsigned(_digest('drawn', 'unit'), 0, 2, 'INTEGER')} AS block"
    return f"""
        CREATE TABLE {rows} AS SELECT {", ".join(["unit", block, *names])}
        FROM (SELECT {", ".join([f"{number} AS unit", *names])} FROM pg_temp.gridded) AS numbered"""  # noqa: S608


def _units() -> str:
    """Select each unit's rows, keyed digests, and a code whose order says nothing of the identifier."""
    return f"""
        CREATE TEMP TABLE units ON COMMIT DROP AS
        SELECT *, row_number() OVER (ORDER BY person, unit) - 1 AS code
        FROM (
            SELECT unit, count(*) AS of_unit, CAST({_digest("person", "unit")} AS UUID) AS person,
                {_digest("secret", "unit")} AS secret
            FROM pg_temp.gridded GROUP BY unit) AS counted"""  # noqa: S608


def _ranked(preparation: Preparation, rows: str) -> str:
    """Keep the first rows of units with several, in the order of digests.

    Rows with one digest are in the order of their columns, and rows alike in everything need no order.
    """
    names = _names(preparation)
    order = f"PARTITION BY code ORDER BY {', '.join(['digest', *names])}"
    values = [
        f"first_value({name}) OVER (first_of ROWS UNBOUNDED PRECEDING) AS {name}"
        if column.name in preparation.constant
        else name
        for name, column in zip(names, preparation.columns, strict=True)
    ]
    ranked = ", ".join(["code", "row_number() OVER first_of AS place", *values])
    return f"""
        CREATE TABLE {rows} AS SELECT {", ".join(_kept(preparation, "place"))}
        FROM (
            SELECT {ranked} FROM ({_digests(preparation)}) AS digests WINDOW first_of AS ({order})) AS ranked
        WHERE place <= {preparation.max_rows}"""  # noqa: S608


def _digests(preparation: Preparation) -> str:
    """Select every copy of a record with the md5 of salt, record and copy, read from its last byte."""
    names = _names(preparation)
    fields = [
        f"md5({n})" if isinstance(c, StoredText) else n
        for n, c in zip(names, preparation.columns, strict=True)
    ]
    hashed = ", ',', ".join(["salt", "copy", *fields])
    return f"""
        SELECT {", ".join(["code", *names])}, ({_reversed("digest", 0, 16)}) COLLATE "C" AS digest
        FROM (
            SELECT {", ".join(["code", *names])}, md5(concat({hashed})) AS digest
            FROM ({_records(preparation)}) AS records CROSS JOIN LATERAL generate_series(1, copies) AS copy
            OFFSET 0) AS hashed"""  # noqa: S608


def _records(preparation: Preparation) -> str:
    """Select the different records of each unit with several rows, and how often the unit has each.

    The salt is 64 secret bits of the unit.
    """
    chosen = ", ".join(["code", *_names(preparation)])
    return f"""
        SELECT {chosen}, min(salt) AS salt, count(*) AS copies
        FROM pg_temp.gridded JOIN (
            SELECT unit, code, {_unsigned("secret", 8, 8, "BIGINT")} AS salt
            FROM pg_temp.units WHERE of_unit > 1 OFFSET 0) AS several USING (unit)
        GROUP BY {chosen}"""  # noqa: S608


def _unsigned(digest: str, start: int, length: int, of_type: str) -> str:
    """Read some bytes of a digest as an integer, the first of them the least."""
    signed = f"CAST(CAST('x' || {_reversed(digest, start, length)} AS BIT({length * 8})) AS {of_type})"
    # PostgreSQL has no unsigned integers of 64 bits.
    return f"mod(CAST({signed} AS NUMERIC) + {2**64}, {2**64})" if length == 8 else signed


def _reversed(digest: str, start: int, length: int) -> str:
    places = reversed(range(start, start + length))
    return " || ".join(f"substr({digest}, {2 * place + 1}, 2)" for place in places)


def _single(preparation: Preparation, rows: str) -> str:
    """Add the rows of units that have only one, which need no ranking."""
    return f"""
        INSERT INTO {rows} SELECT {", ".join(_kept(preparation, "1"))}
        FROM pg_temp.gridded JOIN pg_temp.units USING (unit) WHERE of_unit = 1"""  # noqa: S608


def _kept(preparation: Preparation, place: str) -> list[str]:
    places = [f"{place} AS place"] if preparation.max_rows > 1 else []
    return ["code AS unit", *places, *_names(preparation)]


def _names(preparation: Preparation) -> list[str]:
    return [f"c{i}" for i in range(len(preparation.columns))]


def _describe(connection: Connection[Any], preparation: Preparation, schema: str, snapshot: str) -> None:
    columns = name_table(schema, snapshot, "columns")
    _execute(connection, f"CREATE TABLE {columns} (declared TEXT, stored TEXT)")
    for i, column in enumerate(preparation.columns):
        insert = f"INSERT INTO {columns} VALUES (%s, %s)"  # noqa: S608  the name of the table is ours
        connection.execute(insert.encode(), [column.name, f"c{i}"])
