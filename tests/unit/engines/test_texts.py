"""A value has one text and one number whichever type its column has.

pandas changes the type of a whole column when one value does not fit, so a text that followed from the type
would let one person change everybody's.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.duckdb import prepare
from sfumato.engines.duckdb.connection import open_writer
from sfumato.engines.duckdb.texts import write_object
from sfumato.engines.snapshot import (
    Preparation,
    StoredCodes,
    StoredColumn,
    StoredGrid,
    StoredText,
    StoredTime,
)

NUMBER = StoredGrid("x", -(2**40), 2**40, Fraction(1, 2**10))
PARIS = dt.timezone(dt.timedelta(hours=1))
FLOATS = [0.1, 1.5, 1e-7, 1e-310, 5e-324, 123456.789, -0.0, 3.0, 2.0**53 - 1, 0.30000000000000004]
FAR = [1e22, 1e36, 2.0**120, 1e37, -1e37, 9.99e36, 1e40, -1e300, 1.25e15 + 0.5, math.inf, -math.inf]
COLUMNS = {
    "bool": [True, False],
    "boolean": [True, False],
    "int64": [1, 2, -5, 10**7, 2**53 - 1],
    "uint64": [1, 2, 2**63 + 1],
    "Int64": [1, 2, 2**60 + 1],
    "float64": FLOATS,
    "Float64": FLOATS,
    "float32": [0.1, 1.5, 16777216.0, 3.3],
    "float16": [0.1, 1.5, 3.3],
    "double[pyarrow]": FLOATS,
    "str": ["a", "b:c", "1", " 7 ", "true"],
    "datetime64[ns]": pd.to_datetime(
        ["2020-01-01", "2020-01-02 01:02:03.5", "2020-01-02 01:02:03.000000007"], format="ISO8601"
    ),
    "datetime64[us]": pd.to_datetime(["2020-01-01", "1066-10-14 01:02:03.000001"], format="ISO8601"),
    "datetime64[s]": pd.to_datetime(["2020-01-01", "0900-10-14 01:02:03"], format="ISO8601"),
    "datetime64[ns, Europe/Paris]": pd.to_datetime(
        ["2020-01-01", "2020-07-01 01:02:03.25"], format="ISO8601"
    ),
    "date32[pyarrow]": [dt.date(2020, 1, 1), dt.date(33, 4, 3)],
    "time64[us][pyarrow]": [dt.time(1, 2, 3), dt.time(1, 2, 3, 500)],
    "decimal128(30, 10)[pyarrow]": [Decimal("1.50"), Decimal("700"), Decimal("-0.0000000001"), Decimal("0")],
    "binary[pyarrow]": [b"a", b"\x00'\"\\\xff", b""],
}
TYPES = {
    "decimal128(30, 10)[pyarrow]": pd.ArrowDtype(pa.decimal128(30, 10)),
    "time64[us][pyarrow]": pd.ArrowDtype(pa.time64("us")),
}


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    with open_writer(folder / "texts.duckdb", folder / "spill", 1) as connection:
        yield connection


@pytest.fixture
def read(writer):
    """The identifier's text and the stored number of each row."""

    def read(source, column=NUMBER):
        try:
            prepare._read(writer, source, Preparation("who", 10**6, (column,), b"k"))
            return sorted(writer.execute("SELECT unit, c0 FROM gridded").fetchall(), key=str)
        finally:
            writer.execute("DROP TABLE IF EXISTS gridded")

    return read


def frame(series: pd.Series) -> pd.DataFrame:
    """Numbers where the type has any, a list of texts where it has none."""
    return pd.DataFrame({"who": series, "x": series})


def columns_for(dtype: str) -> list[StoredColumn]:
    """The ways in which the type's values can be declared."""
    listed = StoredCodes("x", ("2020-01-01", "2020-01-01 00:00:00", "01:02:03", "a"))
    if "date" in dtype:
        return [listed, StoredText("x"), StoredTime("x", -(10**12), 10**12, True)]
    wordy = "time" in dtype or "binary" in dtype
    return [listed if wordy else NUMBER, StoredText("x")]


def changed(series: pd.Series):
    """What one more row can make of a column, and its own type without one."""
    missing = pd.Series([None], dtype=object)
    yield "objects", series.astype(object)
    yield "a missing object", pd.concat([series.astype(object), missing], ignore_index=True)
    if series.dtype != np.float16:  # of which pandas makes no categories
        yield "categories", series.astype("category")
        yield "categories, one missing", series.astype("category").reindex(range(len(series) + 1))
    yield "one missing", series.reindex(range(len(series) + 1))
    if series.dtype.kind != "f":
        yield "a text", pd.concat([series.astype(object), pd.Series([""], dtype=object)], ignore_index=True)


@pytest.mark.parametrize("dtype", COLUMNS)
def test_a_pandas_column_reads_the_same_after_one_odd_value(read, dtype):
    series = pd.Series(COLUMNS[dtype])
    if dtype.endswith("Paris]"):
        series = series.dt.tz_localize("Europe/Paris")
    series = series.astype(TYPES.get(dtype, dtype))
    for column in columns_for(dtype):
        expected = read(frame(series), column)
        assert len(expected) >= 2
        for name, other in changed(series):
            if (dtype, name) == ("uint64", "one missing"):
                continue  # rounded, and refused
            assert read(frame(other), column) == expected, name


def test_a_flag_is_the_same_word_beside_a_missing_one(read):
    """As pandas reads a CSV whose last field is empty."""
    flags = StoredCodes("x", ("true", "false"))
    whole = pd.DataFrame({"who": [1, 2, 3], "x": pd.Series([True, False, None], dtype=object)})
    assert read(whole, flags) == [("1", 0), ("2", 1), ("3", None)]
    assert read(pd.DataFrame({"who": [1, 2], "x": [True, False]}), flags) == [("1", 0), ("2", 1)]


@pytest.mark.parametrize("values", [FLOATS + FAR, [0.1, 1e10, 3.3, float("inf")]], ids=["double", "single"])
def test_numbers_read_the_same_from_every_source(read, tmp_path, values):
    single = len(values) == 4
    array = pa.array(np.array(values, np.float32 if single else np.float64))
    table = pa.table({"who": range(len(values)), "x": array})
    pq.write_table(table, tmp_path / "t.parquet")
    objects = pd.DataFrame({"who": range(len(values)), "x": pd.Series(array.to_pylist(), dtype=object)})
    for column in (NUMBER, StoredCodes("x", tuple(write_object(value) for value in array.to_pylist()))):
        expected = read(table, column)
        assert all(stored is not None for _, stored in expected)
        for source in (tmp_path / "t.parquet", table.to_pandas(), objects, pl.from_arrow(table)):
            assert read(source, column) == expected


def test_moments_read_the_same_whatever_their_unit(read):
    moment = dt.datetime(2020, 1, 1, 1, 2, 3, tzinfo=PARIS)
    expected = [("2020-01-01 00:02:03+00", None)]
    for unit in ("s", "ms", "us", "ns"):
        for zone in ("UTC", "Asia/Tokyo"):
            assert (
                read(pa.table({"who": pa.array([moment], pa.timestamp(unit, zone)), "x": [None]})) == expected
            )
    for value in (moment, pd.Timestamp(moment)):
        assert read(pd.DataFrame({"who": pd.Series([value], dtype=object), "x": [None]})) == expected


def test_decimals_read_the_same_whatever_their_scale(read):
    value = Decimal("1234567.5")
    for of_type in (pa.decimal128(10, 1), pa.decimal128(38, 20), pa.decimal256(20, 3), pa.float64()):
        column = pa.array([value if pa.types.is_decimal(of_type) else float(value)], of_type)
        assert read(pa.table({"who": column, "x": column})) == [("1234567.5", 1264197120)]


def test_doubles_have_the_text_that_duckdb_gives_them(read):
    draw = random.Random(1)
    values = [struct.unpack("d", draw.randbytes(8))[0] for _ in range(20_000)]
    values += [draw.choice([-1, 1]) * 10 ** draw.uniform(-8, 38) for _ in range(20_000)]
    values += [draw.randint(-(10**6), 10**6) / 10 ** draw.randint(0, 8) for _ in range(20_000)]
    values = [value for value in values if not math.isnan(value)]
    listed = StoredCodes("x", tuple(dict.fromkeys(map(write_object, values))))
    stored = read(pa.table({"who": range(len(values)), "x": values}), listed)
    codes = {word: code for code, word in enumerate(listed.values)}
    assert {int(who): code for who, code in stored} == {
        i: codes[write_object(x)] for i, x in enumerate(values)
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (np.False_, "false"),
        (np.int8(-7), "-7"),
        (np.float32(0.1), "0.10000000149011612"),
        (np.float16(0.5), "0.5"),
        (7.0, "7"),
        (1e40, "1e+40"),
        (Decimal("7.00"), "7"),
        (Decimal("-0.0"), "0"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-Infinity"), "-inf"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (dt.date(33, 4, 3), "0033-04-03"),
        (dt.datetime(2020, 1, 1), "2020-01-01 00:00:00"),
        (pd.Timestamp(1), "1970-01-01 00:00:00.000000001"),
        (dt.time(1, 2, 3, 500), "01:02:03.0005"),
        (b"a\x00", "a\\x00"),
    ],
)
def test_texts_of_objects(value, expected):
    assert write_object(value) == expected


@pytest.mark.parametrize("value", [[1], 1j, dt.timedelta(1), np.longdouble(1), dt.time(1, tzinfo=PARIS)])
def test_other_objects_have_no_text(value):
    with pytest.raises(TypeError):
        write_object(value)
