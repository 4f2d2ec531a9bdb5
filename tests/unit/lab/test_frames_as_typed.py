"""What people type on frames, and numbers as they read them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.errors.numbers import (
    format_cell,
    format_error,
    format_label,
    format_measured,
    format_range,
    useful_places,
)

ROWS = pa.table(
    {
        "who": list(range(80)),
        "ward": ["A", "B"] * 40,
        "year": [2023, 2024] * 40,
        "age": [float(i) for i in range(80)],
        "note": ["cough"] * 50 + ["fall"] * 30,
    }
)
COLUMNS = {
    "ward": sf.one_of("A", "B", missing="A"),
    "year": sf.between(2023, 2024, step=1, missing=2023),
    "age": sf.between(0, 80, missing=0),
    "note": sf.text(),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("typed") / "lab")
    budget = sf.Budget(epsilon=10_000, delta=1e-3)
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=1), columns=COLUMNS, budget=budget)
    beds = {"ward": sf.one_of("A", "B", missing="A"), "beds": sf.between(0, 9, step=1)}
    lab.register("wards", pa.table({"ward": ["A", "B"], "beds": [3, 4]}), unit=sf.PUBLIC, columns=beds)
    return lab.session().table("t")


def test_keys_can_be_a_list(table: Any) -> None:
    asked = table.group_by(["ward", "year"]).count()
    assert asked.question == table.group_by("ward", "year").count().question


def test_bins_lie_between_the_declared_bounds(table: Any) -> None:
    shown = table.histogram("age", bins=4).release(epsilon=90).to_arrow().to_pydict()
    assert shown["age"][:4] == ["[0, 20)", "[20, 40)", "[40, 60)", "[60, 80]"]
    assert shown["count"][:4] == [20, 20, 20, 20]
    assert table.histogram("ward").release(epsilon=90).to_arrow()["count"].to_pylist() == [40, 40]


def test_joins_say_on(table: Any) -> None:
    joined = table.join("wards", on="ward").agg(beds=sf.sum("beds"))
    assert joined.release(epsilon=90).to_arrow()["beds"].to_pylist() == [280]
    with pytest.raises(UsageError, match="SF-Q124"):
        table.join("wards")


def test_texts_have_a_top_with_delta(table: Any) -> None:
    found = table.top("note", k=1).release(epsilon=50, delta=1e-6).to_arrow().to_pydict()
    assert found == {"value": ["cough"], "count": [50]}


def test_years_have_no_commas_and_intervals_the_format_of_their_number(table: Any) -> None:
    text = str(table.group_by("year").agg(n=sf.count(), age=sf.mean("age")).release(epsilon=5))
    assert "2023" in text
    assert "2,023" not in text
    assert format_label(2024) == "2024"
    assert format_cell(12345678.0) == "12,345,678"
    assert format_cell(0.25) == "0.25"
    assert format_range(1133.2, 2059.4, useful_places(1639.92, 1133.2, 2059.4)) == "1,133 – 2,059"
    assert format_range(4.3174, 5.798, useful_places(5.0497, 4.3174, 5.798)) == "4.3 – 5.8"
    assert format_range(100.0, 140.0, useful_places(120, 100.0, 140.0)) == "100 – 140"
    assert format_range(float("nan"), float("nan"), 0) == "not known"
    assert format_measured(5.0497, useful_places(5.0497, 4.3174, 5.798)) == "5.0"
    assert [format_error(half) for half in (419_400.4, 163.8, 3.487, 0.00123)] == [
        "419,400",
        "164",
        "3.49",
        "0.00123",
    ]


def test_one_measure_says_what_is_left(table: Any) -> None:
    quote = str(table.count().quote(epsilon=1))
    assert "shared by" not in quote
