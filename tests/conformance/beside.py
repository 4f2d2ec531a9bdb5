"""A table and its neighbours side by side in one snapshot, so that one query asks all of them.

Each is prepared by itself, as always. Their snapshots are then put into one, with units of their own and a
column `of` that says which of them a row is from, and a program is given that column as its first key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import CellHistogram, CellHistograms, CellKey, CellSums, KeyedSums
from sfumato.engines.rows import Bounded, Joined, Ordered, PerUnit, Scan
from sfumato.engines.values import Column

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.catalog.catalog import Table
    from sfumato.engines.rows import Rows
    from sfumato.engines.values import Value

OF = "of which"
_APART = 10**6


def together(folder: Path, engines: list[DuckDBEngine], tables: list[Table]) -> DuckDBEngine:
    """An engine whose snapshots of these tables hold those of all the engines."""
    folder.mkdir()
    for table in tables:
        _together(folder, [engine.folder for engine in engines], table)
    return DuckDBEngine(folder, threads=1)


def _together(folder: Path, parts: list[Path], table: Table) -> None:
    file = f"{table.snapshot_name}.duckdb"
    with duckdb.connect(str(folder / file)) as connection:
        for i, part in enumerate(parts):
            connection.execute(f"ATTACH '{part / file}' AS part{i} (READ_ONLY)")
        rows = [
            f"SELECT * REPLACE (unit + {i * _APART} AS unit), {i} AS ofwhich FROM part{i}.rows"
            for i in range(len(parts))
        ]
        units = [
            f"SELECT * REPLACE (unit + {i * _APART} AS unit, CAST(md5('{i}' || person) AS UUID) AS person) "
            f"FROM part{i}.units"
            for i in range(len(parts))
        ]
        connection.execute(f"CREATE TABLE rows AS {' UNION ALL '.join(rows)}")
        if table.unit.column is not None:
            connection.execute(f"CREATE TABLE units AS {' UNION ALL '.join(units)}")
        connection.execute(
            f"CREATE TABLE columns AS FROM part0.columns UNION ALL SELECT '{OF}', 'ofwhich', {len(parts)}"
        )


def beside(program: Any, parts: int) -> Any:
    """The same program, asked of each part by itself."""
    rows, of = _followed(program.rows)
    match program:
        case CellSums() | CellHistogram() | CellHistograms():
            return replace(program, rows=rows, keys=(CellKey(of, parts), *program.keys))
        case KeyedSums():
            nulls = tuple(place + 1 for place in program.nulls)
            return replace(program, rows=rows, keys=(of, *program.keys), nulls=nulls)
    raise TypeError(program)


def _followed(rows: Rows) -> tuple[Rows, Value]:
    """The rows, and the value that says which part each is from; a unit has one."""
    match rows:
        case Scan(_, at):
            return rows, Column(at, OF)
        case Joined(left):
            inner, of = _followed(left)
            return replace(rows, left=inner), of
        case Bounded(inside) | Ordered(inside):
            inner, of = _followed(inside)
            return replace(rows, rows=inner), of
        case PerUnit(inside):
            inner, of = _followed(inside)
            keys = (*rows.keys, of)
            return replace(rows, rows=inner, keys=keys), Column(rows.at, f"k{len(rows.keys)}")
    raise TypeError(rows)
