"""Preparing: rows with a unit, gridded and coded, at most `max_rows` a unit, in a file of their own.

    rows(unit, place, c0, c1, …)      place is the row's rank, from 1, in the keyed order of all rows of its
                                      unit; not there where max_rows is 1
    units(unit, person, rows, block)  person is one for the same identifier in all tables of a key, rows is
                                      how many the source had, block is 16 bits of a keyed hash
    columns(declared, stored, reach)  which of c0, c1, … a declared column is, and how far from zero its
                                      integers can be

With no unit column there is no table `units`, and rows(unit, block, c0, …) has a block drawn for each row.
Why the rows kept bound what one unit can change is in docs/proofs/contribution-bounds.md.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.engines.arrow import build_array
from sfumato.engines.duckdb.connection import name_shortage, open_writer
from sfumato.engines.duckdb.graphs import write_degrees
from sfumato.engines.duckdb.sources import Kind, scan_source, unreadable_source
from sfumato.engines.duckdb.stored import (
    choose_type,
    in_days,
    interpret_column,
    parse_column,
    store_column,
    write_as_text,
)
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
from sfumato.engines.snapshot import GraphPreparation, StoredCodes, StoredText, StoredTime, find_reach
from sfumato.files.durable import rename_path, sync_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from sfumato.engines.duckdb.sources import SourceScan
    from sfumato.engines.snapshot import Preparation, SourceSurvey, StoredColumn


_LOST = (
    "database does not exist",
    "not a valid DuckDB database file",
    "Could not read enough bytes",
    "Corrupt database file",
)
"""What DuckDB says of a file that is missing or damaged, and of no other trouble."""


def build_snapshot(
    source: Any,
    preparation: Preparation | GraphPreparation,
    path: Path,
    threads: int | None,
    survey: bool = False,
) -> SourceSurvey | None:
    """Write the snapshot of a source to `path`: whole and durable, or not at all.

    Return a survey if asked.
    """
    found = None
    with _writer(path.parent, threads) as (connection, built):
        if isinstance(preparation, GraphPreparation):
            write_degrees(connection, source, preparation)
        else:
            found = _read(connection, source, preparation, survey)
            if preparation.unit is not None:
                _keep(connection, preparation)
            _describe(connection, preparation)
        connection.execute("CHECKPOINT snapshot")
        connection.close()
        _settle(built, path)
    return found


def survey_source(source: Any, preparation: Preparation, folder: Path, threads: int | None) -> SourceSurvey:
    """Return exact counts of what a declaration does to a source. Nothing is kept in the folder."""
    with _writer(folder, threads) as (connection, _), _opened(connection, source, preparation) as rows:
        return _survey(connection, preparation, rows)


@contextmanager
def _writer(folder: Path, threads: int | None) -> Iterator[tuple[DuckDBPyConnection, Path]]:
    """Open a new database in a scratch folder, and name it; the folder is gone afterwards."""
    # mkdir's mode passes through the umask, and the folder may be there already.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    with name_shortage(), _scratch(folder) as scratch:
        built = scratch / "snapshot.duckdb"
        with closing(open_writer(built, scratch / "spill", threads)) as connection:
            yield connection, built


def remove_snapshot(path: Path) -> None:
    """Remove a snapshot durably; one that is not there is no error."""
    name_damage(path).unlink(missing_ok=True)
    if path.exists():
        path.unlink()
        sync_path(path.parent)


def name_snapshot_file(folder: Path, snapshot: str) -> Path:
    """Return the file of a snapshot. Any name is a file name once quoted, and no name leaves the folder."""
    return folder / f"{quote(snapshot, safe='')}.duckdb"


def name_damage(path: Path) -> Path:
    """Return the file that says that a snapshot is damaged."""
    return path.with_name(f"{path.name}.damaged")


# ---- reading: every value made total, by rules that look at one row ----------------------------------------


@contextmanager
def _opened(connection: DuckDBPyConnection, source: Any, preparation: Preparation) -> Iterator[SourceScan]:
    """Open the columns that are declared, and the lists of values. What DuckDB says of rows is not shown."""
    import duckdb

    for i, column in _listed_columns(preparation):
        connection.register(f"list{i}", _list(column))
    unit = [] if preparation.unit is None else [preparation.unit]
    wanted = [*unit, *(column.name for column in preparation.columns)]
    with scan_source(connection, source, wanted) as rows:
        try:
            yield rows
        except duckdb.OperationalError:
            raise  # the machine's disk or memory, not the source
        except duckdb.Error:
            # DuckDB's own words quote the line, which is data.
            raise unreadable_source(
                "it is damaged, has rows that do not fit its header, or is large with line breaks in texts"
            ) from None


def _read(
    connection: DuckDBPyConnection, source: Any, preparation: Preparation, survey: bool = False
) -> SourceSurvey | None:
    """Make the temporary table `gridded`: the unit as text, and columns c0, c1, … as stored.

    Without a unit column all rows are kept, and this is the stored table already.
    """
    with _opened(connection, source, preparation) as rows:
        gridded = _gridded(preparation, rows.relation, rows.kinds)
        if preparation.unit is None:
            connection.execute(_every_row(preparation, gridded))
        else:
            connection.execute(f"CREATE TEMP TABLE gridded AS {gridded}")
            if rows.kinds[0] is Kind.FLOAT:
                _refuse_rounded_identifiers(connection, preparation.unit)
        return _survey(connection, preparation, rows) if survey else None


def _survey(connection: DuckDBPyConnection, preparation: Preparation, rows: SourceScan) -> SourceSurvey:
    """Count what the declaration does to the rows, by the layers that they are stored by."""
    kinds = rows.kinds[0 if preparation.unit is None else 1 :]
    fields = list(enumerate(zip(preparation.columns, kinds, strict=False)))
    floats = {i for i, (_, kind) in fields if kind is Kind.FLOAT}
    days = {i for i, (column, kind) in fields if isinstance(column, StoredTime) and in_days(column, kind)}
    counts = write_survey(preparation, "DOUBLE", floats, days)
    layers = _layers(preparation, rows.relation, rows.kinds, marked=True)
    (found,) = connection.execute(f"SELECT {counts} {layers}").fetchall()
    if preparation.unit is None:
        return replace(read_survey(preparation, found, None), reading=rows.reading)
    named = f"SELECT {write_as_text('s0', rows.kinds[0])} AS unit FROM {rows.relation}"  # noqa: S608
    units = write_unit_survey(preparation, f"SELECT unit FROM ({named}) WHERE unit <> ''")  # noqa: S608
    of_units = connection.execute(units).fetchall()[0]
    several: Sequence[int | None] = ()
    if preparation.constant:
        varying = write_varying_survey(preparation, _gridded(preparation, rows.relation, rows.kinds))
        several = connection.execute(varying).fetchall()[0]
    return replace(read_survey(preparation, found, of_units, several), reading=rows.reading)


def _refuse_rounded_identifiers(connection: DuckDBPyConnection, name: str) -> None:
    """Refuse long integers that became doubles beside a missing value: two people may share a number."""
    rounded = f"SELECT count(*) FROM gridded WHERE abs(TRY_CAST(unit AS DOUBLE)) >= {EXACT_BELOW}"  # noqa: S608
    if connection.execute(rounded).fetchall() != [(0,)]:
        raise rounded_identifiers(name)


def _gridded(preparation: Preparation, relation: str, kinds: tuple[Kind, ...]) -> str:
    """Write the SELECT of stored columns in layers, so that what is used several times is computed once."""
    of = kinds[0 if preparation.unit is None else 1 :]
    fields = [
        (i, column, kind) for i, (column, kind) in enumerate(zip(preparation.columns, of, strict=False))
    ]
    store = [f"{store_column(column, _place(i, column), kind)} AS c{i}" for i, column, kind in fields]
    layers = _layers(preparation, relation, kinds)
    return f"SELECT {', '.join(['unit', *store])} {layers} WHERE unit <> ''"


def _layers(preparation: Preparation, relation: str, kinds: tuple[Kind, ...], marked: bool = False) -> str:
    """Write where interpreted columns c0, … come from; if marked, n0, … say where the source has no value."""
    columns = preparation.columns
    first = 0 if preparation.unit is None else 1
    unit = "'every row'" if preparation.unit is None else write_as_text("s0", kinds[0])
    of = kinds[first : first + len(columns)]
    fields = [(i, column, kind) for i, (column, kind) in enumerate(zip(columns, of, strict=True))]
    parse = [f"{parse_column(column, f's{first + i}', kind)} AS c{i}" for i, column, kind in fields]
    understand = [f"{interpret_column(column, f'c{i}', kind)} AS c{i}" for i, column, kind in fields]
    if marked:
        parse += [f"s{first + i} IS NULL AS n{i}" for i, _, _ in fields]
        understand += [f"n{i}" for i, _, _ in fields]
    lists = [f"LEFT JOIN list{i} ON read.c{i} = list{i}.value" for i, _ in _listed_columns(preparation)]
    return f"""
        FROM (
            SELECT {", ".join(["unit", *understand])}
            FROM (SELECT {", ".join([f"{unit} AS unit", *parse])} FROM {relation})) AS read
        {" ".join(lists)}"""  # noqa: S608


def _place(i: int, column: StoredColumn) -> str:
    return f"list{i}.code" if isinstance(column, StoredCodes) else f"read.c{i}"


def _listed_columns(preparation: Preparation) -> list[tuple[int, StoredCodes]]:
    return [(i, column) for i, column in enumerate(preparation.columns) if isinstance(column, StoredCodes)]


def _list(codes: StoredCodes) -> Any:
    """Return the table from value to code."""
    import pyarrow

    types = {"UTINYINT": pyarrow.uint8(), "USMALLINT": pyarrow.uint16(), "UINTEGER": pyarrow.uint32()}
    first = list_codes(codes)
    values = build_array(list(first), pyarrow.string() if are_texts(codes) else pyarrow.float64())
    return pyarrow.table(
        {"value": values, "code": build_array(list(first.values()), types[choose_type(codes)])}
    )


# ---- keeping: which rows of a unit, by a rule that looks at that unit --------------------------------------


def _keep(connection: DuckDBPyConnection, preparation: Preparation) -> None:
    """Write the stored tables `rows` and `units`."""
    connection.execute(_units(preparation))
    connection.execute("""
        CREATE TABLE snapshot.units AS SELECT
            code AS unit, person, of_unit AS rows, CAST(secret & 65535 AS USMALLINT) AS block
        FROM units""")
    connection.execute(_records(preparation))
    connection.execute(_digests(preparation))
    connection.execute("DROP TABLE records")
    connection.execute(_ranked(preparation))
    connection.execute("DROP TABLE digests")
    # Last and apart: ranking takes most of the time, and these rows are not ranked.
    connection.execute(_single(preparation))


def _every_row(preparation: Preparation, gridded: str) -> str:
    """Make each row a unit. Its block is drawn pseudorandomly, with keys that are then forgotten.

    They go into what is hashed. A key that is hashed beside the number only moves all blocks alike.
    """
    number = "row_number() OVER () - 1"
    first, second = (f"CAST({secrets.randbits(64)} AS UBIGINT)" for _ in range(2))
    drawn = f"CAST(hash(xor(hash(xor(CAST(unit AS UBIGINT), {first})), {second})) & 65535 AS USMALLINT)"
    names = _names(preparation)
    return f"""
        CREATE TABLE snapshot.rows AS SELECT {", ".join(["unit", f"{drawn} AS block", *names])}
        FROM (SELECT {", ".join([f"{number} AS unit", *names])} FROM ({gridded}))"""  # noqa: S608


def _units(preparation: Preparation) -> str:
    """Select each unit's rows, keyed digests, and a code whose order says nothing of the identifier."""
    person, secret = derive_key(preparation, "person"), derive_key(preparation, "unit")
    return f"""
        CREATE TEMP TABLE units AS SELECT *, row_number() OVER (ORDER BY person, unit) - 1 AS code
        FROM (
            SELECT unit, of_unit, CAST(md5('{person}:' || unit) AS UUID) AS person,
                md5_number('{secret}:' || unit) AS secret
            FROM (SELECT unit, count(*) AS of_unit FROM gridded GROUP BY unit))"""  # noqa: S608


def _records(preparation: Preparation) -> str:
    """Select the different records of each unit with several rows, and how often the unit has each.

    The salt is 64 secret bits of the unit.
    """
    names = _names(preparation)
    chosen = ", ".join(["code", *names])
    return f"""
        CREATE TEMP TABLE records AS SELECT {chosen}, any_value(salt) AS salt, count(*) AS copies
        FROM gridded JOIN (
            SELECT unit, code, CAST(secret >> 64 AS UBIGINT) AS salt FROM units WHERE of_unit > 1
        ) USING (unit) GROUP BY {chosen}"""  # noqa: S608


def _digests(preparation: Preparation) -> str:
    """Select every copy of a record with the md5 of salt, record and number of the copy."""
    names = _names(preparation)
    fields = [
        f"md5({n})" if isinstance(c, StoredText) else n
        for n, c in zip(names, preparation.columns, strict=True)
    ]
    # Commas keep fields apart; texts, which may hold commas, are hashed first.
    hashed = ", ',', ".join(["salt", "copy", *fields])
    return f"""
        CREATE TEMP TABLE digests AS
        SELECT {", ".join(["code", *names])}, md5_number(concat({hashed})) AS digest
        FROM (SELECT *, unnest(range(1, copies + 1)) AS copy FROM records)"""  # noqa: S608


def _ranked(preparation: Preparation) -> str:
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
        CREATE TABLE snapshot.rows AS SELECT {", ".join(_kept(preparation, "CAST(place AS UINTEGER)"))}
        FROM (SELECT {ranked} FROM digests WINDOW first_of AS ({order}))
        WHERE place <= {preparation.max_rows}"""  # noqa: S608


def _single(preparation: Preparation) -> str:
    """Add the rows of units that have only one, which need no ranking."""
    return f"""
        INSERT INTO snapshot.rows SELECT {", ".join(_kept(preparation, "CAST(1 AS UINTEGER)"))}
        FROM gridded JOIN (SELECT unit, code FROM units WHERE of_unit = 1) USING (unit)"""  # noqa: S608


def _kept(preparation: Preparation, place: str) -> list[str]:
    places = [f"{place} AS place"] if preparation.max_rows > 1 else []
    return ["code AS unit", *places, *_names(preparation)]


def _names(preparation: Preparation) -> list[str]:
    return [f"c{i}" for i in range(len(preparation.columns))]


def _describe(connection: DuckDBPyConnection, preparation: Preparation) -> None:
    connection.execute("CREATE TABLE snapshot.columns (declared VARCHAR, stored VARCHAR, reach BIGINT)")
    for i, column in enumerate(preparation.columns):
        described = [column.name, f"c{i}", find_reach(column)]
        connection.execute("INSERT INTO snapshot.columns VALUES (?, ?, ?)", described)


# ---- files: nothing half made is ever found under a snapshot's name ----------------------------------------


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Yield a folder for one preparation at a time, after removing what a killed one left behind."""
    lock = os.open(folder, os.O_RDONLY)
    scratch = folder / "preparing"
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    finally:
        os.close(lock)


def _settle(built: Path, path: Path) -> None:
    # Rights and contents before the name: whoever sees the snapshot sees all of it.
    built.chmod(0o600)
    sync_path(built)
    rename_path(built, path)
