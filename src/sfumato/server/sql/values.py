"""Values on the wire: six kinds of columns, as text and in binary, and parameters that tools send."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

OIDS = {"int": 20, "float": 701, "text": 25, "bool": 16, "date": 1082, "timestamp": 1114}
TYPE_NAMES = {
    "int": "int8",
    "float": "float8",
    "text": "text",
    "bool": "bool",
    "date": "date",
    "timestamp": "timestamp",
}
SIZES = {"int": 8, "float": 8, "text": -1, "bool": 1, "date": 4, "timestamp": 8}
ARROW_KINDS = {
    "int64": "int",
    "double": "float",
    "string": "text",
    "bool": "bool",
    "date32[day]": "date",
    "timestamp[s]": "timestamp",
}
_EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001  timestamps have no zone
_HELD: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "text": (str,),
    "bool": (int,),
    "date": (str,),
    "timestamp": (str,),
}
_WHOLE = {20: ">q", 21: ">h", 23: ">i", 26: ">I"}
_REAL = {700: ">f", 701: ">d"}
_TEXTS = (0, 18, 19, 25, 705, 1042, 1043)


def list_plain_rows(table: pa.Table) -> list[list[Any]]:
    """Return the rows of a table as numbers and texts alone: dates as texts, truths as 0 and 1."""
    columns = [[_plain(cell) for cell in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def settle_kinds(kinds: Sequence[str | None], rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Return a kind for each column that all of its cells have; `text` where there is no other."""
    found = []
    for at, kind in enumerate(kinds):
        cells = [row[at] for row in rows if row[at] is not None]
        wanted = kind if kind is not None else _guess_kind(cells)
        held = _HELD[wanted]
        found.append(wanted if all(isinstance(cell, held) for cell in cells) else "text")
    return tuple(found)


def write_text(cell: Any, kind: str) -> bytes:
    """Return a cell as PostgreSQL prints it."""
    if kind == "bool":
        return b"t" if cell else b"f"
    if isinstance(cell, float):
        if math.isinf(cell):
            return b"Infinity" if cell > 0 else b"-Infinity"
        return b"NaN" if math.isnan(cell) else repr(cell).removesuffix(".0").encode()
    return str(cell).replace("\0", "").encode("utf-8", "replace")


def write_binary(cell: Any, kind: str) -> bytes:
    """Return a cell in PostgreSQL's binary form."""
    match kind:
        case "int":
            return struct.pack(">q", cell)
        case "float":
            return struct.pack(">d", float(cell))
        case "bool":
            return b"\1" if cell else b"\0"
        case "date":
            return struct.pack(">i", (date.fromisoformat(cell) - _EPOCH.date()).days)
        case "timestamp":
            passed = datetime.fromisoformat(cell) - _EPOCH
            return struct.pack(">q", passed // timedelta(microseconds=1))
    return write_text(cell, kind)


def read_parameter(content: bytes | None, oid: int, binary: bool) -> Any:
    """Return the value of a parameter, or refuse a type that is not known here."""
    if content is None:
        return None
    try:
        return _read_binary(content, oid) if binary else _read_text(content.decode(), oid)
    except (ValueError, struct.error, OverflowError):
        raise _bad_parameter() from None


def _read_text(text: str, oid: int) -> Any:
    if oid in _WHOLE:
        return int(text)
    if oid in _REAL or oid == 1700:
        return float(text)
    if oid == 16:
        return int(text.lower() in ("t", "true", "1", "on", "yes"))
    return text


def _read_binary(content: bytes, oid: int) -> Any:
    if oid in _WHOLE:
        return struct.unpack(_WHOLE[oid], content)[0]
    if oid in _REAL:
        return struct.unpack(_REAL[oid], content)[0]
    if oid == 16:
        return int(content != b"\0")
    if oid in _TEXTS:
        return content.decode()
    if oid == OIDS["date"]:
        return (_EPOCH.date() + timedelta(days=struct.unpack(">i", content)[0])).isoformat()
    if oid == OIDS["timestamp"]:
        return (_EPOCH + timedelta(microseconds=struct.unpack(">q", content)[0])).isoformat(sep=" ")
    raise _bad_parameter()


def _bad_parameter() -> UsageError:
    return UsageError("SF-F132", "A parameter cannot be read.", known="numbers, texts, truths and dates")


def _plain(cell: Any) -> Any:
    if isinstance(cell, bool):
        return int(cell)
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    return cell.isoformat() if isinstance(cell, date) else cell


def _guess_kind(cells: Sequence[Any]) -> str:
    if cells and all(isinstance(cell, int) for cell in cells):
        return "int"
    return "float" if cells and all(isinstance(cell, int | float) for cell in cells) else "text"
