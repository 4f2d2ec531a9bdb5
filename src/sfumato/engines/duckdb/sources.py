"""What the steward has, as a relation DuckDB can scan: columns s0, s1, … and what kind each is.

A kind comes from the source's own schema, never from its rows: a type guessed from rows would let one
person's value change how everyone's are read.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.engines.duckdb.connection import literal
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duckdb import DuckDBPyConnection

_ACCEPTED = "a .parquet or .csv path, a pyarrow.Table, a pandas.DataFrame or a polars.DataFrame"

# Nothing is left to be detected but the line ending.
_CSV = (
    "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', strict_mode = true, "
    "nullstr = '', allow_quoted_nulls = false, compression = 'none', max_line_size = 16777216"
)


class Kind(Enum):
    """How the values of a column are read."""

    TEXT = "text"
    FLOAT = "floating point"
    EXACT = "integer, decimal or boolean"
    OTHER = "dates, bytes and such: readable as text only"


@dataclass(frozen=True, slots=True)
class Scan:
    """What follows FROM: columns s0, s1, … are those asked for, in that order."""

    relation: str
    kinds: tuple[Kind, ...]


class _Source(Protocol):
    @property
    def names(self) -> Sequence[str]: ...

    def scan(self, connection: DuckDBPyConnection, positions: Sequence[int]) -> Scan: ...


def scan(connection: DuckDBPyConnection, source: Any, wanted: Sequence[str]) -> Scan:
    """The columns of these names, or an error that names the one that cannot be had."""
    found = _recognised(source)
    positions = [_position(found.names, name) for name in wanted]
    return found.scan(connection, positions or [0])  # rows can only be counted by reading some column


def unreadable(reason: str) -> UsageError:
    return UsageError(
        "SF-C204",
        "The source cannot be read.",
        why=reason,
        try_="write it again as UTF-8 CSV with commas, double quotes and a header line, or as Parquet",
    )


# ---- files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Csv:
    path: Path
    names: Sequence[str]

    def scan(self, connection: DuckDBPyConnection, positions: Sequence[int]) -> Scan:
        fields = ", ".join(f"f{i}: 'VARCHAR'" for i in range(len(self.names)))
        table = f"read_csv({literal(str(self.path))}, columns = {{{fields}}}, {_CSV})"
        return Scan(_chosen(table, positions), (Kind.TEXT,) * len(positions))


@dataclass(frozen=True, slots=True)
class _Parquet:
    path: Path
    names: Sequence[str]
    types: Sequence[Any]

    def scan(self, connection: DuckDBPyConnection, positions: Sequence[int]) -> Scan:
        fields = ", ".join(f"f{i}" for i in range(len(self.names)))
        table = f"read_parquet({literal(str(self.path))}, hive_partitioning = false) AS file({fields})"
        return Scan(_chosen(table, positions), tuple(_kind(self.names[i], self.types[i]) for i in positions))


def _chosen(table: str, positions: Sequence[int]) -> str:
    chosen = ", ".join(f"f{position} AS s{i}" for i, position in enumerate(positions))
    return f"(SELECT {chosen} FROM {table})"  # noqa: S608  positions are ours, the path is quoted


def _csv(path: Path) -> _Csv:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            return _Csv(path, next(csv.reader(lines, strict=True)))
    except (StopIteration, UnicodeDecodeError, csv.Error):
        raise unreadable("its first line is not a CSV header") from None


def _parquet(path: Path) -> _Parquet:
    import pyarrow
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.read_schema(path)
    except pyarrow.ArrowInvalid:
        raise unreadable("it is not a Parquet file") from None
    return _Parquet(path, schema.names, schema.types)


# ---- tables in memory --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Columns:
    names: Sequence[str]
    column: Callable[[int], Any]
    """The Arrow array at a position."""

    def scan(self, connection: DuckDBPyConnection, positions: Sequence[int]) -> Scan:
        import pyarrow

        arrays = [self._array(position) for position in positions]
        table = pyarrow.Table.from_arrays(arrays, names=[f"s{i}" for i in range(len(arrays))])
        connection.register("source", table)
        kinds = zip(positions, table.schema.types, strict=True)
        return Scan("source", tuple(_kind(self.names[i], of_type) for i, of_type in kinds))

    def _array(self, position: int) -> Any:
        import pyarrow

        try:
            return self.column(position)
        except (pyarrow.ArrowException, TypeError, ValueError):
            raise _not_a_column_type(self.names[position], "a type Arrow does not have") from None


def _from_pandas(series: Any) -> Any:
    import pyarrow

    if series.dtype == object or series.dtype.name == "category":
        texts = [None if no else _text(value) for value, no in zip(series, series.isna(), strict=True)]
        return pyarrow.array(texts, pyarrow.large_string())
    return pyarrow.Array.from_pandas(series)


def _text(value: object) -> str:
    """By value, so that one odd value in a column of objects does not change the others."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


# ---- telling them apart ------------------------------------------------------------------------------------


def _recognised(source: Any) -> _Source:
    if isinstance(source, str | Path):
        return _file(Path(source))
    if _is(source, "pyarrow", "Table"):
        return _Columns(source.column_names, source.column)
    if _is(source, "pandas", "DataFrame"):
        return _Columns(list(source.columns), lambda i: _from_pandas(source.iloc[:, i]))
    if _is(source, "polars", "DataFrame"):
        return _Columns(source.columns, lambda i: source.to_series(i).to_arrow())
    raise UsageError(
        "SF-C201", "This is not a source of rows.", got=type(source).__name__, accepted=_ACCEPTED
    )


def _is(source: Any, library: str, name: str) -> bool:
    """Without an import: what was never imported has made no object."""
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(source, kind)


def _file(path: Path) -> _Source:
    readers: dict[str, Callable[[Path], _Source]] = {".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UsageError("SF-C201", "This is not a source of rows.", got=str(path), accepted=_ACCEPTED)
    if not path.is_file():
        raise UsageError("SF-C202", "There is no such file.", path=str(path))
    return reader(path.resolve())


def _position(names: Sequence[str], wanted: str) -> int:
    places = [position for position, name in enumerate(names) if name == wanted]
    if len(places) == 1:
        return places[0]
    sentence = f"The source has no column '{wanted}'."
    if places:
        sentence = f"The source has {len(places)} columns called '{wanted}'."
    raise UsageError("SF-C203", sentence, columns=", ".join(map(str, names)))


def _kind(name: str, of_type: Any) -> Kind:
    from pyarrow import types

    of_type = of_type.value_type if types.is_dictionary(of_type) else of_type
    if types.is_nested(of_type):
        raise _not_a_column_type(name, str(of_type))
    tests = {
        Kind.TEXT: (types.is_string, types.is_large_string, types.is_string_view, types.is_null),
        Kind.FLOAT: (types.is_floating,),
        Kind.EXACT: (types.is_integer, types.is_decimal, types.is_boolean),
    }
    return next((kind for kind, of in tests.items() if any(test(of_type) for test in of)), Kind.OTHER)


def _not_a_column_type(name: str, of_type: str) -> UsageError:
    return UsageError(
        "SF-C205",
        f"The values of column '{name}' cannot be used.",
        type=of_type,
        accepted="numbers, texts, dates",
    )
