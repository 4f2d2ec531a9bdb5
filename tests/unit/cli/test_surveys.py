"""Surveys at the command line: created, listed, answered, closed, as text and as JSON, with exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sf.create(tmp_path / "lab").folder


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["survey", *arguments, "--lab", str(folder)])


def test_a_survey_from_its_creation_to_its_end(folder: Path, tmp_path: Path) -> None:
    assert "no survey yet" in run(folder, "list").stdout
    asked = ("--question", "Do you smoke?", "--invitations", "3", "--address", "https://s.example/")
    made = run(folder, "create", "smoking", *asked, "--asks", "2")
    assert made.exit_code == 0
    assert "at most 3 times in 4" in made.stdout
    links = [line for line in made.stdout.splitlines() if line.startswith("https://s.example/s/")]
    assert len(links) == 3
    lab = sf.open(folder)
    invitation = lab.open_invitation(links[0].removeprefix("https://s.example"))
    law = invitation.question()["law"]["id"]
    assert invitation.answer({"question": law, "round": 1, "report": 0})
    lab.ledger.close()

    assert "Do you smoke?" in run(folder, "list").stdout
    chart = tmp_path / "chart.json"
    shown = run(folder, "results", "smoking", "--plot", str(chart))
    assert "1 person of 3 invited answered, 2 did not." in shown.stdout
    assert chart.exists()
    replaced = json.loads(run(folder, "links", "smoking", "--replace", "--json").stdout)
    assert len(replaced["links"]) == 2
    assert len(run(folder, "links", "smoking", "--more", "2").stdout.split()) == 2
    assert run(folder, "links", "smoking").exit_code == 2
    assert run(folder, "links", "smoking", "--more", "2", "--replace").exit_code == 2
    assert run(folder, "round", "smoking").exit_code == 4
    closed = json.loads(run(folder, "close", "smoking", "--json").stdout)
    assert (closed["open"], closed["answers"], closed["missing"]) == (False, 1, 4)
    assert run(folder, "round", "smoking").exit_code == 0
    assert json.loads(run(folder, "results", "smoking", "--round", "1", "--json").stdout)["answers"] == 1
    assert [each["round"] for each in json.loads(run(folder, "list", "--json").stdout)] == [2]


def test_an_open_link_and_typed_epsilon(folder: Path) -> None:
    asked = ("--question", "Which?", "--choice", "a", "--choice", "b", "--choice", "c", "--epsilon", "0.7")
    made = json.loads(run(folder, "create", "open", *asked, "--json").stdout)
    assert made["choices"] == ["a", "b", "c"]
    assert made["epsilon"] == 0.7
    assert run(folder, "links", "open").stdout.split() == made["links"] == [made["link"]]
    assert run(folder, "links", "open", "--more", "2").exit_code == 4


def test_refusals_have_codes(folder: Path) -> None:
    assert run(folder, "results", "nothing").exit_code == 2
    asked = ("create", "x", "--question", "?", "--epsilon", "much")
    assert json.loads(run(folder, *asked, "--json").stderr)["code"] == "SF-E187"
    assert run(folder, "create", "a b", "--question", "?").exit_code == 2
