"""Repeated rounds: kept answers reveal nothing more, fresh ones reveal what they cost."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sfumato import audit
from sfumato.errors import UsageError
from sfumato.local import (
    AnswerMemo,
    MeanResponse,
    RandomizedResponse,
    RepeatedSurvey,
    SubsetResponse,
)
from sfumato.privacy import events

COIN = RandomizedResponse(1)


def guessed(survey: RepeatedSurvey, people: int = 4000) -> float:
    """The averaging attack: how often the commonest answer of all rounds is the truth."""
    truths = np.arange(people) % 2
    reports = survey.privatize(np.tile(truths, (survey.rounds, 1)))
    return float(((reports.mean(axis=0) > 0.5) == truths).mean())


def test_fresh_answers_reveal_and_kept_ones_do_not() -> None:
    """Six standard errors each way."""
    fresh, kept = RepeatedSurvey(COIN, 101, renew=1), RepeatedSurvey(COIN, 101)
    slack = 6 * math.sqrt(0.25 / 4000)
    once = float(COIN.truth)
    assert guessed(fresh) > 0.999
    assert fresh.guess_rate > 0.999
    assert abs(guessed(kept) - once) < slack
    assert kept.guess_rate == pytest.approx(once)
    assert (fresh.epsilon, kept.epsilon) == (101, 1)
    monthly = RepeatedSurvey(COIN, 101, renew=30)
    assert (monthly.tosses, monthly.epsilon) == (4, 4)
    assert abs(guessed(monthly) - monthly.guess_rate) < 0.05
    assert monthly.event() == events.Repeated(events.RandomizedAnswer(1), 4)
    assert "4 times" in str(monthly)
    assert "once" in str(kept)


def test_estimates_of_kept_answers_are_those_of_one_round() -> None:
    survey = RepeatedSurvey(SubsetResponse(2, 50), 6, renew=3)
    truths = np.tile(np.arange(5000) % 50, (6, 1))
    truths[1] = 0  # a change that is not told, because coins are tossed in rounds 1 and 4
    reports = survey.privatize(truths)
    assert (reports[0] == reports[1]).all()
    assert (reports[0] != reports[3]).any()
    found = survey.estimate(reports[1])
    assert abs(found.shares[0] - 0.02) < 6 * survey.expected_error(5000)
    assert survey.guess_rate == pytest.approx(math.exp(4) / (math.exp(4) + 49))


def test_an_audit_catches_fresh_coins_at_the_price_of_a_memo() -> None:
    kept, fresh = RepeatedSurvey(COIN, 4), RepeatedSurvey(COIN, 4, renew=1)

    def told(survey: RepeatedSurvey, truth: int):  # type: ignore[no-untyped-def]
        return lambda n: survey.privatize(np.full((4, n), truth)).T

    claim = kept.event()
    assert not audit.run((told(kept, 0), told(kept, 1)), claim, samples=8000, alpha=1e-10).violates
    assert audit.run((told(fresh, 0), told(fresh, 1)), claim, samples=8000, alpha=1e-10).violates


def test_a_replay_counts_people_and_not_rounds() -> None:
    survey = RepeatedSurvey(COIN, 3)
    pairs = [([[0, 1], [0, 1], [0, 1]], [[0, 0], [0, 0], [0, 0]])]
    assert not audit.replay(lambda truths: survey.privatize(truths).tolist(), pairs, claim=1).violates


@pytest.mark.parametrize("mechanism", [RandomizedResponse(1, 1000), SubsetResponse(1, 1000)], ids=str)
def test_a_memo_outlives_its_process_and_belongs_to_one_question(
    mechanism: RandomizedResponse | SubsetResponse,
) -> None:
    survey = RepeatedSurvey(mechanism, 10, renew=5)
    memo = AnswerMemo(survey)
    first = memo.answer(7, 1)
    again = AnswerMemo.from_json(survey, memo.to_json())
    assert all(again.answer(time % 3, time) == first for time in range(1, 6))
    later = again.answer(7, 6)
    assert len(survey.mechanism.collect([first, later])) == 2
    assert json.loads(again.to_json())["reports"].keys() == {"0", "1"}
    with pytest.raises(UsageError) as refused:
        AnswerMemo.from_json(RepeatedSurvey(RandomizedResponse(2, 1000), 10), memo.to_json())
    assert refused.value.code == "SF-N512"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: RepeatedSurvey(COIN, 0), "SF-N101"),
        (lambda: RepeatedSurvey(COIN, 3, renew=0), "SF-N101"),
        (lambda: RepeatedSurvey(MeanResponse(1, 0, 1), 3), "SF-N512"),  # type: ignore[arg-type]
        (lambda: RepeatedSurvey(COIN, 3).privatize([0, 1, 1]), "SF-N203"),
        (lambda: AnswerMemo(RepeatedSurvey(COIN, 3)).answer(1, 4), "SF-N203"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code
