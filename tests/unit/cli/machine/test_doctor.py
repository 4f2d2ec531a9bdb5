"""`sfumato doctor` says what is missing and what fixes it; shells complete every command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import get_completion_class
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.machine import checks
from sfumato.cli.main import main
from sfumato.errors import LedgerError


def look(*words: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["doctor", "--json", *words])
    return result.exit_code, {each["name"]: each for each in json.loads(result.stdout)}


def test_a_machine_with_everything_and_one_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = look()
    assert code == 0
    assert {"Python", "duckdb", "extra server", "Java", "Node", "browser", "PostgreSQL", "SQLite"} <= {*found}
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(checks, "describe_java", lambda: None)
    code, found = look()
    assert code == 0  # what is missing is needed for some things only
    assert found["extra server"]["fix"] == 'pip install "sfumato[server]"'
    for name in ("Java", "Node", "browser", "PostgreSQL", "extra torch"):
        assert (found[name]["state"], bool(found[name]["fix"])) == ("optional", True)


def test_locks_that_do_nothing_and_libraries_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise LedgerError("SF-C211", "Locks do nothing here.", try_="a local disk")

    monkeypatch.setattr(checks, "require_locks", refuse)
    monkeypatch.setattr(checks, "_BASE", ("numpy", "no-such-library"))
    code, found = look()
    assert code == 1
    assert (found["disk locks"]["state"], found["disk locks"]["fix"]) == ("bad", "a local disk")
    assert found["no-such-library"]["fix"] == "pip install no-such-library"


def test_a_lab_that_is_well_and_one_that_is_ill(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.ledger.close()
    code, found = look("--lab", str(lab.folder))
    assert code == 0
    assert "entries hold" in found["ledger"]["says"]
    assert "owner alone" in found["folder"]["says"]
    lab.folder.chmod(0o755)
    assert look("--lab", str(lab.folder))[1]["folder"]["fix"] == f"chmod 700 {lab.folder}"
    (lab.folder / "ledger.sqlite").write_bytes(b"not a ledger" * 400)
    code, found = look("--lab", str(lab.folder))
    assert (code, found["ledger"]["state"]) == (1, "bad")
    assert look("--lab", str(tmp_path / "none"))[1]["lab"]["fix"].startswith("sfumato init")
    said = CliRunner().invoke(main, ["doctor", "--lab", str(tmp_path / "none")]).stdout
    assert "✗ lab" in said
    assert "\x1b[" not in said  # colour yields to pipes


def test_completion_knows_commands_and_options() -> None:
    kind = get_completion_class("bash")
    assert kind is not None
    complete = kind(main, {}, "sfumato", "_SFUMATO_COMPLETE")
    assert {each.value for each in complete.get_completions([], "req")} == {"request"}
    assert "--reason" in {each.value for each in complete.get_completions(["request", "make"], "--")}
