"""Disks that are full, refuse to write, or do not say whether they wrote: nothing is answered."""

from __future__ import annotations

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
from sfumato.ledger.sqlite import connection
from sfumato.privacy import Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable

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
    with closing(SqliteLedger.open(path)) as full, pytest.raises(LedgerError, match="SF-C223"):
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
        with closing(SqliteLedger.open(path)) as full, pytest.raises(LedgerError, match=r"SF-(C223|L106)"):
            answer_for_ever(full, ask, lambda head: os.write(writes, head.encode()))

    assert fork(until_refused)() == 0
    os.close(writes)
    with open(reads, "rb") as told, closing(SqliteLedger.open(path)) as after:
        kept, verified = len(told.read()) // 64, after.verify()
    assert 10 < kept == verified.releases <= verified.charges <= kept + 1


class Doubtful(sqlite3.Connection):
    """Its commits fail, before or after the fact; then, if wished, it cannot be opened any more."""

    fails = True
    happens = True
    lost = False

    def execute(self, sql: str, /, *parameters: Any) -> sqlite3.Cursor:
        if sql != "COMMIT" or not self.fails:
            return super().execute(sql, *parameters)
        if self.happens:
            super().execute("COMMIT")
        if self.lost:
            Path(self.file).rename(f"{self.file}.gone")
        raise sqlite3.OperationalError("disk I/O error")

    @property
    def file(self) -> str:
        return str(super().execute("PRAGMA database_list").fetchone()[2])


@pytest.fixture
def doubtful(path: Path, ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch) -> type[Doubtful]:
    """Connections opened from now on commit doubtfully."""
    connect = sqlite3.connect
    ledger._database.close()

    class Chosen(Doubtful):
        pass

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Chosen))
    return Chosen


def test_a_commit_the_disk_did_not_confirm_is_spent_and_answers_nothing(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], doubtful: type[Doubtful]
) -> None:
    for _ in range(2):
        with pytest.raises(LedgerError, match="SF-L108"):
            ledger.charge(ask("doubtful"))
    with closing(SqliteLedger.open(path)) as anew:
        assert (anew.verify().charges, anew.read_spent(PEOPLE)) == (1, TENTH)


def test_an_answer_the_disk_did_not_confirm_can_be_had_later(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], doubtful: type[Doubtful]
) -> None:
    doubtful.fails = False
    charged = ledger.charge(ask("doubtful"))
    assert isinstance(charged, Charged)
    doubtful.fails = True
    with pytest.raises(LedgerError, match="SF-L108"):
        ledger.release(charged, "kept")
    with closing(SqliteLedger.open(path)) as anew:
        assert anew.charge(ask("doubtful")).answer == "kept"  # type: ignore[union-attr]


def test_a_commit_that_failed_before_the_fact_does_not_count(
    ledger: SqliteLedger, ask: Callable[..., Charge], doubtful: type[Doubtful]
) -> None:
    doubtful.happens = False
    with pytest.raises(LedgerError, match="SF-L106"):
        ledger.charge(ask("doubtful"))
    assert ledger.verify().charges == 0
    doubtful.fails = False
    charged = ledger.charge(ask("doubtful"))
    assert isinstance(charged, Charged)
    doubtful.fails = True
    with pytest.raises(LedgerError, match="SF-L106"):
        ledger.release(charged, "never seen")
    assert (ledger.verify().charges, ledger.verify().releases) == (1, 0)


@pytest.mark.parametrize("happens", [True, False])
def test_a_commit_nobody_can_look_up_is_told_as_that(
    ledger: SqliteLedger, ask: Callable[..., Charge], doubtful: type[Doubtful], happens: bool
) -> None:
    doubtful.happens, doubtful.lost = happens, True
    with pytest.raises(LedgerError, match="SF-L108"):
        ledger.charge(ask("doubtful"))


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
def test_an_end_changed_by_hand_makes_the_ledger_ill_before_it_writes(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], change: str
) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(change)
    for _ in range(2):
        with pytest.raises(LedgerError, match="SF-L101"):
            ledger.charge(ask("q"))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM entries WHERE kind = 'charge'").fetchone() == (0,)


def test_entries_of_others_are_checked_before_anything_is_built_on_them(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    """Rightly linked, numbered and noted, but its hash is of another text."""
    first = ledger.charge(ask("first"))
    row = (first.seq + 1, "release", '{"charge":3}', first.head, "0" * 64)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
        db.execute("UPDATE ledger SET entries = ?, head = ?", (row[0], row[4]))
    with pytest.raises(LedgerError, match=r"SF-L101[^🙂]*its hash is not"):
        ledger.charge(ask("second"))


def test_an_answer_changed_by_hand_is_not_given(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    charged = ledger.charge(ask("q"))
    assert isinstance(charged, Charged)
    ledger.release(charged, "42")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE answers SET answer = '43'")
    with pytest.raises(LedgerError, match="SF-L101"):
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
