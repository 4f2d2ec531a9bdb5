"""Projects, requests, charges and packages over HTTP, and what each role may not do with them."""

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

PROJECT = {"name": "returns", "purpose": "Why they return.", "epsilon": "1/2", "members": ["ada", "eve"]}


def sent(clinic: ServedClinic, method: str, path: str, role: str, body: Any = None, **more: Any) -> Any:
    answer = clinic.send(method, f"/api{path}", role, json=body, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(clinic: ServedClinic, path: str, role: str, body: Any, **more: Any) -> tuple[int, str]:
    answer = clinic.send("POST", f"/api{path}", role, json=body, **more)
    return answer.status_code, answer.json()["code"]


def test_a_project_is_created_worked_in_and_closed(clinic: ServedClinic) -> None:
    made = sent(clinic, "POST", "/projects", "steward", PROJECT)
    assert (made["project"], made["state"]) == ("returns", "open")
    assert sent(clinic, "POST", "/projects", "steward", PROJECT) == made
    within = {"headers": {"X-Project": "returns"}}
    asked = {"question": {"sql": COUNT}, "spend": {"epsilon": 0.25}}
    # Answered here first, so that no reply depends on how busy the machine is: a kept answer leaves at once.
    clinic.context.lab.session("ada", project="returns").sql(COUNT).release(epsilon=0.25)
    release = sent(clinic, "POST", "/release", "analyst", asked, **within)
    assert release["receipt"]["replayed"]
    assert (
        "quota:patient_id:project/returns" in sent(clinic, "GET", "/budget", "analyst", **within)["accounts"]
    )
    dear = asked | {"spend": {"epsilon": 0.4}}
    assert refused(clinic, "/release", "analyst", dear, **within)[1] == "SF-B102"
    assert refused(clinic, "/release?project=none", "analyst", asked)[1] == "SF-P114"
    listed = sent(clinic, "GET", "/projects", "analyst")["projects"]
    assert [each["project"] for each in listed] == ["returns"]
    job = {"kind": "sample", "key": "0" * 32, "model": "0" * 32, "rows": 1}
    assert refused(clinic, "/jobs", "analyst", job, **within)[1] == "SF-W164"  # no such fit to draw from
    assert refused(clinic, "/jobs?project=none", "analyst", job)[1] == "SF-P114"
    packed = clinic.send("POST", "/api/packages", "analyst", json={"entry": release["entry"]})
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert json.loads(archive.read("card.json"))["epsilon"] == 0.25
    assert refused(clinic, "/packages", "analyst", {"entry": 1})[1] == "SF-W116"
    changed = sent(
        clinic, "POST", "/projects/returns", "steward", {"members": ["eve"], "until": "2099-01-01"}
    )
    assert (changed["members"], changed["until"]) == (["eve"], "2099-01-01")
    assert refused(clinic, "/release", "analyst", asked, **within)[1] == "SF-P114"
    assert sent(clinic, "POST", "/projects/returns", "steward", {"until": None})["until"] is None
    assert sent(clinic, "POST", "/projects/returns/close", "steward")["state"] == "closed"
    assert refused(clinic, "/projects", "steward", PROJECT)[1] == "SF-P118"


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
    assert refused(clinic, "/requests/4/withdraw", "analyst", None)[1] == "SF-P123"


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
        {"project": "\ud800"},
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
        "/projects": PROJECT | {"name": "other"},
        "/projects/returns": {"epsilon": 9},
        "/projects/returns/close": None,
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
