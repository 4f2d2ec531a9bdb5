"""What is stored of a value: SQL expressions that look at one row and never fail.

They give what engines/duckdb/stored.py gives for the same value. Texts that only Spark would need to escape
are written as hexadecimal digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.formats import TextFunctions
from sfumato.engines.ingest import (
    AROUND,
    INFINITE,
    ISO,
    LONGEST_NUMBER,
    NUMBER,
    SPACES,
    WRITTEN_OUT_BELOW,
    ReadingLayers,
    not_dates,
    not_numbers,
    write_time_on_grid,
)
from sfumato.engines.snapshot import StoredCodes, write_steps
from sfumato.engines.spark.sources import Kind

if TYPE_CHECKING:
    from sfumato.engines.snapshot import StoredGrid, StoredTime

_NOT_READ = rf"^{AROUND}[+]|[_ \t-\r]"
_INFINITY = "CAST('Infinity' AS DOUBLE)"
_LEAST_NORMAL = "CAST('2.2250738585072014e-308' AS DOUBLE)"


def _whole(stored: str, column: StoredGrid | StoredTime | StoredCodes) -> str:
    text = stored if column.missing is None else f"COALESCE({stored}, {int(column.missing):d})"
    return f"CAST({text} AS {_sql_type(column)})"


def _sql_type(column: StoredGrid | StoredTime | StoredCodes) -> str:
    """Return the smallest type that holds what the declaration allows."""
    if isinstance(column, StoredCodes):
        return "SMALLINT" if len(column.values) < 2**15 else "INT"
    return "INT" if column.low >= -(2**31) and column.high < 2**31 else "BIGINT"


def quote_text(text: str) -> str:
    """Return a text as hexadecimal digits, which no setting of Spark's unescapes."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


_ESCAPED = quote_text("\\x")

# ---- texts -------------------------------------------------------------------------------------------------


def write_as_text(value: str, kind: Kind) -> str:
    """Write the text that DuckDB gives the same value: engines/duckdb/texts.py has the rule."""
    match kind:
        case Kind.FLOAT:
            return _double_as_text(f"CAST({value} AS DOUBLE)")
        case Kind.DECIMAL:
            return f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM CAST({value} AS STRING)))"
        case Kind.DATE:
            return _date_as_text(value)
        case Kind.MOMENT:
            return f"{_moment_as_text(value)} || '+00'"
        case Kind.LOCAL:
            return _moment_as_text(value)
        case Kind.BYTES:
            return _bytes_as_text(value)
        case _:
            return f"CAST({value} AS STRING)"


def _double_as_text(double: str) -> str:
    """Write whole numbers as integers, infinite ones by name, others by their shortest digits."""
    bound = f"CAST('{WRITTEN_OUT_BELOW}' AS DOUBLE)"
    return (
        f"CASE WHEN {double} IS NULL OR isnan({double}) THEN NULL "
        f"WHEN {double} = {_INFINITY} THEN 'inf' WHEN {double} = -{_INFINITY} THEN '-inf' "
        f"WHEN abs({double}) < {bound} AND {_is_whole(double)} THEN {_whole_as_text(double)} "
        f"ELSE {_written(double)} END"
    )


def _is_whole(double: str) -> str:
    return f"(abs({double}) >= {2**52}D OR {double} = CAST(CAST({double} AS BIGINT) AS DOUBLE))"


def _whole_as_text(double: str) -> str:
    """Write digits exactly, in two halves of 60 bits; a cast to a decimal would keep 17 digits."""
    half = f"{2**60}D"
    high = f"CAST({double} / {half} AS BIGINT)"
    low = f"CAST({double} - CAST({high} AS DOUBLE) * {half} AS BIGINT)"
    large = f"CAST(CAST({high} AS DECIMAL(38, 0)) * {2**60} + {low} AS STRING)"
    return f"CASE WHEN abs({double}) < {half} THEN CAST(CAST({double} AS BIGINT) AS STRING) ELSE {large} END"


def _written(double: str) -> str:
    """Write digits and exponent the way DuckDB does: no exponent from 0.0001 up to 10^16."""
    digits = "replace(regexp_extract(text, '^([0-9.]+)e', 1), '.', '')"
    power = "CAST(regexp_extract(text, 'e(.+)$', 1) AS INT)"
    parts = (
        f"text -> struct(trim(TRAILING '0' FROM {digits}) AS digits, {power} AS power, "
        f"CASE WHEN {double} < 0 THEN '-' ELSE '' END AS sign)"
    )
    small = "repeat('0', -n.power - 1) || n.digits"
    middle = "left(n.digits, n.power + 1) || '.' || substr(n.digits, n.power + 2)"
    point = "CASE WHEN length(n.digits) > 1 THEN '.' ELSE '' END"
    exponent = f"CASE WHEN n.power < 0 THEN '-' ELSE '+' END || {_padded('abs(n.power)', 2)}"
    far = f"left(n.digits, 1) || {point} || substr(n.digits, 2) || 'e' || {exponent}"
    shown = (
        f"n -> n.sign || CASE WHEN n.power BETWEEN -4 AND -1 THEN '0.' || {small} "
        f"WHEN n.power BETWEEN 0 AND 15 THEN {middle} ELSE {far} END"
    )
    return f"get(transform(transform(array({_shortest(f'abs({double})')}), {parts}), {shown}), 0)"


def _shortest(double: str) -> str:
    """Write the fewest digits that are read as this double again.

    Java's own are these, or one or two more where 15 would do, before version 19; below the least normal
    double it may have any number more.
    """
    usual = [f"format_string('%.{places}e', {double})" for places in (14, 15)]
    tries = " ".join(f"WHEN CAST({text} AS DOUBLE) = {double} THEN {text}" for text in usual)
    every = f"transform(sequence(0, 16), p -> format_string('%.' || p || 'e', {double}))"
    least = f"get(filter({every}, t -> CAST(t AS DOUBLE) = {double}), 0)"
    return (
        f"CASE WHEN {double} < {_LEAST_NORMAL} THEN {least} {tries} ELSE format_string('%.16e', {double}) END"
    )


def _date_as_text(days: str) -> str:
    """Write a date, with years before the first as others write them."""
    date = f"date_from_unix_date({days})"
    year = f"CASE WHEN year({date}) < 1 THEN 1 - year({date}) ELSE year({date}) END"
    digits = " || '-' || ".join([_padded(year, 4), _padded(f"month({date})", 2), _padded(f"day({date})", 2)])
    return f"({digits} || CASE WHEN year({date}) < 1 THEN ' (BC)' ELSE '' END)"


def _padded(number: str, length: int) -> str:
    """Pad with zeros in front; lpad alone would cut what is longer."""
    digits = f"CAST({number} AS STRING)"
    return f"lpad({digits}, greatest({length}, length({digits})), '0')"


def _moment_as_text(micros: str) -> str:
    seconds = f"({_floored(micros, 10**6)})"
    days = f"CAST({_floored(seconds, 86_400)} AS INT)"
    second = f"CAST(pmod({seconds}, 86400) AS INT)"
    clock = " || ':' || ".join(
        _padded(part, 2) for part in (f"{second} div 3600", f"({second} div 60) % 60", f"{second} % 60")
    )
    fraction = f"pmod({micros}, 1000000)"
    after = f"'.' || trim(TRAILING '0' FROM lpad(CAST({fraction} AS STRING), 6, '0'))"
    return f"({_date_as_text(days)} || ' ' || {clock} || CASE WHEN {fraction} = 0 THEN '' ELSE {after} END)"


def _floored(ticks: str, each: int) -> str:
    """Divide rounding down; div rounds towards zero."""
    return f"({ticks} - pmod({ticks}, {each})) div {each}"


def _bytes_as_text(value: str) -> str:
    byte = f"CAST(conv(substr(hex({value}), 2 * i + 1, 2), 16, 10) AS INT)"
    plain = f"{byte} BETWEEN 32 AND 126 AND {byte} NOT IN (34, 39, 92)"
    other = f"{_ESCAPED} || substr(hex({value}), 2 * i + 1, 2)"
    each = f"CASE WHEN {plain} THEN char({byte}) ELSE {other} END"
    text = f"array_join(transform(sequence(0, octet_length({value}) - 1), i -> {each}), '')"
    return f"CASE WHEN octet_length({value}) = 0 THEN '' WHEN {value} IS NOT NULL THEN {text} END"


# ---- numbers -----------------------------------------------------------------------------------------------


def _as_number(name: str, value: str, kind: Kind) -> str:
    """Write a double or NULL; a boolean is 1 or 0 however it was written."""
    match kind:
        case Kind.TEXT:
            return _number_of_text(value)
        case Kind.FLOAT:
            return f"CASE WHEN NOT isnan({value}) THEN CAST({value} AS DOUBLE) END"
        case Kind.INTEGER | Kind.DECIMAL | Kind.BOOLEAN:
            return f"CAST({value} AS DOUBLE)"
    raise not_numbers(name)


def _number_of_text(text: str) -> str:
    """Read digits with an exponent, infinities, and words for true and false."""
    clean = f"regexp_replace({text}, {quote_text(_NOT_READ)}, '')"
    infinite = f"CASE WHEN contains({text}, '-') THEN -{_INFINITY} ELSE {_INFINITY} END"
    return (
        f"CASE WHEN length({text}) > {LONGEST_NUMBER} THEN NULL "
        f"WHEN {_matches(text, NUMBER)} THEN try_cast({clean} AS DOUBLE) "
        f"WHEN {_matches(text, f'(?i){INFINITE}')} THEN {infinite} "
        f"WHEN lower({text}) IN ('true', 't') THEN 1D WHEN lower({text}) IN ('false', 'f') THEN 0D END"
    )


def _matches(text: str, pattern: str) -> str:
    return f"{text} RLIKE {_whole_text(pattern)}"


def _replaced(text: str, pattern: str, by: str) -> str:
    groups = by.replace("\\", "$")  # as Java names them
    return f"regexp_replace({text}, {quote_text(pattern)}, {quote_text(groups)})"


def _whole_text(pattern: str) -> str:
    """Match a text from end to end: to Java $ is also before the last line break."""
    return quote_text(rf"\A{pattern}\z")


def _on_grid(grid: StoredGrid, number: str) -> str:
    """Write the nearest grid point, halves upwards; clipped before floor, which gives 64 bits."""
    steps = write_steps(grid, number, "DOUBLE")
    nearest = f"floor({steps}) + CASE WHEN {steps} - floor({steps}) >= 0.5D THEN 1 ELSE 0 END"
    low, high = f"CAST({grid.low} AS DOUBLE)", f"CAST({grid.high} AS DOUBLE)"
    return (
        f"CASE WHEN {steps} < {low} THEN {grid.low:d} WHEN {steps} > {high} THEN {grid.high:d} "
        f"WHEN {steps} IS NOT NULL THEN {nearest} END"
    )


# ---- dates and moments -------------------------------------------------------------------------------------


def _in_time(moments: StoredTime, seconds: str) -> str:
    return write_time_on_grid(moments, seconds, "div")


def _as_seconds(name: str, value: str, kind: Kind) -> str:
    """Write whole seconds since 1970 in UTC, rounded down."""
    if kind is Kind.DATE:
        return f"CAST({value} AS BIGINT) * 86400"
    if kind in (Kind.MOMENT, Kind.LOCAL):
        return f"{_floored(value, 10**6)}"
    raise not_dates(name)


def _parts(value: str) -> str:
    """Take apart a date, with or without time of day and offset; other texts become missing."""
    text = f"trim(BOTH {quote_text(SPACES)} FROM {value})"
    names = ("day", "clock", "second", "sign", "hours", "minutes")
    pattern = _whole_text(ISO)
    parts = ", ".join(f"regexp_extract({text}, {pattern}, {i + 1}) AS {name}" for i, name in enumerate(names))
    return f"CASE WHEN {_matches(text, ISO)} THEN struct({parts}) END"


def _seconds_of_parts(parts: str) -> str:
    """Write seconds without their fraction, which rounds down; a day that never was is missing."""
    days = f"CAST(unix_date(try_cast({parts}.day AS DATE)) AS BIGINT)"
    clock = (
        f"{_or_zero(f'left({parts}.clock, 2)')} * 3600 + {_or_zero(f'right({parts}.clock, 2)')} * 60 "
        f"+ {_or_zero(f'{parts}.second')}"
    )
    ahead = f"({_or_zero(f'{parts}.hours')} * 3600 + {_or_zero(f'{parts}.minutes')} * 60)"
    sign = f"CASE WHEN {parts}.sign = '+' THEN 1 WHEN {parts}.sign = '-' THEN -1 ELSE 0 END"
    return f"({days} * 86400 + {clock} - {sign} * {ahead})"


def _or_zero(digits: str) -> str:
    return f"COALESCE(try_cast({digits} AS INT), 0)"


LAYERS = ReadingLayers(
    text=Kind.TEXT,
    functions=TextFunctions(quote=quote_text, matches=_matches, replace=_replaced),
    as_text=write_as_text,
    as_number=_as_number,
    as_seconds=_as_seconds,
    parts=_parts,
    seconds_of_parts=_seconds_of_parts,
    double=lambda number, _: number,
    on_grid=_on_grid,
    in_time=_in_time,
    whole=_whole,
    kept=lambda text: text,
)
