"""Dates and moments are whole days or seconds since 1970 in UTC, whatever holds them."""

from __future__ import annotations

import datetime as dt
import random

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid, StoredTime
from sfumato.errors import UsageError

WIDE = 10**12
DAYS, SECONDS = StoredTime("x", -WIDE, WIDE, False), StoredTime("x", -WIDE, WIDE, True)
NAMES = pa.array([f"{i:03}" for i in range(100)])


@pytest.fixture
def read(store):
    """What is stored of each value, in the order of the source. Whole days are read beside the seconds."""

    def read(source, column):
        asked = (column, DAYS, StoredCodes("place", tuple(NAMES.to_pylist())))
        store.prepare(source, Preparation("who", 1, asked, b"k"), "t")
        found = store.read("SELECT c0, c1 FROM rows ORDER BY c2")
        if column is SECONDS:
            assert [days for _, days in found] == [None if s is None else s // 86_400 for s, _ in found]
        return [value for value, _ in found]

    return read


def named(values) -> dict:
    names = NAMES.slice(0, len(values)).to_pylist()
    return {"who": names, "place": names, "x": values}


MOMENTS = {
    dt.datetime(1970, 1, 1): 0,
    dt.datetime(1969, 12, 31, 23, 59, 59): -1,
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999): -1,
    dt.datetime(1970, 1, 1, 0, 0, 0, 1): 0,
    dt.datetime(2024, 2, 29, 12, 30, 15, 500_000): 1_709_209_815,
    dt.datetime(1, 1, 1): -62_135_596_800,
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999): 253_402_300_799,
}
DATES = [
    dt.date(1, 1, 1),
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(9999, 12, 31),
]


def holders(values, of_type, tmp_path):
    """One column as each kind of source can hold it."""
    table = pa.table(named(pa.array([*values, None], of_type)))
    pq.write_table(table, tmp_path / "t.parquet")
    yield "arrow", table
    yield "parquet", tmp_path / "t.parquet"
    yield "objects", pd.DataFrame(named(pd.Series([*values, None], dtype=object)))
    yield "mixed objects", pd.DataFrame(named(pd.Series([*values, "soon"], dtype=object)))
    yield "texts", pa.table(named([*map(str, values), ""]))
    yield "iso texts", pa.table(named([*(value.isoformat() for value in values), "never"]))
    lines = [f"{i:03},{i:03},{value.isoformat()}" for i, value in enumerate(values)]
    (tmp_path / "t.csv").write_text("\n".join(["who,place,x", *lines, f"{len(lines):03},{len(lines):03},"]))
    yield "csv", tmp_path / "t.csv"
    yield "polars", pl.from_arrow(table)
    yield "pandas", table.to_pandas(date_as_object=False)


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_moments_are_rounded_down_whatever_holds_them(read, tmp_path, zone):
    values = [each if zone is None else each.replace(tzinfo=dt.UTC) for each in MOMENTS]
    seconds = list(MOMENTS.values())
    for name, source in holders(values, pa.timestamp("us", zone), tmp_path):
        assert read(source, SECONDS) == [*seconds, None], name


def test_dates_are_days_and_the_start_of_a_day(read, tmp_path):
    days = [(each - dt.date(1970, 1, 1)).days for each in DATES]
    for of_type in (pa.date32(), pa.date64()):
        for name, source in holders(DATES, of_type, tmp_path):
            assert read(source, SECONDS) == [*(day * 86_400 for day in days), None], name


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_every_unit_of_time(read, tmp_path, unit, zone):
    each = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ticks = [0, -1, 1, each, -each, -each - 1, 86_400 * each - 1, -86_400 * each, None]
    table = pa.table(named(pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, zone))))
    pq.write_table(table, tmp_path / "t.parquet")
    seconds = [None if tick is None else tick // each for tick in ticks]
    for source in (table, tmp_path / "t.parquet", table.to_pandas(), pl.from_arrow(table)):
        assert read(source, SECONDS) == seconds


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_moments_beyond_the_calendar_are_missing(read, unit):
    each = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    far = [-62_135_596_801 * each, 253_402_300_800 * each, 2**62, -(2**62), 2**63 - 1, -(2**63), 0]
    assert read(pa.table(named(pa.array(far).cast(pa.timestamp(unit)))), SECONDS) == [None] * 6 + [0]


def test_days_beyond_the_calendar_are_missing(read):
    far = pa.array([2**31 - 1, -(2**31) + 1, -(2**31), 2_932_897, -719_163, -719_162], pa.int32())
    assert read(pa.table(named(far.cast(pa.date32()))), DAYS) == [None] * 5 + [-719_162]


TEXTS = {
    "1970-01-01": 0,
    " 1970-01-01 ": 0,
    "1970-01-01T00:01": 60,
    "1970-01-01 00:01": 60,
    "1970-01-01T00:00:01Z": 1,
    "1970-01-01T00:00:01.999999999Z": 1,
    "1970-01-01T01:00:00+01:00": 0,
    "1970-01-01T01:00:00+01": 0,
    "1970-01-01T01:00:00+0130": -1800,
    "1969-12-31T23:00:00.5-02:00": 3600,
    "9999-12-31T23:59:59-00:00": 253_402_300_799,
    "9999-12-31T23:59:59-00:01": None,
    "0001-01-01T00:00:00+00:01": None,
    "0000-01-01": None,
    "2023-02-29": None,
    "2023-13-01": None,
    "2023-01-01T24:00:00": None,
    "2023-01-01T23:59:60": None,
    "2023-1-1": None,
    "01/02/2023": None,
    "2023/01/02": None,
    "20230102": None,
    "2023-01-02x": None,
    "2023-01-02T": None,
    "2023-01-02 03:04:05 Europe/Paris": None,
    "2023-01-02\n": None,
    "infinity": None,
    "epoch": None,
    "now": None,
    "today": None,
    "12345": None,
    "": None,
}


def test_texts_are_moments_by_one_strict_form(read):
    found = read(pa.table(named(list(TEXTS))), SECONDS)
    assert dict(zip(TEXTS, found, strict=True)) == TEXTS


def test_random_texts_agree_with_python(read):
    draw = random.Random(3)
    start = dt.datetime(1, 1, 2)
    moments = [start + dt.timedelta(seconds=draw.randrange(315_000_000_000)) for _ in range(99)]
    zones = [dt.timezone(dt.timedelta(minutes=draw.randint(-1439, 1439))) for _ in moments]
    aware = [moment.replace(tzinfo=zone) for moment, zone in zip(moments, zones, strict=True)]
    expected = [
        int((each - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(seconds=1)) for each in aware
    ]
    assert read(pa.table(named([each.isoformat() for each in aware])), SECONDS) == expected


def test_they_are_clipped_and_missing_ones_replaced(read):
    column = StoredTime("x", 5, 9, False, missing=6)
    days = pa.array([0, 5, 7, 9, 30, None, 2**31 - 1], pa.int32()).cast(pa.date32())
    assert read(pa.table(named(days)), column) == [5, 5, 7, 9, 9, 6, 6]


def test_missing_numbers_and_codes_are_replaced_after_reading(read):
    values = pa.table(named(["1", "9", "x", None, "nan", "-5"]))
    assert read(values, StoredGrid("x", 0, 8, missing=3)) == [1, 8, 3, 3, 3, 0]
    assert read(values, StoredGrid("x", 0, 8)) == [1, 8, None, None, None, 0]
    assert read(values, StoredCodes("x", ("9", "1"), missing=0)) == [1, 0, 0, 0, 0, 0]
    assert read(values, StoredCodes("x", (1.0, 9.0), missing=1)) == [0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("values", [[1], [1.5], [True], [dt.time(1)], [b"x"]])
def test_columns_without_dates_are_refused_by_their_type(read, values):
    with pytest.raises(UsageError) as refusal:
        read(pa.table(named(values)), DAYS)
    assert refusal.value.code == "SF-C205"
    assert "'x'" in refusal.value.sentence
