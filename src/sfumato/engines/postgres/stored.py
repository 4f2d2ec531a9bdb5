"""What is stored of a value: SQL expressions that look at one row and never fail.

They give what engines/duckdb/stored.py gives for the same value. PostgreSQL raises errors where other engines
answer with missing, infinite or zero, so every cast and product stands behind a test that it can be had.
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
from sfumato.engines.postgres.sources import Kind
from sfumato.engines.snapshot import write_steps

if TYPE_CHECKING:
    from sfumato.engines.snapshot import StoredCodes, StoredGrid, StoredTime

_OVERFLOW = str(2**1024 - 2**970)
_UNDERFLOW = f"{5**1075}e-1075"
"""From the first on a decimal rounds to an infinite double, and up to the second, 2^-1075, to 0."""
_CYCLE = 146_097
"""Days in 400 years, after which the calendar repeats."""


def _quote_text(text: str) -> str:
    """Return a literal that no setting of the server reads in another way."""
    return f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')"


_FUNCTIONS = TextFunctions(
    quote=_quote_text,
    matches=lambda text, pattern: f"{text} ~ {_quote_text(f'^(?:{pattern})$')}",
    replace=lambda text, pattern, by: f"regexp_replace({text}, {_quote_text(pattern)}, {_quote_text(by)})",
)


def _whole(stored: str, column: StoredGrid | StoredTime | StoredCodes) -> str:
    return stored if column.missing is None else f"COALESCE({stored}, {column.missing:d})"


# ---- texts -------------------------------------------------------------------------------------------------


def write_as_text(value: str, kind: Kind) -> str:
    """Write the text that DuckDB gives the same value: engines/duckdb/texts.py has the rule."""
    match kind:
        case Kind.FLOAT:
            text = _double_as_text(f"CAST({value} AS DOUBLE PRECISION)")
        case Kind.DECIMAL:
            text = _decimal_as_text(value)
        case Kind.DATE | Kind.MOMENT:
            text = rf"regexp_replace(CAST({value} AS TEXT), '^(\S+)(.*) BC$', '\1 (BC)\2')"
        case Kind.BYTES:
            text = _bytes_as_text(value)
        case _:
            text = f"CAST({value} AS TEXT)"
    # By bytes: a locale could hold two different texts to be equal, or change with an update.
    return f'({text}) COLLATE "C"'


def _double_as_text(double: str) -> str:
    """Write whole numbers as integers. PostgreSQL uses exponents from 10^15 on, others from 10^16 on."""
    whole = f"{double} = trunc({double}) AND abs({double}) < CAST('{WRITTEN_OUT_BELOW}' AS DOUBLE PRECISION)"
    written_out = f"CAST(CAST(CAST({double} AS TEXT) AS NUMERIC) AS TEXT)"
    return (
        f"CASE WHEN {double} = 'NaN' THEN NULL WHEN {double} = 'Infinity' THEN 'inf' "
        f"WHEN {double} = '-Infinity' THEN '-inf' WHEN {whole} THEN {_whole_as_text(double)} "
        f"WHEN abs({double}) >= 1e15 AND abs({double}) < 1e16 THEN {written_out} "
        f"ELSE CAST({double} AS TEXT) END"
    )


def _whole_as_text(double: str) -> str:
    """Write digits exactly, in two halves of 60 bits; a cast to a decimal would keep 15 digits."""
    half = f"CAST('{2**60}' AS DOUBLE PRECISION)"
    high = f"trunc({double} / {half})"
    low = f"({double} - {high} * {half})"
    exact = [f"CAST(CAST({part} AS BIGINT) AS NUMERIC)" for part in (high, low)]
    small = f"CAST(CAST({double} AS BIGINT) AS TEXT)"
    large = f"CAST({exact[0]} * {2**60} + {exact[1]} AS TEXT)"
    return f"CASE WHEN abs({double}) < {half} THEN {small} ELSE {large} END"


def _decimal_as_text(decimal: str) -> str:
    return (
        f"CASE WHEN {decimal} = 'NaN' THEN NULL WHEN {decimal} = 'Infinity' THEN 'inf' "
        f"WHEN {decimal} = '-Infinity' THEN '-inf' ELSE CAST(trim_scale({decimal}) AS TEXT) END"
    )


def _bytes_as_text(value: str) -> str:
    byte = f"get_byte({value}, i)"
    plain = f"{byte} BETWEEN 32 AND 126 AND {byte} NOT IN (34, 39, 92)"
    each = f"CASE WHEN {plain} THEN chr({byte}) ELSE '\\x' || upper(lpad(to_hex({byte}), 2, '0')) END"
    series = f"generate_series(0, length({value}) - 1) AS i"
    text = f"(SELECT COALESCE(string_agg({each}, '' ORDER BY i), '') FROM {series})"  # noqa: S608
    return f"CASE WHEN {value} IS NOT NULL THEN {text} END"


# ---- numbers -----------------------------------------------------------------------------------------------


def _as_number(name: str, value: str, kind: Kind) -> str:
    """Write a double that is no NaN; texts and decimals become decimals."""
    double = f"CAST({value} AS DOUBLE PRECISION)"
    match kind:
        case Kind.TEXT:
            return _decimal_of_text(f'(CAST({value} AS TEXT) COLLATE "C")')
        case Kind.DECIMAL:
            return f"nullif(CAST({value} AS NUMERIC), 'NaN')"
        case Kind.FLOAT:
            return f"nullif({double}, 'NaN')"
        case Kind.INTEGER:
            return double
        case Kind.BOOLEAN:
            return f"CAST(CAST({value} AS INTEGER) AS DOUBLE PRECISION)"
    raise not_numbers(name)


def _decimal_of_text(text: str) -> str:
    """Read what others read as a double: digits with an exponent, infinities, words for true and false.

    Decimals have thousands of digits and no more, so that a very long exponent is read by its sign.
    """
    clean = f"replace(regexp_replace({text}, '^{AROUND}[+]', ''), '_', '')"
    infinite = f"CAST(CASE WHEN {text} LIKE '%-%' THEN '-Infinity' ELSE 'Infinity' END AS NUMERIC)"
    negative = f"{clean} ~ '^{AROUND}-'"
    far = (
        f"CASE WHEN {clean} ~ '^[^eE1-9]*[eE]' OR {clean} ~ '[eE]-' THEN 0 "
        f"ELSE CAST(CASE WHEN {negative} THEN '-Infinity' ELSE 'Infinity' END AS NUMERIC) END"
    )
    digits = f"CASE WHEN {clean} ~ '[eE][+-]?0*[1-9][0-9]{{4}}' THEN {far} ELSE CAST({clean} AS NUMERIC) END"
    return (
        f"CASE WHEN length({text}) > {LONGEST_NUMBER} THEN NULL WHEN {text} ~ '^{NUMBER}$' THEN {digits} "
        f"WHEN {text} ~* '^{INFINITE}$' THEN {infinite} "
        f"WHEN lower({text}) IN ('true', 't') THEN 1 WHEN lower({text}) IN ('false', 'f') THEN 0 END"
    )


def _as_double(number: str, kind: Kind) -> str:
    return _double_of_decimal(number) if kind in (Kind.TEXT, Kind.DECIMAL) else number


def _double_of_decimal(decimal: str) -> str:
    """Round to the nearest double. The cast alone fails beyond the largest and below the least."""
    return (
        f"CASE WHEN {decimal} >= {_OVERFLOW} THEN CAST('Infinity' AS DOUBLE PRECISION) "
        f"WHEN {decimal} <= -{_OVERFLOW} THEN CAST('-Infinity' AS DOUBLE PRECISION) "
        f"WHEN abs({decimal}) <= {_UNDERFLOW} THEN 0 ELSE CAST({decimal} AS DOUBLE PRECISION) END"
    )


def _on_grid(grid: StoredGrid, number: str) -> str:
    """The nearest grid point, halves upwards. What is clipped or far below a step is told before the product,
    which could not be had; both say the same.
    """
    low, high = (_double(float(end * grid.step)) for end in (grid.low, grid.high))
    steps = write_steps(grid, number, "DOUBLE PRECISION")
    nearest = f"floor({steps}) + CASE WHEN {steps} - floor({steps}) >= 0.5 THEN 1 ELSE 0 END"
    return (
        f"CASE WHEN {number} < {low} THEN {grid.low:d} WHEN {number} > {high} THEN {grid.high:d} "
        f"WHEN abs({number}) < {_double(float(grid.step / 1024))} THEN 0 "
        f"ELSE CAST({nearest} AS BIGINT) END"
    )


def _double(number: float) -> str:
    return f"CAST('{number!r}' AS DOUBLE PRECISION)"


# ---- dates and moments -------------------------------------------------------------------------------------


def _in_time(moments: StoredTime, seconds: str) -> str:
    return write_time_on_grid(moments, seconds, "/")


def _as_seconds(name: str, value: str, kind: Kind) -> str:
    """Write whole seconds since 1970 in UTC, rounded down; infinite ones are missing."""
    if kind not in (Kind.DATE, Kind.MOMENT):
        raise not_dates(name)
    seconds = f"CAST(floor(extract(epoch FROM {value})) AS BIGINT)"
    return f"CASE WHEN isfinite({value}) THEN {seconds} END"


def _parts(value: str) -> str:
    """Take apart a date, with or without time of day and offset; other texts become missing."""
    text = f'CAST({value} AS TEXT) COLLATE "C"'
    return f"regexp_match(btrim({text}, {_quote_text(SPACES)}), '^{ISO}$')"


def _seconds_of_parts(parts: str) -> str:
    """What is after the point of a second is left out, which rounds down. A day that never was is missing.

    The day is looked up 400 years later, where PostgreSQL has one for the year 0 too.
    """
    year, month, day = (_number(parts, 1, *place) for place in ((1, 4), (6, 2), (9, 2)))
    # make_date fails on a day that never was; counting from the first of the month does not.
    shifted = f"(make_date({year} + 400, {month}, 1) + ({day} - 1))"
    days = f"CAST({shifted} - DATE '1970-01-01' - {_CYCLE} AS BIGINT)"
    clock = f"{_number(parts, 2, 1, 2)} * 3600 + {_number(parts, 2, 4, 2)} * 60 + {_number(parts, 3, 1, 2)}"
    ahead = f"({_number(parts, 5, 1, 2)} * 3600 + {_number(parts, 6, 1, 2)} * 60)"
    sign = f"CASE {parts}[4] WHEN '+' THEN 1 WHEN '-' THEN -1 ELSE 0 END"
    return (
        f"CASE WHEN {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND 31 THEN "
        f"CASE WHEN extract(month FROM {shifted}) = {month} "
        f"THEN {days} * 86400 + {clock} - {sign} * {ahead} END END"
    )


def _number(parts: str, part: int, start: int, length: int) -> str:
    return f"COALESCE(CAST(substr({parts}[{part}], {start}, {length}) AS INTEGER), 0)"


LAYERS = ReadingLayers(
    text=Kind.TEXT,
    functions=_FUNCTIONS,
    as_text=write_as_text,
    as_number=_as_number,
    as_seconds=_as_seconds,
    parts=_parts,
    seconds_of_parts=_seconds_of_parts,
    double=_as_double,
    on_grid=_on_grid,
    in_time=_in_time,
    whole=_whole,
    kept=lambda text: f'{text} COLLATE "C"',
)
