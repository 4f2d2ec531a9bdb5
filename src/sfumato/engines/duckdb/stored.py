"""What is stored of a value: SQL expressions that look at one row and never fail.

How a value is read follows from its column's kind and the declaration, never from other rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.duckdb.connection import quote_text
from sfumato.engines.duckdb.sources import Kind
from sfumato.engines.formats import TextFunctions, write_iso_date, write_plain_number
from sfumato.engines.ingest import (
    ISO,
    LONGEST_TEXT,
    WRITTEN_OUT_BELOW,
    YEAR_1,
    YEAR_10000,
    are_texts,
    not_dates,
    not_numbers,
)
from sfumato.engines.snapshot import StoredCodes, StoredGrid, StoredText, StoredTime, write_steps

if TYPE_CHECKING:
    from sfumato.engines.snapshot import StoredColumn


_FUNCTIONS = TextFunctions(
    quote=quote_text,
    matches=lambda text, pattern: f"regexp_full_match({text}, {quote_text(pattern)})",
    replace=lambda text, pattern, by: f"regexp_replace({text}, {quote_text(pattern)}, {quote_text(by)})",
)


def parse_column(column: StoredColumn, value: str, kind: Kind) -> str:
    """Write the first layer: a text, a double, whole seconds or days, or the parts of a moment's text."""
    match column:
        case StoredGrid():
            if column.format and kind is Kind.TEXT:
                value = write_plain_number(write_as_text(value, kind), column.format, _FUNCTIONS)
            return _as_number(column.name, value, kind)
        case StoredTime():
            if in_days(column, kind):
                return _days(value)
            if kind is not Kind.TEXT:
                return _as_seconds(column.name, value, kind)
            if column.format:
                value = write_iso_date(write_as_text(value, kind), column.format, _FUNCTIONS)
            return _parts(value)
        case StoredCodes():
            return write_as_text(value, kind) if are_texts(column) else _as_number(column.name, value, kind)
        case StoredText():
            return f"left({write_as_text(value, kind)}, {LONGEST_TEXT})"


def interpret_column(column: StoredColumn, value: str, kind: Kind) -> str:
    """Write the second layer, in which parts of a text become seconds."""
    return _seconds_of_parts(value) if isinstance(column, StoredTime) and kind is Kind.TEXT else value


def store_column(column: StoredColumn, value: str, kind: Kind) -> str:
    """Write the third layer: the integer or text that is stored. A listed value comes as its place."""
    match column:
        case StoredGrid():
            return _or_missing(_on_grid(column, value), column)
        case StoredTime():
            place = _known(value, 86_400) if in_days(column, kind) else _of_seconds(column, value)
            return _or_missing(_in_time(column, place), column)
        case StoredCodes():
            return _or_missing(value, column)
        case StoredText():
            return value


def choose_type(column: StoredGrid | StoredTime | StoredCodes) -> str:
    """Return the smallest type that holds what the declaration allows."""
    if isinstance(column, StoredCodes):
        size = len(column.values)
        return "UTINYINT" if size <= 2**8 else "USMALLINT" if size <= 2**16 else "UINTEGER"
    return "INTEGER" if column.low >= -(2**31) and column.high < 2**31 else "BIGINT"


def _or_missing(stored: str, column: StoredGrid | StoredTime | StoredCodes) -> str:
    if column.missing is None:
        return stored
    return f"COALESCE({stored}, CAST({int(column.missing)} AS {choose_type(column)}))"


# ---- texts -------------------------------------------------------------------------------------------------


def write_as_text(value: str, kind: Kind) -> str:
    """Write one text for one value, whatever its column's type: texts.py has the same rule for objects."""
    if kind is Kind.FLOAT:
        return _double_as_text(f"CAST({value} AS DOUBLE)")
    # A decimal's zeros at the end follow from its column's type, not from the value.
    text = f"CAST({value} AS VARCHAR)"
    return f"rtrim(rtrim({text}, '0'), '.')" if kind is Kind.DECIMAL else text


def _double_as_text(double: str) -> str:
    """Write whole numbers as integers, which they were before a NaN beside them made them doubles."""
    whole = f"{double} = trunc({double}) AND abs({double}) < CAST('{WRITTEN_OUT_BELOW}' AS DOUBLE)"
    return (
        f"CASE WHEN isnan({double}) THEN NULL WHEN {whole} "
        f"THEN CAST(TRY_CAST({double} AS HUGEINT) AS VARCHAR) ELSE CAST({double} AS VARCHAR) END"
    )


# ---- numbers -----------------------------------------------------------------------------------------------


def _as_number(name: str, value: str, kind: Kind) -> str:
    """Write a double or NULL; a boolean is 1 or 0 however it was written."""
    if kind in (Kind.DATE, Kind.MOMENT, Kind.OTHER):
        raise not_numbers(name)
    number = f"TRY_CAST({value} AS DOUBLE)"
    if kind is Kind.TEXT:
        text = f"CAST({value} AS VARCHAR)"
        # Booleans come as words from a CSV, and are the numbers that a column of booleans has.
        word = (
            f"CASE lower({text}) WHEN 'true' THEN 1 WHEN 't' THEN 1 WHEN 'false' THEN 0 WHEN 'f' THEN 0 END"
        )
        number = f"COALESCE(TRY_CAST({text} AS DOUBLE), {word})"
    return f"CASE WHEN isnan({number}) THEN NULL ELSE {number} END"


def _on_grid(grid: StoredGrid, number: str) -> str:
    """Write the nearest grid point, halves upwards.

    The part after the point is exact. Adding one half instead could round up to the next whole number.
    """
    steps = write_steps(grid, number, "DOUBLE")
    nearest = f"floor({steps}) + CASE WHEN {steps} - floor({steps}) >= 0.5 THEN 1 ELSE 0 END"
    low, high = f"CAST({grid.low} AS DOUBLE)", f"CAST({grid.high} AS DOUBLE)"
    return f"CAST({_clipped(steps, low, high, nearest)} AS {choose_type(grid)})"


def _clipped(value: str, low: str, high: str, inside: str) -> str:
    """Clip by CASE: least and greatest would pass over a missing value and make it a bound."""
    return f"CASE WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high} ELSE {inside} END"


# ---- dates and moments -------------------------------------------------------------------------------------


def _in_time(moments: StoredTime, place: str) -> str:
    return f"CAST({_clipped(place, str(moments.low), str(moments.high), place)} AS {choose_type(moments)})"


def in_days(moments: StoredTime, kind: Kind) -> bool:
    """Return whether days are wanted and given, so that nothing is divided."""
    return kind is Kind.DATE and not moments.seconds


def _of_seconds(moments: StoredTime, seconds: str) -> str:
    """Write whole days or seconds since 1970, counted from the year 1, so that // rounds down."""
    unit = 1 if moments.seconds else 86_400
    return f"(({_known(seconds, 1)} - ({YEAR_1})) // {unit} + ({YEAR_1 // unit}))"


def _known(count: str, seconds: int) -> str:
    """Keep a moment in a year that has dates, counted in units of so many seconds; others are missing."""
    return f"CASE WHEN {count} >= {YEAR_1 // seconds} AND {count} < {YEAR_10000 // seconds} THEN {count} END"


def _days(value: str) -> str:
    return f"date_diff('day', DATE '1970-01-01', {value})"


def _as_seconds(name: str, value: str, kind: Kind) -> str:
    """Write whole seconds since 1970 in UTC, rounded down; far ones may be missing already."""
    if kind is Kind.DATE:
        return f"{_days(value)} * 86400"
    if kind is Kind.MOMENT:
        return _of_moment(value)
    raise not_dates(name)


def _of_moment(value: str) -> str:
    """Treat nanoseconds apart: cut to microseconds they would be rounded towards 1970.

    Each way is computed only where it is chosen; the other could fail.
    """
    finest = f"typeof({value}) IN ('TIMESTAMP_NS', 'TIMESTAMPTZ_NS')"
    nanoseconds = _whole(f"epoch_ns({value})", 10**9)
    microseconds = _whole(f"epoch_us(TRY_CAST({value} AS TIMESTAMP))", 10**6)
    return f"CASE WHEN {finest} THEN {nanoseconds} ELSE {microseconds} END"


def _whole(ticks: str, each: int) -> str:
    """Divide rounding down; // rounds towards zero."""
    return f"({ticks} // {each} - CASE WHEN {ticks} % {each} < 0 THEN 1 ELSE 0 END)"


def _parts(value: str) -> str:
    """Take apart a date, with or without time of day and offset; all parts are empty for other texts."""
    names = "['day', 'clock', 'second', 'sign', 'hours', 'minutes']"
    return f"regexp_extract(trim(CAST({value} AS VARCHAR)), '^{ISO}$', {names})"


def _seconds_of_parts(parts: str) -> str:
    """Write seconds without their fraction, which rounds down; a day that never was is missing."""
    second = f"COALESCE(NULLIF({parts}.second, ''), '00')"
    clock = f"COALESCE(NULLIF({parts}.clock, ''), '00:00') || ':' || {second}"
    local = f"epoch_us(TRY_CAST({parts}.day || ' ' || {clock} AS TIMESTAMP)) // 1000000"
    ahead = f"{_or_zero(f'{parts}.hours')} * 3600 + {_or_zero(f'{parts}.minutes')} * 60"
    return f"{local} - CASE {parts}.sign WHEN '+' THEN 1 WHEN '-' THEN -1 ELSE 0 END * ({ahead})"


def _or_zero(digits: str) -> str:
    return f"COALESCE(TRY_CAST({digits} AS INTEGER), 0)"
