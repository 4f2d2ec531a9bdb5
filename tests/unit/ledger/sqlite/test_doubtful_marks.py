"""Marks and witnesses that are damaged, set back or half written while processes use the ledger."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import Charged, SqliteLedger
from sfumato.ledger.sqlite import backup as backup_module
from sfumato.ledger.sqlite import mark as mark_module
from sfumato.ledger.sqlite.backup import back_up_ledger, restore_ledger
from sfumato.privacy import Budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

    Ask = Callable[..., Charge]
    Fork = Callable[[Callable[[], object]], Callable[[], int]]

HEADERS, PREFIX = 8192, 56


def find_records(mark: bytes) -> list[int]:
    """Return where the records begin."""
    salt, found = bytes.fromhex(json.loads(mark[32:4096].rstrip(b"\0"))["salt"]), []
    start = HEADERS
    while (start := mark.find(salt, start)) >= 0:
        found.append(start)
        start += 1
    return found


def flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def kill_after(path: Path, ask: Ask, *names: str) -> None:
    """Charge in a process that is killed, so that SQLite's log stays."""
    child = os.fork()
    if child == 0:
        ledger = SqliteLedger.open(path)
        for name in names:
            ledger.charge(ask(name))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def lose_log(path: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink()


@pytest.mark.parametrize("place", [0, PREFIX - 1, PREFIX + 40], ids=["salt", "length", "content"])
def test_a_record_of_another_process_that_is_damaged_is_written_again(
    path: Path, ledger: SqliteLedger, ask: Ask, place: int
) -> None:
    """A process that has the ledger open goes on, and does not write over what it could not read."""
    mark = Path(f"{path}.mark")
    with closing(SqliteLedger.open(path)) as other:
        other.charge(ask("damaged"))
        other.charge(ask("whole"))
        flip(mark, find_records(mark.read_bytes())[-2] + place)
        ledger.charge(ask("after the damage"))
        flip(mark, find_records(mark.read_bytes())[-1] + place)
        charged = other.charge(ask("the newest was damaged"))
        assert isinstance(charged, Charged)
        kept = other.verify()
        again = SqliteLedger.open(path)
        assert again.verify() == kept
        again.close()


def test_the_newest_record_is_rewritten_from_sqlite_before_the_log_is_lost(
    path: Path, ledger: SqliteLedger, ask: Ask
) -> None:
    ledger.close()
    mark = Path(f"{path}.mark")
    kill_after(path, ask, "first", "newest")
    flip(mark, find_records(mark.read_bytes())[-1] + PREFIX)
    kill_after(path, ask, "next")
    lose_log(path)
    with closing(SqliteLedger.open(path)) as whole:
        assert whole.verify().charges == 3


def test_records_left_behind_one_that_was_written_over_others_are_old(
    path: Path, ledger: SqliteLedger, ask: Ask, monkeypatch: pytest.MonkeyPatch, fork: Fork
) -> None:
    """A process whose write failed does not see a damaged record, and must not write over those after it."""

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(LedgerError, match="SF-L106"):
            ledger.charge(ask("refused"))
    mark = Path(f"{path}.mark")
    before = len(find_records(mark.read_bytes()))
    kill_after(path, ask, *(f"{number}" for number in range(12)))
    flip(mark, find_records(mark.read_bytes())[before])
    log = Path(f"{path}-wal").read_bytes()
    (witness,) = path.parent.glob("*.at-*")
    told = ledger.charge(ask("told"))
    # A power failure takes what was not synced: the end of the log and the name of the witness.
    assert fork(lambda: os._exit(0))() == 0  # which closes the connection
    next(path.parent.glob("*.at-*")).rename(witness)
    Path(f"{path}-shm").unlink(missing_ok=True)
    Path(f"{path}-wal").write_bytes(log)
    with closing(SqliteLedger.open(path)) as again:
        assert again.find_entry(told.head) == told.seq
        assert again.verify().charges == 13


def test_an_old_record_behind_newer_ones_says_nothing(path: Path, ledger: SqliteLedger, ask: Ask) -> None:
    ledger.charge(ask("first"))
    mark = ledger._database._mark
    old = os.pread(mark._open(), mark._offset - mark._last, mark._last)
    ledger.charge(ask("second"))
    end, offset = mark.end, mark._offset
    mark_module._write(mark._open(), old, offset)
    with closing(mark_module.Mark(str(path))) as reader:
        assert reader.read() == end
        assert reader._offset == offset + len(old)


def test_files_set_back_under_an_open_ledger_are_noticed_by_the_witness(
    tmp_path: Path, ask: Ask, fork: Fork
) -> None:
    """The process has not seen the newest entries, and finds nothing wrong with the older files."""
    here, night = tmp_path / "here", tmp_path / "night"
    here.mkdir()
    ledger = SqliteLedger.create(here / "ledger.sqlite")
    ledger.open_account("population:patient_id", Budget(4, 1e-7))
    ledger.charge(ask("seen"))
    shutil.copytree(here, night)
    assert fork(lambda: SqliteLedger.open(here / "ledger.sqlite").charge(ask("spent elsewhere")))() == 0
    (newest,) = here.glob("*.at-*")
    for file in night.iterdir():
        shutil.copyfile(file, here / file.name)
    with pytest.raises(LedgerError, match="SF-L112"):
        ledger.charge(ask("spent again"))
    assert newest.exists()
    ledger.close()
    with pytest.raises(LedgerError, match="SF-L132"):
        SqliteLedger.open(here / "ledger.sqlite")


def test_a_charge_made_while_a_copy_is_verified_is_not_forgotten_by_the_restore(
    path: Path, filled: SqliteLedger, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up_ledger(filled, tmp_path / "copy")

    def charge_meanwhile(place: Path) -> bool:
        filled.charge(ask("told"))
        filled.close()
        path.unlink()  # so that SQLite cannot tell of it
        return True

    with monkeypatch.context() as patch:
        patch.setattr(backup_module, "_is_sound", charge_meanwhile)
        with pytest.raises(LedgerError, match="SF-L132"):
            restore_ledger(path, tmp_path / "copy")
    assert restore_ledger(path, tmp_path / "copy").charges == 4


def test_a_restore_through_a_link_leaves_one_ledger(path: Path, filled: SqliteLedger, tmp_path: Path) -> None:
    back_up_ledger(filled, tmp_path / "copy")
    filled.close()
    (tmp_path / "link").symlink_to(path)
    assert restore_ledger(tmp_path / "link", tmp_path / "copy").entries == 7
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").samefile(path)
    for place in (path, tmp_path / "link"):
        SqliteLedger.open(place).close()


def test_an_interruption_within_a_commit_leaves_a_ledger_that_goes_on(
    ledger: SqliteLedger, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is in the mark, and SQLite has undone it."""
    append = mark_module.Mark.append

    def interrupt(mark: mark_module.Mark, batch: mark_module.MarkedBatch) -> None:
        append(mark, batch)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(mark_module.Mark, "append", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(ask("interrupted"))
    assert isinstance(ledger.charge(ask("next")), Charged)
    assert ledger.verify().charges == 2


def test_nothing_is_restored_while_someone_writes(
    path: Path, filled: SqliteLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up_ledger(filled, tmp_path / "copy")
    filled.close()
    path.unlink()
    with closing(mark_module.Mark(str(path))) as writer:
        monkeypatch.setattr(backup_module, "_is_sound", lambda _: not writer.try_lock())
        with pytest.raises(LedgerError, match="SF-L122"):
            restore_ledger(path, tmp_path / "copy")


def test_a_record_that_was_missed_beside_a_writer_is_found_under_the_lock(
    path: Path, ledger: SqliteLedger, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long read can find a record, and not the one in front of it that was written before."""
    ledger.close()
    kill_after(path, ask, "first", "missed", "found")
    lose_log(path)
    mark = Path(f"{path}.mark")
    whole = mark.read_bytes()
    _, missed, found = find_records(whole)[-3:]
    mark.write_bytes(whole[:missed] + bytes(found - missed) + whole[found:])
    lock = mark_module._lock

    def lock_after_the_write(*arguments: object) -> None:
        mark.write_bytes(whole)
        lock(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(mark_module, "_lock", lock_after_the_write)
    with closing(SqliteLedger.open(path)) as opened:
        assert opened.verify().charges == 3


def test_headers_that_differ_are_made_equal_before_records_follow(
    path: Path, ledger: SqliteLedger, ask: Ask
) -> None:
    """Whoever was killed between the two headers leaves an old second one, which must not speak later."""
    ledger.charge(ask("before"))
    mark = Path(f"{path}.mark")
    old = mark.read_bytes()[4096:HEADERS]
    ledger._database.adopt_mark(missing=False)
    ledger.close()
    with mark.open("r+b") as file:
        file.seek(4096)
        file.write(old)
    kill_after(path, ask, "after")
    flip(mark, 100)
    lose_log(path)
    with closing(SqliteLedger.open(path)) as whole:
        assert whole.verify().charges == 2
        whole.charge(ask("mended"))
    headers = mark.read_bytes()[:HEADERS]
    assert headers[:4096] == headers[4096:]


def test_what_another_process_did_not_sync_is_written_again_before_it_counts(
    path: Path, ledger: SqliteLedger, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer was killed or its disk failed; the system may have dropped it, and still show it."""

    def fail(file: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(mark_module, "_sync", fail)
        with pytest.raises(LedgerError, match="SF-L108"):
            ledger.charge(ask("doubtful"))
    calls: list[str] = []
    write, sync = mark_module._write, mark_module._sync
    mark = Path(f"{path}.mark").read_bytes()
    place = find_records(mark)[-1]

    def note(file: int, data: bytes, offset: int) -> None:
        calls.append("again" if (data, offset) == (mark[place : place + len(data)], place) else "other")
        write(file, data, offset)

    monkeypatch.setattr(mark_module, "_write", note)
    monkeypatch.setattr(mark_module, "_sync", lambda file: calls.append("sync") or sync(file))
    with closing(SqliteLedger.open(path)) as other:
        assert other.verify().charges == 1
    assert calls.index("again") < calls.index("sync")
