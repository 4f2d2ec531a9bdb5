"""Answering: a program on prepared snapshots, as exact integers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sfumato.engines.compile import Layout, compile_program
from sfumato.engines.program import CellSums
from sfumato.engines.rows import list_scans
from sfumato.engines.shapes import shape_answer
from sfumato.engines.spark.dialect import SparkDialect
from sfumato.engines.spark.spelling import respell_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.engines.program import Answer, EngineProgram
    from sfumato.engines.spark.places import SnapshotPlace

MOST_TERMS = 28
"""Spark makes one Java method of all that it does with a row, and Java never compiles a method of more than
8,000 bytes. So many products of two features keep below that; connection.py has Spark split the rest."""


def answer_program(program: EngineProgram[Answer], session: SparkSession, place: SnapshotPlace) -> Answer:
    """Return exact integers in the shape that the program says; 64-bit where all fit, else Python's own."""
    answers = [_answered(part, session, place) for part in split_sums(program)]
    return cast("Answer", answers[0] if len(answers) == 1 else np.concatenate(answers))


def _answered(program: EngineProgram[Any], session: SparkSession, place: SnapshotPlace) -> Any:
    found = session.sql(write_sql(program, session, place)).toArrow()
    return shape_answer(program, [column.to_pylist() for column in found.columns])


def split_sums(program: EngineProgram[Any]) -> list[EngineProgram[Any]]:
    """Ask for many sums by several queries. They see the same rows, because a snapshot never changes."""
    if not isinstance(program, CellSums) or len(program.terms) <= MOST_TERMS:
        return [program]
    # Evenly, so that no query is much longer than the others.
    count = -(-len(program.terms) // MOST_TERMS)
    ends = [len(program.terms) * at // count for at in range(count + 1)]
    return [replace(program, terms=program.terms[start:end]) for start, end in pairwise(ends)]


def write_sql(program: EngineProgram[Any], session: SparkSession, place: SnapshotPlace) -> str:
    """Return the program as Spark's SQL, over views of our own session."""
    names = {scan.snapshot for scan in list_scans(program.rows)}
    layouts = {name: _layout(session, place, name) for name in names}
    return respell_query(compile_program(program, layouts, SparkDialect()))


def _layout(session: SparkSession, place: SnapshotPlace, snapshot: str) -> Layout:
    said = place.description(session, snapshot)
    units = place.read(session, snapshot, "units") if said["units"] else None
    rows = place.read(session, snapshot, "rows")
    texts = frozenset(said["columns"]) - frozenset(said["reaches"])
    return Layout(rows, units, said["columns"], said["places"], said["reaches"], texts)
