"""Who may open which page, and what no form does without the page's own token. No browser is needed."""

from __future__ import annotations

import io
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from serving import NAMES, ROLES, ServedClinic, serve_clinic
from sfumato.errors import PolicyError, StewardWarning
from sfumato.server.access import make_csrf_token
from sfumato.server.pages.teaching import learn
from sfumato.server.quiet import hush_steward_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = {
    "/promise": ROLES,
    "/learn": ROLES,
    "/learn/differencing": ROLES,
    "/learn/repetition": ROLES,
    "/learn/linkage": ROLES,
    "/synthetic": ROLES,
    "/register": ("steward",),
    "/register/odds": ("steward",),
    "/quotas": ("steward",),
    "/requests": ("steward", "analyst"),
    "/models": ("steward", "analyst"),
    "/streams": ("steward", "analyst"),
}
FORMS = (
    "/register",
    "/register/check",
    "/register/price",
    "/register/upload",
    "/requests",
    "/quotas",
    "/quotas/ada/revoke",
    "/requests/1/grant",
    "/requests/1/decline",
    "/requests/1/withdraw",
    "/models",
    "/synthetic",
    "/synthetic/publish/twin",
    f"/synthetic/{'f' * 32}/publish",
    "/streams/quote",
    "/streams/run",
)
HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClinic]:
    with serve_clinic(tmp_path_factory.mktemp("pages") / "lab") as served:
        yield served


@pytest.mark.parametrize("role", ROLES)
def test_each_page_is_open_to_its_roles_and_to_no_other(clinic: ServedClinic, role: str) -> None:
    for path, roles in PAGES.items():
        status = clinic.send("GET", path, role, headers=HTML).status_code
        refused = 303 if role == "public" else 403
        assert status == (200 if role in roles else refused), (path, role)


@pytest.mark.parametrize("role", ["steward", "analyst"])
def test_no_form_is_taken_without_the_token_of_its_page(clinic: ServedClinic, role: str) -> None:
    cookie = clinic.context.people.make_token(NAMES[role], purpose="page")
    before = list(clinic.lab.ledger.read_entries()), clinic.lab.requests()
    for path in FORMS:
        answer = clinic.client.post(
            path, data={"csrf": "0" * 64}, headers=HTML | {"cookie": f"sfumato={cookie}"}
        )
        assert answer.status_code == 403, path
        assert "SF-W109" in answer.text or "SF-W103" in answer.text, path
    assert (list(clinic.lab.ledger.read_entries()), clinic.lab.requests()) == before


def test_an_analyst_can_send_no_form_of_a_steward(clinic: ServedClinic) -> None:
    for path in (
        "/register",
        "/register/check",
        "/quotas",
        "/quotas/bob/revoke",
        "/requests/1/grant",
        "/requests/1/decline",
        "/streams/run",
    ):
        assert clinic.send("POST", path, "analyst", headers=HTML).status_code == 403, path


@pytest.mark.parametrize(
    "source",
    ["", "path:/etc/passwd", "path:../people.sqlite", "upload:../catalog.json", "upload:x.csv", "path:*.csv"],
)
def test_no_source_leads_out_of_its_folder(clinic: ServedClinic, source: str) -> None:
    answer = clinic.send("GET", "/register/declare", "steward", params={"source": source}, headers=HTML)
    assert answer.status_code == 404
    assert "root:" not in answer.text


def test_a_file_of_another_kind_is_refused(clinic: ServedClinic) -> None:
    sent: dict[str, Any] = {"files": {"file": ("rows.exe", io.BytesIO(b"MZ"))}}
    answer = clinic.send("POST", "/register/upload", "steward", headers=HTML, **sent)
    assert answer.status_code == 400
    assert "SF-W104" in answer.text


@pytest.mark.parametrize("role", ["public", "analyst", "auditor"])
def test_a_file_is_not_read_before_it_is_known_who_sends_it(
    clinic: ServedClinic, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise AssertionError("the form was read")

    monkeypatch.setattr("starlette.formparsers.MultiPartParser.parse", fail)
    sent: dict[str, Any] = {"files": {"file": ("rows.csv", io.BytesIO(b"a,b"))}}
    assert clinic.send("POST", "/register/upload", role, **sent).status_code in (401, 403)


def test_a_form_without_a_file_is_refused(clinic: ServedClinic) -> None:
    answer = clinic.send("POST", "/register/upload", "steward", headers=HTML, data={"file": "rows"})
    assert (answer.status_code, "SF-W104" in answer.text) == (400, True)


def test_a_report_is_shown_once_and_kept_nowhere(
    clinic: ServedClinic, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of 40 rows of 20 people, one row each is used, and 30 values lie above the bound."""
    rows = "\n".join(["nurse,hours", *(f"{at // 2},{at + 60}" for at in range(40))]).encode()
    sent: dict[str, Any] = {"files": {"file": ("hours.csv", io.BytesIO(rows))}}
    went = clinic.send("POST", "/register/upload", "steward", headers=HTML, **sent)
    source = went.headers["location"].partition("source=")[2]
    fields = {"source": source, "table": "hours", "protects": "column", "unit": "nurse", "max_rows": "1"}
    fields |= {"kind-1": "number", "low-1": "0", "high-1": "69", "population": "nurse"}
    checked = clinic.send("POST", "/register/check", "steward", data=fields, headers=HTML)
    assert checked.status_code == 200
    assert checked.headers["cache-control"] == "no-store"
    assert "30 values (75 %) above the upper bound" in checked.text
    assert [each.name for each in clinic.lab.tables()] == ["visits", "staff"]
    done = clinic.send("POST", "/register", "steward", data=fields, headers=HTML)
    assert "hours is registered" in done.text
    again = clinic.send("POST", "/register", "steward", data=fields, headers=HTML)
    assert again.status_code == 404  # the file is gone
    assert list((clinic.lab.folder / "uploads").iterdir()) == []
    clinic.lab.drop("hours")
    kept = "".join(file.read_text(errors="replace") for file in clinic.lab.folder.glob("*.json"))
    assert "75 %" not in kept
    assert "above the upper bound" not in "".join(capfd.readouterr())


def send_file(clinic: ServedClinic, name: str, content: str) -> str:
    """Send a file, and return its source."""
    sent: dict[str, Any] = {"files": {"file": (name, io.BytesIO(content.encode()))}}
    went = clinic.send("POST", "/register/upload", "steward", headers=HTML, **sent)
    return str(went.headers["location"].partition("source=")[2])


def test_bounds_are_chosen_from_the_form(clinic: ServedClinic) -> None:
    """Checking charges nothing and says why; registering charges once and shows what was chosen."""
    rows = "\n".join(["nurse,hours", *(f"{at // 3},{at % 50}" for at in range(900))])
    source = send_file(clinic, "hours.csv", rows)
    said = {"source": source, "table": "hours", "protects": "column", "unit": "nurse", "population": "nurse"}
    said |= {"kind-1": "number", "choose_rows": "0.5", "choose-1": "0.25"}
    before = clinic.lab.verify().charges
    checked = clinic.send("POST", "/register/check", "steward", data=said, headers=HTML)
    assert "SF-U104" in checked.text
    assert "Register: charge ε = 0.75 and choose bounds" in checked.text
    priced = clinic.send("POST", "/register/price", "steward", data=said, headers=HTML)
    assert ("<html" in priced.text, 'value="ε = 0.75"' in priced.text) == (False, True)
    assert "more than what is left" not in priced.text
    dear = clinic.send("POST", "/register/price", "steward", data=said | {"choose-1": "90"}, headers=HTML)
    assert "more than what is left" in dear.text
    both = clinic.send("POST", "/register", "steward", data=said | {"max_rows": "3"}, headers=HTML)
    assert "SF-W183" in both.text
    # Without scripts no price stood on the page: it is shown first, and nothing is charged.
    unseen = clinic.send("POST", "/register", "steward", data=said, headers=HTML)
    assert "Nothing is charged yet. Registering charges ε = 0.75" in unseen.text
    assert clinic.lab.verify().charges == before
    said["seen_price"] = "ε = 0.75"
    done = clinic.send("POST", "/register", "steward", data=said, headers=HTML)
    assert "hours is registered" in done.text
    assert "Bounds that were chosen privately" in done.text
    assert clinic.lab.verify().charges == before + 1
    shown = clinic.send("GET", "/tables/hours", "steward", headers=HTML).text
    assert "chosen privately (ε = 0.5" in shown
    clinic.lab.drop("hours")


def test_the_part_of_delta_is_declared_in_the_form(clinic: ServedClinic) -> None:
    rows = "\n".join(
        ["guest,wing,nights", *(f"{at // 2},{'east' if at % 4 < 2 else 'west'},1" for at in range(40))]
    )
    said = {
        "source": send_file(clinic, "stays.csv", rows),
        "table": "stays",
        "protects": "column",
        "unit": "guest",
        "population": "lodgers",
    }
    said |= {"max_rows": "2", "kind-1": "list", "values-1": "east, west"}
    said |= {"epsilon": "2", "delta": "1e-6"}
    shown = clinic.send(
        "POST", "/register/check", "steward", data=said | {"side_share": "0.9"}, headers=HTML
    ).text
    assert 'value="0.9"' in shown
    wrong = clinic.send("POST", "/register", "steward", data=said | {"side_share": "2"}, headers=HTML)
    assert "SF-N101" in wrong.text
    done = clinic.send("POST", "/register", "steward", data=said | {"side_share": "0.9"}, headers=HTML)
    assert "stays is registered" in done.text
    assert clinic.lab.ledger.read_budget("population:lodgers") == sf.Budget(2, 1e-6, side_share=0.9)
    clinic.lab.drop("stays")


@pytest.mark.usefixtures("usual_losses")
def test_losses_are_confirmed_in_the_form(clinic: ServedClinic, capfd: pytest.CaptureFixture[str]) -> None:
    """Days in no known format, and a person with two wings: registered only with a tick, and then shown."""
    rows = "\n".join(
        ["guest;day;wing", *(f"{at // 2};{at};{'east' if at % 3 else 'west'}" for at in range(40))]
    )
    source = send_file(clinic, "stays.csv", rows)
    said = {"source": source, "table": "stays", "protects": "column", "unit": "guest", "population": "guest"}
    said |= {"max_rows": "2", "epsilon": "2"}
    said |= {"kind-1": "date", "low-1": "2024-01-01", "high-1": "2024-12-31"}
    said |= {"kind-2": "list", "values-2": "east, west", "constant-2": "yes"}
    checked = clinic.send("POST", "/register/check", "steward", data=said, headers=HTML).text
    assert 'name="confirm_losses"' in checked
    assert "separated by semicolons" in checked
    assert "&#39;wing&#39; is declared constant, but 14 units (70 %)" in checked
    refused = clinic.send("POST", "/register", "steward", data=said, headers=HTML).text
    assert "SF-C249" in refused
    assert 'name="confirm_losses"' in refused
    assert "stays" not in [each.name for each in clinic.lab.tables()]
    done = clinic.send("POST", "/register", "steward", data=said | {"confirm_losses": "yes"}, headers=HTML)
    assert "stays is registered" in done.text
    assert "40 values (100 %) not readable as a date" in done.text
    seen = clinic.send("GET", "/tables/stays", "analyst", headers=HTML).text
    assert "70 %" not in seen
    assert "100 %" not in seen
    assert "70 %" not in "".join(capfd.readouterr())
    clinic.lab.drop("stays")


@pytest.mark.usefixtures("usual_losses")
def test_a_format_and_the_lack_of_missing_values_are_declared_in_the_form(clinic: ServedClinic) -> None:
    rows = "\n".join(["guest,day", *(f"{at},{at % 12 + 1}/{at % 11 + 1}/2024" for at in range(40))])
    source = send_file(clinic, "stays.csv", rows)
    said = {"source": source, "table": "stays", "protects": "column", "unit": "guest", "population": "guest"}
    said |= {"max_rows": "1", "epsilon": "2", "required-1": "yes"}
    said |= {"kind-1": "date", "low-1": "2024-01-01", "high-1": "2024-12-31"}
    asked = clinic.send("POST", "/register", "steward", data=said, headers=HTML).text
    assert "SF-C250" in asked
    assert "<option>12/31/2024</option>" in asked
    both = clinic.send("POST", "/register", "steward", data=said | {"missing-1": "2024-01-01"}, headers=HTML)
    assert "SF-W183" in both.text
    done = clinic.send("POST", "/register", "steward", data=said | {"format-1": "12/31/2024"}, headers=HTML)
    assert "stays is registered" in done.text
    (day,) = clinic.lab.table("stays").columns.values()
    assert day.nullable is False
    assert day.to_dict()["format"] == "12/31/2024"
    clinic.lab.drop("stays")


def test_numbers_that_are_too_large_are_named_on_the_pages(clinic: ServedClinic) -> None:
    typed = {"epsilon": "1000", "delta": "0.5"}
    odds = clinic.send("GET", "/register/odds", "steward", params=typed, headers=HTML).text
    assert "promises almost no privacy" in odds
    usual = clinic.send("GET", "/register/odds", "steward", params={"epsilon": "4"}, headers=HTML).text
    assert "promises almost no privacy" not in usual
    granted = {"analyst": "greta", "epsilon": "2000000", "delta": "", "later": ""}
    clinic.send("POST", "/quotas", "steward", data=granted, headers=HTML)
    shown = clinic.send("GET", "/quotas", "steward", headers=HTML).text
    assert "The quota of &#39;greta&#39; on" in shown
    assert "but the whole budget is" in shown
    clinic.lab.revoke("greta")
    asked = {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "50"}
    quoted = clinic.send("POST", "/ask", "steward", data=asked, headers=HTML).text
    assert "A query of ε = 50 promises almost no privacy" in quoted


def test_a_graph_and_a_table_of_so_many_rows_are_registered(clinic: ServedClinic) -> None:
    calls = send_file(
        clinic, "calls.csv", "caller,called\n" + "\n".join(f"{at},{at + 1}" for at in range(30))
    )
    ends = {"left": "caller", "right": "called", "max_degree": "5"}
    graph = {"source": calls, "table": "calls", "protects": "node", "epsilon": "1", **ends}
    refused = clinic.send("POST", "/register", "steward", data=graph | {"twin": "declared"}, headers=HTML)
    assert (refused.status_code, "SF-W183" in refused.text) == (400, True)
    done = clinic.send("POST", "/register", "steward", data=graph, headers=HTML)
    assert "calls is registered" in done.text
    members = send_file(clinic, "members.csv", "age\n" + "\n".join(str(20 + at) for at in range(12)))
    table = {"source": members, "table": "members", "protects": "row-replaced", "rows": "11", "epsilon": "1"}
    table |= {"kind-0": "number", "low-0": "0", "high-0": "110", "step-0": "0.5"}
    wrong = clinic.send("POST", "/register", "steward", data=table, headers=HTML)
    assert wrong.status_code == 400
    right = table | {"rows": "12", "twin": "declared"}
    done = clinic.send("POST", "/register", "steward", data=right, headers=HTML)
    assert "Its twin is published" in done.text
    found = clinic.lab.table("members")
    assert (found.public_rows, found.neighbours.value) == (12, "replace-one")
    assert [each.name for each in clinic.lab.published()] == ["members_synthetic"]
    for name in ("calls", "members"):
        clinic.lab.drop(name)


def test_a_table_whose_twin_cannot_be_bought_is_registered_without_it(clinic: ServedClinic) -> None:
    source = send_file(clinic, "few.csv", "age\n20\n30\n")
    said = {"source": source, "table": "few", "protects": "row", "epsilon": "1", "twin": "bought"}
    said |= {"twin_rho": "9", "kind-0": "number", "low-0": "0", "high-0": "110"}
    done = clinic.send("POST", "/register", "steward", data=said, headers=HTML)
    assert (done.status_code, "few is registered" in done.text) == (200, True)
    assert "Its twin is published" not in done.text
    assert 'class="problem"' in done.text
    clinic.lab.drop("few")


def test_a_quota_is_granted_and_revoked(clinic: ServedClinic) -> None:
    said = {"analyst": "eve", "epsilon": "0.5", "delta": "1e-9", "columns": "visits"}
    granted = clinic.send("POST", "/quotas", "steward", data=said, headers=HTML)
    assert granted.headers["location"] == "/quotas?done=granted"
    eve = next(each for each in clinic.lab.analysts() if each.name == "eve")
    assert (eve.tables, [each.epsilon for each in eve.quotas]) == (("visits",), [0.5])
    shown = clinic.send("GET", "/quotas", "steward", headers=HTML).text
    assert "eve" in shown
    assert "has no token for this server" in shown
    wrong = clinic.send("POST", "/quotas", "steward", data=said | {"epsilon": "much"}, headers=HTML)
    assert (wrong.status_code, "SF-W183" in wrong.text) == (400, True)
    both = clinic.send("POST", "/quotas", "steward", data=said | {"later": "yes"}, headers=HTML)
    assert "SF-U104" in both.text
    assert clinic.send("POST", "/quotas/eve/revoke", "steward", headers=HTML).status_code == 303
    assert "eve" not in [each.name for each in clinic.lab.analysts() if each.quotas]


def test_analysts_see_their_own_requests_alone(clinic: ServedClinic) -> None:
    clinic.lab.request("bob", epsilon=1, reason="for the night shift")
    try:
        assert "for the night shift" not in clinic.send("GET", "/requests", "analyst", headers=HTML).text
        assert "for the night shift" in clinic.send("GET", "/requests", "steward", headers=HTML).text
    finally:
        clinic.lab.request_desk.decline(1, "a test")


def test_a_member_of_a_team_asks_with_its_quota(clinic: ServedClinic) -> None:
    people = clinic.context.people
    people.add_person("emmy", "analyst")
    cookie = people.make_token("emmy", purpose="page")
    headers = HTML | {"cookie": f"sfumato={cookie}"}

    def send(method: str, path: str, **more: Any) -> Any:
        return clinic.client.request(method, path, headers=headers, **more)

    for path in ("/", "/ask", "/tables", "/models", "/synthetic", "/streams", "/requests", "/published"):
        assert send("GET", path).status_code == 200, path
    assert "You have no quota yet" in send("GET", "/ask").text
    clinic.lab.grant("falls", epsilon=2, members=["emmy"])
    said = {"csrf": make_csrf_token(cookie), "sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "0.5"}
    assert "Quota of falls on patient_id" in send("GET", "/").text
    assert "ε = 2" in send("POST", "/ask", data=said).text
    done = send("POST", "/ask/release", data=said)
    assert done.status_code == 303
    team = next(each for each in clinic.lab.analysts() if each.name == "falls")
    assert next(each for each in team.quotas if "patient_id" in each.name).left_epsilon == 1.5
    entry = done.headers["location"].rpartition("/")[2]
    assert send("GET", f"/releases/{entry}/answer.csv").status_code == 200
    # Whoever has left the team is refused before anything is charged.
    before = clinic.lab.verify().charges
    clinic.lab.revoke("emmy")
    assert send("POST", "/ask/release", data=said | {"epsilon": "0.25"}).status_code in (400, 403)
    assert clinic.lab.verify().charges == before > 0
    people.remove_person("emmy")


def test_what_is_typed_is_escaped(clinic: ServedClinic) -> None:
    answer = clinic.send("POST", "/requests", "analyst", data={"reason": "<script>x</script>"}, headers=HTML)
    assert answer.status_code == 400
    assert "<script>x" not in answer.text
    assert "&lt;script&gt;x" in answer.text


def test_an_attack_that_is_none_is_not_found(clinic: ServedClinic) -> None:
    answer = clinic.send("GET", "/learn/telepathy/score", "public", headers=HTML)
    assert answer.status_code == 404
    assert "SF-U101" in answer.text


def test_players_beyond_a_few_are_refused_at_once(clinic: ServedClinic) -> None:
    """They would else wait in threads that other pages need."""
    with ExitStack() as others:
        for _ in range(learn.PLACES):
            learn._PLACES.acquire()
            others.callback(learn._PLACES.release)
        answer = clinic.send("GET", "/learn/linkage?ask=yes", "public", headers=HTML)
    assert answer.status_code == 429
    assert "SF-W108" in answer.text
    assert clinic.send("GET", "/learn/linkage?ask=yes", "public", headers=HTML).status_code == 200


def test_exact_counts_are_not_warned_about_in_a_log_and_one_block_runs_at_a_time() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hush_steward_warnings():
            warnings.warn("40 values are lost", StewardWarning, stacklevel=1)
            with pytest.raises(PolicyError, match="at the moment"), hush_steward_warnings(0.01):
                pass
    assert heard == []
