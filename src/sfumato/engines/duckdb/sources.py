"""What the steward has, as a relation DuckDB can scan: columns s0, s1, … and what kind each is.

A kind comes from the source's own schema, never from its rows: a type guessed from rows would let one
person's value change how everyone's are read.
"""

from __future__ import annotations

import codecs
import csv
import os
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.engines.duckdb.texts import write_object
from sfumato.engines.ingest import DATES, NUMBERS, OTHERS, TEXTS, no_such_column, not_a_column_type
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duckdb import DuckDBPyConnection

_ACCEPTED = "a .parquet or .csv path, a pyarrow.Table, a pandas.DataFrame or a polars.DataFrame"

# DuckDB is left to detect the line ending only. The parallel reader guesses where a row begins in each
# part of a large file, checks that the parts meet, and refuses the file if they do not. The other one drops
# the rest of a file after an open quote, in silence.
_CSV = (
    "auto_detect = false, header = true, quote = '\"', escape = '\"', strict_mode = true, "
    "nullstr = '', allow_quoted_nulls = false, compression = 'none', max_line_size = 16777216, "
    "parallel = true"
)
_PART = 2**20
"""Bytes of a file that are decoded at a time."""
_DIGITS = 38
"""DuckDB reads longer decimals as doubles, which merges identifiers."""


class Kind(Enum):
    """How the values of a column are read."""

    TEXT = "text"
    FLOAT = "floating point"
    EXACT = "integer or boolean"
    DECIMAL = "decimal with digits after the point"
    DATE = "date"
    MOMENT = "date and time of day"
    OTHER = "times of day, bytes and such: readable as text only"


@dataclass(frozen=True, slots=True)
class SourceScan:
    """A relation to select from, whose columns s0, s1, … are those asked for, and their kinds."""

    relation: str
    kinds: tuple[Kind, ...]
    reading: tuple[str, ...] = ()
    """How a file is written that is not UTF-8 with commas, one sentence each."""


class _Source(Protocol):
    @property
    def names(self) -> Sequence[str]: ...

    @property
    def required(self) -> Sequence[str]: ...

    def kind_at(self, position: int) -> Kind: ...

    def scan(
        self, connection: DuckDBPyConnection, positions: Sequence[int]
    ) -> AbstractContextManager[SourceScan]: ...


def scan_source(
    connection: DuckDBPyConnection, source: Any, wanted: Sequence[str]
) -> AbstractContextManager[SourceScan]:
    """Return the columns of these names, or raise an error that names the one that cannot be had.

    The relation can be read until the context is left.
    """
    found = _recognised(source)
    positions = [_position(found.names, name) for name in wanted]
    return found.scan(connection, positions or [0])  # rows can only be counted by reading some column


_WORDS = {
    Kind.TEXT: TEXTS,
    **dict.fromkeys((Kind.FLOAT, Kind.EXACT, Kind.DECIMAL), NUMBERS),
    **dict.fromkeys((Kind.DATE, Kind.MOMENT), DATES),
}


def list_columns(source: Any) -> dict[str, str]:
    """Return what kind of values each column of a source has, by the source's own types and no row."""
    found = _recognised(source)
    kinds: dict[str, str] = {}
    for i, name in enumerate(found.names):
        try:
            kinds[str(name)] = _WORDS.get(found.kind_at(i), OTHERS)
        except UsageError:  # a type that cannot be used
            kinds[str(name)] = OTHERS
    return kinds


def list_required(source: Any) -> frozenset[str]:
    """Return the columns that a Parquet file or an Arrow table declares not to be nullable."""
    return frozenset(_recognised(source).required)


def unreadable_source(reason: str) -> UsageError:
    """Return the refusal of a source that is damaged, without a word of what it holds."""
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
    delimiter: str
    required: Sequence[str] = ()

    def kind_at(self, position: int) -> Kind:
        return Kind.TEXT

    @contextmanager
    def scan(self, connection: DuckDBPyConnection, positions: Sequence[int]) -> Iterator[SourceScan]:
        # All as texts: guessing a type would look at many rows, and one row could change the others.
        fields = ", ".join(f"f{i}: 'VARCHAR'" for i in range(len(self.names)))
        encoding = _find_encoding(self.path)
        written = f"delim = '{self.delimiter}', encoding = '{encoding}'"
        with _opened(self.path) as file:
            table = f"read_csv({file}, columns = {{{fields}}}, {written}, {_CSV})"
            yield SourceScan(
                _chosen(table, positions), (Kind.TEXT,) * len(positions), self._describe(encoding)
            )

    def _describe(self, encoding: str) -> tuple[str, ...]:
        other = _DELIMITERS[self.delimiter]
        fields = (f"The fields of the file are separated by {other}.",) if other else ()
        return fields + (("The file is read as Latin-1, as it is not UTF-8.",) if encoding != "utf-8" else ())


@dataclass(frozen=True, slots=True)
class _Parquet:
    path: Path
    names: Sequence[str]
    types: Sequence[Any]
    required: Sequence[str]

    def kind_at(self, position: int) -> Kind:
        return _kind(self.names[position], self.types[position])

    @contextmanager
    def scan(self, connection: DuckDBPyConnection, positions: Sequence[int]) -> Iterator[SourceScan]:
        kinds = tuple(_kind(self.names[i], self.types[i]) for i in positions)
        fields = ", ".join(f"f{i}" for i in range(len(self.names)))
        with _opened(self.path) as file:
            table = f"read_parquet({file}, hive_partitioning = false) AS file({fields})"
            yield SourceScan(_chosen(table, positions), kinds)


@contextmanager
def _opened(path: Path) -> Iterator[str]:
    """Name the file by its number: as a pattern, `visits[1].csv` would make DuckDB read `visits1.csv`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        yield f"'/dev/fd/{handle}'"
    finally:
        os.close(handle)


def _chosen(table: str, positions: Sequence[int]) -> str:
    chosen = ", ".join(f"f{position} AS s{i}" for i, position in enumerate(positions))
    return f"(SELECT {chosen} FROM {table})"  # noqa: S608  positions and file numbers are ours


_DELIMITERS = {",": "", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""What separates the fields of a CSV file. The header decides, and no row."""


def _csv(path: Path) -> _Csv:
    with path.open("rb") as file:
        first = file.read(2)
    if not first:
        raise unreadable_source("it is empty, and has no header line")
    if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise unreadable_source("it is UTF-16")
    found = {each: _read_header(path, each) for each in _DELIMITERS}
    delimiter = max(found, key=lambda each: len(found[each]))  # commas, if nothing separates more
    if not found[delimiter]:
        raise unreadable_source("its first line is not a CSV header")
    return _Csv(path, found[delimiter], delimiter)


def _read_header(path: Path, delimiter: str) -> list[str]:
    """Return the names in the first line of a file; none if it is no header with this delimiter."""
    for encoding in ("utf-8-sig", "latin-1"):
        try:
            with path.open(encoding=encoding, newline="") as lines:
                return next(csv.reader(lines, strict=True, delimiter=delimiter))
        except UnicodeDecodeError:
            continue
        except (StopIteration, csv.Error):
            break
    return []


def _find_encoding(path: Path) -> str:
    """Return utf-8, or latin-1 for a file in which most lines with other than ASCII characters are not UTF-8.

    A file of both is refused, so that one row does not change how the others are read.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while part := file.read(_PART):
                decoder.decode(part)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            file.seek(0)
            special = [line for line in file if not line.isascii()]
        else:
            return "utf-8"
    if 2 * sum(map(_is_utf8, special)) >= len(special):
        raise unreadable_source("some of its lines are not UTF-8, although most are")
    return "latin-1"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parquet(path: Path) -> _Parquet:
    import pyarrow
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.read_schema(path)
    except pyarrow.ArrowInvalid:
        raise unreadable_source("it is not a Parquet file") from None
    return _Parquet(path, schema.names, schema.types, _list_required(schema))


def _list_required(schema: Any) -> list[str]:
    return [field.name for field in schema if not field.nullable]


# ---- tables in memory --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Columns:
    names: Sequence[str]
    column: Callable[[int], Any]
    """The Arrow array at a position."""
    required: Sequence[str] = ()

    def kind_at(self, position: int) -> Kind:
        return _kind(self.names[position], self._array(position).type)

    def scan(
        self, connection: DuckDBPyConnection, positions: Sequence[int]
    ) -> AbstractContextManager[SourceScan]:
        import pyarrow

        arrays = [self._array(position) for position in positions]
        kinds = tuple(_kind(self.names[i], array.type) for i, array in zip(positions, arrays, strict=True))
        names = [f"s{i}" for i in range(len(arrays))]
        connection.register("source", pyarrow.Table.from_arrays([_known(array) for array in arrays], names))
        return nullcontext(SourceScan("source", kinds))

    def _array(self, position: int) -> Any:
        import pyarrow

        try:
            return self.column(position)
        except (pyarrow.ArrowException, ArithmeticError, TypeError, ValueError):
            raise not_a_column_type(self.names[position], "a type Arrow does not have") from None


def _known(array: Any) -> Any:
    """Widen half floats and shorten 256-bit decimals: DuckDB knows neither, even where values are short."""
    import pyarrow
    from pyarrow import types

    of_type = _of_values(array.type)
    if types.is_float16(of_type):
        return array.cast(pyarrow.float32())
    if types.is_decimal256(of_type):
        return array.cast(pyarrow.decimal128(of_type.precision, of_type.scale))
    return array


def _from_pandas(series: Any) -> Any:
    """Objects become texts one by one, so that one odd value does not change the others."""
    import pyarrow

    if series.dtype == object:
        texts = [None if no else write_object(value) for value, no in zip(series, series.isna(), strict=True)]
        return pyarrow.array(texts, pyarrow.large_string())
    if series.dtype.name == "category":
        # A missing category has the code −1.
        codes = series.cat.codes.to_numpy()
        return _from_pandas(series.cat.categories.to_series()).take(pyarrow.array(codes, mask=codes < 0))
    return pyarrow.Array.from_pandas(series)


# ---- telling them apart ------------------------------------------------------------------------------------


def _recognised(source: Any) -> _Source:
    if isinstance(source, str | Path):
        return _file(Path(source))
    if _is(source, "pyarrow", "Table"):
        return _Columns(source.column_names, source.column, _list_required(source.schema))
    if _is(source, "pandas", "DataFrame"):
        return _Columns(list(source.columns), lambda i: _from_pandas(source.iloc[:, i]))
    if _is(source, "polars", "DataFrame"):
        return _Columns(source.columns, lambda i: source.to_series(i).to_arrow())
    raise UsageError(
        "SF-C201",
        "This is not a source of rows.",
        got=type(source).__name__,
        accepted=_ACCEPTED,
        try_="pyarrow.table(…) of a mapping from names to lists, or a path",
    )


def _is(source: Any, library: str, name: str) -> bool:
    """Test without an import: a library that was never imported has made no object."""
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(source, kind)


def _file(path: Path) -> _Source:
    readers: dict[str, Callable[[Path], _Source]] = {".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UsageError(
            "SF-C201",
            "This is not a source of rows.",
            got=f"the folder {path}" if path.is_dir() else str(path),
            accepted=_ACCEPTED,
            try_="a file in it" if path.is_dir() else "read it with pandas or polars, and register the frame",
        )
    if not path.is_file():
        hint = "check the path: a relative one begins in the folder that the program was started in"
        raise UsageError("SF-C202", "There is no such file.", path=str(path), try_=hint)
    return reader(path.resolve())


def _position(names: Sequence[str], wanted: str) -> int:
    places = [position for position, name in enumerate(names) if name == wanted]
    if len(places) == 1:
        return places[0]
    raise no_such_column(wanted, names)


def _kind(name: str, of_type: Any) -> Kind:
    """Choose a kind from an allowlist: a type whose values DuckDB could merge or rename is refused."""
    from pyarrow import types

    of_type = _of_values(of_type)
    if types.is_decimal(of_type) and of_type.precision <= _DIGITS and of_type.scale >= 0:
        return Kind.DECIMAL if of_type.scale else Kind.EXACT
    tests = {
        Kind.TEXT: (types.is_string, types.is_large_string, types.is_string_view, types.is_null),
        Kind.FLOAT: (types.is_floating,),
        Kind.EXACT: (types.is_integer, types.is_boolean),
        Kind.DATE: (types.is_date,),
        Kind.MOMENT: (types.is_timestamp,),
        Kind.OTHER: (types.is_time, _is_bytes, _is_uuid),
    }
    kind = next((kind for kind, of in tests.items() if any(test(of_type) for test in of)), None)
    if kind is None:
        raise not_a_column_type(name, str(of_type))
    return kind


def _of_values(of_type: Any) -> Any:
    from pyarrow import types

    return of_type.value_type if types.is_dictionary(of_type) else of_type


def _is_bytes(of_type: Any) -> bool:
    from pyarrow import types

    tests = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(of_type) for test in tests)


def _is_uuid(of_type: Any) -> bool:
    return getattr(of_type, "extension_name", "") == "arrow.uuid"
