"""Means of bounded numbers: exact odds, unbiased estimates, intervals that cover."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.local import MeanResponse
from sfumato.local.means import STEPS, plan_window, worst_variance
from sfumato.privacy import events
from unit.local.scripted import Words

LN3 = math.log(3)


def chances(mechanism: MeanResponse, exact: int) -> np.ndarray:  # type: ignore[type-arg]
    """The chance of every report for a truth on the grid, from the definition."""
    moved, odds = exact * (mechanism.positions - mechanism.window), float(mechanism.odds)
    found = np.zeros(mechanism.positions)
    for start, weight in (
        (moved // STEPS, 1 - moved % STEPS / STEPS),
        (moved // STEPS + 1, moved % STEPS / STEPS),
    ):
        law = np.ones(mechanism.positions)
        law[start : start + mechanism.window] = odds
        found += weight * law / law.sum()
    return found


@pytest.mark.parametrize("epsilon", [0.5, LN3, 3, 5])
def test_means_are_unbiased_and_no_worse_than_said(epsilon: float) -> None:
    mechanism = MeanResponse(epsilon, -2, 6)
    told = np.array([mechanism.estimate([report]).value for report in range(mechanism.positions)])
    worst = 0.0
    for truth in np.linspace(-2, 6, 33):
        law = chances(mechanism, round((truth + 2) / 8 * STEPS))
        assert law @ told == pytest.approx(truth, abs=1e-9)
        worst = max(worst, float(law @ told**2 - truth**2))
    assert worst <= mechanism.expected_error(1) ** 2 * (1 + 1e-9)
    assert worst >= 0.9 * mechanism.expected_error(1) ** 2


def test_positions_have_exactly_their_odds() -> None:
    """Odds of 3: every number once, for every start of the window."""
    mechanism = MeanResponse(LN3, 0, 1)
    starts = mechanism.positions - mechanism.window
    numbers = 2 * mechanism.window + mechanism.positions
    for start in range(starts + 1):
        # A coin of 0 rounds up and the largest one down; on a whole start both give it.
        words = np.concatenate([np.zeros(numbers, np.uint64), np.arange(numbers, dtype=np.uint64)])
        told = mechanism.privatize(np.full(numbers, start / starts), source=Words(words))
        seen = np.bincount(told, minlength=mechanism.positions)
        expected = np.ones(mechanism.positions, int)
        expected[start : start + mechanism.window] = 3
        assert (seen == expected).all()


def test_the_window_is_duchi_s_for_small_epsilon_and_beats_both_ways_above() -> None:
    assert plan_window(math.exp(0.5)) == (2, 1)
    for epsilon in (1.5, 2, 3, 4, 5):
        odds, root = math.exp(epsilon), math.exp(epsilon / 2)
        duchi = ((odds + 1) / (odds - 1)) ** 2
        piecewise = 1 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)
        # Both are for numbers between −1 and 1, ours for 0 to 1.
        assert 4 * worst_variance(*plan_window(odds), odds) < 0.87 * min(duchi, piecewise)


def test_mean_intervals_cover() -> None:
    """4,000 samples of a population. The true coverage is .948, so chance leaves the band once in 1e12."""
    mechanism, rng = MeanResponse(2, 0, 100), np.random.default_rng(3)
    held = 0
    for _ in range(4000):
        low, high = mechanism.estimate(mechanism.privatize(rng.uniform(20, 60, 1000))).interval(0.95)
        held += low <= 40 <= high
    assert abs(held / 4000 - 0.95) < 8 * math.sqrt(0.95 * 0.05 / 4000)


def test_numbers_are_clipped_and_told() -> None:
    mechanism = MeanResponse(3, 0, 10)
    found = mechanism.estimate(mechanism.privatize([-math.inf, 5, 1e300] * 5000))
    assert abs(found.value - 5) < 6 * math.sqrt(found.variance)
    assert found.to_dict()["answers"] == 15_000
    assert "95 %" in str(found)
    assert found._repr_html_().startswith("<table>")
    assert mechanism.event(2) == events.Repeated(events.RandomizedAnswer(3), 2)
    assert mechanism.bits == (mechanism.positions - 1).bit_length()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: MeanResponse(1, 3, 3), "SF-C104"),
        (lambda: MeanResponse(1, math.nan, 3), "SF-N105"),
        (lambda: MeanResponse(1, 0, 1).privatize([0.5, math.nan]), "SF-N502"),
        (lambda: MeanResponse(1, 0, 1).privatize(["many"]), "SF-N502"),
        (lambda: MeanResponse(1, 0, 1).privatize([]), "SF-N502"),
        (lambda: MeanResponse(1, 0, 1).estimate([2]), "SF-N502"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code


@pytest.mark.parametrize("answers", [1, 2, 5, 12])
@pytest.mark.parametrize("truth", [0.0, 0.05, 0.3, 1.0])
def test_few_reports_have_intervals_that_cover(answers: int, truth: float) -> None:
    """Reports that agree by chance do not say that the mean is known. The chances are exact, not drawn."""
    survey = MeanResponse(1, 0, 1)
    assert survey.positions == 2
    odds = float(survey.odds)
    upper = (truth * odds + 1 - truth) / (odds + 1)
    held = 0.0
    for high in range(answers + 1):
        low, top = survey.estimate([0] * (answers - high) + [1] * high).interval()
        chance = math.comb(answers, high) * upper**high * (1 - upper) ** (answers - high)
        held += chance * (low <= truth <= top)
    assert held >= 0.95


def test_bounds_that_are_one_double_are_refused() -> None:
    with pytest.raises(UsageError, match="SF-C104"):
        MeanResponse(1, 1, Fraction(1) + Fraction(1, 10**20))


def test_a_message_is_one_report() -> None:
    survey = MeanResponse(1, 0, 1)
    crowd = {"question": survey.question()["id"], "report": [0] * 1000}
    with pytest.raises(UsageError, match="Message 0"):
        survey.collect([crowd])
