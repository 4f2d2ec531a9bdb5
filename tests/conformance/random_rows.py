"""Random row expressions, each in sfumato's SQL and in plain DuckDB's, over a table with awkward rows.

The plain SQL reads DECIMAL columns and says which rows it cannot decide itself: where DuckDB computes in
doubles, a comparison of two numbers that are closer than its rounding errors may go either way. Each
expression therefore carries a bound on the rounding error of DuckDB and a condition for such rows.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sfumato as sf

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT_BITS = 60
"""Integers of more bits may be computed in doubles; the engines' own limit is 62."""
MOST = 1e60
"""Expressions whose values may be larger are drawn again: overflow is refused when planning."""


# ---- the table ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A number column: what is declared, its decimals in the data, and its decimals in a snapshot."""

    low: float
    high: float
    scale: int
    stored: int
    step: float | None = None
    missing: float = 0.1
    """Share of rows without a value."""
    listed: tuple[str, ...] = ()
    """The only values that it can have, if they are declared."""

    def declare(self) -> Any:
        if self.listed:
            return sf.one_of(*map(float, self.listed))
        return sf.between(self.low, self.high, **({} if self.step is None else {"step": self.step}))

    @property
    def top(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def bits(self) -> int:
        return math.ceil(math.log2(self.top * 10.0**self.stored + 1))

    @property
    def decimal(self) -> str:
        digits = max(0, math.ceil(math.log10(self.top + 1))) + max(self.scale, 0)
        return f"DECIMAL({max(digits, 1)}, {max(self.scale, 0)})"


NUMBERS = {
    "fare": Field(0, 200, 2, 7),
    "tip": Field(0, 50, 2, 2, step=0.01),
    "dist": Field(0, 60, 3, 7, missing=0.0),
    "temp": Field(-30, 45, 1, 7),
    "age": Field(0, 110, 0, 0, step=1),
    "kids": Field(0, 6, 0, 0, step=1, missing=0.3),
    "score": Field(-1000, 1000, 3, 3, step=0.125, missing=0.0),
    "tiny": Field(0, 1e-6, 12, 15),
    "huge": Field(-1e12, 1e12, -3, -3),
    "paid": Field(-7, 1.5e6, 3, 3, listed=("-7", "0.001", "2.5", "1500000")),
}
DAYS = (date(2019, 12, 28), date(2024, 3, 2))
MOMENTS = (datetime(2020, 2, 28, 22, 0, 1), datetime(2020, 3, 1, 5, 6, 7))
KINDS = ("a", "b", "c")
OTHERS = ("C", "b", "bb")
MAX_ROWS = 3


def declare() -> dict[str, Any]:
    """What a steward says of the columns."""
    return {
        **{name: field.declare() for name, field in NUMBERS.items()},
        "day": sf.between(*DAYS),
        "since": sf.between(*DAYS),
        "seen": sf.between(*MOMENTS),
        "kind": sf.one_of(*KINDS),
        "other": sf.one_of(*OTHERS),
        "ok": sf.one_of(True, False),
    }


def make_rows(draw: random.Random, units: int = 90) -> list[dict[str, Any]]:
    """Rows of units that have one to three of them: zeros, bounds, equal and missing values are frequent."""
    rows = []
    for who in range(units):
        for _ in range(draw.randint(1, MAX_ROWS)):
            row: dict[str, Any] = {
                "who": who,
                **{name: _value(draw, field) for name, field in NUMBERS.items()},
            }
            if draw.random() < 0.3 and row["fare"] is not None:
                share = draw.choice(["0.25", "0.1", "0.2", "0.5"])
                row["tip"] = min((row["fare"] * Decimal(share)).quantize(Decimal("0.01")), Decimal(50))
            if draw.random() < 0.1:
                row["kids"] = row["age"] if row["age"] is not None and row["age"] <= 6 else Decimal(3)
            row |= {"day": _day(draw), "since": _day(draw), "seen": _moment(draw)}
            row |= {"kind": draw.choice([*KINDS, None]), "other": draw.choice([*OTHERS, None])}
            row |= {"ok": draw.choice([True, False, None])}
            rows.append(row)
    return rows


def _value(draw: random.Random, field: Field) -> Decimal | None:
    if draw.random() < field.missing:
        return None
    if field.listed:
        return Decimal(draw.choice(field.listed))
    quantum = Decimal(str(field.step)) if field.step else Decimal(1).scaleb(-field.scale)
    low, high = int(Decimal(str(field.low)) / quantum), int(Decimal(str(field.high)) / quantum)
    place = draw.choice(
        [
            low,
            high,
            min(max(0, low), high),
            low + 1,
            *[draw.randint(low, high)] * 8,
            draw.randint(0, min(high, 40)),
        ]
    )
    return place * quantum


HOSTILE = (math.nan, math.inf, -math.inf, 1e308, -1e308, -0.0, 5e-324, -5e-324, 2.2e-308, 1e-300)
"""What a column of doubles may hold besides numbers within its bounds."""


def make_hostile_rows(
    draw: random.Random, units: int = 60
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows with values that break careless arithmetic, and what they count as."""
    rows = make_rows(draw, units)
    for row in rows:
        for name, field in NUMBERS.items():
            if draw.random() < 0.25:
                row[name] = draw.choice(_odd_values(name, field))
        if draw.random() < 0.2:
            row["day"] = draw.choice([date.min, date.max, date(1582, 10, 10), date(1970, 1, 1)])
        if draw.random() < 0.2:
            row["seen"] = draw.choice(
                [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), datetime(1969, 12, 31)]
            )
    return rows, [clean(row) for row in rows]


def _odd_values(name: str, field: Field) -> tuple[Any, ...]:
    if name in _DECIMALS:
        return (Decimal("99999.99"), Decimal("-99999.99"), Decimal(0))
    return (2**31 - 1, -(2**31), 0) if field.step == 1 else HOSTILE


def clean(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it counts: NaN and what is not listed are missing; beyond a bound it is at the bound."""
    kept = dict(row)
    for name, field in NUMBERS.items():
        value = row[name]
        if value is not None and (math.isnan(value) or (field.listed and not isinstance(value, Decimal))):
            kept[name] = None
        elif value is not None and not isinstance(value, Decimal):
            near = min(max(float(value), field.low), field.high)
            kept[name] = Decimal(str(near)).quantize(Decimal(1).scaleb(-max(field.scale, 0)))
        elif value is not None:
            kept[name] = min(max(value, Decimal(str(field.low))), Decimal(str(field.high)))
    for name, (low, high) in {"day": DAYS, "since": DAYS, "seen": MOMENTS}.items():
        if row[name] is not None:
            kept[name] = min(max(row[name], low), high)
    return kept


def _day(draw: random.Random) -> date | None:
    span = (DAYS[1] - DAYS[0]).days
    return draw.choice([None, *DAYS, *[DAYS[0] + timedelta(days=draw.randint(0, span))] * 6])


def _moment(draw: random.Random) -> datetime | None:
    span = int((MOMENTS[1] - MOMENTS[0]).total_seconds())
    return draw.choice([None, *MOMENTS, *[MOMENTS[0] + timedelta(seconds=draw.randint(0, span))] * 6])


_OTHERS = {
    "who": (pa.int64(), "BIGINT"),
    "day": (pa.date32(), "DATE"),
    "since": (pa.date32(), "DATE"),
    "seen": (pa.timestamp("us"), "TIMESTAMP"),
    "kind": (pa.string(), "VARCHAR"),
    "other": (pa.string(), "VARCHAR"),
    "ok": (pa.bool_(), "BOOLEAN"),
}
_DECIMALS = ("tip", "dist")
"""Columns that the source has as decimals; whole numbers are integers there, and the others doubles."""


def make_source(rows: list[dict[str, Any]]) -> pa.Table:
    """The table that is registered."""
    arrays = {}
    for name in rows[0]:
        of, column = _source_type(name), [row[name] for row in rows]
        arrays[name] = pa.array(
            column if pa.types.is_decimal(of) or name in _OTHERS else [_as(of, each) for each in column], of
        )
    return pa.table(arrays)


def _source_type(name: str) -> pa.DataType:
    if name in _OTHERS:
        return _OTHERS[name][0]
    if name in _DECIMALS:
        return pa.decimal128(9, NUMBERS[name].scale)
    return pa.int32() if NUMBERS[name].step == 1 else pa.float64()


def _as(of: pa.DataType, value: Decimal | None) -> Any:
    return None if value is None else int(value) if pa.types.is_integer(of) else float(value)


def make_plain(rows: list[dict[str, Any]]) -> Any:
    """A DuckDB that has the same rows in DECIMAL columns."""
    import duckdb

    connection = duckdb.connect(config={"threads": "1"})
    fields = [f"{name} {_OTHERS[name][1] if name in _OTHERS else NUMBERS[name].decimal}" for name in rows[0]]
    connection.execute(f"CREATE TABLE t ({', '.join(fields)})")
    places = ", ".join("?" * len(fields))
    connection.executemany(f"INSERT INTO t VALUES ({places})", [list(row.values()) for row in rows])
    sums = [
        f"CAST({of}({name}) AS DECIMAL(18, {max(NUMBERS[name].scale, 0)})) AS {name}" for name, of in _OF_UNIT
    ]
    connection.execute(f"CREATE TABLE u AS SELECT who, {', '.join(sums)}, {_LAST} FROM t GROUP BY who")
    return connection


_OF_UNIT = (
    *(("tip", "SUM"), ("age", "SUM"), ("huge", "SUM"), ("kids", "MAX"), ("fare", "MAX"), ("dist", "MIN")),
    *(("temp", "MIN"), ("score", "MIN"), ("tiny", "MAX")),
)
_LAST = "MAX(day) AS day, MIN(since) AS since, MAX(seen) AS seen"
_AGGREGATES = ", ".join(f"{of}({name}) AS {name}" for name, of in _OF_UNIT)
PER_UNIT = f"(SELECT who, {_AGGREGATES}, {_LAST} FROM t GROUP BY who)"
"""One row of each unit, with columns of the same names, as far as it has them: `u` in plain DuckDB."""


# ---- expressions -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A number of a row."""

    sql: str
    plain: str
    top: float
    """The largest it may be by what is declared, without regard to its sign."""
    scale: int | None = None
    """Decimals where both sides compute it exactly; None for doubles."""
    bits: int = 0
    err: str = "0"
    """Plain SQL for a bound on the error of doubles."""
    unsure: tuple[str, ...] = ()
    """Conditions for rows that DuckDB itself cannot decide."""
    least: float = 0.0
    """The smallest it may be where it is not zero."""

    @property
    def exact(self) -> bool:
        return self.scale is not None


@dataclass(frozen=True)
class Condition:
    """A condition on a row."""

    sql: str
    plain: str
    unsure: tuple[str, ...] = ()


ROUNDING = "4.5e-16"
"""Twice the relative rounding error of an operation on doubles, and that of two units in the last place."""
FLUSHED = 2.0**-60
"""What is smaller may count as zero."""


def _literal(draw: random.Random) -> Number:
    text = draw.choice(
        ["0", "1", "2", "3", "7", "100", "0.25", "0.1", "0.3", "2.5", "33.33", "1000", "-1", "-2.5", "-0.1"]
    )
    return of_literal(text)


def of_literal(text: str) -> Number:
    value = Decimal(text)
    scale = max(0, -int(value.as_tuple().exponent))
    plain = f"CAST({text} AS DECIMAL({max(len(value.as_tuple().digits), scale + 1)}, {scale}))"
    size = abs(float(value))
    return Number(text, plain, size, scale, int(size * 10**scale).bit_length(), least=10.0**-scale)


def column(name: str) -> Number:
    field = NUMBERS[name]
    return Number(name, name, field.top, max(field.scale, 0), field.bits, least=10.0**-field.stored)


def _double(one: Number) -> str:
    return f"CAST({one.plain} AS DOUBLE)"


def _inexact(
    sql: str, plain: str, top: float, err: str, unsure: tuple[str, ...], least: float = FLUSHED
) -> Number:
    return Number(sql, plain, top, None, 0, err, unsure, least)


def _rounded_error(plain: str, *errors: str) -> str:
    parts = [f"ABS({plain}) * {ROUNDING}", *(error for error in errors if error != "0")]
    return f"({' + '.join(parts)})"


def _times(error: str, factor: str) -> str:
    return "0" if error == "0" else f"{error} * ABS({factor})"


def _combined(draw: random.Random, depth: int) -> Number:
    sign = draw.choice("+-*")
    return combine(sign, number(draw, depth), number(draw, depth))


def combine(sign: str, one: Number, other: Number) -> Number:
    sql, unsure = f"({one.sql} {sign} {other.sql})", one.unsure + other.unsure
    if one.exact and other.exact:
        assert one.scale is not None
        assert other.scale is not None
        if sign == "*":
            scale, bits, top = one.scale + other.scale, one.bits + other.bits, one.top * other.top
            least = one.least * other.least
        else:
            scale, top, least = max(one.scale, other.scale), one.top + other.top, min(one.least, other.least)
            # On the finer of both grids.
            bits = math.ceil(math.log2(top / least + 1)) + 1
        if bits <= EXACT_BITS and math.log10(top + 1) + scale < 35:
            plain = f"({one.plain} {sign} {other.plain})" if sign != "*" else _product(one, other)
            return Number(sql, plain, top, scale, bits, "0", unsure, least)
    a, b = _double(one), _double(other)
    plain = f"({a} {sign} {b})"
    if sign == "*":
        error = _rounded_error(plain, _times(one.err, b), _times(other.err, a))
        return _inexact(sql, plain, one.top * other.top, error, unsure, max(one.least * other.least, 1e-300))
    # Of integers that are too long for a double, the error is that of their rounding.
    error = _rounded_error(plain, one.err, other.err, f"(ABS({a}) + ABS({b})) * {ROUNDING}")
    return _inexact(sql, plain, one.top + other.top, error, unsure)


def _product(one: Number, other: Number) -> str:
    """A product of as many digits as DuckDB has: of fewer it may overflow."""
    digits = math.ceil(math.log10(one.top + 1)) + (one.scale or 0) + 1
    a = f"CAST({one.plain} AS DECIMAL({digits}, {one.scale}))"
    return f"({a} * CAST({other.plain} AS DECIMAL({38 - digits}, {other.scale})))"


def _divided(draw: random.Random, depth: int) -> Number:
    one = number(draw, depth)
    other = draw.choice([number(draw, depth), number(draw, 0), number(draw, 0)])
    if draw.random() < 0.3:
        value = draw.choice(["0", "1", "2.5"])
        other = null_if(other, of_literal(value))
    return divide(one, other)


def divide(one: Number, other: Number) -> Number:
    a, b = _double(one), f"NULLIF({_double(other)}, 0)"
    plain = f"({a} / {b})"
    unsure = one.unsure + other.unsure
    if not other.exact:
        unsure += (f"ABS({b}) <= 4 * {other.err} + {2 * FLUSHED}",)
    error = _rounded_error(
        plain,
        "0" if one.err == "0" else f"{one.err} / ABS({b})",
        "0" if other.err == "0" else f"ABS({plain}) * {other.err} / ABS({b})",
    )
    least = max(other.least, 1e-300)
    return _inexact(f"({one.sql} / {other.sql})", plain, one.top / least, error, unsure)


def null_if(one: Number, other: Number) -> Number:
    unsure = one.unsure + other.unsure + _edge(one, other)
    plain = f"NULLIF({one.plain}, {other.plain})"
    return _like(one, f"NULLIF({one.sql}, {other.sql})", plain, unsure)


def _like(one: Number, sql: str, plain: str, unsure: tuple[str, ...]) -> Number:
    return Number(sql, plain, one.top, one.scale, one.bits, one.err, unsure, one.least)


def _edge(one: Number, other: Number) -> tuple[str, ...]:
    """Rows in which two numbers are too close for doubles to say which is larger."""
    if one.exact and other.exact:
        return ()
    a, b = _double(one), _double(other)
    size = f"(ABS({a}) + ABS({b})) * 1e-15"
    return (f"ABS({a} - {b}) < 4 * ({one.err} + {other.err}) + {size}",)


def _whole_rest(draw: random.Random, depth: int) -> Number:
    """// and %, of exact numbers: they truncate, and the rest has the sign of the dividend."""
    one, other = (
        number(draw, 0),
        draw.choice([column("age"), column("kids"), of_literal("7"), of_literal("-3"), of_literal("2.5")]),
    )
    sign = draw.choice(["//", "%"])
    rest = f"(({one.plain}) % NULLIF({other.plain}, 0))"
    assert one.scale is not None
    assert other.scale is not None
    if sign == "%":
        scale, least = max(one.scale, other.scale), min(one.least, other.least)
        bits = math.ceil(math.log2(max(one.top, other.top) / least + 1)) + 1
        if bits <= EXACT_BITS:
            return Number(f"({one.sql} % {other.sql})", rest, other.top, scale, bits, least=least)
    top = one.top / other.least
    plain = f"ROUND(({one.plain} - {rest}) / NULLIF({other.plain}, 0))"
    return _whole(f"({one.sql} // {other.sql})", plain, top, ())


def _whole(sql: str, plain: str, top: float, unsure: tuple[str, ...], scale: int = 0) -> Number:
    """A number that is on a grid again, or a double if the grid has too many places."""
    bits = math.ceil(math.log2(top * 10**scale + 2)) + 1
    if bits > 50:
        return _inexact(
            sql, f"CAST({plain} AS DOUBLE)", top, _rounded_error(f"CAST({plain} AS DOUBLE)"), unsure
        )
    return Number(
        sql, f"CAST({plain} AS DECIMAL({18 + scale}, {scale}))", top, scale, bits, "0", unsure, 10.0**-scale
    )


def _to_grid(draw: random.Random, depth: int) -> Number:
    one = number(draw, depth)
    name = draw.choice(["FLOOR", "CEIL", "ROUND", "ROUND", "CAST"])
    scale = draw.choice([0, 1, 2]) if name == "ROUND" else 0
    return put_on_grid(name, scale, one)


def put_on_grid(name: str, scale: int, one: Number) -> Number:
    digits = f", {scale}" if scale else ""
    sql = f"CAST({one.sql} AS INTEGER)" if name == "CAST" else f"{name}({one.sql}{digits})"
    plain = f"{'ROUND' if name == 'CAST' else name}({one.plain}{digits})"
    unsure = one.unsure
    if not one.exact:
        scaled, far = f"({one.plain} * 1e{scale})", f"(4 * {one.err} + ABS({one.plain}) * 1e-15) * 1e{scale}"
        places = (
            f"{scaled} - 0.5 - ROUND({scaled} - 0.5)" if "ROUND" in plain else f"{scaled} - ROUND({scaled})"
        )
        unsure += (f"ABS({places}) < {far}",)
    return _whole(sql, plain, one.top + 1, unsure, scale)


def _absolute(draw: random.Random, depth: int) -> Number:
    one = number(draw, depth)
    if draw.random() < 0.5:
        return _like(one, f"ABS({one.sql})", f"ABS({one.plain})", one.unsure)
    return _like(one, f"(-({one.sql}))", f"(-({one.plain}))", one.unsure)


def _extreme(draw: random.Random, depth: int) -> Number:
    name = draw.choice(["LEAST", "GREATEST"])
    parts = [number(draw, depth), number(draw, 0)] + ([_literal(draw)] if draw.random() < 0.5 else [])
    return extreme(name, *parts)


def extreme(name: str, *parts: Number) -> Number:
    sql, unsure = f"{name}({', '.join(each.sql for each in parts)})", sum((each.unsure for each in parts), ())
    return _either(sql, f"{name}({{}})", list(parts), unsure)


def _either(sql: str, form: str, parts: list[Number], unsure: tuple[str, ...]) -> Number:
    """One of several numbers."""
    top, least = max(each.top for each in parts), min(each.least for each in parts)
    bits = math.ceil(math.log2(top / least + 1)) + 1 if all(each.exact for each in parts) else 99
    if bits <= EXACT_BITS:
        scale = max(each.scale or 0 for each in parts)
        wide = f"DECIMAL({max(1, math.ceil(math.log10(top + 1)) + 1) + scale}, {scale})"
        plain = form.format(*_filled(form, [f"CAST({each.plain} AS {wide})" for each in parts]))
        return Number(sql, plain, top, scale, bits, "0", unsure, least)
    plain = form.format(*_filled(form, [_double(each) for each in parts]))
    errors = " + ".join(f"COALESCE({each.err}, 0)" for each in parts if each.err != "0")
    return _inexact(sql, plain, top, _rounded_error(plain, errors or "0"), unsure, least)


def _filled(form: str, parts: list[str]) -> list[str]:
    return [", ".join(parts)] if form.count("{}") == 1 else parts


def _chosen(draw: random.Random, depth: int) -> Number:
    when, one = condition(draw, 1), number(draw, depth)
    if draw.random() < 0.25:
        return _like(
            one,
            f"CASE WHEN {when.sql} THEN {one.sql} END",
            f"CASE WHEN {when.plain} THEN {one.plain} END",
            one.unsure + when.unsure,
        )
    other = number(draw, 0)
    sql = f"CASE WHEN {when.sql} THEN {one.sql} ELSE {other.sql} END"
    form = f"CASE WHEN {when.plain} THEN {{}} ELSE {{}} END"
    return _either(sql, form, [one, other], when.unsure + one.unsure + other.unsure)


def _present(draw: random.Random, depth: int) -> Number:
    one, other = number(draw, depth), _literal(draw)
    if draw.random() < 0.4:
        return null_if(one, other)
    sql = f"COALESCE({one.sql}, {other.sql})"
    return _either(sql, "COALESCE({})", [one, other], one.unsure + other.unsure)


def _curve(draw: random.Random, depth: int) -> Number:
    one = number(draw, depth)
    name = draw.choice(["SQRT", "LN", "EXP", "POWER"])
    if name == "EXP" and one.top > 200:
        one = extreme("LEAST", extreme("GREATEST", one, of_literal("-20")), of_literal("20"))
    return curve(name, one, draw.choice(["2", "3", "0.5", "1.5", "-1", "-2"]))


def curve(name: str, one: Number, power: str) -> Number:
    x, unsure = _double(one), one.unsure
    far = f"4 * {one.err} + {2 * FLUSHED}"
    if name == "SQRT":
        plain = f"SQRT(CASE WHEN {x} >= 0 THEN {x} END)"
        error = "0" if one.err == "0" else f"LEAST(SQRT({one.err}), {one.err} / NULLIF({plain}, 0))"
        unsure += () if one.exact else (f"ABS({x}) <= {far}",)
        return _inexact(f"SQRT({one.sql})", plain, math.sqrt(one.top), _rounded_error(plain, error), unsure)
    if name == "LN":
        plain = f"LN(CASE WHEN {x} > 0 THEN {x} END)"
        error = "4.5e-16" if one.err == "0" else f"{one.err} / ABS({x})"
        unsure += () if one.exact else (f"ABS({x}) <= {far}",)
        top = max(abs(math.log(max(one.least, 1e-300))), abs(math.log(one.top + 2)))
        return _inexact(f"LN({one.sql})", plain, top, _rounded_error(plain, error), unsure)
    if name == "EXP":
        plain = f"EXP({x})"
        error = _times(one.err, plain)
        return _inexact(
            f"EXP({one.sql})", plain, math.exp(min(one.top, 700)), _rounded_error(plain, error), unsure
        )
    exponent = float(power)
    inside = x if exponent.is_integer() else f"CASE WHEN {x} >= 0 THEN {x} END"
    inside = inside if exponent > 0 else f"NULLIF({inside}, 0)"
    plain = f"POWER({inside}, {power})"
    error = (
        "0"
        if one.err == "0"
        else f"COALESCE(ABS({plain}) * {one.err} * {abs(exponent)} / NULLIF(ABS({inside}), 0), {one.err})"
    )
    if not one.exact and (exponent < 0 or not exponent.is_integer()):
        unsure += (f"ABS({x}) <= {far}",)
    base = one.top if exponent > 0 else 1 / max(one.least, 1e-300)
    top = math.exp(min(690.0, abs(exponent) * math.log(max(base, 1e-30))))
    return _inexact(f"POWER({one.sql}, {power})", plain, top, _rounded_error(plain, f"{error}"), unsure)


def _cast(draw: random.Random, depth: int) -> Number:
    one = number(draw, depth)
    return _like(one, f"CAST({one.sql} AS DOUBLE)", one.plain, one.unsure)


_DATES: tuple[tuple[str, float], ...] = (
    ("DATE_DIFF('day', since, day)", 2000),
    ("DATE_DIFF('week', since, day)", 300),
    ("DATE_DIFF('month', since, day)", 60),
    ("DATE_DIFF('quarter', since, day)", 20),
    ("DATE_DIFF('year', since, day)", 6),
    ("DATE_DIFF('day', DATE '2020-02-29', day)", 2000),
    ("DATE_DIFF('month', day, DATE '2021-01-31')", 60),
    ("DATE_DIFF('hour', TIMESTAMP '2020-02-29 00:00:00', seen)", 60),
    ("DATE_DIFF('minute', TIMESTAMP '2020-02-29 00:00:30', seen)", 4000),
    ("(day - DATE '2020-02-29')", 2000),
    ("(day - since)", 2000),
    ("EXTRACT(YEAR FROM day)", 2024),
    ("EXTRACT(MONTH FROM day)", 12),
    ("EXTRACT(DAY FROM since)", 31),
    ("EXTRACT(QUARTER FROM day)", 4),
    ("EXTRACT(DOW FROM day)", 6),
    ("EXTRACT(ISODOW FROM day)", 7),
    ("EXTRACT(DOY FROM day)", 366),
    ("EXTRACT(WEEK FROM day)", 53),
    ("EXTRACT(HOUR FROM seen)", 23),
    ("EXTRACT(MINUTE FROM seen)", 59),
    ("EXTRACT(SECOND FROM seen)", 59),
)


def _of_date(draw: random.Random, depth: int) -> Number:
    sql, top = draw.choice(_DATES)
    return Number(sql, f"CAST({sql} AS DECIMAL(9, 0))", top, 0, 16, least=1.0)


def _flag(draw: random.Random, depth: int) -> Number:
    when = condition(draw, 1)
    one, zero = of_literal("1"), of_literal("0")
    form = f"CASE WHEN {when.plain} THEN {{}} ELSE {{}} END"
    return _either(f"CASE WHEN {when.sql} THEN 1 ELSE 0 END", form, [one, zero], when.unsure)


_KINDS: tuple[tuple[Callable[[random.Random, int], Number], int], ...] = (
    (_combined, 6),
    (_divided, 6),
    (_whole_rest, 2),
    (_to_grid, 3),
    (_absolute, 2),
    (_extreme, 3),
    (_chosen, 3),
    (_present, 2),
    (_curve, 3),
    (_cast, 1),
    (_of_date, 2),
    (_flag, 1),
)


def number(draw: random.Random, depth: int) -> Number:
    """A number of a row, with at most `depth` operations below each other."""
    if depth == 0 or draw.random() < 0.15:
        if draw.random() < 0.25:
            return _literal(draw)
        return (
            _of_date(draw, 0)
            if draw.random() < 0.1
            else column(draw.choice([*NUMBERS, "fare", "tip", "age"]))
        )
    kinds, weights = zip(*_KINDS, strict=True)
    while True:
        found: Number = draw.choices(kinds, weights)[0](draw, depth - 1)
        if found.top < MOST:
            return found


# ---- conditions --------------------------------------------------------------------------------------------

_CONDITIONS = (
    "ok",
    "NOT ok",
    "kind = 'a'",
    "kind <> 'b'",
    "kind < 'b'",
    "kind BETWEEN 'aa' AND 'bz'",
    "kind = other",
    "kind <> other",
    "NOT (kind <= other)",
    "kind IN ('a', 'c')",
    "kind IS NULL",
    "day >= DATE '2021-06-01'",
    "day < since",
    "day = since",
    "day BETWEEN DATE '2020-02-29' AND DATE '2022-12-31'",
    "day + 30 > since",
    "DATE_TRUNC('month', day) = DATE '2019-12-01'",
    "DATE_TRUNC('year', day) <= since",
    "seen > TIMESTAMP '2020-02-29 12:00:00'",
    "CAST(seen AS DATE) = DATE '2020-02-29'",
)


def condition(draw: random.Random, depth: int) -> Condition:
    """A condition on a row."""
    if draw.random() < 0.25:
        text = draw.choice(_CONDITIONS)
        return Condition(text, text)
    if depth > 0 and draw.random() < 0.3:
        one, other = condition(draw, depth - 1), condition(draw, depth - 1)
        form = draw.choice(["({} AND {})", "({} OR {})", "(NOT ({}) OR {})"])
        sql, plain = form.format(one.sql, other.sql), form.format(one.plain, other.plain)
        return Condition(sql, plain, one.unsure + other.unsure)
    return compare(
        draw, number(draw, depth + 1), draw.choice([number(draw, 0), number(draw, depth), _literal(draw)])
    )


def compare(draw: random.Random, one: Number, other: Number) -> Condition:
    unsure = one.unsure + other.unsure
    kind = draw.choice(["sign", "sign", "sign", "between", "in", "null"])
    if kind == "null":
        return Condition(f"({one.sql}) IS NULL", f"({one.plain}) IS NULL", one.unsure)
    a, b = (one.plain, other.plain) if one.exact and other.exact else (_double(one), _double(other))
    if kind == "sign":
        sign = draw.choice(["=", "<>", "<", "<=", ">", ">="])
        return Condition(f"({one.sql} {sign} {other.sql})", f"({a} {sign} {b})", unsure + _edge(one, other))
    ends = [of_literal(text) for text in ("0", "2.5", "100")]
    edges = unsure + sum((_edge(one, end) for end in ends), ())
    if kind == "between":
        sql, plain = f"({one.sql} BETWEEN 0 AND 2.5)", f"({one.plain} BETWEEN 0 AND 2.5)"
    else:
        sql, plain = f"({one.sql} IN (0, 2.5, 100))", f"({one.plain} IN (0, 2.5, 100))"
    return Condition(sql, plain, edges)


# ---- what is asked -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One aggregate, in both languages."""

    kind: str
    sql: str
    of: Number | None
    """What is summed or averaged; None for counts of a condition."""
    when: Condition | None = None


def ask(draw: random.Random) -> Asked:
    """A sum, an average, a count of values or a count of rows for which a condition holds."""
    kind = draw.choice(["SUM", "SUM", "AVG", "COUNT", "WHERE", "WHERE"])
    if kind == "WHERE":
        when = condition(draw, 2)
        return Asked("WHERE", f"COUNT(*) FILTER (WHERE {when.sql})", None, when)
    of = number(draw, draw.choice([1, 2, 3, 3, 4]))
    if kind != "COUNT" and not of.exact and draw.random() < 0.7:
        of = clip(of, *draw.choice([("-1", "1"), ("0", "100"), ("-1000", "1000"), ("0", "0.25")]))
    return Asked(kind, f"{kind}({of.sql})", of)


def names_only_numbers(asked: Asked | Condition) -> bool:
    """Whether it can be asked of `PER_UNIT` too."""
    return not re.search(r"\b(kind|other|ok|paid)\b", asked.sql)


def clip(one: Number, low: str, high: str) -> Number:
    """A number between two literals. Where it is far beyond one of them, it has no error."""
    clipped = extreme("LEAST", extreme("GREATEST", one, of_literal(low)), of_literal(high))
    if one.exact:
        return clipped
    x = _double(one)
    beyond = f"{x} + 2 * ({one.err}) < {low} OR {x} - 2 * ({one.err}) > {high}"
    error = f"CASE WHEN {x} IS NULL OR {beyond} THEN 0 ELSE LEAST({one.err}, {high} - ({low})) END"
    return replace(clipped, err=_rounded_error(clipped.plain, error))


def ask_key(draw: random.Random) -> Number:
    """A whole number of few values, to group by."""
    one = number(draw, draw.choice([1, 2, 3]))
    name = draw.choice(["FLOOR", "CEIL", "ROUND", "CAST"])
    whole = put_on_grid(name, 0, one)
    return clip(whole, "-3", "7")
