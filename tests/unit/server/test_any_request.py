"""Requests made up from the description of the API, good and bad: every answer is coded, none is a 5xx."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

import sfumato.server
from serving import NAMES, ServedClinic, serve_clinic
from sfumato.errors.codes import CODES
from sfumato.server import pages
from sfumato.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
CHECKED = settings(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
SQL = (
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT ward, AVG(cost) AS c FROM visits WHERE age >= 65 GROUP BY ward",
    "SELECT MEDIAN(cost) AS m FROM visits",
    "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT SUM(ill) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
    "SHOW TABLES",
    "DESCRIBE visits",
    "SELECT * FROM visits; DROP TABLE visits",
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClinic]:
    fast = ServerSettings(
        "http://testserver", requests_per_second=1e9, request_burst=10**9, wrong_token_burst=10**9
    )
    with serve_clinic(tmp_path_factory.mktemp("fuzzed") / "clinic", fast) as served:
        yield served


def list_operations(clinic: ServedClinic) -> list[Any]:
    described = clinic.client.get("/api/openapi.json").json()
    return [found.ok() for found in schemathesis.openapi.from_dict(described).get_all_operations()]


FORM = "application/x-www-form-urlencoded"
TYPED = ["", "visits", "age", "ward", "0.1", "1e-9", "1/3", "-1", "1e999", "on", "steward", "ada", *SQL[:3]]
"""What is typed into fields: some of it right, some of it wrong."""


def list_page_operations() -> list[Any]:
    """Return the operations of the pages, which the served description leaves out, with the fields of forms.

    A form is read field by field, so no route names them: those that templates have are sent.
    """
    described = FastAPI()
    for router in pages.ROUTERS[1:]:
        described.include_router(router)
    paths = described.openapi()["paths"]
    texts = [each.read_text() for each in (Path(sfumato.server.__file__).parent / "templates").glob("*.html")]
    names = sorted({name for text in texts for name in re.findall(r' name="([a-z_]+)"', text)})
    typed = {"anyOf": [{"enum": TYPED}, {"type": "string", "maxLength": 40}]}
    form = {"type": "object", "properties": dict.fromkeys(names, typed)}
    for path in paths.values():
        if "post" in path:
            path["post"].setdefault("requestBody", {"content": {FORM: {"schema": form}}})
    return [found.ok() for found in schemathesis.openapi.from_dict(described.openapi()).get_all_operations()]


def send_case(clinic: ServedClinic, case: Any, role: str, seen: Counter[int]) -> None:
    """Send one made-up request; whatever comes back has a code of ours, or is an answer."""
    told = case.as_transport_kwargs(base_url="http://testserver")
    headers = {name: value for name, value in told["headers"].items() if name.lower() != "authorization"}
    body = {name: told[name] for name in ("json",) if name in told}
    if isinstance(told.get("data"), str | bytes):
        body["content"] = told["data"]
    elif isinstance(told.get("data"), dict):
        body["data"] = told["data"]
    check_answer(
        clinic.send(told["method"], told["url"], role, params=told["params"], headers=headers, **body), seen
    )


def check_answer(answer: Any, seen: Counter[int]) -> None:
    seen[answer.status_code] += 1
    assert answer.status_code < 500, (answer.request.method, answer.request.url, answer.text)
    assert "Traceback" not in answer.text
    if answer.status_code >= 400:
        assert read_code(answer) in CODES, (answer.request.method, answer.request.url, answer.text)


def read_code(answer: Any) -> str | None:
    """Return the code of a refusal, which has one form for programs and one for people."""
    kind = answer.headers["content-type"]
    if kind.startswith("text/html"):
        found = re.search(r"SF-[A-Z]\d{3}", answer.text)
        return None if found is None else found[0]
    assert kind == "application/problem+json"
    return str(answer.json()["code"])


def renew_token(clinic: ServedClinic, role: str) -> None:
    """Give a role a token again if a request that was made up has revoked it, or removed its person."""
    people = clinic.context.people
    if role != "public" and people.find_holder(clinic.tokens[role]) is None:
        people.add_person(NAMES[role], role)
        clinic.tokens[role] = people.make_token(NAMES[role])


def send_many(
    clinic: ServedClinic, operation: Any, each: int, modes: Sequence[GenerationMode]
) -> Counter[int]:
    seen: Counter[int] = Counter()
    for mode in modes:
        try:
            strategy = operation.as_strategy(generation_mode=mode)

            @settings(CHECKED, max_examples=each)
            @given(strategy, st.sampled_from(["steward", "steward", "analyst", "auditor", "public"]))
            def send(case: Any, role: str) -> None:
                renew_token(clinic, role)
                send_case(clinic, case, role, seen)

            send()
        except Exception as problem:
            if "negative" not in str(problem).lower() and "Unsatisfiable" not in type(problem).__name__:
                raise
    return seen


spends = st.fixed_dictionaries(
    {},
    optional={
        "epsilon": st.sampled_from([1, "1/7", 0.01, 0, -1, 1e300, "0.3"]),
        "delta": st.sampled_from([1e-9, 0, 2]),
        "rho": st.sampled_from([0.1, "1/1000"]),
        "share": st.sampled_from([0.001, 2]),
        "risk": st.sampled_from([0.51, 1.5]),
        "error": st.dictionaries(
            st.sampled_from(["n", "c", "m"]), st.sampled_from([25, 0, 1e-9]), max_size=2
        ),
        "given": st.dictionaries(st.sampled_from(["n", "m"]), st.integers(-1, 10**6), max_size=2),
    },
)
questions = st.fixed_dictionaries(
    {"sql": st.sampled_from(SQL) | st.text(max_size=60)},
    optional={"bounded": st.fixed_dictionaries({"groups": st.integers(0, 3), "rows": st.integers(0, 3)})},
)


def send_questions(clinic: ServedClinic, many: int, path: str) -> Counter[int]:
    seen: Counter[int] = Counter()

    @settings(CHECKED, max_examples=many)
    @given(questions, spends, st.sampled_from(["analyst", "steward"]))
    def send(question: Any, spend: Any, role: str) -> None:
        content = json.dumps({"question": question, "spend": spend}).encode("utf-8", "surrogatepass")
        sent = {"Content-Type": "application/json"}
        check_answer(clinic.send("POST", path, role, content=content, headers=sent), seen)

    send()
    return seen


def test_no_request_is_a_failure_of_the_server(fuzzed: ServedClinic) -> None:
    seen: Counter[int] = Counter()
    # Making up requests takes long: some addresses with good ones, some with bad ones.
    for place, operation in enumerate(list_operations(fuzzed)[::5]):
        seen += send_many(fuzzed, operation, 4, [MODES[place % 2]])
    for place, operation in enumerate(list_page_operations()[::12]):
        seen += send_many(fuzzed, operation, 4, [MODES[place % 2]])
    seen += send_questions(fuzzed, 160, "/api/quote")
    assert sum(seen.values()) > 165
    assert seen[200] > 10


@pytest.mark.slow
def test_no_request_of_ten_thousand_is_a_failure(fuzzed: ServedClinic) -> None:
    seen: Counter[int] = Counter()
    operations = [*list_operations(fuzzed), *list_page_operations()]
    for operation in operations:
        light = operation.label not in ("GET /api/ledger/verify", "POST /api/people/{name}/password")
        seen += send_many(fuzzed, operation, 50 if light else 20, MODES)
    seen += send_questions(fuzzed, 1500, "/api/quote")
    seen += send_questions(fuzzed, 300, "/api/release")
    print(sum(seen.values()), "requests to", len(operations), "operations:", dict(seen))
    assert sum(seen.values()) >= 10_000
    assert seen[429] == 0
    clinic_verified = fuzzed.lab.verify()
    assert clinic_verified.charges == clinic_verified.releases
