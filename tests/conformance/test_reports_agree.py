"""The steward's report has the counts of a plain reading of the rows, on every engine and kind of source."""

from __future__ import annotations

import secrets
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from conformance.both_engines import load
from sfumato.errors import UsageError

ROWS = pa.table(
    {
        "who": ["a", "a", "a", "b", "b", "c", None, "d", ""],
        "sex": ["1", "2", "1", "2", "1", "2", "1", None, "1"],
        "age": [10.0, 200.0, -4.0, 110.2, None, float("nan"), 8.0, 9.0, 300.0],
        "text_age": ["10", "old", "-4", " 5 ", None, "1e3", "8", "true", "x"],
        "day": [date(2020, 1, 1), date(2019, 1, 1), date(2021, 1, 1), None, *[date(2020, 5, 5)] * 5],
        "text_day": [
            "2020-01-01",
            "2019-12-31",
            "x",
            None,
            "2020-13-01",
            "2031-01-01",
            "x",
            "2020-05-05",
            "x",
        ],
        "note": ["a", "b", None, "d", "e", "f", "g", "h", "i"],
    }
)
DAYS = sf.between(date(2020, 1, 1), date(2020, 12, 31))
SAID: dict[str, Any] = {
    "unit": sf.Unit("who", max_rows=2),
    "columns": {
        "sex": sf.one_of("M", "F"),
        "age": sf.between(0, 110, step=1),
        "text_age": sf.between(0, 110),
        "day": DAYS,
        "text_day": DAYS,
        "note": sf.text(),
    },
    "budget": sf.Budget(epsilon=1),
}
# By hand, over the seven rows that name their unit: missing, unlisted, unreadable, below, above. 110.2 is
# rounded to 110, and is not above it.
COUNTS = {
    "sex": (1, 6, 0, 0, 0),
    "age": (2, 0, 0, 1, 1),
    "text_age": (1, 0, 1, 1, 1),
    "day": (1, 0, 0, 1, 1),
    "text_day": (1, 0, 2, 1, 1),
    "note": (1, 0, 0, 0, 0),
}


@pytest.fixture(params=["arrow", "parquet", "csv", "postgres", pytest.param("spark", marks=pytest.mark.slow)])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    match request.param:
        case "parquet":
            pq.write_table(ROWS, tmp_path / "rows.parquet")
            return tmp_path / "rows.parquet"
        case "csv":
            plain = ROWS.set_column(2, "age", pa.array([10, 200, -4, 110.2, None, None, 8, 9, 300]))
            pc.write_csv(plain, tmp_path / "rows.csv", pc.WriteOptions(quoting_style="none"))
            return tmp_path / "rows.csv"
        case "postgres":
            address, name = request.getfixturevalue("postgres"), f"rows_{secrets.token_hex(4)}"
            load(address, name, ROWS)
            return f"{address}#public.{name}"
        case "spark":
            return request.getfixturevalue("spark").createDataFrame(ROWS)
    return ROWS


@pytest.mark.usefixtures("usual_losses")
def test_a_report_counts_what_a_declaration_does(source: Any, tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    with pytest.warns(sf.errors.StewardWarning, match=r"'sex': 6 values \(100 %\) not in its list") as warned:
        checked = lab.check("people", source, **SAID)
    assert len(warned) == 1
    assert lab.tables() == ()
    assert not list(lab.folder.glob("snapshots/*"))
    with pytest.raises(UsageError, match=r"'sex': 6 values \(100 %\) not in its list") as refused:
        lab.register("people", source, **SAID)
    assert refused.value.code == "SF-C249"
    assert "'text_day': 2 values (33 %) not readable as a date" in str(refused.value)
    assert lab.tables() == ()
    assert not list(lab.folder.glob("snapshots/*.duckdb"))
    with pytest.warns(sf.errors.StewardWarning, match="may not fit"):
        registered = lab.register("people", source, **SAID, confirm_losses=True)
    found = checked.to_dict()
    assert registered is not None
    assert found == registered.to_dict()
    assert {name: tuple(counts.values()) for name, counts in found["columns"].items()} == COUNTS
    assert (found["rows"], found["rows_without_unit"], found["units"]) == (9, 2, 4)
    assert (found["units_with_too_many_rows"], found["rows_beyond_max_rows"]) == (1, 1)


VARYING = pa.table(
    {
        "who": ["a", "a", "b", "b", "c", "d", "d", None, None],
        "sex": ["M", "F", "M", "M", "F", "M", None, "M", "F"],
        "born": [1990, 1990, 1980, 1981, 1970, 1960, 1960, 1, 2],
        "age": [30.0, 30.0, 200.0, 300.0, 5.0, 1.0, 1.0, 9.0, 8.0],
        "note": ["x", "x", None, None, "y", "v", "w", "a", "b"],
    }
)
CONSTANT: dict[str, Any] = {
    "unit": sf.Unit("who", max_rows=2),
    "columns": {
        "sex": sf.one_of("M", "F", constant=True),
        "born": sf.between(1900, 2000, step=1, constant=True),
        "age": sf.between(0, 110, constant=True),
        "note": sf.text(constant=True),
    },
    "budget": sf.Budget(epsilon=1),
}


@pytest.fixture(params=["arrow", "postgres", pytest.param("spark", marks=pytest.mark.slow)])
def varying(request: pytest.FixtureRequest) -> Any:
    if request.param == "spark":
        return request.getfixturevalue("spark").createDataFrame(VARYING)
    if request.param == "postgres":
        address, name = request.getfixturevalue("postgres"), f"rows_{secrets.token_hex(4)}"
        load(address, name, VARYING)
        return f"{address}#public.{name}"
    return VARYING


def test_units_that_break_a_constant_column_are_counted_and_must_be_confirmed(
    varying: Any, tmp_path: Path
) -> None:
    """By hand: a has two sexes, d has one and a missing one; b has two years; the ages of b are both 110."""
    lab = sf.create(tmp_path / "lab")
    with pytest.raises(UsageError) as refused:
        lab.register("people", varying, **CONSTANT)
    assert refused.value.code == "SF-C249"
    several = "The value of one row counts for all of them."
    assert refused.value.facts["losses"].splitlines() == [
        f"'sex' is declared constant, but 2 units (50 %) have several values. {several}",
        f"'born' is declared constant, but 1 unit (25 %) has several values. {several}",
        f"'note' is declared constant, but 1 unit (25 %) has several values. {several}",
    ]
    assert lab.tables() == ()
    with pytest.warns(sf.errors.StewardWarning, match="'sex' is declared constant"):
        report = lab.register("people", varying, **CONSTANT, confirm_losses=True)
    assert report is not None
    counts = {name: each["varying_units"] for name, each in report.to_dict()["columns"].items()}
    assert counts == {"sex": 2, "born": 1, "age": 0, "note": 1}


REQUIRED = pa.table(
    {"who": ["a", "b", "c"], "age": [10, 20, 30], "ill": [True, False, True], "sex": ["M", "F", "M"]}
)


@pytest.fixture(params=["postgres", pytest.param("spark", marks=pytest.mark.slow)])
def required(request: pytest.FixtureRequest) -> Any:
    if request.param == "spark":
        session = request.getfixturevalue("spark")
        frame = session.createDataFrame(REQUIRED)
        fields = [f"{field.name} {field.dataType.simpleString()} NOT NULL" for field in frame.schema.fields]
        return session.createDataFrame(frame.collect(), ", ".join(fields))
    import psycopg

    address, name = request.getfixturevalue("postgres"), f"rows_{secrets.token_hex(4)}"
    load(address, name, REQUIRED)
    with psycopg.connect(address) as connection:
        for column in REQUIRED.column_names:
            connection.execute(f"ALTER TABLE {name} ALTER COLUMN {column} SET NOT NULL".encode())
    return f"{address}#public.{name}"


def test_not_null_columns_are_declared_without_missing_values(required: Any, tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    columns = {
        "age": sf.between(0, 110, step=1),
        "ill": sf.one_of(True, False),
        "sex": sf.one_of("M", "F"),
    }
    lab.register("people", required, unit=sf.Unit("who", max_rows=1), columns=columns, budget=sf.Budget(9))
    taken = {name: each.nullable for name, each in lab.table("people").columns.items()}
    assert taken == {"age": False, "ill": False, "sex": None}
    sql = "SELECT age // 10 AS decade, COUNT(*) AS n FROM people GROUP BY decade"
    found = lab.session().sql(sql).release(epsilon=1).all_groups().to_arrow()
    assert None not in found["decade"].to_pylist()
