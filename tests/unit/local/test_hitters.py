"""Frequent values are found among a million that are listed, and among very many that are not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato import audit
from sfumato.errors import UsageError
from sfumato.local import HeavyHitters, SubsetResponse
from sfumato.privacy import events


def test_a_million_values() -> None:
    """The mean squared error has a standard error of 0.13 %; noise is listed once in 1e9 surveys."""
    response, people = SubsetResponse(3, 2**20), 100_000
    heavy = [7, 99_999, 2**19, 2**20 - 1]
    truths = np.random.default_rng(2).integers(0, 2**20, people)
    truths[:16_000] = np.repeat(heavy, 4000)
    found = response.estimate(response.privatize(truths))
    error = ((found.shares - np.bincount(truths, minlength=2**20) / people) ** 2).mean()
    assert error / response.expected_error(people) ** 2 == pytest.approx(1, abs=0.01)
    assert set(found.heavy(1e-9).tolist()) == set(heavy)
    assert set(found.top(4).tolist()) == set(heavy)
    assert found.to_dict(top=4)["answers"] == people
    assert "smaller" in str(found)
    assert found.plot(4).spec
    assert found._repr_html_().startswith("<table>")


def test_heavy_hitters_among_more_values_than_can_be_listed() -> None:
    """Nothing but the planted values; noise alone is listed once in 1e9 surveys. A third of the people, whom
    coins choose, answer about whole values, so that shares among them differ from those among all.
    """
    hitters, people = HeavyHitters(3, 30), 90_000
    rng = np.random.default_rng(6)
    heavy = [1, 2**29 + 12_345, 2**30 - 1]
    codes = rng.integers(0, 2**30, people)
    codes[:45_000] = np.repeat(heavy, 15_000)
    rng.shuffle(codes)
    found = hitters.find(*hitters.privatize(codes), false_alarm=1e-9)
    assert hitters.lengths == (20, 30, 30)
    assert set(found.codes.tolist()) == set(heavy)
    chosen = math.sqrt(5 / 36 / (people / 3))
    assert (np.abs(found.shares - 1 / 6) < 7 * math.hypot(hitters.expected_error(people), chosen)).all()
    assert set(found.to_dict()["values"]) == set(heavy)
    assert "95 %" in str(found)
    assert found.plot().spec


def test_false_alarms_are_as_rare_as_said_with_few_people() -> None:
    """A few reports speak for a value here. By a normal approximation most surveys would cry wolf."""
    response, truths = SubsetResponse(5, 1024), np.zeros(400, dtype=int)
    alarms = [(response.estimate(response.privatize(truths)).heavy(0.05) != 0).any() for _ in range(300)]
    assert np.mean(alarms) <= 0.05


def test_nobody_is_a_heavy_hitter() -> None:
    hitters = HeavyHitters(1, 8)
    found = hitters.find(*hitters.privatize(np.arange(2560) % 256), false_alarm=1e-9)
    assert found.codes.size == 0
    assert found.interval()[0].size == 0
    assert str(found) == "No value is surely frequent."
    assert hitters.event() == events.RandomizedAnswer(1)


def test_a_replay_of_heavy_hitters() -> None:
    hitters = HeavyHitters(1, 22)
    pairs = [([1, 2, 3], [1, 2, 2**22 - 1])]
    run = lambda codes: [part.tolist() for part in hitters.privatize(codes)]  # noqa: E731
    assert not audit.replay(run, pairs, claim=1).violates
    assert audit.replay(run, pairs, claim=0.5).violates


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: HeavyHitters(1, 53), "SF-N521"),
        (lambda: HeavyHitters(1, 8).privatize([256]), "SF-N502"),
        (lambda: HeavyHitters(1, 22).find([0, 1], [0]), "SF-N522"),
        (lambda: HeavyHitters(1, 22).find([0, 0], [1, 2]), "SF-N522"),
        (lambda: HeavyHitters(1, 22).find([9], [0]), "SF-N502"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code
