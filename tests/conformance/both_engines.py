"""The same table on DuckDB and on PostgreSQL, and what each of them stores of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import types

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.postgres import PostgresEngine
from sfumato.engines.postgres.prepare import name_table
from sfumato.engines.program import CellHistogram, CellHistograms, KeyedSums, UnitFigures
from sfumato.engines.snapshot import Preparation


@dataclass(frozen=True)
class Both:
    duck: DuckDBEngine
    postgres: PostgresEngine

    @classmethod
    def at(cls, folder: Path, address: str) -> Both:
        schema = f"sfumato_{secrets.token_hex(6)}"
        return cls(DuckDBEngine(folder / "lab", threads=1), PostgresEngine(address, schema))

    def prepare(self, source: pa.Table, preparation: Preparation, snapshot: str) -> None:
        self.duck.prepare(source, preparation, snapshot)
        name = f"source {secrets.token_hex(6)}"
        load(self.postgres.dsn, name, source)
        self.postgres.prepare(f"{self.postgres.dsn}#public.{name}", preparation, snapshot)

    def stored(self, snapshot: str) -> tuple[Any, Any]:
        return self._in_duckdb(snapshot), self._in_postgres(snapshot)

    def run(self, program: Any) -> tuple[Any, Any]:
        return tuple(comparable(program, engine.run(program)) for engine in (self.duck, self.postgres))

    def _in_duckdb(self, snapshot: str) -> Any:
        path = self.duck.folder / f"{snapshot}.duckdb"
        with duckdb.connect(str(path), read_only=True) as connection:
            tables = {
                name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            }
            return _content(
                lambda sql: connection.execute(sql).fetchall(), "rows", "units", "units" in tables
            )

    def _in_postgres(self, snapshot: str) -> Any:
        import psycopg

        rows, units = (name_table(self.postgres.schema, snapshot, name) for name in ("rows", "units"))
        with psycopg.connect(self.postgres.dsn) as connection:
            there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [units]).fetchone()
            return _content(lambda sql: connection.execute(sql).fetchall(), rows, units, there == (True,))


def _content(read: Any, rows: str, units: str, has_units: bool) -> Any:
    """Units are told apart by person; where rows are units, only what they hold can be the same."""
    if not has_units:
        return sorted((row[2:] for row in read(f"SELECT * FROM {rows}")), key=repr), None
    people = {
        unit: (str(person), count, block) for unit, person, count, block in read(f"SELECT * FROM {units}")
    }
    kept = sorted(((people[unit][0], *rest) for unit, *rest in read(f"SELECT * FROM {rows}")), key=repr)
    return kept, sorted(people.values())


def comparable(program: Any, answer: Any) -> Any:
    """In an order, where the answer has none."""
    match program:
        case KeyedSums():
            columns = [list(map(int, row)) for row in (answer.units, *answer.sums)]
            return sorted(zip(answer.keys, *columns, strict=True), key=repr_of_key)
        case UnitFigures():
            return sorted(zip(*answer.tolist(), strict=True), key=repr)
        case CellHistogram() | CellHistograms():
            return answer.triplets().tolist()
    return answer.tolist()


def repr_of_key(row: tuple[Any, ...]) -> str:
    return repr([key if key is None or isinstance(key, str) else int(key) for key in row[0]])


# ---- Arrow tables in PostgreSQL ----------------------------------------------------------------------------

_TYPES = (
    (types.is_boolean, "BOOLEAN"),
    (types.is_int16, "SMALLINT"),
    (types.is_int32, "INTEGER"),
    (types.is_int64, "BIGINT"),
    (types.is_float32, "REAL"),
    (types.is_float64, "DOUBLE PRECISION"),
    (types.is_string, "TEXT"),
    (types.is_date, "DATE"),
    (types.is_time, "TIME"),
    (types.is_binary, "BYTEA"),
)


def sql_type(of: pa.DataType) -> str:
    if types.is_timestamp(of):
        return "TIMESTAMPTZ" if of.tz else "TIMESTAMP"
    if types.is_decimal(of):
        return f"NUMERIC({of.precision}, {of.scale})"
    return next(name for test, name in _TYPES if test(of))


def load(dsn: str, name: str, source: pa.Table) -> None:
    """Texts are given another collation than ours, which must not matter."""
    import psycopg

    fields = [f'"{field.name}" {sql_type(field.type)}' for field in source.schema]
    with psycopg.connect(dsn) as connection:
        connection.execute(f'CREATE TABLE "{name}" ({", ".join(fields)})')
        with connection.cursor() as cursor, cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in zip(*(column.to_pylist() for column in source.columns), strict=True):
                copy.write_row(row)


def find_loader(engine: str, request: pytest.FixtureRequest) -> Callable[[pa.Table], Any]:
    """Return how a table becomes one that this engine has."""
    if engine == "DuckDB":
        return lambda table: table
    if engine == "Spark":
        session = request.getfixturevalue("spark")
        return lambda table: session.createDataFrame(table)
    address = request.getfixturevalue("postgres")

    def loaded(table: pa.Table) -> str:
        name = f"t_{secrets.token_hex(6)}"
        load(address, name, table)
        return f"{address}#public.{name}"

    return loaded
