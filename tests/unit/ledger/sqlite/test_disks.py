"""Disks that are full, refuse to write, or do not say whether they wrote: nothing is answered."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sqlite3
from contextlib import closing
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import Books, Charged, SqliteLedger, failpoints
from sfumato.ledger.chain import Entry
from sfumato.ledger.sqlite import connection, database, mark
from sfumato.privacy import Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.ledger import Charge
    from sfumato.ledger.books import AccountState

    Fork = Callable[[Callable[[], object]], Callable[[], int]]

PEOPLE = "population:patient_id"
TENTH = price(Pure(Fraction(1, 10)))


def answer_for_ever(ledger: SqliteLedger, ask: Callable[..., Charge], tell: Callable[[str], object]) -> None:
    """Until the ledger fails; tells the receipt of every answer that was given."""
    for number in count():
        charged = ledger.charge(ask(f"question {number}", epsilon="1/100000"))
        assert isinstance(charged, Charged)
        tell(ledger.release(charged, "x" * 500).head)


def test_a_full_disk_answers_nothing_and_loses_nothing(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.close()
    monkeypatch.setattr(connection, "SETTINGS", (*connection.SETTINGS, "PRAGMA max_page_count = 60"))
    kept: list[str] = []
    with closing(SqliteLedger.open(path)) as full, pytest.raises(LedgerError, match="SF-L105"):
        answer_for_ever(full, ask, kept.append)
    monkeypatch.undo()
    with closing(SqliteLedger.open(path)) as roomy:
        verified = roomy.verify()
        assert 10 < len(kept) == verified.releases <= verified.charges <= len(kept) + 1
        assert set(kept) <= {entry.hash for entry in roomy.read_entries()}
        assert isinstance(roomy.charge(ask("with room again")), Charged)


def test_a_disk_that_refuses_to_write_answers_nothing(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], fork: Fork
) -> None:
    """The operating system itself refuses, at whatever write reaches the limit."""
    ledger.close()
    reads, writes = os.pipe()

    def until_refused() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
        with closing(SqliteLedger.open(path)) as full, pytest.raises(LedgerError, match=r"SF-L10[56]"):
            answer_for_ever(full, ask, lambda head: os.write(writes, head.encode()))

    assert fork(until_refused)() == 0
    os.close(writes)
    with open(reads, "rb") as told, closing(SqliteLedger.open(path)) as after:
        kept, verified = len(told.read()) // 64, after.verify()
    assert 10 < kept == verified.releases <= verified.charges <= kept + 1


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Let the named call of the system fail from now on; an empty name lets all succeed."""

    def fail(name: str) -> None:
        monkeypatch.undo()
        if name == "fdatasync":
            monkeypatch.setattr(mark, "_sync", refuse)
        elif name:
            monkeypatch.setattr(os, name, refuse)

    def refuse(*_: object) -> int:
        raise OSError(errno.EIO, "the disk is gone")

    yield fail
    monkeypatch.undo()


def test_a_commit_the_disk_did_not_confirm_is_spent_and_answers_nothing(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], fails: Callable[[str], None]
) -> None:
    fails("fdatasync")
    for _ in range(2):
        with pytest.raises(LedgerError, match="SF-L108"):
            ledger.charge(ask("doubtful"))
    fails("")
    with closing(SqliteLedger.open(path)) as anew:
        assert (anew.verify().charges, anew.read_spent(PEOPLE)) == (1, TENTH)


def test_an_answer_the_disk_did_not_confirm_can_be_had_later(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], fails: Callable[[str], None]
) -> None:
    charged = ledger.charge(ask("doubtful"))
    assert isinstance(charged, Charged)
    fails("fdatasync")
    with pytest.raises(LedgerError, match="SF-L108"):
        ledger.release(charged, "kept")
    fails("")
    with closing(SqliteLedger.open(path)) as anew:
        assert anew.charge(ask("doubtful")).answer == "kept"  # type: ignore[union-attr]


def test_what_the_disk_did_not_confirm_is_written_once_more(
    ledger: SqliteLedger, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may have dropped it, and whoever reads it still sees it in memory."""
    calls: list[str] = []
    write, sync = mark._write, mark._sync

    def fail_once(file: int) -> None:
        calls.append("sync")
        if calls.count("sync") == 1:
            raise OSError(errno.EIO, "the disk is gone")
        sync(file)

    monkeypatch.setattr(mark, "_write", lambda *given: calls.append("write") or write(*given))
    monkeypatch.setattr(mark, "_sync", fail_once)
    with pytest.raises(LedgerError, match="SF-L108"):
        ledger.charge(ask("doubtful"))
    assert calls == ["write", "sync", "write", "sync"]


def test_what_others_wrote_is_synced_before_it_is_given(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], fails: Callable[[str], None]
) -> None:
    """Whoever wrote it may have been killed before the disk had it."""
    with closing(SqliteLedger.open(path)) as other:
        ledger.charge(ask("theirs"))
        fails("fdatasync")
        with pytest.raises(LedgerError, match="SF-L108"):
            other.read_spent(PEOPLE)
        fails("")


def test_a_commit_that_failed_before_the_fact_does_not_count(
    ledger: SqliteLedger, ask: Callable[..., Charge], fails: Callable[[str], None]
) -> None:
    fails("pwrite")
    with pytest.raises(LedgerError, match="SF-L106"):
        ledger.charge(ask("refused"))
    fails("")
    assert ledger.verify().charges == 0
    charged = ledger.charge(ask("refused"))
    assert isinstance(charged, Charged)
    fails("pwrite")
    with pytest.raises(LedgerError, match="SF-L106"):
        ledger.release(charged, "never seen")
    fails("")
    assert (ledger.verify().charges, ledger.verify().releases) == (1, 0)


class Doubtful(sqlite3.Connection):
    """Its commits fail, before or after the fact."""

    fails = True
    happens = True

    def execute(self, sql: str, /, *parameters: Any) -> sqlite3.Cursor:
        if sql != "COMMIT" or not self.fails:
            return super().execute(sql, *parameters)
        if self.happens:
            super().execute("COMMIT")
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("happens", [True, False])
def test_entries_that_sqlite_refuses_stay_in_the_mark(
    path: Path,
    ask: Callable[..., Charge],
    ledger: SqliteLedger,
    monkeypatch: pytest.MonkeyPatch,
    happens: bool,
) -> None:
    connect = sqlite3.connect
    ledger._database.close()
    monkeypatch.setattr(Doubtful, "happens", happens)
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Doubtful))
    monkeypatch.setattr(database, "MOVED_AT_ONCE", 1)
    assert isinstance(ledger.charge(ask("first")), Charged)
    for _ in range(1 if happens else 2):
        with pytest.raises(LedgerError, match="SF-L106"):
            ledger.charge(ask("second"))
    monkeypatch.setattr(Doubtful, "fails", False)
    assert isinstance(ledger.charge(ask("second")), Charged)
    assert ledger.verify().charges == 2


def test_a_step_that_fails_before_the_commit_undoes_all_of_it(
    ledger: SqliteLedger, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(name: str) -> None:
        if name.endswith(":written"):
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoints, "reach", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(ask("interrupted"))
    monkeypatch.undo()
    assert ledger.verify().charges == 0
    assert isinstance(ledger.charge(ask("interrupted")), Charged)


@pytest.mark.parametrize(
    "change",
    ["UPDATE ledger SET entries = 0", "UPDATE ledger SET head = ''", "DELETE FROM ledger"],
)
def test_an_end_changed_by_hand_makes_the_ledger_ill_before_sqlite_is_written(
    path: Path,
    ledger: SqliteLedger,
    ask: Callable[..., Charge],
    change: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "MOVED_AT_ONCE", 1)
    ledger.verify()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(change)
    ledger.charge(ask("in the mark"))
    for _ in range(2):
        with pytest.raises(LedgerError, match="SF-L102"):
            ledger.charge(ask("q"))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM entries WHERE kind = 'charge'").fetchone() == (0,)


def test_entries_of_others_are_checked_before_anything_is_built_on_them(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    first = ledger.charge(ask("first"))
    assert isinstance(first, Charged)
    entry = Entry.make_next(first.seq, first.head, "charge", ask("too dear", "5").write_entry_body("", ""))
    with closing(mark.Mark(str(path))) as other:
        other.append(mark.MarkedBatch(other.read(), (entry.seq, entry.hash), [entry]))
    with pytest.raises(LedgerError, match=r"SF-L101[^🙂]*it spends more than was left"):
        ledger.charge(ask("second"))


def test_an_entry_added_by_hand_is_found(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    first = ledger.charge(ask("first"))
    ledger.verify()
    row = (first.seq + 1, "release", '{"charge":3}', first.head, "0" * 64)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
        db.execute("UPDATE ledger SET entries = ?, head = ?", (row[0], row[4]))
    with pytest.raises(LedgerError, match=r"SF-L101[^🙂]*its hash is not"):
        ledger.verify()


def test_an_answer_changed_by_hand_is_not_given(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    charged = ledger.charge(ask("q"))
    assert isinstance(charged, Charged)
    ledger.release(charged, "42")
    ledger.verify()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE answers SET answer = '43'")
    with pytest.raises(LedgerError, match="SF-L102"):
        ledger.charge(ask("q"))


def test_who_is_interrupted_while_taking_over_reads_all_of_it_anew(
    ledger: SqliteLedger, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a charge in the books would be a charge too few, or the same one twice."""

    def half(self: Books, request: str, paid_by: str, key: str | None, paid: dict[str, AccountState]) -> None:
        self.accounts.update(paid)
        raise KeyboardInterrupt

    ledger.charge(ask("before"))
    monkeypatch.setattr(Books, "record_charge", half)
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(ask("interrupted"))
    monkeypatch.undo()
    spent = ledger.read_spent(PEOPLE)
    assert spent.pure == 2 * 10**11
    ledger.charge(ask("after"))
    assert ledger.verify().charges == 3
