"""Bad requests get a code, and never a trace."""

from __future__ import annotations

import pytest

from serving import ServedClinic


@pytest.mark.parametrize(
    ("content", "code", "status"),
    [
        (b"{", "SF-W104", 400),
        (b"[" * 100_000, "SF-W104", 400),
        (b"\xff\xfe", "SF-W104", 400),
        (b"null", "SF-W104", 400),
        (b'{"question": {"sql": 1}, "spend": {}}', "SF-W104", 400),
        (b'{"question": {"sql": "SELECT"}, "spend": {"epsilom": 1}}', "SF-W104", 400),
        (b'{"question": {}, "spend": {"epsilon": 1}}', "SF-U104", 400),
        (b'{"question": {"sql": "SELECT COUNT(*) FROM visits"}, "spend": {}}', "SF-N109", 400),
        (b'{"question": {"sql": "SELECT COUNT(*) FROM visits"}, "spend": {"epsilon": NaN}}', "SF-N105", 400),
        (
            b'{"question": {"sql": "SELECT COUNT(*) FROM visits"}, "spend": {"epsilon": "1/0"}}',
            "SF-N101",
            400,
        ),
        (
            b'{"question": {"sql": "SELECT COUNT(*) FROM visits"}, "spend": {"epsilon": "1e999999999"}}',
            "SF-W104",
            400,
        ),
        (b'{"question": {"sql": "SELECT COUNT(*) FROM visits"}, "spend": {"epsilon": true}}', "SF-W104", 400),
        (b'{"question": {"sql": "' + b"x" * 2**20 + b'"}}', "SF-W105", 413),
    ],
)
def test_bad_bodies(clinic: ServedClinic, content: bytes, code: str, status: int) -> None:
    answer = clinic.send("POST", "/api/quote", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Traceback" not in answer.text


def test_a_body_without_a_length_is_counted(clinic: ServedClinic) -> None:
    parts = (b"x" * 2**16 for _ in range(40))
    answer = clinic.send("POST", "/api/quote", content=parts, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "SF-W105")


def test_unknown_addresses_and_methods(clinic: ServedClinic) -> None:
    assert clinic.send("GET", "/api/nothing").json()["code"] == "SF-U101"
    answer = clinic.send("DELETE", "/api/quote")
    assert (answer.status_code, answer.json()["code"]) == (405, "SF-W107")


def test_every_answer_has_strict_headers(clinic: ServedClinic) -> None:
    for path in ("/", "/api/tables", "/api/nothing", "/healthz"):
        headers = clinic.send("GET", path).headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_a_failure_of_ours_is_one_sentence(clinic: ServedClinic, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret of row 17")

    monkeypatch.setattr("sfumato.server.questions.quote_question", fail)
    answer = clinic.send("POST", "/api/quote", json={"question": {"sql": "x"}, "spend": {}})
    assert (answer.status_code, answer.json()["code"]) == (500, "SF-W100")
    assert "row 17" not in answer.text
    assert "row 17" in (clinic.lab.folder / "incidents.log").read_text(encoding="utf-8")
