"""Charts of a classifier that was measured."""

from pathlib import Path

import pytest

from sfumato.errors import UsageError
from sfumato.viz import calibration_curve, roc_curve


def test_a_roc_curve_has_a_band_and_the_diagonal(tmp_path: Path) -> None:
    picture = roc_curve([0.1, 0.5], [0.4, 0.9], [0.3, 0.8], [0.5, 1.0])
    diagonal, band, line = picture.spec["layer"]
    assert diagonal["data"]["values"] == [{"x": 0, "y": 0}, {"x": 1, "y": 1}]
    assert band["mark"]["type"] == "area"
    assert line["data"]["values"][0] == {"x": 0.1, "y": 0.4, "low": 0.3, "high": 0.5}
    assert picture.save(tmp_path / "roc.svg").stat().st_size > 1000


def test_calibration_has_an_interval_at_each_point(tmp_path: Path) -> None:
    picture = calibration_curve([0.25], [0.2], [0.1], [0.3])
    _, whisker, points = picture.spec["layer"]
    assert whisker["mark"]["type"] == "rule"
    assert points["mark"]["type"] == "point"
    assert picture.save(tmp_path / "calibration.svg").stat().st_size > 1000


def test_curves_need_an_interval_for_each_point() -> None:
    with pytest.raises(UsageError, match="SF-N203"):
        roc_curve([0.1, 0.2], [0.1], [0.1], [0.1])
