"""Bars with their error bars: which shape is chosen, and that every shape is a document Vega-Lite accepts."""

import itertools
import math
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.viz.chart import VEGA_LITE, Chart


def marks(layers: list[dict[str, Any]]) -> list[str]:
    return [layer["mark"]["type"] for layer in layers]


def bars(labels: list[Any], **more: Any) -> dict[str, Any]:
    values = np.arange(1.0, len(labels) + 1)
    return viz.bars(labels, values, values - 1, values + 1, title="t", x="key", y="n", **more).spec


def grouped(firsts: list[Any], series: int) -> dict[str, Any]:
    labels = [first for first in firsts for _ in range(series)]
    values = np.arange(len(labels))
    names = [f"s{i}" for i in range(series)] * len(firsts)
    return viz.grouped_bars(labels, names, values, values - 1, values + 1, title="t", group="g").spec


def accepted(spec: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> bool:
    """Whether the compiler takes the document without a word."""
    import vl_convert

    vl_convert.vegalite_to_svg(Chart(spec).to_json(), vl_version=VEGA_LITE, show_warnings=True)
    out, err = capfd.readouterr()
    return "WARN" not in out + err


def test_few_short_labels_stand_upright() -> None:
    spec = bars(["A", "B", "C"])
    assert marks(spec["layer"]) == ["rule", "bar", "rule", "tick", "tick"]
    assert spec["layer"][1]["encoding"]["x"]["field"] == "label"
    assert spec["data"]["values"][1] == {"label": "B", "value": 2.0, "low": 1.0, "high": 3.0}


@pytest.mark.parametrize("labels", [["a long name of a ward", "B"], [f"w{i}" for i in range(15)]])
def test_long_or_many_labels_lie_on_their_side(labels: list[str]) -> None:
    layers = bars(labels)["layer"]
    assert layers[1]["encoding"]["y"]["field"] == "label"
    assert layers[2]["encoding"]["x"]["field"] == "low"
    assert layers[2]["encoding"]["x2"]["field"] == "high"


def test_sixty_cells_are_bars_and_sixty_one_a_band() -> None:
    assert "bar" in marks(bars([f"k{i}" for i in range(60)])["layer"])
    assert marks(bars([f"k{i}" for i in range(61)])["layer"]) == ["rule", "area", "line"]


def test_a_band_of_texts_is_sorted_by_value() -> None:
    spec = bars([f"k{i}" for i in range(70)])
    values = [cell["value"] for cell in spec["data"]["values"]]
    assert values == sorted(values, reverse=True)
    assert spec["layer"][2]["encoding"]["x"]["title"] == "key, largest first"


def test_a_band_of_numbers_keeps_their_order() -> None:
    spec = bars(list(range(20, 91)))
    assert [cell["place"] for cell in spec["data"]["values"]] == list(range(20, 91))
    assert spec["layer"][2]["encoding"]["x"]["title"] == "key"


def test_without_an_interval_there_are_no_whiskers() -> None:
    assert marks(viz.bars(["A"], [1], title="t").spec["layer"]) == ["rule", "bar"]


def test_what_is_no_number_is_not_drawn() -> None:
    cells = viz.bars(["A", "B"], [math.nan, math.inf], title="t").spec["data"]["values"]
    assert [cell["value"] for cell in cells] == [None, None]


def test_keys_are_shown_as_people_read_them() -> None:
    labels = [None, ("A", 1), 0.5, True]
    cells = viz.bars(labels, [1, 2, 3, 4], title="t").spec["data"]["values"]
    assert [cell["label"] for cell in cells] == ["null", "A · 1", "0.5", "True"]


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(UsageError) as error:
        viz.bars(["A", "B"], [1], title="t")
    assert error.value.code == "SF-N203"
    assert error.value.facts["got"] == "label 2, value 1"


def test_two_keys_stand_side_by_side() -> None:
    spec = grouped(["A", "B", "C"], 2)
    assert all("xOffset" in layer["encoding"] for layer in spec["layer"][1:])
    assert spec["layer"][1]["encoding"]["color"]["title"] == "g"


def test_two_long_keys_lie_on_their_side() -> None:
    spec = grouped(["a long name of a ward", "B"], 2)
    assert all("yOffset" in layer["encoding"] for layer in spec["layer"][1:])


@pytest.mark.parametrize(("firsts", "series"), [(["A", "B"], 7), ([f"k{i}" for i in range(31)], 2)])
def test_too_many_for_colours_or_for_the_eye_get_panels(firsts: list[str], series: int) -> None:
    spec = grouped(firsts, series)
    assert spec["facet"]["sort"] == [f"s{i}" for i in range(series)]
    assert "bar" in marks(spec["spec"]["layer"])


def test_panels_of_numbers_are_bands() -> None:
    assert marks(grouped(list(range(40)), 2)["spec"]["layer"]) == ["rule", "area", "line"]


def answer(keys: dict[str, list[Any]]) -> dict[str, Any]:
    values = np.arange(float(len(next(iter(keys.values())))))
    return viz.answer_bars(keys, values, values - 1, values + 1, name="n").spec


def product(*keys: list[Any]) -> list[list[Any]]:
    """The columns of all combinations of keys."""
    return [list(column) for column in zip(*itertools.product(*keys), strict=True)]


YEARS: list[Any] = list(range(1950, 2030))
DAYS: list[Any] = [date(2026, 1, 1) + timedelta(day) for day in range(80)]


def test_two_keys_of_an_answer_are_an_axis_and_colours() -> None:
    ward, sex = product(["A", "B", "C"], ["f", "m"])
    spec = answer({"sex": sex, "ward": ward})
    assert spec["layer"][1]["encoding"]["x"]["title"] == "ward"
    assert spec["layer"][1]["encoding"]["color"]["title"] == "sex"
    assert spec["data"]["values"][1] == {"label": "A", "series": "m", "value": 1.0, "low": 0.0, "high": 2.0}


@pytest.mark.parametrize("places", [YEARS, DAYS, [str(day) for day in DAYS]], ids=["years", "days", "texts"])
def test_keys_with_an_order_are_never_sorted_by_value(places: list[Any]) -> None:
    """Neither alone nor next to a key without one; and no line connects groups of different panels."""
    alone = answer({"at": places})
    assert [cell["label"] for cell in alone["data"]["values"]] == list(map(str, places))
    sex, at = product(["f", "m"], places)
    both = answer({"sex": sex, "at": at})
    assert both["facet"]["title"] == "sex"
    assert marks(both["spec"]["layer"]) == ["rule", "area", "line"]
    across = both["spec"]["layer"][2]["encoding"]["x"]
    assert (across["title"], across["type"]) == ("at", "quantitative" if places is YEARS else "temporal")


def test_a_missing_key_is_on_no_axis_of_numbers() -> None:
    spec = answer({"year": [*YEARS, None]})
    assert len(spec["data"]["values"]) == len(YEARS)
    assert spec["title"]["subtitle"] == "without rows whose year is missing"
    assert len(answer({"year": [2020, None]})["data"]["values"]) == 2


def test_of_very_many_groups_by_names_the_largest_are_bars() -> None:
    first, second = product([f"a{i}" for i in range(30)], [f"b{i}" for i in range(30)])
    spec = answer({"first": first, "second": second})
    assert len(spec["data"]["values"]) == 60
    assert spec["data"]["values"][0]["label"] == "a29 · b29"
    assert spec["title"]["subtitle"] == "the 60 largest of 900 groups"
    assert "line" not in marks(spec["layer"])


@pytest.mark.parametrize(
    "spec",
    [
        answer(dict(zip("ab", product(["A", "B"], DAYS), strict=True))),
        answer(dict(zip("ab", product([f"a{i}" for i in range(30)], [1, 2, 3]), strict=True))),
        answer({"day": [*DAYS, None]}),
        bars(["A", "B"]),
        bars([f"w{i}" for i in range(20)]),
        bars([f"w{i}" for i in range(70)]),
        bars(list(range(70))),
        bars([]),
        grouped(["A", "B"], 2),
        grouped([f"w{i}" for i in range(20)], 3),
        grouped(["A", "B"], 8),
        grouped(list(range(40)), 2),
    ],
    ids=[
        "panels of days",
        "largest",
        "days",
        "upright",
        "sideways",
        "ranked",
        "ordered",
        "empty",
        "pairs",
        "long pairs",
        "panels",
        "band panels",
    ],
)
def test_the_compiler_takes_every_shape(spec: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    assert accepted(spec, capfd)


def test_the_compiler_would_have_complained(capfd: pytest.CaptureFixture[str]) -> None:
    spec = bars(["A"])
    spec["layer"][1]["encoding"]["no_such_channel"] = {"field": "value"}
    assert not accepted(spec, capfd)
