"""What is attempted on sessions, attempted over HTTP: nothing is through, and neighbours hear the same.

Two servers stand over labs that differ by one person. Whatever is refused before a charge, and every quote,
must be the same to the byte; answers must have the same form, and show no secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.privacy import conftest as watched
from tests.privacy import test_error_triggers as triggers
from tests.privacy import test_escapes as escapes

import sfumato as sf
from serving import ServedClinic, serve_clinic
from sfumato.errors.codes import CODES
from sfumato.server.settings import ServerSettings

FAST = ServerSettings("http://testserver", requests_per_second=1e9, request_burst=10**9)
INCIDENT = re.compile(r"\b[0-9a-f]{16}\b")
SPENDS: tuple[dict[str, Any], ...] = ({"epsilon": 4}, {"epsilon": 4, "delta": 1e-6})
PLACES = (
    "SELECT COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE {}",
    "SELECT SUM(CASE WHEN {} THEN cost ELSE 0 END) AS s FROM visits",
    "SELECT ({}) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING {}",
)


def serve_labs(stack: ExitStack, labs: list[sf.Lab]) -> tuple[ServedClinic, ...]:
    return tuple(stack.enter_context(serve_clinic(lab.folder, FAST, lab)) for lab in labs)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServedClinic, ...]]:
    """Two servers, and files that must stay unread in the working directory."""
    inside, outside = tmp_path_factory.mktemp("http"), tmp_path_factory.mktemp("outside")
    everybody, key = list(range(1, 60)), bytes(range(32))
    watched._lay_out(outside)
    labs = []
    for name, left_out in (("one", None), ("other", watched.ODD)):
        who = [each for each in everybody if each != left_out]
        labs.append(watched.build(inside / name, who, key))
        labs[-1].grant("ada", epsilon=10**8, delta=0.1, tables=["visits", "people"])
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("SFUMATO_CANARY", f"{watched.SECRET}-environment")
        patch.chdir(outside)
        yield serve_labs(stack, labs)


def told(answer: Any) -> tuple[int, str, list[tuple[str, str]]]:
    """All that an answer says; the number of an incident may differ."""
    return answer.status_code, INCIDENT.sub("INCIDENT", answer.text), sorted(answer.headers.items())


def find_way_through(pair: tuple[ServedClinic, ...], sql: str, *, release: bool) -> str | None:
    """What came through that must not, if anything."""
    content = sql.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    for spend in SPENDS:
        body = {"question": {"sql": content}, "spend": spend}
        quotes = [clinic.send("POST", "/api/quote", json=body) for clinic in pair]
        if told(quotes[0]) != told(quotes[1]):
            return f"one person more changes what is said: {[each.text for each in quotes]}"
        found = _shown(quotes[0])
        if found or quotes[0].status_code == 200:
            break
    if found or quotes[0].status_code != 200 or not release:
        return found
    answers = [clinic.send("POST", "/api/release", json=body) for clinic in pair]
    forms = [_form(each) for each in answers]
    if forms[0] != forms[1]:
        return f"one person more changes the form: {forms}"
    return _shown(answers[0]) or _shown(answers[1])


def _shown(answer: Any) -> str | None:
    if answer.status_code >= 500 or answer.status_code == 422:
        return f"status {answer.status_code}: {answer.text}"
    if watched.SECRET in answer.text or "Traceback" in answer.text:
        return f"a secret: {answer.text}"
    if answer.status_code >= 400 and answer.json()["code"] not in CODES:
        return f"uncoded: {answer.text}"
    return None


def _form(answer: Any) -> Any:
    """The names of columns and the types of values, without their number where groups are discovered."""
    if answer.status_code != 200:
        return told(answer)
    columns = answer.json().get("columns") or {}
    return sorted(columns)


def list_attempts(pair: tuple[ServedClinic, ...]) -> list[str]:
    outside = Path.cwd()
    lines = [line for attempts in escapes.FAMILIES.values() for line in attempts]
    placed = [PLACES[at % len(PLACES)].format(line) for at, line in enumerate(escapes.CONDITIONS)]
    return [escapes.written(line, outside) for line in (*lines, *placed)]


def test_few_attempts_are_not_through(pair: tuple[ServedClinic, ...]) -> None:
    found = {sql: find_way_through(pair, sql, release=False) for sql in list_attempts(pair)[::30]}
    assert {sql: why for sql, why in found.items() if why} == {}


@pytest.mark.slow
def test_no_attempt_is_through(pair: tuple[ServedClinic, ...]) -> None:
    attempts = list_attempts(pair)
    before = [clinic.lab.verify().charges for clinic in pair]
    found = {sql: find_way_through(pair, sql, release=True) for sql in attempts}
    after = [clinic.lab.verify() for clinic in pair]
    print(len(attempts), "attempts,", after[0].charges - before[0], "charged")
    assert len(attempts) >= 500
    assert {sql: why for sql, why in found.items() if why} == {}
    assert [each.charges == each.releases for each in after] == [True, True]


def test_a_secret_would_be_seen(pair: tuple[ServedClinic, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(*_: Any) -> dict[str, Any]:
        return {"admitted": True, "free": False, "text": watched.SECRET}

    monkeypatch.setattr("sfumato.server.questions.quote_question", tell)
    sql = "SELECT COUNT(*) AS n FROM visits"
    assert "a secret" in str(find_way_through(pair, sql, release=False))

    def count(session: Any, *_: Any) -> dict[str, Any]:
        found = session._lab.engine.run(session.sql(sql).quote(epsilon=1).plan.steps[0].program)
        return {"admitted": True, "free": False, "text": str(found)}

    monkeypatch.setattr("sfumato.server.questions.quote_question", count)
    assert "one person more" in str(find_way_through(pair, sql, release=False))


# ---- errors ------------------------------------------------------------------------------------------------


def make_neighbours(folder: Path, names: list[str]) -> list[sf.Lab]:
    labs = []
    for name in names:
        lab = sf.create(folder / name / "lab")
        unit = sf.Unit("patient_id", max_rows=2)
        rows = triggers.rows(triggers.ODD[name])
        lab.register("visits", rows, unit=unit, columns=triggers.COLUMNS, budget=sf.Budget(epsilon=1))
        lab.register("plain", rows, unit=unit)
        lab.grant("ada", epsilon=0.5)
        labs.append(lab)
    return labs


def list_bodies() -> Iterator[dict[str, Any]]:
    for sql in triggers.QUESTIONS.values():
        if "\ud800" not in sql:
            yield {"question": {"sql": sql}, "spend": {"epsilon": 0.01}}
    for spend in triggers.SPENDS.values():
        key = {"key": spend["key"]} if "key" in spend else {}
        said = {name: value for name, value in spend.items() if name != "key"}
        yield {"question": {"sql": "SELECT COUNT(*) AS n FROM visits"}, "spend": said, **key}


def hear_all(servers: tuple[ServedClinic, ...], bodies: list[dict[str, Any]]) -> set[int]:
    """Send every body to every server; all answers must be refusals, equal everywhere, at no cost."""
    statuses = set()
    for body in bodies:
        sent = {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
        heard = [told(server.send("POST", "/api/release", **sent)) for server in servers]
        assert all(each == heard[0] for each in heard), body
        assert 400 <= heard[0][0] < 500, (body, heard[0])
        statuses.add(heard[0][0])
    assert [server.lab.verify().charges for server in servers] == [0] * len(servers)
    return statuses


def test_neighbours_hear_the_same_refusals(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = serve_labs(stack, make_neighbours(tmp_path, ["nobody", "extreme"]))
        assert hear_all(servers, list(list_bodies())[::4]) == {400, 403, 404}


@pytest.mark.slow
def test_all_neighbours_hear_the_same(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = serve_labs(stack, make_neighbours(tmp_path, list(triggers.ODD)))
        hear_all(servers, list(list_bodies()))
        heard = [told(server.ask("SELECT COUNT(*) AS n FROM visits", epsilon=0.6)) for server in servers]
        assert all(each == heard[0] for each in heard)
        assert '"SF-B102"' in heard[0][1]


HARMS: dict[str, tuple[Callable[[Path], None], int]] = {
    **{name: (each.harm, 503) for name, each in triggers.OUT_OF_REACH.items() if each.harm is not None},
    "another table's snapshot": (triggers._another_table, 422),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMS)
def test_neighbours_hear_the_same_of_lost_snapshots(tmp_path: Path, name: str) -> None:
    harm, status = HARMS[name]
    with ExitStack() as stack:
        labs = make_neighbours(tmp_path, list(triggers.ODD))
        for lab in labs:
            harm(lab.folder)
        servers = serve_labs(stack, labs)
        heard = [told(server.ask("SELECT SUM(age) AS n FROM visits", epsilon=0.25)) for server in servers]
        assert all(each == heard[0] for each in heard)
        assert heard[0][0] == status
        charged = [server.lab.verify().charges for server in servers]
        assert charged == [1 if status == 422 else 0] * len(servers)
