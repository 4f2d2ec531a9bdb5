"""Texts of every format mean the same number or moment in every engine, and other texts mean none."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from conformance.both_engines import load
from sfumato.engines.formats import DATE_FORMATS, NUMBER_FORMATS
from sfumato.engines.snapshot import Preparation, StoredGrid, StoredTime

MOMENTS = {
    "": {
        "2024-12-31": "2024-12-31",
        "2024-12-31T23:59:59+02:00": "2024-12-31T21:59:59",
        "2024-12-31 23:59:59.999 UTC": "2024-12-31T23:59:59",
        "2024-12-31 23:59 -0130": "2025-01-01T01:29:00",
        "2024-12-31 23:59:59GMT": "2024-12-31T23:59:59",
        "31/12/2024": None,
        "2024/12/31": None,
        "2024-02-30": None,
        "2024-12-31 CET": None,
    },
    "31/12/2024": {
        "31/12/2024": "2024-12-31",
        "1.2.2024": "2024-02-01",
        "01-02-2024 9:05": "2024-02-01T09:05:00",
        "31/12/2024, 14:30:59": "2024-12-31T14:30:59",
        "31/12/2024  04:30": "2024-12-31T04:30:00",
        "31/12/2024 12:05 AM": "2024-12-31T00:05:00",
        "31/12/2024 12:05:01 PM": "2024-12-31T12:05:01",
        "31/12/2024 1:05 am": "2024-12-31T01:05:00",
        "31/12/2024 11:30:15pm": "2024-12-31T23:30:15",
        "31/12/2024T23:59:59+02:00": "2024-12-31T21:59:59",
        " 31/12/2024 ": "2024-12-31",
        "2024-12-31": "2024-12-31",
        "29/02/2023": None,
        "12/31/2024": None,
        "31/12/24": None,
        "31/12/2024\n": None,
        "31/12/2024 25:00": None,
        "31/12/2024 13:00 PM": None,
        "131/12/2024": None,
        "ſ1/12/2024": None,
    },
    "12/31/2024": {
        "12/31/2024": "2024-12-31",
        "1/2/2024 11:00 PM": "2024-01-02T23:00:00",
        "31/12/2024": None,
    },
    "31/12/24": {
        "31/12/24": "2024-12-31",
        "1.2.99 9:05": "1999-02-01T09:05:00",
        "01-02-68": "2068-02-01",
        "1/2/69": "1969-02-01",
        "31/12/00 12:05 AM": "2000-12-31T00:05:00",
        "31/12/2024": None,
        "31/12/4": None,
        "12/31/24": None,
    },
    "12/31/24": {"12/31/24": "2024-12-31", "1/2/70, 11:00 PM": "1970-01-02T23:00:00", "31/12/24": None},
    "2024/12/31": {
        "2024/12/31": "2024-12-31",
        "2024-1-5": "2024-01-05",
        "2024.1.15 7:05": "2024-01-15T07:05:00",
        "24/12/31": None,
    },
    "20241231": {"20241231": "2024-12-31", "20241231 10:00": "2024-12-31T10:00:00", "20241301": None},
    "31 Dec 2024": {
        "31 Dec 2024": "2024-12-31",
        "1-jan-2024": "2024-01-01",
        "31. DECEMBER 2024 10:00 PM": "2024-12-31T22:00:00",
        "31DEC2024": "2024-12-31",
        "5 Sept. 2024": "2024-09-05",
        "Dec 31 2024": None,
        "31 Augu 2024": None,
        "31 auguſt 2024": None,
        "31 Dez 2024": None,
        "31/12/2024": None,
    },
    "Dec 31 2024": {
        "Dec 31 2024": "2024-12-31",
        "December 31, 2024": "2024-12-31",
        "May 5, 2024 1:02 PM": "2024-05-05T13:02:00",
        "Maybe 5, 2024": None,
        "31 Dec 2024": None,
    },
}
NUMBERS = {
    "1,234.56": {
        "1,234.56": 1234.56,
        "1,234": 1234,
        "1234": 1234,
        "+1 234.5": 1234.5,
        "1\u00a0234.5": 1234.5,
        "1\u2019234": 1234,
        ".5": 0.5,
        "-1,234,567.75": -1234567.75,
        " 7 ": 7,
        "1,23": None,
        "12,345,6": None,
        "1.234,56": None,
        "1,234.": None,
        "€ 5": None,
        "": None,
    },
    "1.234,56": {
        "1.234,56": 1234.56,
        "1.234": 1234,
        "1234,5": 1234.5,
        ",5": 0.5,
        "-1'234'567,75": -1234567.75,
        "1.23": None,
        "1,234.56": None,
        "x": None,
    },
}


def test_every_format_is_tested() -> None:
    assert set(MOMENTS) == {"", *DATE_FORMATS}
    assert set(NUMBERS) == set(NUMBER_FORMATS)


def make_columns() -> tuple[list[str], list[StoredTime | StoredGrid], list[bool]]:
    """A text for each column, how it is stored within bounds that allow one value, and whether it has one.

    A column of a text with another value would be counted as too low or too high.
    """
    texts: list[str] = []
    columns: list[StoredTime | StoredGrid] = []
    readable: list[bool] = []
    for name, cases in MOMENTS.items():
        for text, meant in cases.items():
            moment = (
                0 if meant is None else int(datetime.fromisoformat(meant).replace(tzinfo=UTC).timestamp())
            )
            columns.append(StoredTime(f"c{len(texts)}", moment, moment, True, format=name))
            texts.append(text)
            readable.append(meant is not None)
    for name, numbers in NUMBERS.items():
        for text, number in numbers.items():
            hundredths = 0 if number is None else round(number * 64)
            columns.append(StoredGrid(f"c{len(texts)}", hundredths, hundredths, Fraction(1, 64), format=name))
            texts.append(text)
            readable.append(number is not None)
    return texts, columns, readable


@pytest.fixture(params=["arrow", "postgres", pytest.param("spark", marks=pytest.mark.slow)])
def load_texts(request: pytest.FixtureRequest) -> Any:
    def loaded(rows: pa.Table) -> Any:
        if request.param == "spark":
            return request.getfixturevalue("spark").createDataFrame(rows)
        if request.param == "postgres":
            address, name = request.getfixturevalue("postgres"), f"texts_{secrets.token_hex(4)}"
            load(address, name, rows)
            return f"{address}#public.{name}"
        return rows

    return loaded


def test_all_engines_read_the_same(load_texts: Any, tmp_path: Path) -> None:
    texts, columns, readable = make_columns()
    source = load_texts(pa.table({f"c{i}": [text] for i, text in enumerate(texts)}))
    survey = sf.create(tmp_path / "lab").engine.survey(source, Preparation(None, 1, tuple(columns), b""))
    found = {
        (text, column.format): (each.unreadable, each.below + each.above)
        for text, column, each in zip(texts, columns, survey.columns, strict=True)
    }
    expected = {
        (text, column.format): (0 if good else 1, 0)
        for text, column, good in zip(texts, columns, readable, strict=True)
    }
    assert found == expected


@pytest.mark.usefixtures("usual_losses")
def test_formats_are_found_in_every_engine(load_texts: Any, tmp_path: Path) -> None:
    days = [f"{day}/{month}/2024" for day in range(1, 29) for month in range(1, 13)]
    costs = [f"{number}.000,50" for number in range(1, len(days) + 1)]
    columns = {"day": sf.between("2024-01-01", "2024-12-31"), "cost": sf.between(0, 1e6)}
    lab = sf.create(tmp_path / "lab")
    source = load_texts(pa.table({"day": days, "cost": costs}))
    report = lab.register("t", source, unit=sf.ROW, columns=columns, budget=sf.Budget(1))
    assert report is not None
    assert report.to_dict()["reading"] == [
        "'day' is read as written like 31/12/2024.",
        "'cost' is read as written like 1.234,56.",
    ]
    assert report.losses() == []
