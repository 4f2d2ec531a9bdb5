"""What is SQLite's own: the file, locks, full disks, doubtful commits, forks."""

from __future__ import annotations

import copy
import os
import pickle
import resource
import signal
import sqlite3
import stat
import threading
from contextlib import closing
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import Charged, SqliteLedger, database, steps
from sfumato.privacy import Budget, Cost, Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

PEOPLE = "population:patient_id"
TENTH = price(Pure(Fraction(1, 10)))

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(work: Callable[[], object]) -> int:
    """A forked child that does the work and leaves without cleaning up; 0 when nothing was raised."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return pid


def outcome(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def times(cost: Cost, count: int) -> Cost:
    return Cost(
        None if cost.pure is None else cost.pure * count,
        tuple(n * count for n in cost.renyi),
        cost.side * count,
    )


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
    assert ledger.accounts() == ("population:patient_id", "quota:patient_id:ada")


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
    with pytest.raises(LedgerError, match=r"SF-L10[23]"):
        SqliteLedger.open(path)


def test_it_writes_ahead_and_waits_for_the_disk(ledger: SqliteLedger) -> None:
    with ledger._database.connected() as db:
        settings = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema")
        found = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in settings]
    assert found == ["wal", 2, 1, 0]


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
        assert ledger.spent(PEOPLE).pure == 0
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
    assert ledger.spent(PEOPLE) == times(TENTH, 12)


def test_verifying_holds_up_no_writer(
    ledger: SqliteLedger, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A charge made in the middle of a check: neither waits for the other, with no patience at all."""
    from sfumato.ledger import tables

    replay = tables.replay

    def charging(entries: Any) -> Any:
        worker = threading.Thread(target=lambda: ledger.charge(ask("meanwhile")))
        worker.start()
        worker.join()
        return replay(entries)

    monkeypatch.setattr(tables, "replay", charging)
    assert ledger.verify().charges == 0
    monkeypatch.undo()
    assert ledger.verify().charges == 1


# ---- a full disk, a failing disk -------------------------------------------------------------------------


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
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    """The operating system itself refuses, at whatever write reaches the limit."""
    ledger.close()
    reads, writes = os.pipe()

    def until_refused() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
        with closing(SqliteLedger.open(path)) as full, pytest.raises(LedgerError, match=r"SF-L10[56]"):
            answer_for_ever(full, ask, lambda head: os.write(writes, head.encode()))

    assert outcome(in_child(until_refused)) == 0
    os.close(writes)
    with open(reads, "rb") as told, closing(SqliteLedger.open(path)) as after:
        kept, verified = len(told.read()) // 64, after.verify()
    assert 10 < kept == verified.releases <= verified.charges <= kept + 1


class Doubtful(sqlite3.Connection):
    """Its commits fail, before or after the fact; then, if wished, it cannot be opened any more."""

    happens = True
    lost = False

    def execute(self, sql: str, /, *parameters: Any) -> sqlite3.Cursor:
        if sql != "COMMIT":
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


def test_a_commit_that_failed_after_the_fact_counts(
    ledger: SqliteLedger, ask: Callable[..., Charge], doubtful: type[Doubtful]
) -> None:
    charged = ledger.charge(ask("doubtful"))
    assert isinstance(charged, Charged)
    assert ledger.release(charged, "kept").answer == "kept"
    assert (ledger.verify().charges, ledger.verify().releases) == (1, 1)


def test_a_commit_that_failed_before_the_fact_does_not_count(
    ledger: SqliteLedger, ask: Callable[..., Charge], doubtful: type[Doubtful]
) -> None:
    doubtful.happens = False
    with pytest.raises(LedgerError, match="SF-L106"):
        ledger.charge(ask("doubtful"))
    assert ledger.verify().charges == 0
    doubtful.happens = True
    charged = ledger.charge(ask("doubtful"))
    assert isinstance(charged, Charged)
    doubtful.happens = False
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


# ---- forks -----------------------------------------------------------------------------------------------


def test_a_childs_charge_outlives_the_parents_connection(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    """Where a connection has crossed a fork, the parent's last close takes the child's commits with it."""
    ledger.charge(ask("parent"))
    go, wait = os.pipe()[::-1], os.pipe()

    def charge_twice() -> None:
        ledger.charge(ask("child, before the parent closes"))
        os.write(wait[1], b".")
        os.read(go[1], 1)
        ledger.charge(ask("child, after the parent closed"))

    child = in_child(charge_twice)
    os.read(wait[0], 1)
    ledger.charge(ask("parent again"))
    ledger.close()
    os.write(go[0], b".")
    assert outcome(child) == 0
    with closing(SqliteLedger.open(path)) as after:
        assert after.verify().charges == 4
        assert after.spent(PEOPLE) == times(TENTH, 4)


def test_forking_while_other_threads_charge(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    stop, made = threading.Event(), [0, 0, 0]
    with closing(SqliteLedger.open(path, patience=60)) as shared:

        def keep_charging(me: int) -> None:
            while not stop.is_set():
                shared.charge(ask(f"{me}: {made[me]}", epsilon="1/100000"))
                made[me] += 1

        threads = [threading.Thread(target=keep_charging, args=(me,)) for me in range(3)]
        for thread in threads:
            thread.start()
        children = [
            in_child(lambda name=f"child {n}": shared.charge(ask(name, epsilon="1/100000")))
            for n in range(10)
        ]
        assert [outcome(child) for child in children] == [0] * 10
        stop.set()
        for thread in threads:
            thread.join()
        assert shared.verify().charges == sum(made) + 10


def test_threads_of_a_child_can_charge(ledger: SqliteLedger, ask: Callable[..., Charge]) -> None:
    def charge_in_a_thread() -> None:
        thread = threading.Thread(target=lambda: ledger.charge(ask("in a thread")), daemon=True)
        thread.start()
        thread.join(timeout=60)
        assert not thread.is_alive()

    assert outcome(in_child(charge_in_a_thread)) == 0
    assert ledger.verify().charges == 1


def test_a_fork_inside_our_own_transaction_charges_nothing(
    ledger: SqliteLedger, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[int] = []

    def fork(name: str) -> None:
        if name == "charge:written":
            children.append(in_child(lambda: None))

    monkeypatch.setattr(steps, "step", fork)
    with pytest.raises(LedgerError, match="SF-L106"):
        ledger.charge(ask("forked"))
    monkeypatch.undo()
    assert [outcome(child) for child in children] == [0]
    assert ledger.verify().charges == 0
    assert isinstance(ledger.charge(ask("forked")), Charged)


def test_a_child_that_never_uses_the_ledger_does_no_harm(
    path: Path, ledger: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    assert outcome(in_child(ledger.close)) == 0
    ledger.charge(ask("afterwards"))
    assert ledger.verify().charges == 1


def test_budgets_of_two_ledgers_are_apart(tmp_path: Path, ledger: SqliteLedger) -> None:
    with closing(SqliteLedger.create(tmp_path / "other.sqlite")) as other:
        other.open_account(PEOPLE, Budget(1))
        assert (ledger.budget(PEOPLE), other.budget(PEOPLE)) == (Budget(4, 1e-7), Budget(1))
