"""Requests for budget: kept, seen by both sides, answered once; only the steward's grant changes a quota."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, PolicyError, SfumatoError
from sfumato.lab.work import requests
from sfumato.lab.work.requests import MAX_OPEN

ROWS = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})
COUNT = "SELECT COUNT(*) AS n FROM visits"
REASON = "The second wave came in, and we compare both."


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 10, step=1)}
    for name, of in (("visits", "patients"), ("habits", "smokers")):
        lab.register(name, ROWS, unit=sf.Unit("who", 1, of), columns=columns, budget=sf.Budget(4, 1e-6))
    lab.grant("ada", epsilon=1, delta=1e-8)
    return lab


def refusal(call: Any) -> str:
    with pytest.raises(SfumatoError) as refused:
        call()
    return refused.value.code


def quotas(lab: sf.Lab, who: str) -> list[tuple[float, float]]:
    held = [each for each in lab.ledger.list_accounts() if each.endswith(f":{who}")]
    return [(float(budget.epsilon), float(budget.delta)) for budget in map(lab.ledger.read_budget, held)]


def test_asked_granted_and_spent(lab: sf.Lab) -> None:
    session = lab.session("ada")
    session.sql(COUNT).release(epsilon=0.75)
    with pytest.raises(BudgetError):
        session.sql(COUNT).release(epsilon=0.5)
    session.request(epsilon=0.5, reason=REASON)
    (seen,) = sf.open(lab.folder).requests()
    assert (seen.analyst, seen.reason, seen.state) == ("ada", REASON, "open")
    answered = seen.grant(note="until June")
    assert (answered.state, answered.note) == ("granted", "until June")
    assert quotas(lab, "ada") == [(1.5, 1e-8)] * 2
    session.sql(COUNT).release(epsilon=0.5)
    (told,) = lab.session("ada").requests()
    assert told.to_dict() == answered.to_dict()
    assert "granted ε = 0.5" in str(told)


def test_declined_or_granted_less_or_withdrawn(lab: sf.Lab) -> None:
    session = lab.session("ada")
    for number in range(3):
        session.request(epsilon=2, delta=1e-8, reason=f"{REASON} {number}")
    first, second, third = lab.requests()
    first.decline("The budget of the year is planned.")
    second.grant(epsilon=0.25, delta=0)
    session.requests()[2].withdraw()
    assert [each.state for each in session.requests()] == ["declined", "granted", "withdrawn"]
    assert "planned" in str(session.requests()[0])
    assert quotas(lab, "ada") == [(1.25, 1e-8)] * 2
    for each in (first, second, third):
        assert refusal(each.grant) == "SF-P124"
        assert refusal(lambda each=each: each.decline("no")) == "SF-P124"
    for sent in session.requests():
        assert refusal(sent.withdraw) == "SF-P124"
    assert quotas(lab, "ada") == [(1.25, 1e-8)] * 2


def test_two_stewards_answer_once(lab: sf.Lab) -> None:
    lab.session("ada").request(epsilon=0.5, reason=REASON)
    labs = [sf.open(lab.folder) for _ in range(4)]

    def answer(at: int) -> str:
        (seen,) = labs[at].requests()
        try:
            return (seen.decline("no") if at % 2 else seen.grant()).state
        except PolicyError as refused:
            return refused.code

    with ThreadPoolExecutor(4) as pool:
        said = sorted(pool.map(answer, range(4)))
    assert said[:3] == ["SF-P124"] * 3
    assert quotas(lab, "ada") == [(1.5 if said[3] == "granted" else 1.0, 1e-8)] * 2
    assert lab.requests()[0].state == said[3]


def test_a_crash_while_granting_is_finished_and_adds_nothing_twice(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.session("ada").request(epsilon=0.5, reason=REASON)
    grant, done = type(lab.ledger).grant, []

    def crash(*arguments: Any) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(grant(*arguments))

    with monkeypatch.context() as patch:
        patch.setattr(type(lab.ledger), "grant", crash)
        with pytest.raises(KeyboardInterrupt):
            lab.requests()[0].grant()
    assert sorted(quotas(lab, "ada")) == [(1.0, 1e-8), (1.5, 1e-8)]
    (seen,) = sf.open(lab.folder).requests()
    assert refusal(lambda: seen.decline("no")) == "SF-P124"
    assert refusal(lab.session("ada").requests()[0].withdraw) == "SF-P124"
    assert seen.grant(epsilon=3).granted == sf.Budget(0.5)  # what was decided first
    assert quotas(lab, "ada") == [(1.5, 1e-8)] * 2


def test_what_was_granted_otherwise_meanwhile_stays(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.session("ada").request(epsilon=0.5, reason=REASON)

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(lab.ledger), "grant", crash)
        with pytest.raises(KeyboardInterrupt):
            lab.requests()[0].grant()
    lab.revoke("ada")
    lab.requests()[0].grant()
    assert refusal(lambda: lab.session("ada")) == "SF-B103"


def test_someone_without_a_quota_gets_one_for_the_tables_that_are_named(lab: sf.Lab) -> None:
    lab.request("eve", epsilon=0.5, reason=REASON)
    lab.request("kim", epsilon=0.5, reason=REASON)
    lab.requests()[0].grant(tables=["visits"])
    lab.requests()[1].grant()
    lab.session("eve").sql(COUNT).release(epsilon=0.1)
    assert refusal(lambda: lab.session("eve").table("habits")) == "SF-Q106"
    assert (len(quotas(lab, "eve")), len(quotas(lab, "kim"))) == (1, 2)
    lab.request("kim", epsilon=0.5, reason=REASON)
    assert refusal(lambda: lab.requests()[2].grant(tables=["visits"])) == "SF-U104"
    lab.requests()[2].grant()  # a refused answer is no answer
    assert quotas(lab, "kim") == [(1.0, 0.0)] * 2


def test_odd_requests_are_refused_and_grant_nothing(lab: sf.Lab) -> None:
    session = lab.session("ada")
    for epsilon in (0, -1, float("nan"), float("inf"), "1", None, 2**200):
        assert refusal(lambda epsilon=epsilon: session.request(epsilon=epsilon, reason=REASON)).startswith(
            "SF-N"
        )
    for delta in (-1e-9, 1, 2, float("nan")):
        assert refusal(lambda d=delta: session.request(epsilon=1, delta=d, reason=REASON)).startswith("SF-N")
    for reason in ("", "  ", None, "x" * 2001):
        assert refusal(lambda reason=reason: session.request(epsilon=1, reason=reason)) == "SF-P113"
    assert refusal(lambda: lab.session().request(epsilon=1, reason=REASON)) == "SF-W103"
    for who in ("a:b", "", "  "):
        assert refusal(lambda who=who: lab.request(who, epsilon=1, reason=REASON)) == "SF-C113"
    assert lab.requests() == ()
    for number in range(1, MAX_OPEN + 1):
        session.request(epsilon=number, reason=REASON)
    assert refusal(lambda: session.request(epsilon=0.5, reason=REASON)) == "SF-W166"
    for epsilon in (0, -0.5, float("nan")):
        assert refusal(lambda e=epsilon: lab.requests()[0].grant(epsilon=e)).startswith("SF-N")
    assert refusal(lambda: lab.request_desk.grant(999)) == "SF-U101"
    assert quotas(lab, "ada") == [(1.0, 1e-8)] * 2
    assert {each.state for each in lab.requests()} == {"open"}


def test_the_same_wish_twice_is_one_and_a_day_has_an_end(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_A_DAY", 4)
    session = lab.session("ada")
    with ThreadPoolExecutor(4) as pool:
        sent = list(pool.map(lambda _: session.request(epsilon=0.5, reason=REASON).number, range(4)))
    assert set(sent) == {1}
    lab.requests()[0].grant()
    assert session.request(epsilon=0.5, reason=REASON).number == 2  # asked again after the answer
    for number in range(2):
        session.request(epsilon=0.5, reason=f"{REASON} {number}").withdraw()
    assert refusal(lambda: session.request(epsilon=0.25, reason=REASON)) == "SF-W166"
    lab.request("ben", epsilon=0.25, reason=REASON)  # the others' day goes on
    assert quotas(lab, "ada") == [(1.5, 1e-8)] * 2
