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

from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger import Charged, SqliteLedger, database, steps
from sfumato.privacy import Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

    Fork = Callable[[Callable[[], object]], Callable[[], int]]

PEOPLE = "population:patient_id"
TENTH = price(Pure(Fraction(1, 10)))

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


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
    monkeypatch.setattr(database, "SETTINGS", (*database.SETTINGS, "PRAGMA max_page_count = 60"))
    kept: list[str] = []
    with closing(SqliteLedger.open(path)) as full, pytest.raises(LedgerError, match="SF-L105"):
        answer_for_ever(full, ask, kept.append)
    monkeypatch.undo()
    with closing(SqliteLedger.open(path)) as roomy:
        verified = roomy.verify()
        assert 10 < len(kept) == verified.releases <= verified.charges <= len(kept) + 1
        assert set(kept) <= {entry.hash for entry in roomy.entries()}
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
        assert (anew.verify().charges, anew.spent(PEOPLE)) == (1, TENTH)


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

    monkeypatch.setattr(steps, "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(ask("interrupted"))
    monkeypatch.undo()
    assert ledger.verify().charges == 0
    assert isinstance(ledger.charge(ask("interrupted")), Charged)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pure":1.5,"renyi":[],"side":0}'])
def test_totals_that_cannot_be_read_make_the_ledger_ill(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge], text: str
) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE accounts SET spent = ?", (text,))
    with pytest.raises(LedgerError, match="SF-L102"):
        ledger.spent(PEOPLE)
    with pytest.raises(LedgerError, match="SF-L102"):
        ledger.charge(ask("q"))


def test_totals_changed_by_hand_are_not_what_is_charged_against(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    """Whoever wrote last remembers the totals; who comes anew reads them, and verifies all of them first."""
    for name in ("a", "b", "c"):
        ledger.charge(ask(name, "1"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE accounts SET spent = replace(spent, '\"pure\":3', '\"pure\":0')")
    ledger.charge(ask("the fourth", "1"))
    with pytest.raises(BudgetError):
        ledger.charge(ask("the fifth", "1"))
    assert ledger.verify().charges == 4
