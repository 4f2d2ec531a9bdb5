"""What the steward has in Spark, as columns s0, s1, … and what kind each is.

A kind comes from the schema of the source, never from its rows. Dates and moments become integers at once,
by functions that no setting of the steward's session changes.
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, Any

from sfumato.engines.ingest import DATES, NUMBERS, OTHERS, TEXTS, no_such_column, not_a_column_type
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

SCHEME = "spark:"


class Kind(Enum):
    """How the values of a column are read."""

    TEXT = "text"
    FLOAT = "floating point"
    INTEGER = "integer"
    DECIMAL = "decimal with digits after the point"
    BOOLEAN = "boolean"
    DATE = "days since 1970"
    MOMENT = "microseconds since 1970"
    LOCAL = "microseconds since 1970, in no zone"
    BYTES = "bytes"
    OTHER = "times of day: readable as text only"


_KINDS = {
    **dict.fromkeys(("string", "char", "varchar", "void"), Kind.TEXT),
    **dict.fromkeys(("float", "double"), Kind.FLOAT),
    **dict.fromkeys(("byte", "short", "integer", "long"), Kind.INTEGER),
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    "timestamp": Kind.MOMENT,
    "timestamp_ntz": Kind.LOCAL,
    "binary": Kind.BYTES,
    "time": Kind.OTHER,
}
_READ = {
    Kind.TEXT: "make_valid_utf8(CAST({} AS STRING))",
    Kind.DATE: "unix_date({})",
    Kind.MOMENT: "unix_micros({})",
    Kind.LOCAL: "timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {})",
    Kind.OTHER: "CAST({} AS STRING)",
}


def is_frame(source: object) -> bool:
    """Test without an import: a library that was never imported has made no object."""
    library = sys.modules.get("pyspark.sql")
    kind = getattr(library, "DataFrame", None)
    return kind is not None and isinstance(source, kind)


def is_address(source: object) -> bool:
    """Return whether this is the address of a table or schema in Spark's catalogs."""
    return isinstance(source, str) and source.startswith(SCHEME)


def open_source(source: Any, session: SparkSession) -> DataFrame:
    """Return the frame itself, or the table or view that is named behind `spark:`."""
    if is_frame(source):
        frame: DataFrame = source
        return frame
    name = source.removeprefix(SCHEME)
    if not name or not session.catalog.tableExists(name):
        raise UsageError("SF-C202", "There is no such table.", table=name)
    return session.table(name)


def scan_source(frame: DataFrame, wanted: Sequence[str]) -> tuple[DataFrame, tuple[Kind, ...]]:
    """Return the columns of these names as s0, s1, …, or raise an error that names the missing one."""
    places = [_position(frame.columns, name) for name in wanted]
    kinds = tuple(_kind(frame.schema.fields[place]) for place in places)
    plain = frame.toDF(*(f"f{i}" for i in range(len(frame.columns))))  # names may be anything at all
    chosen = [
        f"{_READ.get(kind, '{}').format(f'f{place}')} AS s{i}"
        for i, (place, kind) in enumerate(zip(places, kinds, strict=True))
    ]
    return plain.selectExpr(*(chosen or ["1 AS s0"])), kinds


_WORDS = {
    **dict.fromkeys((Kind.FLOAT, Kind.INTEGER, Kind.DECIMAL, Kind.BOOLEAN), NUMBERS),
    **dict.fromkeys((Kind.DATE, Kind.MOMENT, Kind.LOCAL), DATES),
    Kind.TEXT: TEXTS,
}


def list_columns(frame: DataFrame) -> dict[str, str]:
    """Return what kind of values each column of a frame has, by its own types and no row."""
    kinds: dict[str, str] = {}
    for field in frame.schema.fields:
        try:
            kinds[field.name] = _WORDS.get(_kind(field), OTHERS)
        except UsageError:  # a type that cannot be used
            kinds[field.name] = OTHERS
    return kinds


def list_tables_of(session: SparkSession, schema: str) -> list[str]:
    """Return the tables and views of a schema that can be named without quotes."""
    if not session.catalog.databaseExists(schema):
        raise UsageError("SF-C202", "There is no such schema.", schema=schema)
    found = [each.name for each in session.catalog.listTables(schema) if not each.isTemporary]
    return sorted(name for name in found if name.isidentifier() and name.isascii())


def _position(names: Sequence[str], wanted: str) -> int:
    places = [place for place, name in enumerate(names) if name == wanted]
    if len(places) == 1:
        return places[0]
    raise no_such_column(wanted, names)


def _kind(field: Any) -> Kind:
    """Choose a kind from an allowlist."""
    of_type = field.dataType
    if of_type.typeName() == "decimal":
        return Kind.DECIMAL if of_type.scale else Kind.INTEGER
    kind = _KINDS.get(of_type.typeName())
    if kind is None:
        raise not_a_column_type(field.name, of_type.simpleString())
    return kind
