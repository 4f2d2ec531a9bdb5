"""Quotas of teams, requests, charges and packages from the shell: text, JSON and exit codes."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli.main import main

ROWS = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    unit, columns = sf.Unit("who", 1, "patients"), {"x": sf.between(0, 10, step=1)}
    lab.register("visits", ROWS, unit=unit, columns=columns, budget=sf.Budget(4, 1e-6))
    lab.grant("ada", epsilon=1)
    return lab


def run(lab: sf.Lab, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--lab", str(lab.folder)])


def found(lab: sf.Lab, *words: str) -> Any:
    result = run(lab, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_team_spends_one_quota(lab: sf.Lab) -> None:
    made = found(lab, "user", "grant", "returns", "--epsilon", "1", "--member", "ben", "--member", "eve")
    assert made["members"] == ["ben", "eve"]
    assert found(lab, "ask", COUNT, "--as", "ben", "--epsilon", "0.75")
    refused = run(lab, "ask", COUNT, "--as", "eve", "--epsilon", "0.5")
    assert (refused.exit_code, "SF-B102" in refused.output) == (3, True)
    assert found(lab, "budget", "--as", "eve")["quota:patients:returns"] == {
        "epsilon": 1.0,
        "delta": 0.0,
        "left_share": 0.25,
        "left_epsilon": 0.25,
        "side_delta": 0.0,
        "left_side_delta": 0.0,
        "spent": {"epsilon": 0.75, "delta": 0.0, "proven_by": "the filter of pure ε"},
    }
    assert "returns (ben, eve)" in run(lab, "user", "list").stdout
    refused = run(lab, "user", "grant", "returns", "--epsilon", "1", "--member", "ada")
    assert (refused.exit_code, "sfumato user revoke ada" in refused.output) == (4, True)
    found(lab, "user", "revoke", "eve")
    assert run(lab, "quote", COUNT, "--as", "eve", "--epsilon", "0.1").exit_code == 4


def test_a_request_and_its_answers(lab: sf.Lab) -> None:
    for wave in ("A second wave.", "A third one.", "A fourth one."):
        found(lab, "request", "make", "--as", "ada", "--epsilon", "0.5", "--reason", wave)
    assert len(found(lab, "request", "list", "--as", "ada")) == 3
    assert found(lab, "request", "grant", "1", "--note", "Fine.")["state"] == "granted"
    assert found(lab, "request", "decline", "2", "--why", "Not now.")["note"] == "Not now."
    assert run(lab, "request", "withdraw", "3", "--as", "ben").exit_code == 4
    assert found(lab, "request", "withdraw", "3", "--as", "ada")["state"] == "withdrawn"
    assert run(lab, "request", "grant", "1").exit_code == 4
    assert run(lab, "request", "list").stdout == "No request waits for an answer.\n"
    assert "A second wave." in run(lab, "request", "list", "--all").stdout
    assert float(lab.ledger.read_budget("quota:patients:ada").epsilon) == 1.5


EVENTS = {
    "--epsilon 1/3": sf.privacy.Pure(Fraction(1, 3)),
    "--epsilon 0.1 --delta 1e-9": sf.privacy.ApproxDP(0.1, 1e-9),
    "--rho 0.01": sf.privacy.Concentrated(0.01),
    "--sigma 4": sf.privacy.Gaussian(4),
    "--sigma 2 --rate 0.01 --steps 100": sf.privacy.Repeated(
        sf.privacy.Sampled(sf.privacy.Gaussian(2), 0.01), 100
    ),
    '--event {"event":"laplace","scale":"4"}': sf.privacy.Laplace(4),
}


def test_charges_in_every_way(lab: sf.Lab) -> None:
    total = sf.privacy.NOTHING
    for words, event in EVENTS.items():
        charged = found(lab, "charge", "patients", "--about", "an Opacus run", *words.split())
        assert sf.privacy.from_dict(charged["event"]) == event
        total = total + sf.privacy.price(event)
    assert lab.ledger.read_spent("population:patients") == total
    assert [each["about"] for each in found(lab, "charge")] == ["an Opacus run"] * len(EVENTS)
    assert sum("an Opacus run" in each["body"] for each in found(lab, "ledger", "list")) == len(EVENTS)
    assert "gaussian" in run(lab, "charge").stdout


def test_charges_that_are_refused(lab: sf.Lab) -> None:
    said = ("charge", "patients", "--about", "a table")
    for words, code in {
        "": 2,
        "--epsilon 1 --rho 1": 2,
        "--delta 1e-6": 2,
        "--rate 0.1": 2,
        "--epsilon -1": 2,
        "--epsilon nan": 2,
        "--epsilon 1/0": 2,
        "--event {": 2,
        '--event {"event":"os.system"}': 2,
        "--epsilon 5": 3,
        "--epsilon 1 --neighbours replace-one": 4,
        "--epsilon 1 --as eve": 4,
    }.items():
        result = run(lab, *said, *words.split())
        assert result.exit_code == code, (words, result.output)
    assert lab.verify().charges == 0


def test_a_package_never_charges(lab: sf.Lab, tmp_path: Path) -> None:
    target = str(tmp_path / "pack.zip")
    assert run(lab, "package", COUNT, target, "--epsilon", "0.5").exit_code == 4
    assert run(lab, "package", COUNT, target).exit_code == 2
    assert lab.verify().charges == 0
    lab.publish(COUNT, epsilon=0.5)
    assert found(lab, "package", COUNT, target)["package"] == target
    other = str(tmp_path / "folder")
    assert "The package is in" in run(lab, "package", COUNT, other, "--epsilon", "0.5").stdout
    assert run(lab, "package", COUNT, other).exit_code == 2
    assert lab.verify().charges == 1
