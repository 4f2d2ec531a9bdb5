"""Tables as CSV: exact for programs, and for spreadsheets with nothing in it that they would compute.

A spreadsheet takes a text that begins with one of a few signs for a formula, and runs it. Texts come from
declared lists, discovered keys and names that analysts chose, so some may have been written for that.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a text begins with that spreadsheets compute; the wide forms are read as the narrow ones."""
_MARK: Final = b"\xef\xbb\xbf"
"""Without it spreadsheets read UTF-8 as another encoding."""


def write_csv(table: pa.Table, *, for_spreadsheets: bool = False) -> bytes:
    """Return a table as CSV: texts in quotes, and nothing at all where a value is missing.

    For spreadsheets an apostrophe stands before each text and each name that would be computed.
    """
    from pyarrow import csv

    sink = io.BytesIO()
    csv.write_csv(_disarm(table) if for_spreadsheets else table, sink)
    return (_MARK if for_spreadsheets else b"") + sink.getvalue()


def differs_for_spreadsheets(table: pa.Table) -> bool:
    """Return whether a spreadsheet needs another file than programs do, to show what the table says."""
    texts = [text for at in _list_texts(table) for text in table.column(at).to_pylist() if text]
    return any(is_computed(text) or not text.isascii() for text in [*texts, *table.column_names])


def is_computed(text: str) -> bool:
    """Return whether a spreadsheet may take a text for a formula; it ignores spaces in front."""
    return text.lstrip(" ").startswith(FORMULA_SIGNS)


def _disarm(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    for at in _list_texts(table):
        column = table.column(at)
        safe = [None if text is None else _mark(text) for text in column.to_pylist()]
        table = table.set_column(at, table.column_names[at], pa.array(safe, pa.string()))
    return table.rename_columns(list(map(_mark, table.column_names)))


def _mark(text: str) -> str:
    return f"'{text}" if is_computed(text) else text


def _list_texts(table: pa.Table) -> list[int]:
    """Return the places of the columns that hold texts, as they are or by a list of them."""
    import pyarrow as pa

    kinds = [
        each.type.value_type if pa.types.is_dictionary(each.type) else each.type for each in table.schema
    ]
    return [at for at, kind in enumerate(kinds) if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
