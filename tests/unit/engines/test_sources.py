from __future__ import annotations

import contextlib
import csv
import datetime
import io
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from sfumato.engines.duckdb import sources
from sfumato.engines.ingest import no_such_column
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid
from sfumato.errors import UsageError

COLUMNS = (StoredGrid("cost", 0, 100), StoredCodes("ward", ("A", "B,b", 'C"c', "D\nd", "")))
PREPARATION = Preparation("who", 5, COLUMNS, b"key")


def per_ward(store):
    """How many rows each ward has, and what they cost."""
    found = store.read("SELECT c1, count(*), COALESCE(sum(c0), 0) FROM rows WHERE c1 IS NOT NULL GROUP BY c1")
    wards = {ward: (rows, int(cost)) for ward, rows, cost in found}
    return [[wards.get(ward, (0, 0))[i] for ward in range(5)] for i in range(2)]


def refused(store, source, preparation=PREPARATION):
    with pytest.raises(UsageError) as refusal:
        store.prepare(source, preparation, "t")
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    assert list(store.folder.iterdir()) == []
    return refusal.value


# ---- what is no source -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source", [None, 7, {"who": [1]}, [1], np.zeros(3), pl.LazyFrame({"who": [1]}), "t.xlsx"]
)
def test_anything_else_is_told_what_is_accepted(store, source):
    error = refused(store, source)
    assert error.code == "SF-C201"
    assert "pandas.DataFrame" in error.facts["accepted"]


@pytest.mark.parametrize("name", ["nowhere.csv", "nowhere.parquet", "folder.csv"])
def test_a_file_that_is_not_there(store, tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    assert refused(store, tmp_path / name).code == "SF-C202"


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame])
def test_a_missing_column_is_named_beside_those_there_are(store, make):
    error = refused(store, make({"Who": [1], "cost": [2.0], "ward": ["A"]}))
    assert error.code == "SF-C205"
    assert no_such_column("age", ["Age", "ages"]).facts["try"] == '"Age"'
    assert no_such_column("wrad", ["ward", "x"]).facts["try"] == '"ward"'
    assert "'who'" in error.sentence
    assert error.facts["columns"] == "Who, cost, ward"


def test_a_column_that_is_there_twice_is_not_guessed(store, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("who,cost,who,ward\n1,2,3,A\n")
    assert "2 columns called 'who'" in refused(store, path).sentence


def test_columns_that_differ_in_case_are_two_columns(store, tmp_path):
    table = pa.table({"WARD": ["x"], "who": [1], "ward": ["A"], "Cost": [50.0], "cost": [7.0]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        store.prepare(source, PREPARATION, "t")
        assert per_ward(store) == [[1, 0, 0, 0, 0], [7, 0, 0, 0, 0]]


@pytest.mark.parametrize("values", [[[1, 2]], [{"a": 1}]])
def test_nested_values_are_refused(store, values):
    error = refused(store, pa.table({"who": values, "cost": [1.0], "ward": ["A"]}))
    assert error.code == "SF-C205"
    assert "'who'" in error.sentence


def test_values_arrow_has_no_type_for_are_refused(store):
    frame = pd.DataFrame({"who": [1], "cost": [1.0], "ward": pd.Series([1 + 2j])})
    assert refused(store, frame).code == "SF-C205"


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([Decimal("123456789012345678901"), Decimal("123456789012345678902")], pa.decimal256(40, 0)),
        pa.array([Decimal(1), Decimal(2)], pa.decimal256(76, 2)),
        pa.array([1, 2], pa.duration("ns")),
        pa.array([1, 2], pa.duration("us")),
    ],
    ids=lambda ids: str(ids.type),
)
def test_types_whose_values_would_merge_are_refused_by_schema(store, tmp_path, ids):
    table = pa.table({"who": ids, "cost": [1, 2], "ward": ["A", "A"]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    for source in (table, table.slice(0, 0), tmp_path / "t.parquet"):
        error = refused(store, source)
        assert error.code == "SF-C205"
        assert "38 digits" in error.facts["accepted"]


@pytest.mark.parametrize(
    "values",
    [
        pd.period_range("2020-01", periods=2, freq="M"),
        pd.interval_range(0, 2),
        pd.to_timedelta(["1D", "2D"]),
        [pd.Timedelta("1D"), "x"],
        [pd.Period("2020-01"), "x"],
        [[1], "x"],
        [np.longdouble(1), "x"],
        [datetime.time(1, tzinfo=datetime.UTC), "x"],
    ],
    ids=repr,
)
def test_pandas_values_without_a_text_of_their_own_are_refused(store, values):
    series = pd.Series(values)
    for ward in (series, series.astype(object)):
        error = refused(store, pd.DataFrame({"who": [1, 2], "cost": [1, 2], "ward": ward}))
        assert error.code == "SF-C205"
        assert "'ward'" in error.sentence


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([2**60 + 1, 2**60 + 2, None]),
        pa.array([2.0**53, 1.0, 2.0]),
        pl.Series([1.0, 2.0, -1e300]),
        pa.array([1.5, 2.5, float("inf")]),
    ],
    ids=["rounded by pandas", "2^53", "far", "infinite"],
)
def test_identifiers_that_may_have_been_rounded_are_refused(store, tmp_path, ids):
    """Long integers beside one missing value become doubles, and two people one."""
    make = pl.DataFrame if isinstance(ids, pl.Series) else pd.DataFrame
    make = pa.table if isinstance(ids, pa.Array) else make
    error = refused(store, make({"who": ids, "cost": [1, 2, 3], "ward": ["A"] * 3}))
    assert error.code == "SF-C205"
    assert "'who'" in error.sentence


def test_dates_are_no_numbers(store):
    table = pa.table({"who": [1], "cost": [datetime.date(2024, 1, 1)], "ward": ["A"]})
    error = refused(store, table)
    assert error.code == "SF-C205"
    assert "'cost'" in error.sentence


def test_only_declared_columns_are_read(store):
    """The other one could not even be converted."""
    frame = pd.DataFrame({"who": [1], "cost": [1.0], "ward": ["A"], "other": pd.Series([1 + 2j])})
    store.prepare(frame, PREPARATION, "t")
    assert per_ward(store)[0][0] == 1


# ---- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "plain.csv",
        'it\'s "quoted".csv',
        "ünï 💡.csv",
        "year=2024.csv",
        "a*.csv",
        "a?[b].csv",
        "T.CSV",
        "x'); --.csv",
    ],
)
def test_any_file_name_is_read_as_that_file(store, tmp_path, name):
    folder = tmp_path / "who=9" / "it's [here]*"
    folder.mkdir(parents=True)
    text = "who,cost,ward\n1,7,A\n"
    (folder / "ab.csv").write_text(text * 2)
    (folder / name).write_text(text)
    store.prepare(str(folder / name), PREPARATION, "t")
    assert per_ward(store) == [[1, 0, 0, 0, 0], [7, 0, 0, 0, 0]]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["visits[1]", "visits*", "visits?", "visits\\1", "\\[1]", "visits{1,2}"])
def test_a_name_is_no_pattern(store, tmp_path, name, kind):
    """Beside files that it would match as one."""
    write = {"csv": pl.DataFrame.write_csv, "parquet": pl.DataFrame.write_parquet}[kind]
    for other in ("visits1", "visits2", "visits12", "visits", "1"):
        write(
            pl.DataFrame({"who": [1, 2, 3], "cost": [50] * 3, "ward": ["A"] * 3}),
            tmp_path / f"{other}.{kind}",
        )
    write(pl.DataFrame({"who": [1], "cost": [7], "ward": ["A"]}), tmp_path / f"{name}.{kind}")
    store.prepare(tmp_path / f"{name}.{kind}", PREPARATION, "t")
    assert per_ward(store) == [[1, 0, 0, 0, 0], [7, 0, 0, 0, 0]]


def test_a_folder_name_is_not_read_as_a_column(store, tmp_path):
    folder = tmp_path / "cost=9" / "who=9"
    folder.mkdir(parents=True)
    table = pa.table({"who": [1, 2], "cost": [7, 8], "ward": ["A", "A"]})
    for name in ("it's.parquet", "a*.parquet", "ab.parquet"):
        pa.parquet.write_table(table, folder / name)
        store.prepare(folder / name, PREPARATION, "t")
        assert per_ward(store) == [[2, 0, 0, 0, 0], [15, 0, 0, 0, 0]]


def test_a_relative_path_is_read_from_here(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(pa.table({"who": [1], "cost": [7], "ward": ["A"]}), "t.parquet")
    store.prepare("t.parquet", PREPARATION, "t")
    assert per_ward(store)[1] == [7, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "text",
    [
        'who,cost,ward\n1,7,A\n2,8,"B,b"\n3,,"C""c"\n4,9,"D\nd"\n5,1,\n6,1,""\n,50,A\n"",50,A\n',
        '\ufeffwho,cost,ward\r\n1,7,A\r\n2,8,"B,b"\r\n3,,"C""c"\r\n4,9,"D\nd"\r\n5,1,\r\n6,1,""',
        'ward,"note, long",who,cost\nA,x,1,7\n"B,b",,2,8\n"C""c",,3,\n"D\nd",y,4,9\n,,5,1\n"",,6,1\n',
    ],
)
def test_csv_is_read_by_the_book(store, tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    store.prepare(path, PREPARATION, "t")
    assert per_ward(store) == [[1, 1, 1, 1, 1], [7, 8, 0, 9, 1]]


@pytest.mark.parametrize(
    "rows",
    [
        b"1,7\n",
        b"1,7,A,extra\n",
        b'1,7,"A\n',
        b'1,7,"A',
        b'1,7,"secret\n' + b"1,7,A\n" * 50,
        b'1,7, "secret\n' + b"1,7,A\n" * 50,
        b'1,7,"A"and\n',
        "1,7,é\n".encode() + b"1,7,\xff\xfe\n",
        b"1,7,A\n" * 50_000 + b"secret,7\n",
    ],
)
def test_a_malformed_csv_is_refused_without_its_values(store, tmp_path, rows):
    path = tmp_path / "t.csv"
    path.write_bytes(b"who,cost,ward\n" + b"1,7,A\n" + rows)
    error = refused(store, path)
    assert error.code == "SF-C204"
    assert "secret" not in str(error)


@pytest.mark.parametrize("seed", range(20))
def test_where_parts_of_a_csv_meet_rows_are_right_or_the_file_is_refused(store, tmp_path, monkeypatch, seed):
    """Texts with line breaks that look like rows, read in parts of a few hundred bytes."""
    draw = random.Random(seed)
    small = f"max_line_size = 2000, buffer_size = {draw.choice([2000, 4000, 9000])}"
    monkeypatch.setattr(sources, "_CSV", sources._CSV.replace("max_line_size = 16777216", small))
    notes = ["x" * draw.randint(0, 300) if draw.random() < 0.99 else "\n7,9,A\n" * 60 for _ in range(600)]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerows([("who", "cost", "ward", "note"), *((i, 1, "A", note) for i, note in enumerate(notes))])
    (tmp_path / "t.csv").write_text(lines.getvalue())
    with contextlib.suppress(UsageError):
        store.prepare(tmp_path / "t.csv", PREPARATION, "t")
        assert per_ward(store) == [[600, 0, 0, 0, 0], [600, 0, 0, 0, 0]]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b'"who,cost'])
def test_a_csv_without_a_header_is_refused(store, tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    assert refused(store, tmp_path / "t.csv").code == "SF-C204"


def test_a_damaged_parquet_file_is_refused(store, tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"who": list(range(9999)), "cost": [1.0] * 9999, "ward": [f"w{i}" for i in range(9999)]})
    pa.parquet.write_table(table, path)
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[:-9], whole[:100] + bytes(64) + whole[164:]):
        path.write_bytes(damaged)
        assert refused(store, path).code == "SF-C204"


# ---- kinds come from the schema, never from the rows -------------------------------------------------------


def test_one_odd_object_does_not_change_how_the_others_are_read(store):
    whos = [1, 1.0, "1", 2, None, float("nan"), True]
    frame = pd.DataFrame(
        {
            "who": pd.Series(whos, dtype=object),
            "cost": pd.Series([5, "5", 5.0, True, "true", 5, "x"]),
            "ward": "A",
        }
    )
    store.prepare(frame, PREPARATION, "t")
    assert per_ward(store) == [[5, 0, 0, 0, 0], [16, 0, 0, 0, 0]]


def test_texts_that_look_like_other_things_stay_texts(store, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "who,code\n"
        + "".join(f"{i},{code}\n" for i, code in enumerate(["007", "7", "1e3", "NULL", "NaN", "true"]))
    )
    listed = ("007", "7", "1e3", "NULL", "NaN", "true")
    store.prepare(path, Preparation("who", 1, (StoredCodes("code", listed),), b"k"), "t")
    assert store.read("SELECT c0 FROM rows ORDER BY c0") == [(i,) for i in range(6)]


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([1, 2, None]),
        pa.array([1.0, 2.0, None]),
        pa.array([1.5, 2.0, float("nan")], from_pandas=False),
        pa.array([2.0**53 - 1, 2.0**53 - 2, None]),
        pa.array([2**60 + 1, 2**60 + 2, None]),
        pa.array(np.array([1.5, 2, np.nan], np.float16)),
        pa.array([Decimal("0.1"), Decimal("0.10001"), None], pa.decimal256(38, 30)),
        pa.array(["x", "y", None]),
        pa.array(["x", "y", ""]),
        pa.array([b"\x00", b"\\x00", None]),
        pa.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None]),
        pa.array(
            [
                datetime.datetime(2024, 1, 1, 2, tzinfo=datetime.UTC),
                datetime.datetime(2024, 1, 1, 3, tzinfo=datetime.UTC),
                None,
            ]
        ),
        pa.array([True, False, None]),
        pa.array(["x", "y", None]).dictionary_encode(),
        pa.array([1, 2, None]).cast(pa.decimal128(25, 2)),
    ],
)
def test_ids_of_any_type_tell_units_apart(store, ids):
    table = pa.table({"who": pa.chunked_array([ids, ids]), "cost": [1, 2, 4, 8, 16, 32]})
    store.prepare(table, Preparation("who", 1, (StoredGrid("cost", 0, 100),), b"key"), "t")
    assert store.read("SELECT count(*) FROM rows") == [(2,)]


def test_an_import_of_the_room_loads_no_heavy_library():
    import subprocess
    import sys

    heavy = "{'duckdb', 'pyarrow', 'pandas', 'polars', 'scipy', 'sqlglot', 'dp_accounting'}"
    code = f"import sys, sfumato.engines.duckdb; sys.exit(len({heavy} & set(sys.modules)))"
    source = str(Path(__file__).parents[3] / "src")
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": source}, check=False).returncode == 0
    )
