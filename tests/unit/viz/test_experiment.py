"""The experiment's picture shows what was measured, what theory says, and what the talk printed."""

import math
from pathlib import Path

import pytest

from sfumato import viz
from sfumato.viz.experiment import OURS, THEIRS, expected_error

ROWS = [
    {"epsilon": 0.1, "average": 9.9, "maximum": 112},
    {"epsilon": 1, "average": 0.85, "maximum": 12},
    {"epsilon": 0.5, "average": 1.9, "maximum": 22},
]


@pytest.mark.parametrize("epsilon", [3.0, 1.0, 0.1, 0.01, 0.001])
def test_the_expected_error_is_the_mean_of_integer_laplace_noise(epsilon: float) -> None:
    r = math.exp(-epsilon)
    reach = math.ceil(60 / epsilon)
    mean = math.fsum(2 * k * (1 - r) / (1 + r) * r**k for k in range(1, reach))
    assert expected_error(epsilon) == pytest.approx(mean, rel=1e-9)
    assert expected_error(epsilon) == pytest.approx(2 * r / (1 - r * r), rel=1e-9)


def test_theory_runs_from_large_to_small_epsilon() -> None:
    theory = viz.histogram_errors(ROWS).spec["layer"][0]["data"]["values"]
    assert [row["epsilon"] for row in theory] == ["ε = 1", "ε = 0.5", "ε = 0.1"]
    assert theory[0]["error"] == pytest.approx(0.850918, abs=1e-6)


def test_the_talk_stands_beside_where_it_has_figures() -> None:
    points = viz.histogram_errors(ROWS).spec["layer"][1]["data"]["values"]
    talk = [(p["epsilon"], p["measure"], p["shown"]) for p in points if p["source"] == THEIRS]
    assert talk == [
        ("ε = 1", "average", "1.02"),
        ("ε = 1", "maximum", "13"),
        ("ε = 0.1", "average", "9.12"),
        ("ε = 0.1", "maximum", "109"),
    ]
    assert sum(p["source"] == OURS for p in points) == 2 * len(ROWS)


def test_errors_are_on_a_log_scale_and_zero_is_left_out() -> None:
    spec = viz.histogram_errors([{"epsilon": 40.0, "average": 0.0, "maximum": 0}]).spec
    assert all(layer["encoding"]["y"]["scale"]["type"] == "log" for layer in spec["layer"])
    assert [point["error"] for point in spec["layer"][1]["data"]["values"]] == [None, None]


def test_lines_stand_at_powers_of_ten() -> None:
    axis = viz.histogram_errors(ROWS).spec["layer"][0]["encoding"]["y"]["axis"]
    assert axis["values"] == [1, 10, 100]


def test_it_is_drawn(tmp_path: Path) -> None:
    assert viz.histogram_errors(ROWS).save(tmp_path / "errors.png").stat().st_size > 10_000
