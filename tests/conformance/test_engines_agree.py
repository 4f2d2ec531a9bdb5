"""The same table is stored as the same integers on every engine, and a question has the same answer."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conformance.both_engines import Both
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid, StoredText, StoredTime

KEY = b"a key of the lab"
NAN, INF = math.nan, math.inf
DOUBLES = [
    0.0, -0.0, 0.5, -0.5, 0.25, 0.2499, -0.25, 0.125, 1.5, 2.5, -1.5, 99.99, 100.0, -10.01, 3.5, 0.1,
    1e-5, 1e-4, 1.5e-7, 5e-324, -5e-324, 1e-310, 1e300, -1e300, 1.7976931348623157e308, NAN, INF, -INF,
    None, 2.0**52 + 0.5, 2.0**53, 2.0**60, -(2.0**63), 2.0**64, 1e22, 1e23, 2.0**119, -(2.0**120),
    2.0**121, 1234567890123456.5, 999999999999999.9, 12345678901234.566, 1e15 + 0.125, 1e16,
]  # fmt: skip
NUMBERS_AS_TEXTS = [
    "1e400", "-1e400", "1e-400", "0e999999", "-0e99999999", "1e99999999999", "-1e99999999999",
    "1e-99999999999", ".5", "5.", "+5", "-5", "1_000", "1_000.5", "0x10", " 5 ", "\t5\n", "\u00a05",
    "inf", "Infinity", "-inf", "+inf", "+-inf", "-+inf", "nan", "-nan", "NaN", "INF", "1e", "1e5", "1E+5",
    "1 e5", "1,5", "", ".", "-", "--5", "+-5", "-+5", "٣", "1e+", "infinit", "1d", "0x1p3", "1__0", "_1",
    "1_", "1e1_0", "  ", "5\x0b", "5\u2003", "1e-320", "2.5e-324", "2.4e-324", "true", "TRUE", "TRUE ",
    "t", "F", "false", "1e5.0", "0005", "- 5", "infinity ", "+ 5", "1._5", "1_.5", ".5e3", "5.e3",
    "1e0_1", "1e309", "1.7976931348623159e308", "1.5e0005", "1.7976931348623158e308", "1e00000000000001",
    "5x", "'", "1;", "0.1", "0.30000000000000004", None,
]  # fmt: skip
MOMENTS_AS_TEXTS = [
    "2024-01-31", " 2024-02-29 ", "2023-02-29", "1900-02-29", "2000-02-29", "2024-00-10", "2024-13-01",
    "2024-04-31", "2024-01-31T12:34", "2024-01-31 12:34:56.999999", "2024-01-31T12:34:56Z",
    "2024-01-31T23:30:00-01:30", "2024-01-31T00:10:00+0200", "2024-01-31T00:10+14", "2024-01-31T24:00",
    "0000-12-31T23:30-01:00", "0001-01-01", "0000-02-29", "9999-12-31T23:59:59",
    "9999-12-31T23:59:59-00:01", "1969-12-31T23:59:59.5", "1969-12-31", "2024-1-31", "20240131",
    "31.01.2024", "", "\u00a02024-01-31\u3000", "\t2024-01-31", "2024-01-31\n", "infinity", None,
]  # fmt: skip
WORDS = [
    "",
    "a",
    "A",
    "ä",
    "Ä",
    "ß",
    "日本語",
    "e\u0301",
    "é",
    "😀",
    "x" * 1200,
    "50% \\ _'\"",
    "\u00a0",
    "inf",
    None,
]
DAYS = [
    date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29),
    date(9999, 12, 31), None,
]  # fmt: skip
SECONDS = [
    datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1, 0, 0, 0, 1),
    datetime(2024, 2, 29, 12, 30, 0, 500000), datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 1, 1), None,
]  # fmt: skip
ZONED = [None if each is None else each.replace(tzinfo=UTC) for each in SECONDS]
DECIMALS = [None, *map(Decimal, ("0.00", "1.50", "-0.05", "100.00", "123456789012345.67", "-0.25", "0.13"))]
LONG = [None, 0, 10**37, -(10**30) - 1, 2**53 + 1, 7]


@pytest.fixture
def both(tmp_path: Path, postgres: str) -> Both:
    return Both.at(tmp_path, postgres)


COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (pa.float64(), DOUBLES),
    "single": (pa.float32(), [0.1, 0.5, 3.4e38, -1.5, NAN, INF, None, 16777216.0, 1e-45]),
    "small": (pa.int16(), [-(2**15), 0, 7, 2**15 - 1, None]),
    "integer": (pa.int64(), [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1, None]),
    "decimal": (pa.decimal128(38, 2), DECIMALS),
    "long": (pa.decimal128(38, 0), [None if each is None else Decimal(each) for each in LONG]),
    "truth": (pa.bool_(), [True, False, None]),
    "number as text": (pa.string(), NUMBERS_AS_TEXTS),
    "moment as text": (pa.string(), MOMENTS_AS_TEXTS),
    "word": (pa.string(), WORDS),
    "day": (pa.date32(), DAYS),
    "second": (pa.timestamp("us"), SECONDS),
    "zoned": (pa.timestamp("us", "UTC"), ZONED),
    "clock": (pa.time64("us"), [time(0), time(1, 2, 3, 500000), time(23, 59, 59, 999999), None]),
    "bytes": (pa.binary(), [b"", b"plain", b"\x00\xff'\"\\a", "ä".encode(), None]),
}
NUMBERS = ("double", "single", "small", "integer", "decimal", "long", "truth", "number as text")
TIMES = ("moment as text", "day", "second", "zoned")
GRIDS = (
    (-40, 400, -2),
    (0, 1, 0),
    (-(2**52), 2**52, 0),
    (-3, 40, 5),
    (-(2**40), 2**40, -60),
    (1, 2, 900),
    (-9, 9, -1000),
)


def _table(name: str) -> pa.Table:
    of_type, values = COLUMNS[name]
    return pa.table({"x": pa.array(values, of_type, from_pandas=False)})


def _readings(name: str) -> list[Any]:
    """Every way in which a column can be declared."""
    texts = tuple(dict.fromkeys(str(value) for value in COLUMNS[name][1] if "\n" not in str(value)))
    readings: list[Any] = [
        StoredText("x"),
        StoredCodes("x", ("inf", "0", "1.5", "true", *texts), 0),
        StoredCodes("x", ("0", "0")),
    ]
    if name in NUMBERS:
        readings += [StoredGrid("x", low, high, Fraction(2) ** power) for low, high, power in GRIDS] + [
            StoredGrid("x", 0, 10, missing=5)
        ]
        readings += [
            StoredCodes("x", (0.0, -0.0, 0.5, 1.5, -1.0, 0.1, 5.0)),
            StoredCodes("x", (False, True), 0),
        ]
    if name in TIMES:
        readings += [StoredTime("x", -719_162, 2_932_896, False), StoredTime("x", 0, 19_000, False, 3)]
        readings += [
            StoredTime("x", -62_135_596_800, 253_402_300_799, True),
            StoredTime("x", -5, 5, True, -1),
        ]
    return readings


@pytest.mark.parametrize("name", COLUMNS)
def test_every_value_is_stored_alike(both: Both, name: str) -> None:
    table, readings = _table(name), _readings(name)
    columns = {f"x{i}": table["x"] for i in range(len(readings))} | {
        "who": pa.array(range(len(table)), pa.int64())
    }
    stored = tuple(_renamed(reading, f"x{i}") for i, reading in enumerate(readings))
    both.prepare(pa.table(columns), Preparation("who", 1, stored, KEY), "t")
    duck, postgres = both.stored("t")
    assert len(duck[0]) == len(table)
    assert duck == postgres


def _renamed(reading: Any, name: str) -> Any:
    from dataclasses import replace

    return replace(reading, name=name)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "double"])
def test_every_identifier_is_the_same_person(both: Both, name: str) -> None:
    draw = random.Random(1)
    values = [value for value in COLUMNS[name][1] if not (name == "single" and value and abs(value) > 2**53)]
    who = pa.array([draw.choice(values) for _ in range(200)], COLUMNS[name][0], from_pandas=False)
    source = pa.table({"who": who, "x": [draw.randrange(9) for _ in range(200)]})
    both.prepare(source, Preparation("who", 3, (StoredGrid("x", 0, 9),), KEY), "t")
    duck, postgres = both.stored("t")
    assert duck == postgres
    assert duck[1]


def test_the_very_same_rows_are_kept(both: Both) -> None:
    draw = random.Random(2)
    size = 1500
    source = pa.table(
        {
            "who": pa.array([draw.choice([*"abcdefgh", "ü", None, ""]) for _ in range(size)]),
            "x": pa.array([draw.choice([None, NAN, 1.0, 2.5, 7.0]) for _ in range(size)], from_pandas=False),
            "note": pa.array([draw.choice(WORDS) for _ in range(size)]),
            "ward": pa.array([draw.choice("ABC") for _ in range(size)]),
        }
    )
    columns = (
        StoredGrid("x", -5, 50, Fraction(1, 2)),
        StoredText("note"),
        StoredCodes("ward", ("A", "B"), None),
    )
    for max_rows, constant in ((1, ()), (2, ("ward",)), (40, ("note", "x")), (5000, ())):
        both.prepare(source, Preparation("who", max_rows, columns, KEY, constant), "t")
        duck, postgres = both.stored("t")
        assert duck == postgres
    both.prepare(source, Preparation(None, 1, columns, KEY), "t")
    duck, postgres = both.stored("t")
    assert duck == postgres


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_one_row_tables(both: Both, rows: int) -> None:
    source = pa.table({"who": pa.array([1] * rows, pa.int64()), "x": pa.array([2.5] * rows, pa.float64())})
    for unit in ("who", None):
        both.prepare(source, Preparation(unit, 2, (StoredGrid("x", 0, 5),), KEY), "t")
        duck, postgres = both.stored("t")
        assert duck == postgres
        assert len(duck[0]) == rows


def test_identifiers_that_may_have_been_rounded_are_refused(both: Both) -> None:
    from sfumato.errors import UsageError

    source = pa.table({"who": pa.array([2.0**53, 1.0]), "x": [1, 2]})
    with pytest.raises(UsageError, match="SF-C205"):
        both.duck.prepare(source, Preparation("who", 1, (), KEY), "t")
    with pytest.raises(UsageError, match="SF-C205"):
        both.prepare(
            source.cast(pa.schema({"who": pa.float64(), "x": pa.int64()})),
            Preparation("who", 1, (), KEY),
            "t",
        )


def test_random_doubles_have_one_text_and_one_grid_point(both: Both) -> None:
    draw = random.Random(3)
    values = [draw.uniform(-1, 1) * 10 ** draw.uniform(-30, 40) for _ in range(3000)]
    values += [float(draw.randrange(-(10**17), 10**17)) / 2 ** draw.randrange(8) for _ in range(1000)]
    source = pa.table(
        {"who": range(len(values)), "a": values, "b": values, "c": [repr(value) for value in values]}
    )
    columns = (
        StoredText("a"),
        StoredGrid("b", -(2**52), 2**52, Fraction(1, 2**20)),
        StoredGrid("c", -(2**52), 2**52, Fraction(1, 2**20)),
    )
    both.prepare(source, Preparation("who", 1, columns, KEY), "t")
    duck, postgres = both.stored("t")
    assert duck == postgres


def test_moments_at_random(both: Both) -> None:
    draw = random.Random(4)
    first = datetime(1, 1, 1)
    moments = [first + timedelta(microseconds=draw.randrange(315_537_897_599 * 10**6)) for _ in range(2000)]
    source = pa.table(
        {
            "who": range(2000),
            "a": pa.array(moments, pa.timestamp("us")),
            "b": [each.isoformat() for each in moments],
        }
    )
    ends = (-(2**40), 2**40, True)
    both.prepare(
        source,
        Preparation(
            "who",
            1,
            (
                StoredTime("a", *ends),
                StoredTime("b", *ends),
            ),
            KEY,
        ),
        "t",
    )
    duck, postgres = both.stored("t")
    assert duck == postgres
