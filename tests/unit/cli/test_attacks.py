"""`sfumato attack` lists attacks, runs one, and writes its chart."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main


def test_attacks_are_listed() -> None:
    listed = CliRunner().invoke(main, ["attack"])
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        each.name for each in sf.attacks.list_attacks()
    ]
    known = json.loads(CliRunner().invoke(main, ["attack", "--json"]).stdout)
    assert known[0]["name"] == "differencing"


def test_an_attack_runs_and_is_drawn(tmp_path: Path) -> None:
    chart = tmp_path / "chart.json"
    done = CliRunner().invoke(main, ["attack", "differencing", "--epsilon", "2", "--plot", str(chart)])
    assert done.exit_code == 0
    assert "sfumato, ε = 2 for both totals" in done.stdout
    assert json.loads(chart.read_text())["title"]["text"] == "One salary, as the difference of two totals."


def test_an_epsilon_that_is_none_is_refused() -> None:
    refused = CliRunner().invoke(main, ["attack", "survey-averaging", "--epsilon", "-1"])
    assert refused.exit_code == 2
    assert "SF-N101" in refused.stderr


def test_an_unknown_attack_is_refused() -> None:
    refused = CliRunner().invoke(main, ["attack", "hair"])
    assert refused.exit_code == 2
    assert "SF-U101" in refused.stderr
