"""Projects: their quota and the population's pay, members ask until the last day; nothing makes budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, DiskError, PolicyError, SfumatoError, UsageError
from sfumato.lab.work import names, projects
from sfumato.lab.work.store import FILE, WorkStore
from sfumato.privacy import price

ROWS = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})
COUNT = "SELECT COUNT(*) AS n FROM visits"
PURPOSE = "Why patients come back within a month."


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 10, step=1)}
    for name, of in (("visits", "patients"), ("habits", "smokers")):
        lab.register(name, ROWS, unit=sf.Unit("who", 1, of), columns=columns, budget=sf.Budget(4))
    lab.grant("ada", epsilon=1)
    return lab


def create(lab: sf.Lab, name: str = "readmissions", **more: Any) -> projects.Project:
    said: dict[str, Any] = {"purpose": PURPOSE, "epsilon": 1, "members": ["ada"]}
    return lab.create_project(name, **said | more)


def ask(lab: sf.Lab, epsilon: float, who: str | None = "ada", project: str | None = "readmissions") -> None:
    lab.session(who, project=project).sql(COUNT).release(epsilon=epsilon)


def spent(lab: sf.Lab, account: str) -> Any:
    return lab.ledger.read_spent(account)


def refusal(call: Any) -> str:
    with pytest.raises(SfumatoError) as refused:
        call()
    return refused.value.code


def test_the_projects_quota_and_the_population_pay_in_one_charge_and_not_the_analysts(lab: sf.Lab) -> None:
    create(lab, until=date(2099, 1, 1))
    ask(lab, 0.5)
    paid = price(sf.privacy.Pure(0.5)).pure
    assert spent(lab, "population:patients").pure == paid
    assert spent(lab, "quota:patients:project/readmissions").pure == paid
    assert spent(lab, "quota:patients:ada") == sf.privacy.NOTHING
    charges = [each for each in lab.ledger.read_entries() if each.kind == "charge"]
    assert len(charges) == 1
    assert '"project":"readmissions"' in charges[0].body
    assert '"analyst":"ada"' in charges[0].body
    with pytest.raises(BudgetError, match="for project 'readmissions'"):
        ask(lab, 0.6)
    create(lab, "large", epsilon=100)
    with pytest.raises(BudgetError):  # the population's budget is the limit for everyone
        ask(lab, 3.6, project="large")
    assert spent(lab, "population:patients").pure == paid


def test_members_share_a_quota_and_need_none_of_their_own(lab: sf.Lab) -> None:
    create(lab, members=["ben", "ada", "ada"])
    assert lab.project("readmissions").members == ("ada", "ben")
    ask(lab, 0.6, "ben")
    with pytest.raises(BudgetError):
        lab.session("ada", project="readmissions").sql(COUNT + " WHERE x > 1").release(epsilon=0.6)
    ask(lab, 0.6, "ada")  # answered before, so it is free for her too
    assert [each.name for each in lab.projects("ben")] == ["readmissions"]
    assert lab.projects("eve") == ()
    assert [each.name for each in lab.analysts()] == ["ada"]
    with pytest.raises(PolicyError, match="SF-B103"):
        lab.session("ben")


def test_who_is_no_member_is_told_the_same_as_of_a_project_that_is_not_there(lab: sf.Lab) -> None:
    create(lab)
    told = []
    for project in ("readmissions", "nothing"):
        with pytest.raises(PolicyError) as refused:
            lab.session("eve", project=project)
        told.append(str(refused.value).replace(project, "…"))
    assert told[0] == told[1]


def test_who_leaves_is_refused_in_open_sessions_too(lab: sf.Lab) -> None:
    create(lab, members=["ada", "ben"])
    ada, ben = (lab.session(each, project="readmissions") for each in ("ada", "ben"))
    asked = ada.sql(COUNT)
    lab.change_project("readmissions", members=["ben"])
    assert refusal(lambda: asked.release(epsilon=0.1)) == "SF-P114"
    assert refusal(lambda: asked.quote(epsilon=0.1)) == "SF-P114"
    lab.revoke("ben")  # who has no quota, and leaves the project
    assert refusal(lambda: ben.sql(COUNT)) == "SF-P114"
    assert refusal(lambda: lab.revoke("ben")) == "SF-B103"
    assert spent(lab, "population:patients") == sf.privacy.NOTHING


def test_the_last_day_is_the_last(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    today = [date(2027, 6, 30)]
    for module in (names, projects):
        monkeypatch.setattr(module, "read_today", lambda: today[0])
    create(lab, until="2027-06-30")
    session = lab.session("ada", project="readmissions")
    asked = session.sql(COUNT)
    asked.release(epsilon=0.1)
    today[0] = date(2027, 7, 1)
    assert refusal(lambda: asked.release(epsilon=0.2)) == "SF-P115"
    assert refusal(lambda: asked.release(epsilon=0.1)) == "SF-P115"  # what was answered stays in the project
    assert refusal(lambda: lab.session("ada", project="readmissions")) == "SF-P115"
    assert refusal(lambda: lab.session(project="readmissions")) == "SF-P115"
    assert lab.project("readmissions").state == "expired"
    assert spent(lab, "population:patients").pure == price(sf.privacy.Pure(0.1)).pure
    lab.change_project("readmissions", until="2027-12-31")
    asked.release(epsilon=0.2)
    assert refusal(lambda: create(lab, "late", until="2027-06-30")) == "SF-P112"


def test_a_day_that_passes_between_the_question_and_its_charge_refuses_the_charge(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(lab, until="2099-12-31")
    asked = lab.session("ada", project="readmissions").sql(COUNT)
    check = type(lab).reading

    def reading(self: sf.Lab, snapshots: Any) -> Any:
        # The last moment before the charge: rows are locked for reading, and nothing is read yet.
        monkeypatch.setattr(projects, "read_today", lambda: date(2100, 1, 1))
        return check(self, snapshots)

    monkeypatch.setattr(type(lab), "reading", reading)
    assert refusal(lambda: asked.release(epsilon=0.1)) == "SF-P115"
    assert lab.verify().charges == 0


def test_a_closed_project_is_closed_and_keeps_its_name(lab: sf.Lab) -> None:
    create(lab)
    ask(lab, 0.5)
    asked = lab.session("ada", project="readmissions").sql(COUNT)
    assert lab.close_project("readmissions").state == "closed"
    assert refusal(lambda: asked.release(epsilon=0.1)) == "SF-P116"
    assert refusal(lambda: create(lab)) == "SF-P118"
    assert refusal(lambda: lab.change_project("readmissions", epsilon=1)) == "SF-P116"
    assert lab.close_project("readmissions").quotas == ()
    assert refusal(lambda: lab.close_project("other")) == "SF-P117"


def test_tables_limit_what_members_ask_about(lab: sf.Lab) -> None:
    create(lab, tables=["visits"])
    session = lab.session("ada", project="readmissions")
    assert refusal(lambda: session.sql("SELECT COUNT(*) AS n FROM habits")) == "SF-Q106"
    assert "quota:smokers:project/readmissions" not in lab.ledger.list_accounts()
    lab.change_project("readmissions", tables=["visits", "habits"])
    assert refusal(lambda: session.sql("SELECT COUNT(*) AS n FROM habits")) == "SF-Q106"  # no quota there yet
    lab.change_project("readmissions", epsilon=1)
    session.sql("SELECT COUNT(*) AS n FROM habits").release(epsilon=0.1)


def test_names_that_could_be_taken_for_others(lab: sf.Lab) -> None:
    create(lab, "ada")  # the quota of a project called like an analyst is another account
    lab.session("ada").sql(COUNT).release(epsilon=0.25)
    assert spent(lab, "quota:patients:project/ada") == sf.privacy.NOTHING
    assert refusal(lambda: create(lab, "Ada")) == "SF-P118"
    for name in ("a:b", "project/ada", "", " ada", "a/b", "x" * 81, "a\nb", None, 3, "-a", "a\ud800"):
        assert refusal(lambda name=name: create(lab, name)) == "SF-P110"
    for members in ("ada", ["a:b"], [""], [None], ["project/ada"], ["\ud800"]):
        assert refusal(lambda members=members: create(lab, "other", members=members)) in (
            "SF-P111",
            "SF-L305",
        )
    for until in ("tomorrow", 3, datetime(2099, 1, 1), "2099-13-01"):
        assert refusal(lambda until=until: create(lab, "other", until=until)) == "SF-P112"
    for purpose in ("", None, "x" * 2001):
        assert refusal(lambda purpose=purpose: create(lab, "other", purpose=purpose)) == "SF-P113"
    for epsilon in (0, -1, float("nan"), float("inf"), None, "1"):
        assert refusal(lambda epsilon=epsilon: create(lab, "other", epsilon=epsilon)).startswith("SF-N")
    # Nobody gets at the quota of a project by a grant or a session under its account's name.
    for call in (lab.grant, lab.session, lab.revoke):
        more = {"epsilon": 9} if call == lab.grant else {}
        with pytest.raises((UsageError, PolicyError)):
            call("project/ada", **more)
    assert refusal(lambda: lab.session("ada", project="project/ada")) == "SF-P114"
    assert [each.name for each in lab.projects()] == ["ada"]


def test_created_again_is_the_same_and_two_at_once_are_one(lab: sf.Lab) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: create(lab), range(4)))
    assert len(set(map(str, made))) == 1
    ask(lab, 0.75)
    create(lab)
    assert lab.project("readmissions").quotas[0].left_epsilon == 0.25
    assert refusal(lambda: create(lab, members=["ben"])) == "SF-P118"


def test_a_crash_before_the_quotas_are_open_leaves_a_project_that_cannot_spend(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(lab.ledger), "grant", crash)
        with pytest.raises(KeyboardInterrupt):
            create(lab)
    assert refusal(lambda: ask(lab, 0.1)) == "SF-Q106"
    create(lab)
    ask(lab, 0.1)


def test_a_project_whose_file_was_lost_keeps_what_it_spent(lab: sf.Lab) -> None:
    create(lab)
    ask(lab, 0.75)
    (lab.folder / FILE).unlink()
    assert lab.projects() == ()
    create(lab)
    with pytest.raises(BudgetError):
        ask(lab, 0.5)


def test_the_file_is_private_and_says_when_it_is_ill(lab: sf.Lab) -> None:
    create(lab)
    path = lab.folder / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"not a database, and long enough to be one" * 100)
    with pytest.raises(DiskError, match="SF-P190"):
        WorkStore(lab.folder).read_projects()
    with pytest.raises(DiskError, match="SF-P190"):
        ask(lab, 0.1)


def test_a_project_rehearses_with_its_own_quota(lab: sf.Lab, tmp_path: Path) -> None:
    create(lab, epsilon=2)
    rehearsal = lab.session("ada", project="readmissions").rehearse(tmp_path / "rehearsal", rows=10)
    rehearsal.sql(COUNT).release(epsilon=1.9)  # more than ada's own quota
    assert spent(lab, "population:patients") == sf.privacy.NOTHING
