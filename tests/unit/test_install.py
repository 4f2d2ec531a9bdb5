"""`tools/install.py` names what is missing on the machine when pip fails."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "tools" / "install.py"
spec = importlib.util.spec_from_file_location("install", FILE)
assert spec is not None
assert spec.loader is not None
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("error: command 'gcc' failed: No such file or directory", "apt install gcc python3-dev"),
        ("fatal error: Python.h: No such file or directory", "apt install python3-dev"),
        ("Error: pg_config executable not found.", "apt install libpq-dev"),
        ("OSError: [Errno 28] No space left on device", "The disk is full."),
        ("ERROR: No matching distribution found for numpy>=2.0", "Python 3.11 or newer"),
        ("Temporary failure in name resolution", "pip cannot reach its package index"),
        ("something else", ""),
    ],
)
def test_a_failure_names_what_is_missing(said: str, advice: str) -> None:
    found = install.find_cause(f"Collecting numpy\n{said}\n")
    assert advice in found
    assert bool(found) == bool(advice)


def test_progress_says_what_pip_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "EVERY", 0)
    progress = install.Progress()
    for line in ("Collecting numpy>=2.0", "Collecting scipy"):
        progress.hear(line)
    progress.tell()
    progress.hear("Installing collected packages: numpy, scipy")
    progress.tell()
    collected, installing = capsys.readouterr().out.splitlines()
    assert collected.endswith("collected numpy, scipy")
    assert installing.endswith("installing 2 packages")
