"""Questions over HTTP: quoted, charged once, and found again."""

from __future__ import annotations

from serving import COUNT, ServedClinic


def test_a_quote_spends_nothing(clinic: ServedClinic) -> None:
    before = clinic.send("GET", "/api/budget").json()
    answer = clinic.send(
        "POST", "/api/quote", json={"question": {"sql": COUNT}, "spend": {"epsilon": "1/10"}}
    )
    quote = answer.json()
    assert answer.status_code == 200
    assert (quote["epsilon"], quote["admitted"], quote["slot"]) == (0.1, True, 0.25)
    assert "price" in quote["text"]
    assert clinic.send("GET", "/api/budget").json() == before


def test_a_release_is_charged_once_and_kept(clinic: ServedClinic) -> None:
    first = clinic.ask(epsilon=0.5, key="one").json()
    again = clinic.ask(epsilon=0.5, key="one").json()
    assert first["columns"]["ward"] == ["A", "B", "C", None]
    assert first["columns"] == again["columns"]
    assert (first["receipt"]["replayed"], again["receipt"]["replayed"]) == (False, True)
    other = clinic.ask("SELECT COUNT(*) AS n FROM visits", epsilon=0.5, key="one")
    assert (other.status_code, other.json()["code"]) == (409, "SF-L204")
    kept = clinic.send("GET", f"/api/releases/{first['entry']}").json()
    assert kept["answer"]["columns"] == first["columns"]
    assert kept["question"] == {"sql": COUNT}
    listed = clinic.send("GET", "/api/releases").json()["releases"]
    assert [each["entry"] for each in listed] == [first["entry"]]
