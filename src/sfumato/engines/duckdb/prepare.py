"""Preparing: rows with a unit, gridded and coded, at most `max_rows` a unit, in a file of their own.

Why the rows kept bound what one unit can change is in docs/proofs/contribution-bounds.md.
"""

from __future__ import annotations

import fcntl
import math
import os
import shutil
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.engines.duckdb.connection import open_writer
from sfumato.engines.duckdb.sources import Kind, scan, unreadable
from sfumato.engines.duckdb.texts import WRITTEN_OUT_BELOW
from sfumato.engines.preparation import Codes, Grid
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from sfumato.engines.preparation import Preparation

_EXACT_BELOW = 2**53
"""From here on a double may stand for several whole numbers."""


def build(source: Any, preparation: Preparation, path: Path, threads: int | None) -> None:
    """Write the snapshot of a source to `path`: whole and durable, or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    with _scratch(path.parent) as scratch:
        built = scratch / "snapshot.duckdb"
        with closing(open_writer(built, scratch / "spill", threads)) as connection:
            _read(connection, source, preparation)
            _keep(connection, preparation)
            _describe(connection, preparation)
            connection.execute("CHECKPOINT snapshot")
        _settle(built, path)


def remove(path: Path) -> None:
    """Durably; a snapshot that is not there is no error."""
    if path.exists():
        path.unlink()
        _sync(path.parent)


# ---- reading: every value made total, by rules that look at one row ----------------------------------------


def _read(connection: DuckDBPyConnection, source: Any, preparation: Preparation) -> None:
    """The temporary table `gridded`: the unit as text, and columns c0, c1, … as they will be stored."""
    import duckdb

    for i, column in enumerate(preparation.columns):
        if isinstance(column, Codes):
            connection.register(f"domain{i}", _domain(column))
    unit = [] if preparation.unit is None else [preparation.unit]
    wanted = [*unit, *(column.name for column in preparation.columns)]
    with scan(connection, source, wanted) as rows:
        sql = _gridded(preparation, rows.relation, rows.kinds)
        try:
            connection.execute(sql)
        except duckdb.OperationalError:
            raise  # the machine's disk or memory, not the source
        except duckdb.Error:
            # DuckDB's own words quote the line, which is data.
            raise unreadable(
                "it is damaged, has rows that do not fit its header, or is large with line breaks in texts"
            ) from None
    if unit and rows.kinds[0] is Kind.FLOAT:
        _refuse_rounded_identifiers(connection, unit[0])


def _refuse_rounded_identifiers(connection: DuckDBPyConnection, name: str) -> None:
    """Long integers become doubles beside one missing value, and then two people may have one number."""
    rounded = f"SELECT count(*) FROM gridded WHERE abs(TRY_CAST(unit AS DOUBLE)) >= {_EXACT_BELOW}"  # noqa: S608
    if connection.execute(rounded).fetchall() != [(0,)]:
        raise UsageError(
            "SF-C207",
            f"The identifiers in '{name}' are floating-point numbers too large to tell people apart.",
            limit="2^53, about 16 digits",
            try_="read the column as integers or as text before it is rounded",
        )


def _gridded(preparation: Preparation, relation: str, kinds: tuple[Kind, ...]) -> str:
    first = 0 if preparation.unit is None else 1
    columns = list(enumerate(preparation.columns))
    unit = "'every row'" if preparation.unit is None else _as_text("s0", kinds[0])
    values = [f"{_as_read(column, f's{first + i}', kinds[first + i])} AS c{i}" for i, column in columns]
    stored = [f"domain{i}.code AS c{i}" if isinstance(column, Codes) else f"c{i}" for i, column in columns]
    domains = [
        f"LEFT JOIN domain{i} ON read.c{i} = domain{i}.value"
        for i, column in columns
        if isinstance(column, Codes)
    ]
    return f"""
        CREATE TEMP TABLE gridded AS SELECT {", ".join(["unit", *stored])}
        FROM (SELECT {", ".join([f"{unit} AS unit", *values])} FROM {relation}) AS read {" ".join(domains)}
        WHERE unit <> ''"""  # noqa: S608


def _as_read(column: Grid | Codes, value: str, kind: Kind) -> str:
    if isinstance(column, Codes) and _are_texts(column):
        return _as_text(value, kind)
    if kind is Kind.OTHER:
        raise UsageError(
            "SF-C206", f"The column '{column.name}' does not hold numbers.", try_="sf.one_of with texts"
        )
    number = _as_number(value, kind)
    return _on_grid(column, number) if isinstance(column, Grid) else number


def _as_text(value: str, kind: Kind) -> str:
    """One text for one value, whichever type its column has: texts.py has the same rule for objects."""
    if kind is Kind.FLOAT:
        return _double_as_text(f"CAST({value} AS DOUBLE)")
    text = f"CAST({value} AS VARCHAR)"
    return f"rtrim(rtrim({text}, '0'), '.')" if kind is Kind.DECIMAL else text


def _double_as_text(double: str) -> str:
    """Whole numbers as integers, which turn into doubles beside a NaN."""
    whole = f"{double} = trunc({double}) AND abs({double}) < CAST('{WRITTEN_OUT_BELOW}' AS DOUBLE)"
    return (
        f"CASE WHEN isnan({double}) THEN NULL WHEN {whole} "
        f"THEN CAST(TRY_CAST({double} AS HUGEINT) AS VARCHAR) ELSE CAST({double} AS VARCHAR) END"
    )


def _as_number(value: str, kind: Kind) -> str:
    """A double or NULL; a boolean is 1 or 0 however it was written."""
    number = f"TRY_CAST({value} AS DOUBLE)"
    if kind is Kind.TEXT:
        text = f"CAST({value} AS VARCHAR)"
        word = (
            f"CASE lower({text}) WHEN 'true' THEN 1 WHEN 't' THEN 1 WHEN 'false' THEN 0 WHEN 'f' THEN 0 END"
        )
        number = f"COALESCE(TRY_CAST({text} AS DOUBLE), {word})"
    return f"CASE WHEN isnan({number}) THEN NULL ELSE {number} END"


def _on_grid(grid: Grid, number: str) -> str:
    """The nearest grid point, halves upwards. Clipped first, by CASE: least and greatest would pass over a
    missing value and make it a bound.

    Scaling by a power of two is exact, and so is the part after the point, or it is rounded on the same
    side of one half. Adding one half instead could round up to the next whole number.
    """
    steps = f"({number} * CAST('{math.ldexp(1.0, -grid.exponent)!r}' AS DOUBLE))"
    nearest = f"floor({steps}) + CASE WHEN {steps} - floor({steps}) >= 0.5 THEN 1 ELSE 0 END"
    low, high = f"CAST({grid.low} AS DOUBLE)", f"CAST({grid.high} AS DOUBLE)"
    clipped = f"CASE WHEN {steps} < {low} THEN {low} WHEN {steps} > {high} THEN {high} ELSE {nearest} END"
    stored = "INTEGER" if grid.low >= -(2**31) and grid.high < 2**31 else "BIGINT"
    return f"CAST({clipped} AS {stored})"


def _domain(codes: Codes) -> Any:
    """The table from value to code. A value listed twice has its first code: a join must not double a row."""
    import pyarrow

    texts = _are_texts(codes)
    listed: tuple[Any, ...] = codes.values
    first: dict[Any, int] = {}
    for code, value in enumerate(listed):
        first.setdefault(value if texts else float(value), code)
    values = pyarrow.array(list(first), pyarrow.string() if texts else pyarrow.float64())
    return pyarrow.table(
        {"value": values, "code": pyarrow.array(list(first.values()), _code_type(len(listed)))}
    )


def _are_texts(codes: Codes) -> bool:
    return all(isinstance(value, str) for value in codes.values)


def _code_type(size: int) -> Any:
    import pyarrow

    if size <= 2**8:
        return pyarrow.uint8()
    return pyarrow.uint16() if size <= 2**16 else pyarrow.uint32()


# ---- keeping: which rows of a unit, by a rule that looks at that unit --------------------------------------


def _keep(connection: DuckDBPyConnection, preparation: Preparation) -> None:
    """The stored table `rows`. Only units with too many rows need ranking, which is the dear part."""
    stored = [f"c{i}" for i in range(len(preparation.columns))]
    if preparation.unit is None:
        chosen = ", ".join(["row_number() OVER () - 1 AS unit", *stored])
        connection.execute(f"CREATE TABLE snapshot.rows AS SELECT {chosen} FROM gridded")  # noqa: S608
        return
    chosen = ", ".join(["code AS unit", *stored])
    connection.execute(_units(preparation))
    connection.execute(f"""
        CREATE TABLE snapshot.rows AS SELECT {chosen} FROM gridded JOIN units USING (unit)
        WHERE of_unit <= {preparation.max_rows}""")  # noqa: S608
    connection.execute(f"""
        INSERT INTO snapshot.rows SELECT {chosen} FROM ({_ranked(preparation, stored)})
        WHERE place <= {preparation.max_rows}""")  # noqa: S608


def _units(preparation: Preparation) -> str:
    """Each unit's number of rows, and a code whose order says nothing about the identifier."""
    return f"""
        CREATE TEMP TABLE units AS SELECT unit, count(*) AS of_unit,
            row_number() OVER (ORDER BY md5('{preparation.key.hex()}:' || unit), unit) - 1 AS code
        FROM gridded GROUP BY unit"""  # noqa: S608


def _ranked(preparation: Preparation, stored: list[str]) -> str:
    """The rows of units that have too many, each with its place in the unit's keyed order.

    The hashed text is key:record:occurrence:unit. Only the last part can hold a colon, so two different
    rows never share a text; a missing value is the empty field, which no integer is.
    """
    record = " || ',' || ".join(f"COALESCE(CAST({column} AS VARCHAR), '')" for column in stored) or "''"
    same = ", ".join(["code", *stored])
    return f"""
        SELECT *, row_number() OVER (PARTITION BY code ORDER BY digest, record, occurrence) AS place
        FROM (
            SELECT *, md5('{preparation.key.hex()}:' || record || ':' || occurrence || ':' || unit) AS digest
            FROM (
                SELECT *, {record} AS record, row_number() OVER (PARTITION BY {same}) AS occurrence
                FROM gridded JOIN units USING (unit) WHERE of_unit > {preparation.max_rows}))"""  # noqa: S608


def _describe(connection: DuckDBPyConnection, preparation: Preparation) -> None:
    connection.execute("CREATE TABLE snapshot.columns (declared VARCHAR, stored VARCHAR)")
    for i, column in enumerate(preparation.columns):
        connection.execute("INSERT INTO snapshot.columns VALUES (?, ?)", [column.name, f"c{i}"])


# ---- files: nothing half made is ever found under a snapshot's name ----------------------------------------


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for one preparation at a time, so that what a killed one left behind can be removed first."""
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
    built.chmod(0o600)
    _sync(built)
    built.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
