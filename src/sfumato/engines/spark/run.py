"""Answering: a program on prepared snapshots, as a dense array of exact integers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.compile import Layout, compile_program
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
from sfumato.engines.spark.connection import limited
from sfumato.engines.spark.dialect import Spark
from sfumato.engines.spark.spelling import quick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from sfumato.engines.program import EngineProgram
    from sfumato.engines.spark.places import SnapshotPlace

_SMALL = 2**63
MOST_TERMS = 28
"""Spark makes one Java method of all that it does with a row, and Java never compiles a method of more than
8,000 bytes. So many products of two features keep below that; connection.py has Spark split the rest."""


def answer(program: EngineProgram, session: SparkSession, place: SnapshotPlace) -> Any:
    """Exact integers in the shape that the program says; 64-bit where all fit, else Python's own."""
    with limited(session):
        answers = [_answered(part, session, place) for part in parts(program)]
    return answers[0] if len(answers) == 1 else np.concatenate(answers)


def _answered(program: EngineProgram, session: SparkSession, place: SnapshotPlace) -> Any:
    found = session.sql(written(program, session, place)).toArrow()
    return shaped(program, [column.to_pylist() for column in found.columns])


def parts(program: EngineProgram) -> list[EngineProgram]:
    """Many sums as several questions. They are about the same rows: a snapshot never changes."""
    if not isinstance(program, CellSums) or len(program.terms) <= MOST_TERMS:
        return [program]
    count = -(-len(program.terms) // MOST_TERMS)
    ends = [len(program.terms) * at // count for at in range(count + 1)]
    return [replace(program, terms=program.terms[start:end]) for start, end in pairwise(ends)]


def written(program: EngineProgram, session: SparkSession, place: SnapshotPlace) -> str:
    """The program as Spark's SQL, over views of our own session."""
    names = {scan.snapshot for scan in scans(program.rows)}
    layouts = {name: _layout(session, place, name) for name in names}
    return quick(compile_program(program, layouts, Spark()))


def shaped(program: EngineProgram, columns: list[list[Any]]) -> Any:
    """What was found, column by column, as the answer."""
    match program:
        case CellSums():
            return _dense(columns[0], columns[1:], program.cells)
        case CellHistogram() | CellHistograms():
            places, counts = np.array(sorted(zip(*columns, strict=True)), dtype=np.int64).reshape(-1, 2).T
            return HistogramCounts(places, counts, program.size)
        case KeyedSums(keys=keys):
            units, *sums = columns[len(keys) :]
            listed = list(zip(*(map(_plain, column) for column in columns[: len(keys)]), strict=True))
            every = range(len(units))
            return SumsByKey(listed, _dense(every, [units], len(every))[0], _dense(every, sums, len(every)))
        case UnitFigures():
            return _dense(range(len(columns[0])), columns, len(columns[0]))


def _plain(key: Any) -> int | str:
    return key if isinstance(key, str) else int(key)


def _dense(cells: Sequence[int], sums: Sequence[Sequence[Any]], size: int) -> Any:
    """Decimals without digits after the point are integers."""
    whole = [[int(number) for number in each] for each in sums]
    small = all(-_SMALL <= number < _SMALL for each in whole for number in each)
    dense: Any = np.zeros((len(whole), size), dtype=np.int64 if small else object)
    for row, numbers in zip(dense, whole, strict=True):
        row[list(cells)] = numbers
    return dense


def _layout(session: SparkSession, place: SnapshotPlace, snapshot: str) -> Layout:
    said = place.description(session, snapshot)
    units = place.read(session, snapshot, "units") if said["units"] else None
    rows = place.read(session, snapshot, "rows")
    return Layout(rows, units, said["columns"], said["places"], said["reaches"])
