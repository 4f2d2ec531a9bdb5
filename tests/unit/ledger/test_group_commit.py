"""Threads that share a commit: each fares as if alone, and the commit's fate is everyone's."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import BudgetError, LedgerError, PolicyError
from sfumato.ledger import Charged, Released, SqliteLedger, failpoints
from sfumato.ledger.group_commit import CommitBatch, CommitQueue, Job
from sfumato.privacy import Budget
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.ledger import Charge

    Ask = Callable[..., Charge]

PEOPLE = "population:patient_id"


class Commits(sqlite3.Connection):
    """Counts its commits, and fails them if told to."""

    count = 0
    fails = False

    def execute(self, sql: str, /, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            type(self).count += 1
            if self.fails:
                raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *parameters)


@pytest.fixture
def commits(ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch) -> type[Commits]:
    connect = sqlite3.connect
    ledger._database.close()

    class Chosen(Commits):
        pass

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Chosen))
    return Chosen


def together(
    ledger: SqliteLedger, calls: Sequence[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> list[object]:
    """What each call gave or raised. The first leads, and waits inside its job until the others queue."""
    outcomes: list[object] = [None] * len(calls)
    first, rest = threading.Event(), threading.Event()
    usual = failpoints.reach

    def step(name: str) -> None:
        usual(name)
        if not first.is_set():
            first.set()
            assert rest.wait(PATIENCE)

    def run(place: int) -> None:
        try:
            outcomes[place] = calls[place]()
        except BaseException as error:
            outcomes[place] = error

    monkeypatch.setattr(failpoints, "reach", step)
    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    threads[0].start()
    assert first.wait(PATIENCE)
    for waiting, thread in enumerate(threads[1:], start=1):
        thread.start()
        while len(ledger._database.queue._queue) < waiting:
            threading.Event().wait(0.001)
    rest.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return outcomes


def test_those_who_wait_share_one_commit(
    ledger: SqliteLedger, ask: Ask, commits: type[Commits], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [lambda n=n: ledger.charge(ask(f"{n}", "1/1000")) for n in range(20)]
    charged = together(ledger, calls, monkeypatch)
    assert all(isinstance(one, Charged) for one in charged)
    assert len({one.seq for one in charged if isinstance(one, Charged)}) == 20
    assert commits.count == 2
    assert ledger.verify().charges == 20


def test_each_fares_as_if_alone(ledger: SqliteLedger, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """One admitted, one too dear, one unknown, one whose key is used: in one commit."""
    ledger.charge(ask("before", key="used"))
    calls = [
        lambda: ledger.charge(ask("first")),
        lambda: ledger.charge(ask("fits")),
        lambda: ledger.charge(ask("too dear", "5")),
        lambda: ledger.charge(ask("unknown", accounts=("population:nobody",))),
        lambda: ledger.charge(ask("other", key="used")),
        lambda: ledger.grant("quota:patient_id:bob", Budget(1)),
    ]
    first, fits, dear, unknown, other, granted = together(ledger, calls, monkeypatch)
    assert isinstance(first, Charged)
    assert isinstance(fits, Charged)
    assert isinstance(dear, BudgetError)
    assert isinstance(unknown, PolicyError)
    assert isinstance(other, PolicyError)
    assert granted is None
    assert (ledger.verify().charges, ledger.verify().entries) == (3, 6)


def test_a_budget_is_not_overspent_within_one_commit(
    ledger: SqliteLedger, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [lambda n=n: ledger.charge(ask(f"{n}", "1")) for n in range(10)]
    outcomes = together(ledger, calls, monkeypatch)
    assert sum(isinstance(one, Charged) for one in outcomes) == 4
    assert sum(isinstance(one, BudgetError) for one in outcomes) == 6


def test_a_commit_that_fails_fails_for_all_and_tells_nobody_an_answer(
    ledger: SqliteLedger, ask: Ask, commits: type[Commits], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one would be answered from what another has written and the disk has not kept."""
    charged = ledger.charge(ask("asked"))
    assert isinstance(charged, Charged)
    calls = [
        lambda: ledger.charge(ask("alone")),
        lambda: ledger.release(charged, "42"),
        lambda: ledger.charge(ask("asked")),
    ]
    commits.fails = True
    outcomes = together(ledger, calls, monkeypatch)
    assert [type(one) for one in outcomes] == [LedgerError] * 3
    assert {getattr(one, "code", None) for one in outcomes} == {"SF-L106"}
    commits.fails = False
    assert (ledger.verify().charges, ledger.verify().releases) == (1, 0)
    assert isinstance(ledger.release(charged, "42"), Released)


def test_an_answer_kept_in_the_same_commit_is_given(
    ledger: SqliteLedger, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged = ledger.charge(ask("asked"))
    assert isinstance(charged, Charged)
    calls = [
        lambda: ledger.charge(ask("alone")),
        lambda: ledger.release(charged, "42"),
        lambda: ledger.charge(ask("asked")),
    ]
    *_, released, again = together(ledger, calls, monkeypatch)
    assert isinstance(released, Released)
    assert isinstance(again, Released)
    assert (again.answer, again.replayed, again.head) == ("42", True, released.head)


@pytest.mark.parametrize("fatal", ["charge:begun", "charge:written"])
def test_an_interrupted_leader_undoes_its_commit_and_others_lead_on(
    ledger: SqliteLedger, ask: Ask, monkeypatch: pytest.MonkeyPatch, fatal: str
) -> None:
    """The interruption comes in the third job, so that it befalls a commit that several share."""
    reached = iter(range(100))

    def interrupt(name: str) -> None:
        if name == fatal and next(reached) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoints, "reach", interrupt)
    calls = [lambda n=n: ledger.charge(ask(f"{n}", "1/1000")) for n in range(6)]
    outcomes = together(ledger, calls, monkeypatch)
    monkeypatch.undo()
    codes = [getattr(one, "code", type(one).__name__) for one in outcomes]
    assert sorted(codes) == ["Charged", "KeyboardInterrupt", *["SF-L104"] * 4]
    assert ledger.verify().charges == 1
    assert isinstance(ledger.charge(ask("goes on")), Charged)


@pytest.mark.parametrize("rounds", [pytest.param(3), pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", ["charge:begun", "charge:written", "charge:durable", "release:written"])
def test_kill_nine_among_threads_that_share_commits(
    path: Path, ledger: SqliteLedger, ask: Ask, step: str, rounds: int
) -> None:
    """At a step drawn by chance among eight threads. Whoever was told of a charge finds it there."""
    ledger.close()
    for turn in range(rounds):
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            die_among_threads(path, ask, step, turn, writes)
        os.close(writes)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        with open(reads, encoding="ascii") as told, closing(SqliteLedger.open(path)) as after:
            hashes = {entry.hash for entry in after.read_entries()}
            assert {line.strip() for line in told if len(line) == 65} <= hashes


def die_among_threads(path: Path, ask: Ask, fatal: str, turn: int, tell: int) -> None:
    counts = iter(range(10**6))

    def step(name: str) -> None:
        if name == fatal and next(counts) == 5 + turn % 12:
            os.kill(os.getpid(), signal.SIGKILL)

    ledger = SqliteLedger.open(path)
    failpoints.reach = step

    def work(me: int) -> None:
        for number in range(100):
            charged = ledger.charge(ask(f"{turn} {me} {number}", "1/1000000"))
            assert isinstance(charged, Charged)
            os.write(tell, f"{charged.head}\n".encode())
            os.write(tell, f"{ledger.release(charged, 'x').head}\n".encode())

    for thread in [threading.Thread(target=work, args=(me,)) for me in range(8)]:
        thread.start()
    signal.pause()


def test_those_of_the_last_commit_are_waited_for_and_nobody_else() -> None:
    """Without it two halves of a crowd take turns, and every commit is of one half."""
    group, sizes, ready = CommitQueue(), list[int](), threading.Event()

    def lead() -> None:
        with CommitBatch() as batch:
            batch.jobs = group.take_jobs()
            sizes.append(len(batch.jobs))

    def come_back() -> None:
        group._absent, group._last_duration = {threading.get_ident()}, 120.0
        ready.set()
        while not group._queue:
            threading.Event().wait(0.001)
        group.run_job(Job("late", lambda transaction: None), lead)

    late = threading.Thread(target=come_back)
    late.start()
    assert ready.wait(PATIENCE)
    group.run_job(Job("early", lambda transaction: None), lead)
    late.join(PATIENCE)
    assert not late.is_alive()
    assert sizes == [2]
    group._absent, group._last_duration = {-1}, 0.04  # someone who does not come back
    group.run_job(Job("alone", lambda transaction: None), lead)
    assert sizes == [2, 1]
