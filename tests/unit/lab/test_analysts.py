"""Analysts: quotas for some tables, for later populations, listed and taken away."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import PolicyError, UsageError

ROWS = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})


def register(lab: sf.Lab, name: str, of: str) -> None:
    columns = {"x": sf.between(0, 10, step=1)}
    lab.register(name, ROWS, unit=sf.Unit("who", 1, of), columns=columns, budget=sf.Budget(4))


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    register(lab, "visits", "patients")
    register(lab, "habits", "patients")
    lab.register("names", pa.table({"x": [1]}), unit=sf.PUBLIC, columns={"x": sf.between(0, 10, step=1)})
    return lab


def count(lab: sf.Lab, analyst: str, table: str, epsilon: float = 0.1) -> None:
    lab.session(analyst).sql(f"SELECT COUNT(*) AS n FROM {table}").release(epsilon=epsilon)


def refusal(lab: sf.Lab, analyst: str, table: str) -> str:
    with pytest.raises(PolicyError) as refused:
        count(lab, analyst, table)
    return refused.value.code


def shell(lab: sf.Lab, *words: str) -> Result:
    return CliRunner().invoke(main, ["user", *words, "--lab", str(lab.folder)])


def test_a_grant_for_some_tables_is_for_these_and_public_ones(lab: sf.Lab) -> None:
    lab.grant("ada", epsilon=1, tables=["visits"])
    count(lab, "ada", "visits")
    assert refusal(lab, "ada", "habits") == "SF-Q106"
    with pytest.raises(PolicyError, match=r"registered +visits, names"):
        sf.open(lab.folder).session("ada").table("habits")
    with pytest.raises(PolicyError, match=r"SF-Q106[^\0]*registered +visits, names$"):
        lab.session("ada").sql("SELECT COUNT(*) FROM nowhere")
    joined = "SELECT COUNT(*) AS n FROM visits JOIN names ON visits.x = names.x"
    lab.session("ada").sql(joined).release(epsilon=0.1)
    with pytest.raises(PolicyError):
        lab.session("ada").sql(joined.replace("names", "habits"))
    lab.grant("ada", epsilon=1)
    count(lab, "ada", "habits")


def test_a_revoked_quota_is_gone_for_open_sessions_too(lab: sf.Lab) -> None:
    lab.grant("ada", epsilon=1)
    before = lab.session("ada")
    count(lab, "ada", "visits")
    spent = lab.budget.accounts[0].left_epsilon
    sf.open(lab.folder).revoke("ada")
    # Not even what was answered before is given again.
    for epsilon in (0.1, 0.2, 1e-9):
        with pytest.raises(PolicyError) as refused:
            before.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=epsilon)
        assert refused.value.code == "SF-B103"
    assert refusal(lab, "ada", "visits") == "SF-B103"
    assert lab.budget.accounts[0].left_epsilon == spent
    assert lab.analysts() == ()
    lab.grant("ada", epsilon=1)
    (ada,) = lab.analysts()
    assert ada.quotas[0].left_epsilon == pytest.approx(0.9)  # what was spent before stays spent
    with pytest.raises(PolicyError):
        lab.revoke("bob")


def test_a_later_population_is_granted_where_that_was_said(lab: sf.Lab) -> None:
    lab.grant("ada", epsilon=1, later=True)
    lab.grant("bob", epsilon=1)
    register(lab, "staff", "employees")
    count(lab, "ada", "staff")
    assert refusal(lab, "bob", "staff") == "SF-B103"
    lab.revoke("ada")
    register(lab, "guests", "visitors")
    assert refusal(lab, "ada", "guests") == "SF-B103"
    with pytest.raises(UsageError):
        lab.grant("ada", epsilon=1, tables=["visits"], later=True)


def test_users_are_listed_and_revoked_in_the_shell(lab: sf.Lab) -> None:
    assert "No analyst has a quota yet." in shell(lab, "list").stdout
    granted = shell(lab, "grant", "ada", "--epsilon", "1", "--table", "visits")
    assert "ada may ask about visits." in granted.stdout
    assert shell(lab, "grant", "bob", "--epsilon", "0.5", "--later").exit_code == 0
    ada, bob = json.loads(shell(lab, "list", "--json").stdout)
    assert (ada["tables"], ada["later"]) == (["visits"], False)
    assert (bob["tables"], bob["later"]) == (None, True)
    assert bob["quotas"]["quota:patients:bob"]["left_epsilon"] == 0.5
    assert shell(lab, "revoke", "ada").exit_code == 0
    assert "ada" not in shell(lab, "list").stdout
    assert shell(lab, "revoke", "ada").exit_code == 0
    assert shell(lab, "revoke", "bo").exit_code == 4
