"""Rows on the wire: as messages, and as COPY writes them."""

from __future__ import annotations

import csv
import io
import struct
from typing import TYPE_CHECKING, Any

from sfumato.server.sql import frames
from sfumato.server.sql.values import write_binary, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.server.sql.statements import StatementOutcome

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def encode_rows(outcome: StatementOutcome, formats: Sequence[int], start: int, end: int) -> bytes:
    """Return some of the rows of an outcome as messages."""
    writers = [write_binary if form else write_text for form in formats]
    columns = list(zip(writers, outcome.kinds, strict=True))
    return b"".join(
        frames.data_row(
            None if cell is None else write(cell, kind)
            for cell, (write, kind) in zip(row, columns, strict=True)
        )
        for row in outcome.rows[start:end]
    )


def write_copy(outcome: StatementOutcome) -> bytes:
    """Return all rows of an outcome as COPY sends them."""
    many = len(outcome.names or ())
    lines = {"binary": _copy_binary, "csv": _copy_csv, "text": _copy_text}[outcome.copied or "text"](outcome)
    sent = b"".join(frames.frame(b"d", line) for line in lines)
    return frames.copy_out(many, outcome.copied == "binary") + sent + frames.frame(b"c")


def _copy_binary(outcome: StatementOutcome) -> Iterator[bytes]:
    start = _SIGNATURE  # tools expect it in one message with what follows
    for row in outcome.rows:
        cells = [
            None if cell is None else write_binary(cell, kind)
            for cell, kind in zip(row, outcome.kinds, strict=True)
        ]
        yield start + struct.pack(">h", len(cells)) + frames.write_cells(cells)
        start = b""
    yield start + b"\xff\xff"


def _copy_text(outcome: StatementOutcome) -> Iterator[bytes]:
    for row in outcome.rows:
        yield "\t".join(map(_escape, _list_texts(outcome, row))).encode() + b"\n"


def _copy_csv(outcome: StatementOutcome) -> Iterator[bytes]:
    for row in outcome.rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            ["" if cell is None else cell for cell in _list_texts(outcome, row)]
        )
        yield line.getvalue().encode()


def _list_texts(outcome: StatementOutcome, row: Sequence[Any]) -> list[str | None]:
    pairs = zip(row, outcome.kinds, strict=True)
    return [None if cell is None else write_text(cell, kind).decode() for cell, kind in pairs]


def _escape(cell: str | None) -> str:
    return "\\N" if cell is None else "".join(_ESCAPES.get(each, each) for each in cell)
