"""Errors in the shell advise commands and options, and no Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from sfumato.cli.advice import translate_advice
from sfumato.cli.main import main

PYTHON = re.compile(r"\b(sf|lab|s|q)\.|\w\(|\w=")
CSV = "who,x,ward\n1,1,A\n2,2,B\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text(CSV)
    assert run(tmp_path, "init", "LAB").exit_code == 0
    return tmp_path


def run(folder: Path, *words: str) -> object:
    places = {"LAB": str(folder / "lab"), "FILE": str(folder / "rows.csv"), "NONE": str(folder / "none")}
    return CliRunner().invoke(main, [places.get(word, word) for word in words])


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("table list --lab NONE", "sfumato init"),
        ("init LAB", "--lab "),
        ("table add t FILE --lab LAB --epsilon 1", "--unit patient_id --max-rows 20, or --row"),
        ("table add t FILE --lab LAB --row", "--epsilon 4 --delta 1e-7"),
        ("table add t FILE --lab LAB --unit who --epsilon 1", "--unit who --max-rows 20"),
        ("user grant ada --lab LAB --epsilon 1", "sfumato table add NAME SOURCE … first"),
        ("budget --lab LAB --as ada", "sfumato user grant ada --epsilon 1"),
        ("request grant 1 --lab LAB", "sfumato request list"),
        ("charge people --lab LAB --epsilon 1", '--about "an Opacus run of March"'),
    ],
)
def test_what_a_newcomer_types_first_is_answered_in_the_shell(
    folder: Path, command: str, advice: str
) -> None:
    refused = run(folder, *command.split())
    assert refused.exit_code in (2, 4)
    said = next(line for line in refused.stderr.splitlines() if line.split()[0] == "hint")
    assert advice in said
    assert not PYTHON.search(said)


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("epsilon=0.1, or epsilon=1 with delta=1e-8", "--epsilon 0.1, or --epsilon 1 --delta 1e-8"),
        ("q.release(error={}) or release(epsilon=1, delta=1e-8)", "error={} or --epsilon 1 --delta 1e-8"),
        ("lab.grant('ada', epsilon=…)", "sfumato user grant ada --epsilon …"),
        ("sf.one_of(…) for both columns", "--one-of for both columns"),
        ("sf.between(date(2020, 1, 1), date(2024, 12, 31))", "--between COLUMN 2020-01-01 2024-12-31"),
        ("AVG(x), or GROUP BY 1", "AVG(x), or GROUP BY 1"),
    ],
)
def test_advice_is_translated(python: str, shell: str) -> None:
    assert translate_advice(python) == shell
