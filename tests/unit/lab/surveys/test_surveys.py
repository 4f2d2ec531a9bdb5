"""Surveys in a lab: terms, charges, one answer for each invitation, rounds, results."""

from __future__ import annotations

import json
import math
import sqlite3
import stat
import threading
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, LedgerError, PolicyError, SfumatoError, UsageError
from sfumato.lab.surveys.charging import charge_round, respondents_account
from sfumato.lab.surveys.invitation import Invitation
from sfumato.lab.surveys.levels import LEVELS
from sfumato.lab.surveys.survey import Survey
from sfumato.privacy.account import price
from waiting import PATIENCE


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    return sf.create(tmp_path / "lab")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    """A lab for tests that refuse, with one survey that nobody answers."""
    lab = sf.create(tmp_path_factory.mktemp("surveys") / "lab")
    create(lab)
    return lab


def create(lab: sf.Lab, name: str = "smoking", **more: Any) -> Survey:
    said: dict[str, Any] = {"question": "Do you smoke?", "epsilon": "3 in 4", "invitations": 5, **more}
    return lab.create_survey(name, **said)


def message(invitation: Invitation, report: Any = 0, **other: Any) -> dict[str, Any]:
    return {
        "question": invitation.question()["law"]["id"],
        "round": invitation.round,
        "report": report,
        **other,
    }


def answer(lab: sf.Lab, link: str, report: Any = 0) -> bool:
    invitation = lab.open_invitation(link)
    return invitation.answer(message(invitation, report))


def refusal(call: Any, *given: Any, **named: Any) -> str:
    with pytest.raises(SfumatoError) as refused:
        call(*given, **named)
    return refused.value.code


def charges(lab: sf.Lab) -> list[dict[str, Any]]:
    return [json.loads(entry.body) for entry in lab.ledger.read_entries() if entry.kind == "charge"]


# ---- ε in words --------------------------------------------------------------------------------------------


def test_levels_have_exactly_their_odds() -> None:
    for level in LEVELS:
        assert sf.local.RandomizedResponse(level.epsilon).odds == Fraction(
            level.right, level.of - level.right
        )
        with mpmath.workdps(40):
            above = mpmath.mpf(level.epsilon.numerator) / level.epsilon.denominator - mpmath.log(
                mpmath.mpf(level.odds.numerator) / level.odds.denominator
            )
        assert 0 <= above < 1e-16


def test_the_fair_coin_is_among_them(lab: sf.Lab) -> None:
    survey = create(lab)
    assert survey.terms.is_fair_coin
    assert survey.terms.mechanism.question() == sf.local.RandomizedResponse.fair_coin().question()
    assert create(lab, "typed", epsilon=math.log(3)).terms.is_fair_coin
    assert not create(lab, "three", choices=["a", "b", "c"]).terms.is_fair_coin
    assert not create(lab, "other", epsilon="2 in 3").terms.is_fair_coin


def test_words_never_say_less_than_the_numbers(lab: sf.Lab) -> None:
    terms = create(lab, epsilon=1, asks=3).terms
    assert terms.level_sentence.endswith("at most 73.2 times in 100.")  # 0.73106 rounded up
    assert terms.total_sentence.endswith("at most 95.3 times in 100.")  # e³/(1 + e³) = 0.95257
    assert create(lab, "fair").terms.level_sentence.endswith("at most 3 times in 4.")


# ---- terms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"name": "two words"}, "SF-C113"),
        ({"name": "../up"}, "SF-C113"),
        ({"name": "a" * 61}, "SF-C113"),
        ({"name": 7}, "SF-C113"),
        ({"question": " "}, "SF-P113"),
        ({"question": "x" * 501}, "SF-P113"),
        ({"question": "tail \u202e reversed"}, "SF-P113"),
        ({"choices": ["Yes"]}, "SF-C107"),
        ({"choices": ["Yes", "yes "]}, "SF-C107"),
        ({"choices": "ab"}, "SF-C107"),
        ({"choices": [str(n) for n in range(13)]}, "SF-C107"),
        ({"choices": ["Yes", 3]}, "SF-P113"),
        ({"asks": 101}, "SF-N101"),
        ({"asks": 0}, "SF-N101"),
        ({"epsilon": "7 in 8"}, "SF-E187"),
        ({"epsilon": 0}, "SF-N101"),
        ({"epsilon": 41}, "SF-N101"),
        ({"invitations": 0}, "SF-N101"),
        ({"invitations": 10**7}, "SF-N101"),
        ({"public": "no"}, "SF-N104"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_kept(
    shared: sf.Lab, changed: dict[str, Any], code: str
) -> None:
    assert refusal(create, shared, **{"name": "other", **changed}) == code
    assert [each.name for each in shared.surveys()] == ["smoking"]
    assert shared.ledger.list_accounts() == ("population:survey smoking",)


def test_a_name_is_used_once(lab: sf.Lab) -> None:
    create(lab)
    assert refusal(create, lab) == "SF-C110"
    assert refusal(create, lab, "SMOKING") == "SF-C110"
    assert refusal(lab.survey, "drinking") == "SF-U101"
    assert len(charges(lab)) == 1


# ---- the charge --------------------------------------------------------------------------------------------


def test_a_round_is_charged_once_before_it_is_open(lab: sf.Lab) -> None:
    survey = create(lab, asks=2)
    account = respondents_account("smoking")
    (charge,) = charges(lab)
    assert charge["accounts"] == [account]
    assert charge["neighbours"] == "replace-one"
    assert lab.ledger.read_spent(account) == price(survey.terms.mechanism.event())
    for link in survey.links:
        assert answer(lab, link)
    assert len(charges(lab)) == 1  # however many people answer
    survey.close()
    assert survey.open_round() == 2
    assert lab.ledger.read_spent(account) == price(survey.terms.mechanism.event()) * 2
    survey.close()
    assert refusal(survey.open_round) == "SF-N604"
    assert lab.verify().charges == 2


def test_the_ledger_itself_refuses_more_rounds_than_were_promised(lab: sf.Lab) -> None:
    survey = create(lab)
    survey.close()
    record = survey._record
    with pytest.raises(BudgetError):
        charge_round(lab.ledger, record.terms, record.identity, 2)


def test_all_promised_rounds_fit_the_budget(lab: sf.Lab) -> None:
    for place, epsilon in enumerate(["3 in 5", "9 in 10", 1, 0.1, Fraction(1, 3), math.pi, 1e-3]):
        survey = create(lab, f"rounds-{place}", epsilon=epsilon, asks=3, invitations=None)
        for _ in range(2):
            survey.close()
            survey.open_round()
        survey.close()
    assert lab.verify().releases == 21
    assert all(0 <= account.left_epsilon < 1e-11 for account in lab.budget.accounts)


def test_closing_keeps_the_counts_in_the_ledger(lab: sf.Lab) -> None:
    survey = create(lab)
    for report, link in zip([0, 1, 1], survey.links, strict=False):
        answer(lab, link, report)
    assert refusal(survey.receipt) == "SF-P124"
    closed = survey.close()
    assert closed.counts == (1, 2)
    assert not closed.is_open
    assert json.loads(survey.receipt().answer) == [1, 2]
    assert survey.close().counts == (1, 2)  # again, and nothing happens
    assert lab.verify().releases == 1


def test_a_lost_file_of_surveys_creates_no_budget(lab: sf.Lab) -> None:
    create(lab)
    (lab.folder / "surveys" / "surveys.sqlite").unlink()
    with pytest.raises(BudgetError):
        create(lab)
    assert len(charges(lab)) == 1
    assert [survey.is_open for survey in lab.surveys()] == [False]


def test_a_round_of_another_ledger_is_not_released(lab: sf.Lab) -> None:
    survey = create(lab)
    with sqlite3.connect(lab.folder / "surveys" / "surveys.sqlite") as db:
        db.execute("UPDATE survey SET identity = 'another'")
    db.close()
    with pytest.raises(LedgerError, match="SF-L132"):
        survey.close()


def test_the_budget_is_shown_to_the_steward_alone(lab: sf.Lab) -> None:
    create(lab, asks=2)
    assert [(each.name, round(each.epsilon, 3)) for each in lab.budget.accounts] == [
        ("population:survey smoking", 2.197)
    ]
    lab.register("t", pa.table({"x": [1]}), unit=sf.ROW, columns={"x": sf.one_of(1)}, budget=sf.Budget(1))
    lab.grant("ada", epsilon=1)
    assert not any("survey" in each.name for each in lab.session("ada").budget.accounts)


# ---- one answer for each invitation ------------------------------------------------------------------------


def test_an_invitation_answers_once(lab: sf.Lab) -> None:
    survey = create(lab)
    assert answer(lab, survey.links[0], 0)
    assert not answer(lab, survey.links[0], 0)  # a replay
    assert not answer(lab, survey.links[0], 1)  # or a second tab that has tossed for itself
    assert survey.result().counts == (1, 0)
    assert lab.open_invitation(survey.links[0]).has_answered
    assert not lab.open_invitation(survey.links[1]).has_answered


def test_two_tabs_at_once_count_once(lab: sf.Lab) -> None:
    survey = create(lab)
    start, counted = threading.Barrier(8, timeout=PATIENCE), []

    def submit(report: int) -> None:
        invitation = lab.open_invitation(survey.links[0])
        start.wait()
        counted.append(invitation.answer(message(invitation, report)))

    tabs = [threading.Thread(target=submit, args=(n % 2,)) for n in range(8)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert Counter(counted) == {True: 1, False: 7}
    assert survey.result().answers == 1


@pytest.mark.parametrize("report", [-1, 2, 0.0, "0", True, None, [0], 2**70, math.nan])
def test_reports_out_of_range_are_refused(shared: sf.Lab, report: Any) -> None:
    (link,) = shared.survey("smoking").invite(1)
    assert refusal(answer, shared, link, report) == "SF-N502"
    assert shared.survey("smoking").result().answers == 0
    assert not shared.open_invitation(link).has_answered  # the invitation is still good


def test_messages_of_another_law_round_or_shape_are_refused(lab: sf.Lab) -> None:
    survey = create(lab, asks=2)
    other = create(lab, "weaker", epsilon="9 in 10")
    invitation = lab.open_invitation(survey.links[0])
    wrong = [
        message(lab.open_invitation(other.links[0])),
        message(invitation, round=2),
        message(invitation, round=True),
        message(invitation, truth=1),
        {"report": 0},
        [],
        None,
        "yes",
    ]
    assert {refusal(invitation.answer, each) for each in wrong} == {"SF-N502"}
    late = message(invitation)
    survey.close()
    assert refusal(lab.open_invitation(survey.links[0]).answer, late) == "SF-P124"
    survey.open_round()
    assert refusal(lab.open_invitation(survey.links[0]).answer, late) == "SF-N502"
    assert survey.result().answers == 0


def test_a_round_that_closes_meanwhile_takes_no_answer(lab: sf.Lab) -> None:
    survey = create(lab)
    invitation = lab.open_invitation(survey.links[0])
    sent = message(invitation)
    survey.close()
    assert refusal(invitation.answer, sent) == "SF-P124"


@pytest.mark.parametrize("link", ["", "nothing", "/s/nothing", "x" * 10_000, None, 7, "\ud800", "a\x00b"])
def test_unknown_links_lead_nowhere(shared: sf.Lab, link: Any) -> None:
    assert refusal(shared.open_invitation, link) == "SF-U101"


def test_no_link_leads_anywhere_before_the_first_survey(lab: sf.Lab) -> None:
    assert refusal(lab.open_invitation, "nothing") == "SF-U101"
    assert lab.surveys() == ()


def test_each_round_is_answered_once(lab: sf.Lab) -> None:
    survey = create(lab, asks=2)
    assert answer(lab, survey.links[0])
    survey.close()
    survey.open_round()
    assert answer(lab, survey.links[0])
    assert not answer(lab, survey.links[0])
    assert (survey.result(1).answers, survey.result().answers) == (1, 1)
    assert refusal(survey.result, 3) == "SF-U101"


def test_an_open_link_is_shared(lab: sf.Lab) -> None:
    survey = create(lab, invitations=None)
    assert survey.links == ()
    assert survey.link is not None
    assert all(answer(lab, survey.link) for _ in range(3))
    assert survey.result().answers == 3
    assert survey.result().missing is None
    assert refusal(survey.invite, 3) == refusal(survey.replace_links) == "SF-U104"
    assert lab.survey("smoking").link == survey.link


def test_links_are_replaced_but_answers_stay(lab: sf.Lab) -> None:
    survey = create(lab)
    old = survey.links
    answer(lab, old[0], 1)
    new = survey.replace_links()
    assert len(new) == 4
    assert not set(new) & set(old)
    assert refusal(lab.open_invitation, old[1]) == "SF-U101"
    assert lab.open_invitation(old[0]).has_answered
    assert len(survey.invite(2)) == 2
    assert survey.result().invited == 7
    assert survey.result().answers == 1


# ---- what is kept ------------------------------------------------------------------------------------------


def test_no_link_and_no_report_of_one_person_is_kept(lab: sf.Lab) -> None:
    survey = create(lab)
    answer(lab, survey.links[0], 1)
    file = lab.folder / "surveys" / "surveys.sqlite"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    kept = b"".join(each.read_bytes() for each in lab.folder.rglob("*") if each.is_file())
    assert not any(link.removeprefix("/s/").encode() in kept for link in survey.links)
    db = sqlite3.connect(file)
    columns = {row[1] for row in db.execute("PRAGMA table_info(invitation)")}
    reports = {row[1] for row in db.execute("PRAGMA table_info(report)")}
    db.close()
    assert columns == {"digest", "survey", "answered"}
    assert reports == {"survey", "round", "value", "people"}


def test_links_cannot_be_guessed(lab: sf.Lab) -> None:
    links = {link.removeprefix("/s/") for link in create(lab, invitations=500).links}
    assert len(links) == 500
    assert {len(link) for link in links} == {32}  # 24 bytes in base 64


# ---- results -----------------------------------------------------------------------------------------------


def test_results_are_the_estimates_of_local(lab: sf.Lab) -> None:
    survey = create(lab, invitations=40, public=True)
    assert survey.result().list_rows() == []
    assert refusal(survey.result().plot) == "SF-N606"
    for n, link in enumerate(survey.links[:30]):
        answer(lab, link, int(n % 3 == 0))
    result = survey.result()
    reports = [0] * 20 + [1] * 10
    expected = sf.local.RandomizedResponse.fair_coin().estimate(reports)
    assert list(result.shares.values()) == list(expected.shares)
    assert result.interval("No") == expected.interval(of=1)
    assert result.interval("Yes", population=True) == expected.interval(of=0, population=True)
    low, high = result.interval("Yes")
    assert result.widest("Yes") == (low * 0.75, high * 0.75 + 0.25)
    assert result.missing == 10
    assert "30 people of 40 invited answered, 10 did not." in str(result)
    assert lab.open_invitation(survey.links[0]).result().counts == result.counts
    assert json.loads(json.dumps(result.to_dict()))["missing"] == 10
    assert refusal(result.interval, "Maybe") == "SF-N502"
    assert "Yes" in json.dumps(result.plot().spec)
    assert "smoke" in result._repr_html_()


def test_results_are_for_the_steward_unless_said_otherwise(lab: sf.Lab) -> None:
    survey = create(lab)
    assert refusal(lab.open_invitation(survey.links[0]).result) == "SF-W103"
    assert refusal(create(lab, "open", invitations=None).result().widest, "Yes") == "SF-U104"


def test_a_copy_of_the_lab_can_be_looked_at(lab: sf.Lab) -> None:
    from sfumato.lab.lab import open_to_read

    survey = create(lab)
    answer(lab, survey.links[0])
    lab.ledger.close()
    copy = open_to_read(lab.folder)
    assert [each.result().answers for each in copy.surveys()] == [1]
    copy.ledger.close()


def test_a_damaged_file_is_named(lab: sf.Lab) -> None:
    survey = create(lab)
    (lab.folder / "surveys" / "surveys.sqlite").write_bytes(
        b"not a database, and long enough to be read " * 40
    )
    assert refusal(survey.result) == "SF-C224"
    assert refusal(lab.surveys) == "SF-C224"


def test_errors_say_whose_they_are(lab: sf.Lab) -> None:
    survey = create(lab)
    with pytest.raises(UsageError):
        lab.open_invitation("nothing")
    with pytest.raises(PolicyError):
        survey.open_round()
