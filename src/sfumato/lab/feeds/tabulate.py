"""Every kind of answer as one flat table, with the ends of its interval beside each number."""

from __future__ import annotations

import json
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.release import Release
from sfumato.curator.answers.results import ChosenRange, ChosenValues, NoisyFigure
from sfumato.errors import PolicyError
from sfumato.lab.feeds.naming import make_unique

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("int64", "double", "string", "bool", "date32[day]", "timestamp[s]")
"""The types that columns of a feed have; every format says how it writes each of them."""


def tabulate_answer(answer: Any) -> pa.Table:
    """Return an answer as a table. Columns and types follow from the question, rows keep their order."""
    table = _tabulate(answer)
    return _simplify_types(table.rename_columns(make_unique(table.column_names)))


def _tabulate(answer: Any) -> pa.Table:
    import pyarrow as pa

    match answer:
        case Release():
            return answer.to_arrow(intervals=True)
        case NoisyFigure(value, low, high):
            return pa.table({"value": [value], "value_low": [low], "value_high": [high]})
        case ChosenRange(low, high):
            return pa.table({"low": [low], "high": [high]})
        case ChosenValues(values):
            return pa.table({"place": list(range(1, len(values) + 1)), "value": list(values)})
    if hasattr(answer, "to_arrow"):
        found: pa.Table = answer.to_arrow()
        return found
    raise PolicyError("SF-F104", "This answer is no table, so it cannot be a feed.", try_="a question in SQL")


def _simplify_types(table: pa.Table) -> pa.Table:
    """Return the table with columns of the types in `KINDS` alone."""
    import pyarrow as pa

    kinds = []
    for field in table.schema:
        kind = field.type
        if str(kind) in KINDS:
            kinds.append(kind)
        elif pa.types.is_integer(kind):
            kinds.append(pa.int64())
        elif pa.types.is_floating(kind):
            kinds.append(pa.float64())
        elif pa.types.is_timestamp(kind):
            kinds.append(pa.timestamp("s"))
        else:
            kinds.append(pa.string())
    named = zip(table.column_names, kinds, strict=True)
    return table.cast(pa.schema([pa.field(name, kind) for name, kind in named])).replace_schema_metadata()


def digest_table(table: pa.Table) -> str:
    """Return a hash of names, types and cells, by which copies of an answer are told apart."""
    named = [[field.name, str(field.type)] for field in table.schema]
    cells = [column.to_pylist() for column in table.columns]
    return sha256(json.dumps([named, cells], default=_write_cell).encode()).hexdigest()


def _write_cell(cell: Any) -> str:
    if isinstance(cell, date):  # moments are dates too
        return cell.isoformat()
    raise TypeError(type(cell))
