"""Watch the snippets of a page: each SQL question is answered without noise and compared with plain DuckDB.

`watch` is called on the first line of the snippets, in their process, and `require_questions` on the last.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from conformance.worlds import decoded, stored
from exact_answers import without_noise
from plain_answers import compare_answers
from sfumato.curator.answers.measure import Measure
from sfumato.curator.catalog.catalog import Table
from sfumato.curator.catalog.columns import NumberColumn
from sfumato.lab.query import Query

_COMPARED = re.compile(r"\s*(SELECT|WITH)\b")
_TIES = re.compile(r"\b(ARG_MIN|ARG_MAX|ROW_NUMBER)\b")
"""What picks one of several rows of a person on one day; DuckDB may pick another."""

_seen: list[str] = []
_open = ExitStack()


def watch() -> None:
    """Compare every question in SQL that is released from now on."""
    pay = Measure._pay

    def compared(measure: Any, key: str | None, spending: Any) -> Any:
        answer = pay(measure, key, spending)
        if type(measure) is not Query or not _COMPARED.match(measure.text) or _TIES.search(measure.text):
            return answer
        plain = make_plain(measure.payer.lab)
        compare_answers(measure.text, answer.to_arrow(), plain, relative=1e-6, step=0.01)
        _seen.append(measure.text)
        return answer

    # Until the process ends: answers compute their intervals when they are shown.
    _open.enter_context(without_noise())
    Measure._pay = compared  # type: ignore[method-assign, assignment]


def make_plain(lab: Any) -> duckdb.DuckDBPyConnection:
    """A database with the rows that a lab keeps of its tables, as ordinary numbers, dates and texts."""
    plain = duckdb.connect()
    for table in lab.tables():
        plain.register("kept", _read_kept(lab.engine._snapshots, table))
        plain.execute(f"CREATE TABLE {table.name} AS FROM kept")
        plain.unregister("kept")
    return plain


def _read_kept(folder: Path, table: Table) -> pa.Table:
    people, _, rows = stored(folder, table)
    columns: dict[str, Any] = {} if table.unit.column is None else {table.unit.column: people}
    for name, promise in table.columns.items():
        values = [decoded(promise, row[name]) for row in rows]
        whole = isinstance(promise, NumberColumn) and promise.step.denominator == 1
        columns[name] = [value if value is None else int(value) for value in values] if whole else values
    return pa.table(columns)


def require_questions(count: int) -> None:
    """Fail if fewer questions were compared."""
    assert len(_seen) >= count, _seen
