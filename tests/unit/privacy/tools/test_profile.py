"""Profiles as numbers and as a chart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import UsageError
from sfumato.privacy import (
    ApproxDP,
    Concentrated,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    Pure,
    Sampled,
    delta,
    profile,
)

if TYPE_CHECKING:
    from pathlib import Path

RUNS: list[Event] = [Gaussian(2), Laplace(3), ApproxDP(1, 1e-4), Concentrated(0.1), Sampled(Gaussian(1), 0.1)]


@pytest.mark.parametrize("event", RUNS, ids=lambda event: event.tag)
def test_points_fall_and_are_those_of_delta(event: Event) -> None:
    points = profile(event).points(31, least=1e-6)
    deltas = [each for _, each in points]
    assert deltas == sorted(deltas, reverse=True)
    for epsilon, found in (points[7], points[20]):
        assert found == pytest.approx(delta(event, epsilon), rel=1e-3, abs=1e-12)


def test_lower_and_upper_bounds_enclose_it() -> None:
    curve = profile([Laplace(5), Gaussian(4)])
    assert curve.delta(0.3, lower=True) <= curve.delta(0.3) <= curve.delta(0.3, lower=True) * 1.01
    assert curve.epsilon(1e-6, lower=True) <= curve.epsilon(1e-6)


def test_a_chart(tmp_path: Path) -> None:
    drawn = json.loads(profile([Laplace(5)] * 3).plot().save(tmp_path / "profile.json").read_text())
    assert "logarithm" not in json.dumps(drawn)
    assert '"log"' in json.dumps(drawn)
    assert profile(Pure(0)).plot()


def test_nothing_is_drawn_without_a_guarantee() -> None:
    with pytest.raises(UsageError, match="SF-N312"):
        profile(NonPrivate()).points()
