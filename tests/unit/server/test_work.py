"""Quotas of teams, requests, charges and packages over HTTP, and what each role may not do with them."""

from __future__ import annotations

import io
import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from serving import COUNT

if TYPE_CHECKING:
    from serving import ServedClinic

TEAM = {"analyst": "returns", "epsilon": "1/2", "members": ["ada", "eve"]}


def sent(clinic: ServedClinic, method: str, path: str, role: str, body: Any = None, **more: Any) -> Any:
    answer = clinic.send(method, f"/api{path}", role, json=body, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(clinic: ServedClinic, path: str, role: str, body: Any, **more: Any) -> tuple[int, str]:
    answer = clinic.send("POST", f"/api{path}", role, json=body, **more)
    return answer.status_code, answer.json()["code"]


def test_a_team_spends_its_quota_and_packs_its_answers(clinic: ServedClinic) -> None:
    assert refused(clinic, "/grants", "steward", TEAM)[1] == "SF-P110"  # ada has a quota of her own
    clinic.context.lab.revoke("ada")
    made = sent(clinic, "POST", "/grants", "steward", TEAM)
    assert made["members"] == ["ada", "eve"]
    asked = {"question": {"sql": COUNT}, "spend": {"epsilon": 0.25}}
    # Answered here first, so that no reply depends on how busy the machine is: a kept answer leaves at once.
    clinic.context.lab.session("ada").sql(COUNT).release(epsilon=0.25)
    release = sent(clinic, "POST", "/release", "analyst", asked)
    assert release["receipt"]["replayed"]
    assert "quota:patient_id:returns" in sent(clinic, "GET", "/budget", "analyst")["accounts"]
    assert refused(clinic, "/release", "analyst", asked | {"spend": {"epsilon": 0.4}})[1] == "SF-B102"
    packed = clinic.send("POST", "/api/packages", "analyst", json={"entry": release["entry"]})
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert json.loads(archive.read("card.json"))["epsilon"] == 0.25
    assert refused(clinic, "/packages", "analyst", {"entry": 1})[1] == "SF-U101"
    assert sent(clinic, "DELETE", "/grants/ada", "steward") == {"revoked": "ada"}
    assert refused(clinic, "/release", "analyst", asked)[1] == "SF-B103"
    granted = {each["analyst"]: each for each in sent(clinic, "GET", "/grants", "steward")["grants"]}
    assert granted["returns"]["members"] == ["eve"]
    sent(clinic, "DELETE", "/grants/eve", "steward")
    sent(clinic, "POST", "/grants", "steward", {"analyst": "ada", "epsilon": 2})


def test_a_request_is_answered_once(clinic: ServedClinic) -> None:
    wishes = [{"epsilon": 0.5, "reason": f"Wave {number}."} for number in range(3)]
    numbers = [sent(clinic, "POST", "/requests", "analyst", each)["request"] for each in wishes]
    assert sent(clinic, "POST", "/requests", "analyst", wishes[0])["request"] == numbers[0]  # two tabs
    ledger = clinic.context.lab.ledger
    before = ledger.read_budget("quota:patient_id:ada").epsilon
    granted = sent(clinic, "POST", f"/requests/{numbers[0]}/grant", "steward", {"note": "Fine."})
    assert granted["state"] == "granted"
    assert refused(clinic, f"/requests/{numbers[0]}/grant", "steward", {})[1] == "SF-P124"
    sent(clinic, "POST", f"/requests/{numbers[1]}/decline", "steward", {"why": "Not now."})
    sent(clinic, "POST", f"/requests/{numbers[2]}/withdraw", "analyst")
    seen = sent(clinic, "GET", "/requests", "analyst")["requests"]
    assert [each["state"] for each in seen] == ["granted", "declined", "withdrawn"]
    assert sent(clinic, "GET", "/requests", "steward")["requests"] == seen
    assert ledger.read_budget("quota:patient_id:ada").epsilon == before + Fraction(1, 2)
    clinic.context.lab.request("bob", epsilon=1, reason="For the staff.")
    assert sent(clinic, "GET", "/requests", "analyst")["requests"] == seen  # nobody sees another's
    assert refused(clinic, "/requests/4/withdraw", "analyst", None)[1] == "SF-U101"


def test_a_charge_is_made_once_for_a_key(clinic: ServedClinic) -> None:
    body = {
        "event": {"event": "gaussian", "sigma": "9"},
        "population": "patient_id",
        "about": "an Opacus run",
        "key": "march",
    }
    first, again = (sent(clinic, "POST", "/charges", "steward", body) for _ in range(2))
    assert (again["entry"], again["replayed"]) == (first["entry"], True)
    assert [each["about"] for each in sent(clinic, "GET", "/charges", "auditor")["charges"]] == [
        "an Opacus run"
    ]
    head = clinic.context.lab.verify().head
    for odd in (
        {"event": {"event": "non-private"}},
        {"event": {"event": "pure", "epsilon": "-1"}},
        {"event": {"event": "pure", "epsilon": float("inf")}},
        {"event": {"event": "pure", "epsilon": "1e9"}},
        {"event": {"event": "pure", "epsilon": "1" * 401}},
        {"event": {}},
        {"event": {"event": "gaussian", "sigma": "1/1000"}},
        {"population": "nobody"},
        {"population": "\ud800"},
        {"about": "\ud800"},
        {"about": ""},
        {"analyst": "a:b"},
        {"neighbours": "replace-one"},
        {"key": "\ud800"},
        {"epsilon": 1},
    ):
        text = json.dumps(body | {"key": "other"} | odd)
        headers = {"Content-Type": "application/json"}
        answer = clinic.send("POST", "/api/charges", "steward", content=text, headers=headers)
        assert 400 <= answer.status_code < 500, (odd, answer.text)
    assert clinic.context.lab.verify().head == head


def test_analysts_and_auditors_change_nothing(clinic: ServedClinic) -> None:
    head = clinic.context.lab.verify().head
    bodies = {
        "/grants": TEAM,
        "/requests/1/grant": {},
        "/requests/1/decline": {"why": "no"},
        "/charges": {"event": {"event": "pure", "epsilon": "1"}, "population": "patient_id", "about": "x"},
    }
    for path, body in bodies.items():
        for role in ("analyst", "auditor"):
            assert refused(clinic, path, role, body) == (403, "SF-W103")
    assert clinic.context.lab.verify().head == head


def test_a_link_signs_in_once_and_not_from_another_site(clinic: ServedClinic) -> None:
    people = clinic.context.people
    code = people.make_token("grace", seconds=60, purpose="link")
    api, page = people.make_token("grace"), people.make_token("grace", purpose="page")
    for other in (api, page, "sfu_" + "x" * 43, "x"):
        assert clinic.client.get(f"/enter/{other}", follow_redirects=False).status_code == 403
    assert people.find_holder(page, "page") == people.find_holder(api) == people.find_person("grace")
    away = clinic.client.get(
        f"/enter/{code}", headers={"Sec-Fetch-Site": "cross-site"}, follow_redirects=False
    )
    assert away.status_code == 403
    with ThreadPoolExecutor(4) as pool:
        used = list(pool.map(lambda _: people.use_up_token(code, "link"), range(4)))
    assert sum(each is not None for each in used) == 1
    code = people.make_token("grace", seconds=60, purpose="link")
    entered = clinic.client.get(f"/enter/{code}", follow_redirects=False)
    assert (entered.status_code, "HttpOnly" in entered.headers["set-cookie"]) == (303, True)
    clinic.client.cookies.clear()
