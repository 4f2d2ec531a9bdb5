"""Pages as the server sends them: who sees what, what is escaped, and what a form charges."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from serving import COUNT, ServedClinic
from sfumato.server.access import Visitor, cookie_name, make_csrf_token
from sfumato.server.people import Role
from sfumato.server.wire import QuestionBody, SpendBody

HTML = {"accept": "text/html"}


class Browser:
    """A browser without scripts: it keeps a cookie and sends forms with the token of the page."""

    def __init__(self, clinic: ServedClinic, name: str) -> None:
        self._clinic = clinic
        self._cookie = clinic.context.people.make_token(name, purpose="page")

    def send(self, method: str, path: str, **more: Any) -> Any:
        headers = {
            "cookie": f"{cookie_name(self._clinic.context)}={self._cookie}",
            **HTML,
            **more.pop("headers", {}),
        }
        return self._clinic.client.request(method, path, headers=headers, **more)

    def post(self, path: str, *, htmx: bool = False, **fields: str) -> Any:
        headers = {"hx-request": "true"} if htmx else {}
        return self.send(
            "POST", path, data={"csrf": make_csrf_token(self._cookie), **fields}, headers=headers
        )


@pytest.fixture(scope="module")
def ada(clinic: ServedClinic) -> Browser:
    return Browser(clinic, "ada")


def left(clinic: ServedClinic) -> float:
    accounts = clinic.send("GET", "/api/budget").json()["accounts"]
    return float(accounts["quota:patient_id:ada"]["left_epsilon"])


def test_the_navigation_has_what_the_role_may_open(clinic: ServedClinic) -> None:
    def links(name: str, path: str) -> set[str]:
        page = Browser(clinic, name).send("GET", path).text
        return set(re.findall(r'<li><a href="([^"]+)"', page))

    assert {"/", "/ask"} <= links("ada", "/ask")
    assert "/ledger" not in links("ada", "/ask")
    assert "/ledger" in links("grace", "/")
    assert links("kurt", "/ledger") & {"/", "/ask", "/register"} == set()


def test_a_quote_charges_nothing_and_htmx_gets_a_part(clinic: ServedClinic, ada: Browser) -> None:
    before = left(clinic)
    whole, part = (ada.post("/ask", sql=COUNT, epsilon="0.1", htmx=htmx) for htmx in (False, True))
    assert whole.text.startswith("<!DOCTYPE html>")
    assert "<html" not in part.text
    assert "expected error" in part.text
    assert left(clinic) == before


def test_a_half_typed_question_is_no_failed_request_for_htmx(ada: Browser) -> None:
    part, whole = (ada.post("/ask", sql="SELECT", epsilon="0.1", htmx=htmx) for htmx in (True, False))
    assert part.status_code == 200
    assert whole.status_code in (400, 403)
    assert 'role="alert"' in part.text


def test_lines_of_a_form_end_as_they_were_typed(ada: Browser) -> None:
    sent = ada.post(
        "/ask/release", sql="SELECT COUNT(*) AS n\r\nFROM visits\r\nWHERE age >= 31", epsilon="0.1"
    )
    page = ada.send("GET", sent.headers["location"]).text
    assert "\\r" not in page
    assert "s.sql(&#34;&#34;&#34;SELECT COUNT(*) AS n\nFROM visits" in page


def test_a_form_that_is_sent_twice_is_charged_once(clinic: ServedClinic, ada: Browser) -> None:
    before = left(clinic)
    sql = "SELECT COUNT(*) AS n FROM visits WHERE age >= 30"
    sent = [ada.post("/ask/release", sql=sql, epsilon="0.5", form_key="one") for _ in range(2)]
    assert [each.status_code for each in sent] == [303, 303]
    assert sent[0].headers["location"] == sent[1].headers["location"]
    assert left(clinic) == pytest.approx(before - 0.5)
    answer = ada.send("GET", sent[0].headers["location"])
    assert "Numbers and intervals" in answer.text
    for name, kind in (
        ("answer.csv", "text/csv"),
        ("answer.parquet", "parquet"),
        ("answer.json", "json"),
        ("receipt.json", "json"),
    ):
        file = ada.send("GET", f"{sent[0].headers['location']}/{name}")
        assert file.status_code == 200
        assert kind in file.headers["content-type"]
    assert ada.send("GET", f"{sent[0].headers['location']}/answer.exe").status_code == 404
    other = Browser(clinic, "kurt").send("GET", sent[0].headers["location"])
    assert other.status_code == 403


def test_a_question_is_tuned_on_its_page(clinic: ServedClinic, ada: Browser) -> None:
    """First the price of tuning, then one charge for all that is sent, then the question with bounds."""
    before = left(clinic)
    asked = {"sql": "SELECT ward, SUM(cost) AS c FROM visits GROUP BY ward", "epsilon": "1", "tune": "0.25"}
    priced = ada.post("/ask", **asked).text
    assert "price of tuning" in priced
    assert "/ask/release" not in priced
    refused = ada.post("/ask/release", **asked)
    assert (refused.status_code, "SF-W168" in refused.text) == (403, True)
    assert left(clinic) == before
    tuned = [ada.post("/ask/tune", form_key="one", **asked) for _ in range(2)]
    assert [each.status_code for each in tuned] == [200, 200]
    assert left(clinic) == pytest.approx(before - 0.25)
    for words in ("A unit adds at most", "estimated bias", "/ask/release"):
        assert words in tuned[0].text
    assert "price of tuning" not in tuned[0].text
    preview = ada.post("/ask", preview="on", **asked).text
    assert "On the twin" in preview
    assert left(clinic) == pytest.approx(before - 0.25)
    answer = ada.send("GET", ada.post("/ask/release", **asked).headers["location"]).text
    assert "Estimated bias: about" in answer
    assert left(clinic) == pytest.approx(before - 1.25)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"tune": ""}, "SF-W183"),
        ({"tune": "x"}, "SF-W183"),
        ({"tune": "0.25", "rows": "1"}, "SF-Q210"),
        ({"tune": "0.25", "sql": "SHOW TABLES"}, "SF-Q210"),
    ],
)
def test_what_cannot_be_tuned_says_so(
    clinic: ServedClinic, ada: Browser, fields: dict[str, str], code: str
) -> None:
    before = left(clinic)
    answer = ada.post("/ask/tune", **{"sql": "SELECT SUM(cost) AS c FROM visits", "epsilon": "1"} | fields)
    assert answer.status_code in (400, 403)
    assert code in answer.text
    assert left(clinic) == before


def test_several_statements_are_asked_together(clinic: ServedClinic, ada: Browser) -> None:
    """The page quotes, previews, releases and shows several questions for one charge."""
    before = left(clinic)
    sql = f"{COUNT}; SELECT ward, ill, COUNT(*) AS m FROM visits GROUP BY ward, ill;"
    part = ada.post("/ask", sql=sql, epsilon="0.5", preview="1", htmx=True).text
    assert "m (query 2)" in re.findall(r'<th scope="row">([^<]+)</th>', part)
    assert part.count("Answer on made-up rows") >= 2
    sent = ada.post("/ask/release", sql=sql, epsilon="0.5")
    assert sent.status_code == 303
    assert left(clinic) == pytest.approx(before - 0.5)
    page = ada.send("GET", sent.headers["location"]).text
    assert "Question 2: numbers and 95 % intervals" in page
    assert "s.ask_together([s.sql(" in html.unescape(page)
    assert ada.send("GET", f"{sent.headers['location']}/answer.csv").status_code == 400
    assert ada.send("GET", f"{sent.headers['location']}/answer.json").status_code == 200


def test_a_refusal_stands_beside_the_question(clinic: ServedClinic, ada: Browser) -> None:
    before = left(clinic)
    refused = ada.post("/ask/release", sql=COUNT, epsilon="1000")
    assert refused.status_code == 403
    assert "SF-B10" in refused.text
    assert COUNT in refused.text
    assert left(clinic) == before


def test_forms_need_the_token_of_their_page(clinic: ServedClinic, ada: Browser) -> None:
    before = left(clinic)
    for csrf in ("", "0" * 64):
        answer = ada.send("POST", "/ask/release", data={"csrf": csrf, "sql": COUNT, "epsilon": "0.3"})
        assert answer.status_code == 403
        assert "SF-W109" in answer.text
    elsewhere = ada.send(
        "POST", "/ask/release", data={"csrf": "x"}, headers={"origin": "https://evil.example"}
    )
    assert elsewhere.status_code == 403
    assert left(clinic) == before


def test_every_text_is_escaped(ada: Browser) -> None:
    planted = "<img src=x onerror=alert(1)>\"'</textarea><script>alert(2)</script>"
    pages = [
        ada.send("GET", "/ask", params={"sql": planted, "epsilon": planted}),
        ada.post("/ask", sql=planted, epsilon=planted, error_name=planted, delta=planted),
        ada.post("/ask/build", table="visits", where="ward", value=planted),
        ada.post("/ask/build", table=planted, where=planted, value=planted),
        ada.send("GET", "/login", params={"next": planted}),
        ada.send("GET", f"/tables/{planted.replace('/', '')}"),
    ]
    for page in pages:
        assert "<img src=x" not in page.text
        assert "<script>" not in page.text


def test_signing_in_is_refused_from_elsewhere_and_says_little(clinic: ServedClinic) -> None:
    clinic.context.people.set_password("kurt", "a long enough password")
    send = clinic.client.post
    for said in (
        {"sec-fetch-site": "cross-site"},
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
    ):
        crossed = send(
            "/login",
            data={"name": "kurt", "password": "a long enough password"},
            headers={**said, **HTML},
        )
        assert crossed.status_code == 403
    wrong = [
        send("/login", data=data, headers=HTML)
        for data in (
            {"name": "kurt", "password": "wrong"},
            {"name": "nobody", "password": "wrong"},
            {"token": "sfu_x"},
            {},
        )
    ]
    assert {each.status_code for each in wrong} == {403}
    said = {re.sub(r'value="[^"]*"', "", each.text) for each in wrong}
    assert len(said) == 1
    right = send(
        "/login",
        data={"name": "kurt", "password": "a long enough password", "next": "//evil.example"},
        headers=HTML,
    )
    assert (right.status_code, right.headers["location"]) == (303, "/")
    clinic.client.cookies.clear()


def test_a_preview_is_of_made_up_rows_and_free(clinic: ServedClinic, ada: Browser) -> None:
    """A lab of stand-ins whose budget is used up is made anew, and all of them go with the server."""
    before = left(clinic)
    part = ada.post("/ask", sql=COUNT, epsilon="60", preview="on", htmx=True)
    assert "Made-up rows" in part.text
    rehearsals = clinic.app.state.rehearsals
    visitor = Visitor("ada", Role.ANALYST)
    other = QuestionBody(sql="SELECT COUNT(*) AS n FROM visits WHERE age >= 41", table=None, steps=None)
    (first,) = rehearsals._made.values()
    answer = rehearsals.answer_question(clinic.context, visitor, other, SpendBody(epsilon="60"))
    assert len(answer["columns"]["n"]) == 1
    (second,) = rehearsals._made.values()
    assert second.folder != first.folder
    assert not first.folder.exists()
    assert left(clinic) == before
    rehearsals.close()
    assert not second.folder.exists()
