"""A ledger that is exchanged while it is in use: no process goes on with a budget of its own."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import Charged, SqliteLedger, failpoints
from sfumato.ledger.sqlite import files
from sfumato.privacy import Budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

    Fork = Callable[[Callable[[], object]], Callable[[], int]]

PEOPLE = "population:patient_id"


@pytest.fixture
def backup(path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]) -> Path:
    """A sound copy, older than the ledger by one charge."""
    ledger._database.close()
    shutil.copy(path, f"{path}.backup")
    ledger.charge(ask("after the backup", epsilon="1/5"))
    return Path(f"{path}.backup")


def beside(path: Path) -> tuple[Path, Path]:
    return Path(f"{path}-wal"), Path(f"{path}-shm")


def restore(path: Path, backup: Path) -> None:
    """As people do it: the log and its index cleared, the copy renamed into place."""
    for name in beside(path):
        name.unlink(missing_ok=True)
    backup.replace(path)


def overwrite(path: Path, backup: Path) -> None:
    """With the inode kept."""
    for name in beside(path):
        name.unlink(missing_ok=True)
    path.write_bytes(backup.read_bytes())


def rename(path: Path, backup: Path) -> None:
    backup.replace(path)


def remove(path: Path, backup: Path) -> None:
    path.unlink()


def remove_log(path: Path, backup: Path) -> None:
    beside(path)[0].unlink()


def remove_index(path: Path, backup: Path) -> None:
    beside(path)[1].unlink()


def replace_log(path: Path, backup: Path) -> None:
    """By a file of the same bytes."""
    log = beside(path)[0]
    shutil.copy(log, f"{log}.new")
    Path(f"{log}.new").replace(log)


CHANGES = [restore, overwrite, rename, remove, remove_log, remove_index, replace_log]


@pytest.mark.parametrize("known", [files._statx, None])
def test_a_log_is_known_by_the_same_numbers_with_and_without_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: object
) -> None:
    monkeypatch.setattr(files, "_statx", known)
    log, link = tmp_path / "é-wal", tmp_path / "link-wal"
    log.write_bytes(b"frames")
    link.symlink_to(log)
    found = log.stat()
    assert (
        files.identify_log(os.fsencode(log)) == (found.st_ino, found.st_dev) == files.identify_file(str(log))
    )
    assert files.identify_log(os.fsencode(link)) == files.identify_file(str(log))
    log.unlink()
    assert files.identify_log(os.fsencode(log)) is None


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_more_is_answered(
    path: Path,
    ledger: SqliteLedger,
    ask: Callable[..., Charge],
    backup: Path,
    change: Callable[[Path, Path], None],
) -> None:
    charged = ledger.charge(ask("q"))
    assert isinstance(charged, Charged)
    change(path, backup)
    with pytest.raises(LedgerError, match="SF-L112"):
        ledger.release(charged, "42")
    for call in (
        lambda: ledger.charge(ask("r")),
        lambda: ledger.read_spent(PEOPLE),
        lambda: ledger.find_release(charged.request),
        ledger.list_accounts,
        ledger.verify,
    ):
        with pytest.raises(LedgerError, match="SF-L112"):
            call()


@pytest.mark.parametrize("change", CHANGES)
def test_reading_finds_it_too(
    path: Path, ledger: SqliteLedger, backup: Path, change: Callable[[Path, Path], None]
) -> None:
    change(path, backup)
    with pytest.raises(LedgerError, match="SF-L112"):
        ledger.read_spent(PEOPLE)


@pytest.mark.parametrize("change", [restore, remove])
def test_verifying_finds_it_too(
    path: Path, ledger: SqliteLedger, backup: Path, change: Callable[[Path, Path], None]
) -> None:
    change(path, backup)
    with pytest.raises(LedgerError, match="SF-L112"):
        ledger.verify()


@pytest.mark.parametrize("moment", ["charge:begun", "charge:written"])
def test_within_a_transaction(
    path: Path,
    ledger: SqliteLedger,
    ask: Callable[..., Charge],
    backup: Path,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The commit goes to a file that nobody will see again, so it is no charge."""
    monkeypatch.setattr(failpoints, "reach", lambda name: restore(path, backup) if name == moment else None)
    with pytest.raises(LedgerError, match="SF-L112"):
        ledger.charge(ask("q"))


def test_before_the_first_use(path: Path, ledger: SqliteLedger, backup: Path) -> None:
    """What was verified is what is used."""
    ledger.close()
    with closing(SqliteLedger.open(path)) as opened:
        restore(path, backup)
        with pytest.raises(LedgerError, match="SF-L112"):
            opened.read_spent(PEOPLE)


def test_between_two_connections_with_the_same_inode(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], backup: Path
) -> None:
    """A connection is closed for every fork; the chain is then all that tells the copy from the ledger."""
    for call in (ledger.verify, lambda: ledger.read_spent(PEOPLE)):
        ledger._database.close()
        inode = path.stat().st_ino
        overwrite(path, backup)
        assert path.stat().st_ino == inode
        with pytest.raises(LedgerError, match="its chain lacks an entry"):
            call()
        ledger._guard.error = None
    charged = ledger.charge(ask("q"))  # whoever writes has brought back what the mark holds
    assert isinstance(charged, Charged)
    assert charged.seq == 4


def test_in_a_child(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], backup: Path, fork: Fork
) -> None:
    def charge() -> None:
        restore(path, backup)
        with pytest.raises(LedgerError, match="SF-L112"):
            ledger.charge(ask("q"))

    assert fork(charge)() == 0
    with pytest.raises(LedgerError, match="SF-L112"):
        ledger.charge(ask("q"))


def test_whoever_opens_it_anew_goes_on_and_keeps_what_is_there(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], backup: Path
) -> None:
    """The old process lets go without taking the new one's log with it."""
    restore(path, backup)
    with closing(SqliteLedger.open(path)) as anew:
        anew.charge(ask("q"))
        with pytest.raises(LedgerError, match="SF-L112"):
            ledger.read_spent(PEOPLE)
        ledger.close()
        anew.charge(ask("r"))
    with closing(SqliteLedger.open(path)) as later:
        assert later.verify().charges == 3  # with the one that the backup lacked


def test_a_link_that_leads_elsewhere(path: Path, ask: Callable[..., Charge], tmp_path: Path) -> None:
    for name in ("old", "new"):
        with closing(SqliteLedger.create(tmp_path / name)) as made:
            made.open_account(PEOPLE, Budget(1))
    path.symlink_to(tmp_path / "old")
    with closing(SqliteLedger.open(path)) as ledger:
        ledger.charge(ask("q"))
        path.unlink()
        path.symlink_to(tmp_path / "new")
        with pytest.raises(LedgerError, match="SF-L112"):
            ledger.charge(ask("r"))


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        SqliteLedger.create("ledger.sqlite").close()
    with closing(SqliteLedger.open("ledger.sqlite")) as there:
        os.chdir(tmp_path / "here")
        there.open_account(PEOPLE, Budget(1))
        assert there.verify().entries == 1
    with closing(SqliteLedger.open("ledger.sqlite")) as here:
        assert here.list_accounts() == ()
