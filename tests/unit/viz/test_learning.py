"""Learning curves."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import UsageError
from sfumato.viz import learning_curves


def test_a_line_and_a_band_for_each_method() -> None:
    picture = learning_curves(
        ["one", "one", "two"],
        ["a", "b", "a"],
        [1, 2, 3],
        [0.1, 0.2, 0.3],
        [0.2, 0.1, 0.0],
        title="t",
        across="rows",
    )
    values = picture.spec["data"]["values"]
    band, line = picture.spec["spec"]["layer"]
    assert [each["low"] for each in values] == pytest.approx([0, 0.1, 0.3])
    assert [each["high"] for each in values] == pytest.approx([0.3, 0.3, 0.3])
    assert band["mark"]["type"] == "area"
    assert line["encoding"]["color"]["scale"]["domain"] == ["a", "b"]
    assert line["encoding"]["x"]["title"] == "rows"


def test_columns_are_of_one_length() -> None:
    with pytest.raises(UsageError):
        learning_curves(["one"], ["a", "b"], [1, 2], [0.1, 0.2], [0, 0], title="t", across="rows")


def test_they_are_drawn(tmp_path: Path) -> None:
    picture = learning_curves(
        ["one"] * 2, ["a"] * 2, [1, 2], [0.4, 0.2], [0.1, 0.1], title="t", across="rows"
    )
    assert picture.save(tmp_path / "curves.svg").stat().st_size > 1000
