"""Copies taken while others write, and put back only where nothing that was spent is forgotten."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import Charged, SqliteLedger
from sfumato.ledger.sqlite import backup as module
from sfumato.ledger.sqlite.audit import AuditedLedger
from sfumato.ledger.sqlite.backup import accept_ledger, back_up_ledger, restore_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

    Ask = Callable[..., Charge]


@pytest.fixture
def copy(filled: SqliteLedger, tmp_path: Path) -> Path:
    """Of the first seven entries; one more comes after it."""
    assert back_up_ledger(filled, tmp_path / "copy") == filled.verify()
    return tmp_path / "copy"


def receipt(ledger: SqliteLedger) -> str:
    return json.dumps({"head": ledger.verify().head})


def renew_mark(ledger: SqliteLedger) -> None:
    """As happens after some hundred charges: SQLite's file holds everything, and the mark no entries."""
    ledger._database.adopt_mark(missing=False)
    ledger.close()


def lose_mark(path: Path) -> None:
    """Remove everything that shows how long the ledger was."""
    for file in (Path(f"{path}.mark"), *path.parent.glob(f"{path.name}.at-*")):
        file.unlink()


def test_a_copy_is_one_file_of_its_owners(copy: Path, filled: SqliteLedger) -> None:
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [path.name for path in copy.parent.glob("copy*")] == ["copy"]
    with pytest.raises(UsageError, match="SF-L304"):
        back_up_ledger(filled, copy)


def test_a_copy_taken_under_load_is_sound(ledger: SqliteLedger, ask: Ask, tmp_path: Path) -> None:
    done = threading.Event()

    def work() -> None:
        number = 0
        while not done.is_set():
            number += 1
            ledger.charge(ask(f"{number}", "1/1000000"))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        copies = [back_up_ledger(ledger, tmp_path / f"copy {number}").entries for number in range(5)]
    finally:
        done.set()
        worker.join()
    assert copies == sorted(copies)
    assert copies[-1] <= ledger.verify().entries


def test_a_copy_that_lacks_what_the_ledger_holds_is_not_put_back(
    path: Path, filled: SqliteLedger, ask: Ask, copy: Path
) -> None:
    filled.charge(ask("after the copy"))
    renew_mark(filled)
    with pytest.raises(LedgerError, match="SF-L132"):
        restore_ledger(path, copy)
    lose_mark(path)
    with pytest.raises(LedgerError, match="SF-L132"):
        restore_ledger(path, copy)
    assert accept_ledger(path, unproven=True).entries == 8
    with closing(SqliteLedger.open(path)) as ledger:
        assert ledger.verify().entries == 8
    assert not list(path.parent.glob("*.new*"))


def test_what_a_copy_lacks_comes_from_the_mark(
    path: Path, filled: SqliteLedger, ask: Ask, copy: Path
) -> None:
    charged = filled.charge(ask("after the copy"))
    assert isinstance(charged, Charged)
    filled.release(charged, "kept")
    filled.close()
    path.write_bytes(b"")
    assert restore_ledger(path, copy).entries == 9
    with closing(SqliteLedger.open(path)) as ledger:
        assert ledger.charge(ask("after the copy")).answer == "kept"  # type: ignore[union-attr]


def test_a_copy_that_lacks_nothing_is_put_back(
    path: Path, filled: SqliteLedger, ask: Ask, copy: Path
) -> None:
    filled.close()
    assert restore_ledger(path, copy).entries == 7
    with closing(SqliteLedger.open(path)) as ledger:
        assert isinstance(ledger.charge(ask("on the new one")), Charged)
    (aside,) = path.parent.glob("*.old")
    with pytest.raises(LedgerError, match="SF-L130"):
        SqliteLedger.open(aside)
    with closing(AuditedLedger.read(aside, missing=True)) as ledger:
        assert ledger.verify().entries == 7


def test_a_ledger_in_use_is_not_exchanged(path: Path, filled: SqliteLedger, ask: Ask, copy: Path) -> None:
    """Neither under an idle thread of this process, nor under another process that charges meanwhile."""
    with pytest.raises(LedgerError, match="SF-L122"):
        restore_ledger(path, copy)
    filled.charge(ask("goes on"))
    filled.close()
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        with closing(SqliteLedger.open(path)) as ledger:
            for number in range(700):  # fewer than the mark holds
                ledger.charge(ask(f"{number}", "1/1000000"))
                os.write(writes, b".")
                time.sleep(0.002)
            signal.pause()
    try:
        told = len(os.read(reads, 1))
        for _ in range(5):
            with pytest.raises(LedgerError, match="SF-L122"):
                restore_ledger(path, copy)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(writes)
    with open(reads, "rb") as rest:
        told += len(rest.read())
    restore_ledger(path, copy)  # with everything since the copy, from the mark
    with closing(SqliteLedger.open(path)) as ledger:
        assert told <= ledger.verify().charges - 4 <= told + 1


def test_charges_made_while_a_copy_is_checked_are_not_forgotten(
    path: Path, filled: SqliteLedger, ask: Ask, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last moment at which someone can charge is before the file is locked; the head is read after."""
    filled.close()
    sound = module._is_sound

    def and_then_someone_charges(place: Path) -> bool:
        found = sound(place)
        with closing(SqliteLedger.open(place)) as ledger:
            ledger.charge(ask("at the last moment"))
        return found

    monkeypatch.setattr(module, "_is_sound", and_then_someone_charges)
    with pytest.raises(LedgerError, match="SF-L132"):
        restore_ledger(path, copy)


def test_over_a_damaged_ledger_a_receipt_must_speak_for_the_copy(
    path: Path, filled: SqliteLedger, ask: Ask, copy: Path
) -> None:
    old = receipt(filled)
    filled.charge(ask("after the copy"))
    new = receipt(filled)
    filled.close()
    path.write_bytes(path.read_bytes()[:3000])
    lose_mark(path)
    with pytest.raises(LedgerError, match="SF-L132"):
        restore_ledger(path, copy)
    with pytest.raises(LedgerError, match="SF-L132"):
        restore_ledger(path, copy, [old, new])
    assert restore_ledger(path, copy, [old]).entries == 7
    assert len(list(path.parent.glob("*.old"))) == 1


def test_a_damaged_copy_is_not_put_back(path: Path, filled: SqliteLedger, copy: Path) -> None:
    filled.close()
    copy.write_bytes(copy.read_bytes()[:-4096])
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="SF-L10"):
        restore_ledger(path, copy)
    assert path.read_bytes() == before


def test_the_commands_of_a_steward(tmp_path: Path) -> None:
    lab, copy, held = tmp_path / "lab", tmp_path / "copy", tmp_path / "receipt.json"
    with closing(sf.create(lab).ledger) as ledger:
        ledger.open_account("population:patient_id", sf.Budget(1))
        held.write_text(receipt(ledger))
    taken = CliRunner().invoke(main, ["ledger", "backup", str(copy), "--lab", str(lab)])
    assert taken.stdout.startswith("2 entries hold")
    for file in lab.glob("ledger.sqlite*"):
        file.unlink()
    command = ["ledger", "restore", str(copy), "--lab", str(lab)]
    assert "SF-L132" in CliRunner().invoke(main, command).stderr
    assert CliRunner().invoke(main, [*command, "--receipt", str(held)]).exit_code == 0
    with closing(sf.open(lab).ledger) as ledger:
        assert ledger.verify().entries == 2
    shutil.rmtree(lab)
