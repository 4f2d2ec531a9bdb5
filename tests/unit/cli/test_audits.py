"""The command for audits: any program by its name, its verdict as text and JSON, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sfumato.cli.main import main

PROGRAM = """
import numpy as np
from sfumato.noise import LaplaceNoise

def private(rows):
    return int(LaplaceNoise(4).release(np.array([len(rows)]))[0])

def pairs():
    return [([], [1.0])]
"""


def audit(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["audit", *words, "--samples", "1000", "--alpha", "1e-9"])
    return done.exit_code, done.output


def test_a_program_is_audited_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "our_stats.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    tables = ("--neighbours", "our_stats:pairs")
    code, text = audit("our_stats:private", "--claim", "1", *tables, "--plot", str(tmp_path / "a.json"))
    assert code == 0, text
    assert "no violation found" in text
    assert json.loads((tmp_path / "a.json").read_text())["$schema"]
    code, text = audit("builtins:len", "--claim", "1", *tables, "--json")
    assert code == 1
    assert json.loads(text)["violates"] is True


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("our_stats", "--claim", "1"), "SF-A101"),
        (("math:pi", "--claim", "1"), "SF-A101"),
        (("builtins:len",), "SF-A101"),
    ],
)
def test_mistakes_are_named(words: tuple[str, ...], named: str) -> None:
    code, text = audit(*words)
    assert code == 2
    assert named in text
