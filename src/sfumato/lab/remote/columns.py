"""Columns of answers as JSON: values and the names of their Arrow types, by a closed list."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

_NAMES = ("bool", "date32", "double", "int64", "null", "string", "timestamp")


def write_types(table: pa.Table) -> dict[str, str]:
    """Return the name of the type of each column."""
    return {each.name: name_type(each.type) for each in table.schema}


def name_type(kind: Any) -> str:
    """Return the name that a type of an answer has in JSON."""
    name = str(kind).partition("[")[0]
    name = {"large_string": "string", "date64": "date32"}.get(name, name)
    if name not in _NAMES:
        raise AssertionError(kind)
    return f"timestamp[{kind.unit}]" if name == "timestamp" else name


def read_table(columns: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> pa.Table:
    """Return columns that were sent as an Arrow table, with the types that were sent with them."""
    import pyarrow as pa

    return pa.table(
        {
            name: pa.array([read_cell(each, types[name]) for each in cells], _find_type(types[name]))
            for name, cells in columns.items()
        }
    )


def name_value(value: Any) -> str:
    """Return the name of the type of one value that is sent."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float() | Fraction():
            return "double"
        case datetime():
            return "timestamp[us]"
        case date():
            return "date32"
    return "null" if value is None else "string"


def read_cell(value: Any, kind: str) -> Any:
    """Return one value that was sent as what it was."""
    if value is None:
        return None
    if kind == "date32":
        return date.fromisoformat(value)
    if kind.startswith("timestamp"):
        return datetime.fromisoformat(value)
    return float(value) if kind == "double" else value


def _find_type(name: str) -> pa.DataType:
    import pyarrow as pa

    kinds: dict[str, pa.DataType] = {
        "bool": pa.bool_(),
        "date32": pa.date32(),
        "double": pa.float64(),
        "int64": pa.int64(),
        "null": pa.null(),
        "string": pa.string(),
        **{f"timestamp[{unit}]": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")},
    }
    if name not in kinds:
        raise UsageError(
            "SF-W157", "The server gives answers of a newer kind.", got=name[:40], try_="a newer sfumato"
        )
    return kinds[name]
