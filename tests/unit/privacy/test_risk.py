"""Risk in words: how often a guess about one person can be right, and spending by it. Nothing is random."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.privacy import (
    Gaussian,
    Pure,
    Sequential,
    bound_risk,
    epsilon_for_risk,
    event_success,
    explain,
    guess_success,
)


@pytest.mark.parametrize(
    ("epsilon", "delta", "prior"), [(1, 0, 0.5), (0.3, 0.1, 0.5), (1, 0.05, 0.9), (0.1, 0, 0.7)]
)
def test_no_test_that_is_allowed_is_right_more_often(epsilon: float, delta: float, prior: float) -> None:
    """Every pair of error rates on a fine grid that (ε, δ) allows, in both directions."""
    factor, best = math.exp(epsilon), 0.0
    for step in range(2001):
        alarms = step / 2000
        hits = min(1.0, factor * alarms + delta, 1 - (1 - alarms - delta) / factor)
        best = max(best, prior * hits + (1 - prior) * (1 - alarms))
    assert best <= guess_success(epsilon, delta, prior) + 1e-12
    assert best > guess_success(epsilon, delta, prior) - 1e-3


@pytest.mark.parametrize("risk", [0.500001, 0.55, 0.73, 0.99])
def test_the_epsilon_of_a_risk_keeps_it(risk: float) -> None:
    epsilon = epsilon_for_risk(risk)
    assert guess_success(epsilon) <= risk < guess_success(epsilon + Fraction(2, 10**6))


@pytest.mark.parametrize("risk", [0.5, 1, 0, -1, 2, 0.5 + 1e-9])
def test_what_is_no_risk_is_refused(risk: float) -> None:
    with pytest.raises(UsageError, match="SF-N101"):
        epsilon_for_risk(risk)


def test_events_have_their_own_bound() -> None:
    assert event_success(Pure(1)) == pytest.approx(math.e / (1 + math.e))
    both = Sequential([Gaussian(2), Gaussian(2)])
    assert event_success(both) == pytest.approx(0.5 * (1 + math.erf(math.sqrt(0.5) / 2 / math.sqrt(2))))
    assert event_success(Sequential([Gaussian(2), Pure(1)])) is None


def test_an_explanation_states_success_and_baseline() -> None:
    said = explain(1, prior=0.9)
    assert (said.baseline, said.success) == (0.9, 0.9)
    assert "right 50 in 100 times without the answers, are right at most 73 in 100 times" in str(explain(1))
    assert explain(1).to_dict()["success"] == pytest.approx(0.7310585)


def test_a_question_is_asked_by_risk_and_its_receipt_says_so(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "clinic")
    rows: Any = pa.table({"who": range(50), "age": range(50)})
    lab.register(
        "visits",
        rows,
        unit=sf.Unit("who", max_rows=1),
        columns={"age": sf.between(0, 110)},
        budget=sf.Budget(epsilon=4, delta=1e-6),
    )
    asked = lab.session().sql("SELECT COUNT(*) AS n FROM visits")
    assert asked.quote(risk=0.55).epsilon == Fraction(200670, 10**6)
    receipt = asked.release(risk=0.55).receipt
    assert receipt.guess is not None
    assert 0.5499 < receipt.guess <= 0.55
    assert receipt.to_dict()["guess"] == "0.5500"
    assert receipt.risk() == "by this answer alone, a 50:50 guess about one who is right at most 55.0 %"
    normal = asked.release(rho=0.02).receipt
    assert normal.guess == pytest.approx(0.5 * (1 + math.erf(0.1 / math.sqrt(2))), abs=1e-6)
    with pytest.raises(UsageError, match="SF-N109"):
        asked.quote(risk=0.55, epsilon=1)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (0.5, 0), (1, 1e-5), (2, 0.01), (14, 1e-5)])
def test_a_bounded_risk_is_the_best_that_both_inequalities_allow(epsilon: float, delta: float) -> None:
    """The largest chance on a fine grid that satisfies the definition for the event and its complement."""
    for baseline in (0.0, 0.001, 0.1, 0.5, 0.9, 1.0):
        allowed = [
            step / 5000
            for step in range(5001)
            if step / 5000 <= math.exp(epsilon) * baseline + delta + 1e-12
            and 1 - baseline <= math.exp(epsilon) * (1 - step / 5000) + delta + 1e-12
        ]
        assert max(allowed) <= bound_risk(epsilon, delta, baseline) + 1e-9
        assert max(allowed) >= bound_risk(epsilon, delta, baseline) - 1 / 5000


def test_a_baseline_is_a_chance() -> None:
    with pytest.raises(UsageError, match="baseline must lie between 0 and 1"):
        bound_risk(1, 0, 1.5)
