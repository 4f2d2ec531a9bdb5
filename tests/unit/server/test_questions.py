"""Questions over HTTP: quoted, charged once, and found again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from serving import COUNT, ServedClinic, make_rows, serve_clinic
from sfumato.errors import PolicyError
from sfumato.server.pages.release_view import list_receipt


def test_a_quote_spends_nothing(clinic: ServedClinic) -> None:
    before = clinic.send("GET", "/api/budget").json()
    answer = clinic.send(
        "POST", "/api/quote", json={"question": {"sql": COUNT}, "spend": {"epsilon": "1/10"}}
    )
    quote = answer.json()
    assert answer.status_code == 200
    assert (quote["epsilon"], quote["admitted"], quote["slot"]) == (0.1, True, 1.0)
    assert "charged to patient_id" in quote["text"]
    assert clinic.send("GET", "/api/budget").json() == before


def test_a_release_is_charged_once_and_kept(clinic: ServedClinic) -> None:
    # No other test spends this ε on the same question.
    first = clinic.ask(epsilon=0.53, key="one").json()
    again = clinic.ask(epsilon=0.53, key="one").json()
    assert first["columns"]["ward"] == ["A", "B", "C"]
    assert first["hidden_groups"] == 1
    assert first["all_groups"]["columns"]["ward"] == ["A", "B", "C", None]
    assert first["columns"] == again["columns"]
    assert (first["receipt"]["replayed"], first["receipt"]["charged"]) == (False, "ε = 0.53")
    assert again["receipt"] == {**first["receipt"], "replayed": True}
    other = clinic.ask("SELECT COUNT(*) AS n FROM visits", epsilon=0.5, key="one")
    assert (other.status_code, other.json()["code"]) == (409, "SF-L204")
    kept = clinic.send("GET", f"/api/releases/{first['entry']}").json()
    assert kept["answer"]["columns"] == first["columns"]
    assert kept["answer"]["receipt"]["charged"] == "ε = 0.53"
    assert ("charged", "ε = 0.53") in list_receipt(kept["answer"])
    assert kept["question"] == {"sql": COUNT}
    listed = clinic.send("GET", "/api/releases").json()["releases"]
    assert first["entry"] in [each["entry"] for each in listed]


def test_equal_requests_at_once_are_charged_once(clinic: ServedClinic) -> None:
    """Two tabs, with keys of their own or without any: one charge, one answer."""
    before = clinic.lab.verify().charges
    keys = [None, None, "tab 1", "tab 2", None, "tab 2"]
    with ThreadPoolExecutor(len(keys)) as threads:
        sent = [
            threads.submit(clinic.ask, "SELECT AVG(age) AS a FROM visits", key=key, epsilon=1) for key in keys
        ]
        answers = [each.result().json() for each in sent]
    assert all(each["columns"] == answers[0]["columns"] for each in answers)
    assert sorted(each["receipt"]["replayed"] for each in answers) == [False] + [True] * 5
    assert clinic.lab.verify().charges == before + 1


def test_an_answer_is_refined_and_its_refinement_too(clinic: ServedClinic) -> None:
    first = clinic.ask("SELECT SUM(ill) AS s FROM visits", epsilon=0.5).json()
    spend = {"epsilon": "1/2"}
    body = {"entry": first["entry"], "spend": spend, "key": "again"}
    second = clinic.send("POST", "/api/refine", json=body).json()
    third = clinic.send("POST", "/api/refine", json={"entry": second["entry"], "spend": spend}).json()
    assert [each["rounds"] for each in (first, second, third)] == [1, 2, 3]
    again = clinic.send("POST", "/api/refine", json={"entry": second["entry"], "spend": spend}).json()
    assert again["columns"] == third["columns"]
    assert again["receipt"]["replayed"]
    assert clinic.send("GET", f"/api/releases/{third['entry']}").json()["refines"] == second["entry"]


def test_answers_of_others_are_not_found(clinic: ServedClinic) -> None:
    entry = clinic.ask("SELECT COUNT(*) AS n FROM visits WHERE age > 50", epsilon=0.5).json()["entry"]
    clinic.context.people.add_person("bob", "analyst")
    bob = {"Authorization": f"Bearer {clinic.context.people.make_token('bob')}"}
    assert clinic.client.get(f"/api/releases/{entry}", headers=bob).json()["code"] == "SF-U101"
    body = {"entry": entry, "spend": {"epsilon": 1}}
    assert clinic.client.post("/api/refine", json=body, headers=bob).json()["code"] == "SF-U101"
    asked = {"question": {"sql": COUNT}, "spend": {"epsilon": 0.1}}
    refused = clinic.client.post("/api/release", json=asked, headers=bob)
    assert (refused.status_code, refused.json()["code"]) == (404, "SF-Q106")
    assert clinic.client.get("/api/tables/visits", headers=bob).json()["code"] == "SF-Q106"
    assert clinic.send("GET", f"/api/releases/{entry}", "steward").json()["analyst"] == "ada"


def test_a_table_that_was_not_granted_is_as_one_that_is_not_there(clinic: ServedClinic) -> None:
    """Names of tables cannot be guessed: whoever has staff alone is told the same of both."""
    people = clinic.context.people
    people.add_person("bea", "analyst")
    clinic.context.lab.grant("bea", epsilon=1, tables=["staff"])
    bea = {"Authorization": f"Bearer {people.make_token('bea')}"}
    there, nowhere = "visits", "pisits"
    count, none = [["count", [], {}]], {"name": "Twin", "parameters": {}}
    marginals = {"name": "Marginals", "parameters": {"epsilon": 1, "delta": 1e-9}}

    def ask(name: str) -> list[tuple[int, Any]]:
        sql = f"SELECT COUNT(*) AS n FROM {name}"
        joined = f"SELECT COUNT(*) AS n FROM staff JOIN {name} USING (nurse)"
        spend = {"spend": {"epsilon": 0.1}}
        stream = {"table": name, "time": "day", "measure": "COUNT(*)", "horizon": 3, "spend": {"rho": 0.1}}
        sent: list[tuple[str, dict[str, Any]]] = [
            *((path, {"question": {"sql": sql}, **spend}) for path in ("/api/quote", "/api/release")),
            ("/api/quote", {"question": {"sql": joined}, **spend}),
            ("/api/quote", {"question": {"sql": f"DESCRIBE {name}"}, **spend}),
            ("/api/quote", {"question": {"table": name, "steps": count}, **spend}),
            ("/api/quote", {"question": {"graph": name, "steps": [["edges", [], {}]]}, **spend}),
            ("/api/plan", {"questions": [sql], **spend}),
            ("/api/describe", {"question": {"table": name, "steps": []}}),
            ("/api/models/quote", {"model": marginals, "table": name, "columns": ["age"]}),
            ("/api/jobs", {"kind": "fit", "key": "k", "model": none, "table": {"table": name, "steps": []}}),
            ("/api/streams/quote", stream),
        ]
        found = [clinic.client.post(path, json=body, headers=bea) for path, body in sent]
        found += [clinic.client.get(f"/api/{each}/{name}", headers=bea) for each in ("tables", "twins")]
        return [(each.status_code, each.text.replace(name, "it")) for each in found]

    said = ask(there)
    assert said == ask(nowhere)
    assert all("SF-Q106" in text for _, text in said), [text for _, text in said if "SF-Q106" not in text]
    hostile = clinic.context.lab.session("bea", hostile=True)
    told = []
    for name in (there, nowhere):
        with pytest.raises(PolicyError, match="SF-Q106") as refused:
            hostile.sql(f"SELECT COUNT(*) AS n FROM {name}").quote(epsilon=1)
        told.append(str(refused.value).replace(name, "it"))
    assert told[0] == told[1]


def test_whoever_was_revoked_reads_nothing_they_paid_for(clinic: ServedClinic) -> None:
    lab, people = clinic.context.lab, clinic.context.people
    lab.grant("iris", epsilon=1, tables=["visits"])
    people.add_person("iris", "analyst")
    iris = {"Authorization": f"Bearer {people.make_token('iris')}"}
    lab.session("iris").sql(COUNT).release(epsilon=0.5)  # kept, so that the reply leaves at once
    asked = {"question": {"sql": COUNT}, "spend": {"epsilon": 0.5}}
    entry = clinic.client.post("/api/release", json=asked, headers=iris).json()["entry"]
    job = clinic.context.jobs.add_job("iris", "iris", "fit", {}, "k").id
    clinic.context.jobs.cancel_job(job, None)

    def codes() -> list[str | None]:
        paths = (f"/api/releases/{entry}", f"/api/jobs/{job}")
        return [clinic.client.get(path, headers=iris).json().get("code") for path in paths]

    assert codes() == [None, None]
    assert len(clinic.client.get("/api/releases", headers=iris).json()["releases"]) == 1
    lab.revoke("iris")
    assert codes() == ["SF-B103", "SF-B103"]
    assert clinic.client.get("/api/releases", headers=iris).json() == {"releases": []}
    assert clinic.client.get("/api/jobs", headers=iris).json() == {"jobs": []}
    lab.grant("last", epsilon=1, members=["iris"])
    assert codes() == [None, None]
    assert clinic.send("GET", f"/api/releases/{entry}", "steward").status_code == 200


def test_an_analyst_without_a_quota_asks_nothing(clinic: ServedClinic) -> None:
    clinic.context.people.add_person("eve", "analyst")
    eve = {"Authorization": f"Bearer {clinic.context.people.make_token('eve')}"}
    answer = clinic.client.get("/api/tables", headers=eve)
    assert (answer.status_code, answer.json()["code"]) == (403, "SF-B103")


def test_facts_and_queries_over_answers(clinic: ServedClinic) -> None:
    facts = clinic.ask("SHOW TABLES", epsilon=1).json()
    assert (facts["entry"], facts["columns"]["table"]) == (None, ["visits"])
    assert clinic.ask("DESCRIBE visits").json()["facts"]["table"] == "visits"
    quoted = {"question": {"sql": "DESCRIBE visits"}, "spend": {}}
    assert clinic.send("POST", "/api/quote", json=quoted).json()["free"]
    both = "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT SUM(age) AS n FROM visits"
    refused = clinic.ask(both, epsilon=1, key="both").json()
    assert (refused["code"], refused["try"].count("s.sql(")) == ("SF-Q161", 2)
    bounded = {"sql": "SHOW TABLES", "bounded": {"groups": 1}}
    answer = clinic.send("POST", "/api/quote", json={"question": bounded, "spend": {"epsilon": 1}})
    assert answer.json()["code"] == "SF-Q210"


def test_a_new_snapshot_ends_refinement_and_charges_nothing(tmp_path: Path) -> None:
    with serve_clinic(tmp_path / "clinic") as clinic:
        entry = clinic.ask(epsilon=0.5).json()["entry"]
        charges = clinic.lab.verify().charges
        clinic.lab.advance("visits", make_rows(200))
        refused = clinic.send("POST", "/api/refine", json={"entry": entry, "spend": {"epsilon": 0.5}})
        assert (refused.status_code, refused.json()["code"]) == (403, "SF-C135")
        assert clinic.send("GET", f"/api/releases/{entry}").status_code == 200
        assert clinic.lab.verify().charges == charges


BY_ILL = "SELECT ward, ill, COUNT(*) AS n FROM visits GROUP BY ward, ill"


def test_questions_are_asked_together(clinic: ServedClinic) -> None:
    body = {"question": {"together": [{"sql": COUNT}, {"sql": BY_ILL}]}, "spend": {"epsilon": 0.25}}
    quote = clinic.send("POST", "/api/quote", json=body).json()
    assert quote["price"] == "ε = 0.25"
    assert set(quote["expected_error"]) == {"n (question 1)", "n (question 2)"}
    before = clinic.lab.verify().charges
    first, again = (clinic.send("POST", "/api/release", json=body).json() for _ in range(2))
    assert clinic.lab.verify().charges == before + 1
    assert (first["receipt"]["replayed"], again["receipt"]["replayed"]) == (False, True)
    wards, both = (each["all_groups"]["columns"] for each in first["answers"])
    parts = dict.fromkeys(wards["ward"], 0)
    for ward, many in zip(both["ward"], both["n"], strict=True):
        parts[ward] += many
    assert list(parts.values()) == wards["n"]
    kept = clinic.send("GET", f"/api/releases/{first['entry']}").json()
    assert kept["answer"]["answers"] == first["answers"]


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"together": []}, "SF-Q221"),
        ({"together": [{"sql": COUNT}] * 101}, "SF-Q158"),
        ({"together": [{"sql": COUNT}], "sql": COUNT}, "SF-U104"),
        ({"together": [{"sql": "SHOW TABLES"}]}, "SF-Q221"),
    ],
)
def test_what_is_not_asked_together_costs_nothing(
    clinic: ServedClinic, question: dict[str, Any], code: str
) -> None:
    before = clinic.lab.verify().charges
    answer = clinic.send("POST", "/api/release", json={"question": question, "spend": {"epsilon": 0.1}})
    assert answer.json()["code"] == code
    assert clinic.lab.verify().charges == before
