"""What is SQLite's own: the file, and others at the same file."""

from __future__ import annotations

import copy
import pickle
import sqlite3
import stat
import threading
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import Charged, SqliteLedger
from sfumato.privacy import NOTHING, Budget, Cost, Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

PEOPLE = "population:patient_id"
TENTH = price(Pure(Fraction(1, 10)))


def times(cost: Cost, count: int) -> Cost:
    return sum([cost] * count, NOTHING)


# ---- the file --------------------------------------------------------------------------------------------


def test_only_the_owner_can_read_it(path: Path, filled: SqliteLedger) -> None:
    for name in (path, Path(f"{path}-wal")):
        assert stat.S_IMODE(name.stat().st_mode) == 0o600


def test_a_path_with_odd_characters_is_that_path(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory#é %41.sqlite"
    SqliteLedger.create(path).close()
    SqliteLedger.open(str(path)).close()
    assert path.exists()


def test_an_existing_file_is_never_overwritten(path: Path, ledger: SqliteLedger) -> None:
    with pytest.raises(UsageError, match="SF-L304"):
        SqliteLedger.create(path)
    assert ledger.list_accounts() == ("population:patient_id", "quota:patient_id:ada")


def test_a_ledger_that_is_gone_is_missed_and_not_begun_anew(path: Path, filled: SqliteLedger) -> None:
    filled.close()
    path.unlink()
    with pytest.raises(LedgerError, match="SF-L106"):
        SqliteLedger.open(path)
    assert not path.exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="SF-L106"):
        SqliteLedger.create(tmp_path / "nowhere" / "ledger.sqlite")


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be read as one" * 100])
def test_a_file_that_is_no_ledger(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"SF-L10[13]"):
        SqliteLedger.open(path)


def test_it_writes_ahead_and_leaves_waiting_for_the_disk_to_the_mark(ledger: SqliteLedger) -> None:
    with ledger._database.lend_connection() as db:
        settings = ("journal_mode", "synchronous", "wal_autocheckpoint", "trusted_schema")
        found = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in settings]
    assert found == ["wal", 1, 0, 0]


@pytest.mark.parametrize("double", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_budget_cannot_be_copied(ledger: SqliteLedger, double: Callable[[object], object]) -> None:
    with pytest.raises(UsageError, match="SF-L303"):
        double(ledger)


# ---- others at the same file -----------------------------------------------------------------------------


def test_another_writer_makes_us_wait_and_then_say_so(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="SF-L104"):
            ledger.charge(ask("while busy"))
        assert ledger.read_spent(PEOPLE).pure == 0
        other.execute("ROLLBACK")
    assert isinstance(ledger.charge(ask("while busy")), Charged)


def test_the_head_is_read_from_the_file_and_not_from_memory(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    with closing(SqliteLedger.open(path)) as other:
        for name in "abcdef":
            (ledger if name < "d" else other).charge(ask(name))
            (other if name < "d" else ledger).charge(ask(name.upper()))
    assert ledger.verify().charges == 12
    assert ledger.read_spent(PEOPLE) == times(TENTH, 12)


def test_verifying_holds_up_no_writer(
    ledger: SqliteLedger, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A charge made in the middle of a check: neither waits for the other, with no waiting at all."""
    from sfumato.ledger import tables

    replay_entries = tables.replay_entries

    def charging(entries: Any) -> Any:
        worker = threading.Thread(target=lambda: ledger.charge(ask("meanwhile")))
        worker.start()
        worker.join()
        return replay_entries(entries)

    monkeypatch.setattr(tables, "replay_entries", charging)
    assert ledger.verify().charges == 0
    monkeypatch.undo()
    assert ledger.verify().charges == 1


def test_budgets_of_two_ledgers_are_apart(tmp_path: Path, ledger: SqliteLedger) -> None:
    with closing(SqliteLedger.create(tmp_path / "other.sqlite")) as other:
        other.open_account(PEOPLE, Budget(1))
        assert (ledger.read_budget(PEOPLE), other.read_budget(PEOPLE)) == (Budget(4, 1e-7), Budget(1))
