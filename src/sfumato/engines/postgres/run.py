"""Answering: a program on prepared snapshots, as a dense array of exact integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.compile import Layout, compile_program
from sfumato.engines.postgres.dialect import PostgreSQL
from sfumato.engines.postgres.prepare import stem, table
from sfumato.engines.program import (
    CellHistogram,
    CellHistograms,
    CellSums,
    HistogramCounts,
    KeyedSums,
    SumsByKey,
    UnitFigures,
)
from sfumato.engines.rows import scans

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from psycopg import Connection

    from sfumato.engines.program import EngineProgram

_SMALL = 2**63


def answer(program: EngineProgram, connection: Connection[Any], schema: str) -> Any:
    """Exact integers in the shape that the program says; 64-bit where all fit, else Python's own."""
    names = {scan.snapshot for scan in scans(program.rows)}
    layouts = {name: _layout(connection, schema, name) for name in names}
    found = connection.execute(compile_program(program, layouts, PostgreSQL()).encode()).fetchall()
    match program:
        case CellSums(terms=terms):
            cells = [row[0] for row in found]
            return _dense(cells, _columns(found, len(terms) + 1)[1:], program.cells)
        case CellHistogram() | CellHistograms():
            places, counts = np.array(sorted(found), dtype=np.int64).reshape(-1, 2).T
            return HistogramCounts(places, counts, program.size)
        case KeyedSums(keys=keys, terms=terms):
            every = range(len(found))
            units, *sums = _columns([row[len(keys) :] for row in found], len(terms) + 1)
            listed = [tuple(map(_plain, row[: len(keys)])) for row in found]
            return SumsByKey(listed, _dense(every, [units], len(every))[0], _dense(every, sums, len(every)))
        case UnitFigures(figures=figures):
            return _dense(range(len(found)), _columns(found, len(figures)), len(found))


def _plain(key: Any) -> int | str:
    return key if isinstance(key, str) else int(key)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[int]]:
    """Decimals without digits after the point are integers, whichever way they were cast."""
    return [[_integer(row[place]) for row in rows] for place in range(width)]


def _integer(number: int | Decimal) -> int:
    return int(number)


def _dense(cells: Sequence[int], sums: Sequence[Sequence[int]], size: int) -> Any:
    small = all(-_SMALL <= number < _SMALL for each in sums for number in each)
    dense: Any = np.zeros((len(sums), size), dtype=np.int64 if small else object)
    for row, numbers in zip(dense, sums, strict=True):
        row[list(cells)] = numbers
    return dense


def _layout(connection: Connection[Any], schema: str, snapshot: str) -> Layout:
    columns = f"SELECT declared, stored FROM {table(schema, snapshot, 'columns')}"  # noqa: S608  name of ours
    declared = dict(connection.execute(columns.encode()).fetchall())
    found = connection.execute(
        "SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = %s AND relname = ANY(%s) AND attname IN ('unit', 'place')",
        [schema, [f"{stem(snapshot)}_{name}" for name in ("rows", "units")]],
    ).fetchall()
    units = table(schema, snapshot, "units") if (f"{stem(snapshot)}_units", "unit") in found else None
    rows = table(schema, snapshot, "rows")
    return Layout(rows, units, declared, (f"{stem(snapshot)}_rows", "place") in found)
