"""Teams: members spend one quota together, and nobody spends two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, SfumatoError
from sfumato.privacy import price

ROWS = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 10, step=1)}
    for name, of in (("visits", "patients"), ("habits", "smokers")):
        lab.register(name, ROWS, unit=sf.Unit("who", 1, of), columns=columns, budget=sf.Budget(4))
    lab.grant("waves", epsilon=1, members=["ben", "ada", "ada"])
    return lab


def refusal(call: Any) -> str:
    with pytest.raises(SfumatoError) as refused:
        call()
    return refused.value.code


def test_members_spend_the_teams_quota_in_one_charge_with_the_population(lab: sf.Lab) -> None:
    lab.session("ada").sql(COUNT).release(epsilon=0.5)
    paid = price(sf.privacy.Pure(0.5)).pure
    assert lab.ledger.read_spent("population:patients").pure == paid
    assert lab.ledger.read_spent("quota:patients:waves").pure == paid
    (charge,) = [each for each in lab.ledger.read_entries() if each.kind == "charge"]
    assert '"analyst":"ada"' in charge.body
    with pytest.raises(BudgetError, match="analyst 'waves'"):
        lab.session("ben").sql(COUNT + " WHERE x > 1").release(epsilon=0.6)
    assert lab.session("ben").sql(COUNT).release(epsilon=0.5).receipt.replayed
    assert str(lab.session("ben").budget) == str(lab.session("ada").budget)
    assert lab.ledger.read_spent("population:patients").pure == paid


def test_a_team_is_listed_with_its_members(lab: sf.Lab) -> None:
    (team,) = sf.open(lab.folder).analysts()
    assert (team.name, team.members) == ("waves", ("ada", "ben"))
    assert "waves (ada, ben)" in str(team)
    assert team.to_dict()["members"] == ["ada", "ben"]


def test_nobody_spends_two_quotas(lab: sf.Lab) -> None:
    lab.grant("eve", epsilon=1)
    before = lab.analysts()
    assert refusal(lambda: lab.grant("ada", epsilon=1)) == "SF-P110"
    assert refusal(lambda: lab.grant("other", epsilon=1, members=["ada"])) == "SF-P110"
    assert refusal(lambda: lab.grant("waves", epsilon=1, members=["ada", "eve"])) == "SF-P110"
    assert refusal(lambda: lab.grant("eve", epsilon=1, members=["eve"])) == "SF-P110"
    assert refusal(lambda: lab.grant("ada", epsilon=1, members=["kim"])) == "SF-P110"
    lab.grant("later", epsilon=1, later=True)
    assert refusal(lambda: lab.grant("waves", epsilon=1, members=["later"])) == "SF-P110"
    lab.revoke("later")
    assert lab.analysts() == before


def test_who_leaves_is_refused_in_open_sessions_too(lab: sf.Lab) -> None:
    asked = lab.session("ada").sql(COUNT)
    asked.release(epsilon=0.125)
    lab.revoke("ada")
    for epsilon in (0.25, 0.125):  # what the team has paid for stays with the team
        assert refusal(lambda epsilon=epsilon: asked.release(epsilon=epsilon)) == "SF-B103"
        assert refusal(lambda epsilon=epsilon: asked.quote(epsilon=epsilon)) == "SF-B103"
    assert refusal(lambda: lab.session("ada")) == "SF-B103"
    assert refusal(lambda: lab.revoke("ada")) == "SF-B103"
    assert lab.session("ben").sql(COUNT).release(epsilon=0.125).receipt.replayed
    lab.grant("ada", epsilon=1)  # who has left may have a quota of their own
    assert lab.verify().charges == 1


def test_the_quota_of_a_team_goes_with_its_last_member_and_keeps_what_was_spent(lab: sf.Lab) -> None:
    lab.session("ada").sql(COUNT).release(epsilon=0.5)
    lab.revoke("ada")
    lab.revoke("ben")
    assert lab.analysts() == ()
    assert refusal(lambda: lab.session("waves")) == "SF-B103"
    lab.grant("waves", epsilon=1, members=["kim"])
    assert refusal(lambda: lab.session("kim").sql(COUNT + " WHERE x > 1").release(epsilon=0.6)) == "SF-B102"


def test_tables_later_populations_and_requests_are_the_teams(lab: sf.Lab) -> None:
    lab.grant("waves", epsilon=1, members=["ada", "ben"], tables=["visits"])
    assert [each.name for each in lab.session("ada").tables.tables] == ["visits"]
    assert refusal(lambda: lab.session("ben").table("habits")) == "SF-Q106"
    lab.session("ben").request(epsilon=0.25, reason="The second wave came in.")
    lab.requests()[0].grant()
    assert lab.ledger.read_budget("quota:patients:waves") == sf.Budget(1.25)
    assert "quota:patients:ben" not in lab.ledger.list_accounts()
    lab.grant("waves", epsilon=1, members=["ada"], later=True)
    columns = {"x": sf.between(0, 10, step=1)}
    lab.register("trips", ROWS, unit=sf.Unit("who", 1, "riders"), columns=columns, budget=sf.Budget(4))
    lab.session("ada").sql("SELECT COUNT(*) AS n FROM trips").release(epsilon=0.5)
    assert refusal(lambda: lab.session("ben")) == "SF-B103"


def test_odd_members_change_nothing(lab: sf.Lab) -> None:
    before = lab.analysts()
    for members in ("ada", ["a:b"], [""], [None], ["half \ud800 of one"]):
        with pytest.raises(SfumatoError):
            lab.grant("waves", epsilon=2, members=members)
    with pytest.raises(SfumatoError):
        lab.grant("w" * 300, epsilon=2, members=["kim"])
    assert lab.analysts() == before
    assert refusal(lambda: lab.session("kim")) == "SF-B103"
