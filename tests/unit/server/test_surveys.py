"""Surveys over HTTP: who may do what, what a link opens, and what is refused."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import pytest

import sfumato as sf
from serving import ServedClinic
from sfumato.server.access import cookie_name, make_csrf_token

PAGE = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def survey(clinic: ServedClinic) -> dict[str, Any]:
    """A survey of the fair coin with ten invitations."""
    body = {"name": "smoking", "question": "Do you <b>smoke</b>?", "epsilon": "3 in 4", "invitations": 10}
    made = clinic.send("POST", "/api/surveys", "steward", json=body)
    assert made.status_code == 201, made.text
    said: dict[str, Any] = made.json()
    return said


def path(link: str) -> str:
    return link.removeprefix("http://testserver/s/")


def report(clinic: ServedClinic, link: str, **changed: Any) -> Any:
    asked = clinic.send("GET", f"/api/s/{path(link)}", "public").json()
    body = {"question": asked["law"]["id"], "round": asked["round"], "report": 0} | changed
    return clinic.send("POST", f"/api/s/{path(link)}", "public", json=body)


def test_only_a_steward_creates_and_changes(clinic: ServedClinic, survey: dict[str, Any]) -> None:
    assert len(survey["links"]) == 10
    assert all(link.startswith("http://testserver/s/") for link in survey["links"])
    body = {"name": "other", "question": "?", "epsilon": 1}
    for role in ("analyst", "auditor", "public"):
        for address in ("", "/smoking/close", "/smoking/rounds", "/smoking/links"):
            answer = clinic.send("POST", f"/api/surveys{address}", role, json=body)
            assert answer.status_code == (401 if role == "public" else 403)


def test_results_that_are_not_public_are_the_stewards(clinic: ServedClinic, survey: dict[str, Any]) -> None:
    assert clinic.send("GET", "/api/surveys/smoking", "steward").json()["invited"] == 10
    for role in ("analyst", "auditor", "public"):
        hidden = clinic.send("GET", "/api/surveys/smoking", role)
        nothing = clinic.send("GET", "/api/surveys/nothing", role)
        assert (hidden.status_code, hidden.content) == (nothing.status_code, nothing.content)
        listed = clinic.send("GET", "/api/surveys", role).json()["surveys"]
        assert "smoking" not in [each["survey"] for each in listed]
        page = clinic.send("GET", "/surveys/smoking", role, headers=PAGE)
        assert page.status_code == 404
    refused = clinic.send("GET", f"/s/{path(survey['links'][0])}/results", "public")
    assert (refused.status_code, refused.json()["code"]) == (403, "SF-W103")


def test_everyone_sees_a_public_result_but_no_link(clinic: ServedClinic) -> None:
    body = {
        "name": "seen",
        "question": "Which?",
        "choices": ["a", "b", "c"],
        "epsilon": "1/2",
        "public": True,
    }
    made = clinic.send("POST", "/api/surveys", "steward", json=body).json()
    for _ in range(3):
        assert report(clinic, made["link"], report=2).json() == {"counted": True}
    found = clinic.send("GET", "/api/surveys/seen", "public").json()
    assert (found["answers"], found["missing"]) == (3, None)
    assert found["results"][2]["share"] > 1  # unbiased, from three reports
    (listed,) = clinic.send("GET", "/api/surveys", "public").json()["surveys"]
    assert (listed["link"], listed["links"]) == (None, [])
    for address in ("/surveys", "/surveys/seen", f"/s/{path(made['link'])}/results"):
        page = clinic.send("GET", address, "public", headers=PAGE)
        assert page.status_code == 200
        assert address.endswith("results") or path(made["link"]) not in page.text


def test_an_invitation_counts_once(clinic: ServedClinic, survey: dict[str, Any]) -> None:
    link = survey["links"][1]
    assert report(clinic, link).json() == {"counted": True}
    assert report(clinic, link).json() == {"counted": False}
    assert report(clinic, link, report=1).json() == {"counted": False}
    assert clinic.send("GET", f"/api/s/{path(link)}", "public").json()["answered"]


def test_double_submits_at_once_count_once(clinic: ServedClinic, survey: dict[str, Any]) -> None:
    link, said = survey["links"][2], []
    before = clinic.lab.survey("smoking").result().answers
    tabs = [
        threading.Thread(target=lambda n=n: said.append(report(clinic, link, report=n % 2).json()["counted"]))
        for n in range(6)
    ]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert Counter(said) == {True: 1, False: 5}
    assert clinic.lab.survey("smoking").result().answers == before + 1


@pytest.mark.parametrize(
    "changed",
    [
        {"report": 2},
        {"report": -1},
        {"report": 0.0},
        {"report": "0"},
        {"report": True},
        {"report": None},
        {"question": "0000000000000000"},
        {"question": 7},
        {"round": 2},
        {"truth": 1},
    ],
)
def test_other_reports_are_refused(
    clinic: ServedClinic, survey: dict[str, Any], changed: dict[str, Any]
) -> None:
    refused = report(clinic, survey["links"][3], **changed)
    assert refused.status_code == 400
    assert refused.json()["code"] in ("SF-N502", "SF-W104")
    assert not clinic.lab.open_invitation(f"/s/{path(survey['links'][3])}").has_answered


def test_a_report_of_another_epsilon_is_refused(clinic: ServedClinic, survey: dict[str, Any]) -> None:
    weaker = sf.local.RandomizedResponse(5).question()["id"]
    refused = report(clinic, survey["links"][3], question=weaker)
    assert "another ε" in refused.json()["why"]


@pytest.mark.parametrize("link", ["x", "%2e%2e", "a" * 99, "%F0%9F%98%80", "a%00b"])
def test_unknown_links_say_the_same(clinic: ServedClinic, survey: dict[str, Any], link: str) -> None:
    answers = {
        (each.status_code, each.content)
        for each in (
            clinic.send("GET", f"/api/s/{link}", "public"),
            clinic.send("GET", "/api/s/nothing", "public"),
        )
    }
    assert len(answers) == 1
    assert answers.pop()[0] == 404
    assert clinic.send("GET", f"/s/{link}", "public", headers=PAGE).status_code == 404


def test_pages_behind_links_are_not_kept_or_told(clinic: ServedClinic, survey: dict[str, Any]) -> None:
    link = path(survey["links"][4])
    for address in (f"/s/{link}", f"/api/s/{link}"):
        answer = clinic.send("GET", address, "public", headers=PAGE)
        assert answer.status_code == 200
        assert "noindex" in answer.headers["x-robots-tag"]
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
    page = clinic.send("GET", f"/s/{link}", "public", headers=PAGE).text
    assert "&lt;b&gt;smoke" in page
    assert "<b>smoke" not in page
    assert "style=" not in page
    assert "onclick" not in page
    assert "<script>" not in page


def test_the_client_is_the_one_that_is_tested(clinic: ServedClinic) -> None:
    served = clinic.send("GET", "/surveys/client.js", "public")
    assert served.text == sf.local.read_client()
    assert served.headers["content-type"].startswith("text/javascript")


def test_no_link_is_logged(
    clinic: ServedClinic, survey: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    link = path(survey["links"][5])
    with caplog.at_level("INFO"):
        report(clinic, link)
        clinic.send("GET", f"/s/{link}", "public", headers=PAGE)
        clinic.send("GET", f"/s/{link[:-1]}", "public", headers=PAGE)
    lines = "".join(each.getMessage() for each in caplog.records if each.name.startswith("sfumato"))
    assert "/s/{link}" in lines
    assert link[:-1] not in lines
    assert link[:-1] not in clinic.send("GET", "/metrics", "steward").text


# ---- without JavaScript ------------------------------------------------------------------------------------


def by_hand(clinic: ServedClinic, link: str, **changed: str) -> Any:
    law = sf.local.RandomizedResponse.fair_coin().question()["id"]
    form = {"question": law, "round": "1", "report": "1"} | changed
    return clinic.send("POST", f"/s/{path(link)}", "public", data=form, headers=PAGE)


def test_coins_can_be_tossed_by_hand(clinic: ServedClinic, survey: dict[str, Any]) -> None:
    link = survey["links"][6]
    page = clinic.send("GET", f"/s/{path(link)}", "public", headers=PAGE).text
    assert "Toss a coin where nobody sees it." in page
    for wrong in ({"report": "2"}, {"report": ""}, {"report": "yes"}, {"round": "2"}, {"question": "x"}):
        assert by_hand(clinic, link, **wrong).status_code == 400
    assert "was counted." in by_hand(clinic, link).text
    assert "was counted with this invitation before" in by_hand(clinic, link).text


def test_other_odds_cannot_be_tossed_by_hand(clinic: ServedClinic) -> None:
    body = {"name": "odds", "question": "Which?", "epsilon": 2, "invitations": 1}
    (link,) = clinic.send("POST", "/api/surveys", "steward", json=body).json()["links"]
    page = clinic.send("GET", f"/s/{path(link)}", "public", headers=PAGE).text
    assert "Toss a coin where nobody sees it." not in page
    refused = by_hand(clinic, link)
    assert refused.status_code == 400
    assert "SF-U104" in refused.text


# ---- the steward's pages -----------------------------------------------------------------------------------


def send_form(clinic: ServedClinic, address: str, **form: str) -> Any:
    cookie = clinic.context.people.make_token("grace", purpose="page")
    headers = {"Cookie": f"{cookie_name(clinic.context)}={cookie}", **PAGE}
    data = form | {"csrf": make_csrf_token(cookie)}
    return clinic.client.post(address, data=data, headers=headers)


def test_a_steward_works_with_forms_alone(clinic: ServedClinic) -> None:
    form = {"name": "forms", "question": "Well?", "choices": "Yes\nNo", "level": "2 in 3", "asks": "2"}
    for wrong in (
        {"invitations": "many"},
        {"level": "all"},
        {"name": "a b"},
        {"asks": "0"},
        {"choices": "x"},
    ):
        page = send_form(clinic, "/surveys", **(form | wrong))
        assert page.status_code == 400
        assert "Well?" in page.text  # what was typed is still there
    made = send_form(clinic, "/surveys", **form, invitations="3")
    assert made.text.count("http://testserver/s/") == 3
    assert send_form(clinic, "/surveys", **form).status_code == 409
    assert send_form(clinic, "/surveys/forms/links", people="2").text.count("http://testserver/s/") == 2
    assert send_form(clinic, "/surveys/forms/links", people="").text.count("http://testserver/s/") == 5
    assert send_form(clinic, "/surveys/forms/links", people="-1").status_code == 400
    assert send_form(clinic, "/surveys/forms/rounds").status_code == 409
    assert send_form(clinic, "/surveys/forms/close").headers["location"] == "/surveys/forms"
    assert send_form(clinic, "/surveys/forms/rounds").status_code == 303
    assert send_form(clinic, "/surveys/forms/close").status_code == 303
    assert send_form(clinic, "/surveys/forms/rounds").status_code == 403
    exact = send_form(clinic, "/surveys", **(form | {"name": "exact", "level": "exact", "epsilon": "0.7"}))
    assert exact.status_code == 200
    assert float(clinic.lab.survey("exact").terms.epsilon) == 0.7


def test_rounds_over_the_api(clinic: ServedClinic) -> None:
    body = {"name": "rounds", "question": "Well?", "epsilon": "5 in 6", "invitations": 2, "asks": 2}
    made = clinic.send("POST", "/api/surveys", "steward", json=body).json()
    assert report(clinic, made["links"][0]).json() == {"counted": True}
    closed = clinic.send("POST", "/api/surveys/rounds/close", "steward").json()
    assert (closed["open"], closed["answers"], closed["missing"]) == (False, 1, 1)
    assert report(clinic, made["links"][1]).json()["code"] == "SF-P124"
    assert clinic.send("POST", "/api/surveys/rounds/rounds", "steward").json()["round"] == 2
    assert report(clinic, made["links"][0]).json() == {"counted": True}
    first = clinic.send("GET", "/api/surveys/rounds?round=1", "steward").json()
    assert (first["round"], first["answers"]) == (1, 1)
    more = clinic.send("POST", "/api/surveys/rounds/links", "steward", json={"people": 1}).json()
    assert len(more["links"]) == 1
    assert clinic.send("GET", "/api/surveys/rounds?round=9", "steward").status_code == 404
    spent = clinic.lab.ledger.read_spent("population:survey rounds").pure
    assert spent == 2 * -(-clinic.lab.survey("rounds").terms.epsilon * 10**12 // 1)
    json.dumps(first)
