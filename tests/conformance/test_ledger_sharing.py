"""Processes that write at the same time have one of them write for all, and miss nothing when it dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from contextlib import closing
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance import servers

from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger import Charge, Charged, PostgresLedger, Released
from sfumato.ledger.chain import read_body
from sfumato.ledger.postgres import sharing
from sfumato.ledger.postgres.sharing import SharedWriting
from sfumato.privacy import Budget, Pure, price

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEOPLE = "population:patient_id"
MILLIONTH = price(Pure(Fraction(1, 10**6)))

Pair = tuple[PostgresLedger, PostgresLedger]


def ask(name: str) -> Charge:
    return Charge((PEOPLE,), MILLIONTH, sha256(name.encode()).hexdigest(), {"table": "visits"})


def charge(ledger: PostgresLedger, name: str) -> Charged:
    charged = ledger.charge(ask(name))
    assert isinstance(charged, Charged)
    return charged


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    name = "c" + sha256(f"{os.getpid()} {request.node.name}".encode()).hexdigest()[:12]
    with closing(PostgresLedger.create(servers.running(False).address, schema=name)) as ledger:
        ledger.open_account(PEOPLE, Budget(Fraction(1, 10)))
    return name


def open_ledger(schema: str, timeout: float = 30.0) -> PostgresLedger:
    return PostgresLedger.open(servers.running(False).address, schema=schema, timeout=timeout)


@pytest.fixture
def pair(schema: str) -> Iterator[Pair]:
    """Two ledgers as of two processes: the first leads, and the second asks it."""
    with closing(open_ledger(schema)) as leader, closing(open_ledger(schema)) as other:
        leader._is_only_writer = other._is_only_writer = False
        charge(leader, "the leader's")
        assert leader._database._sharing._leader is not None
        yield leader, other


def lose_replies(ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader writes everything, and dies before it says so."""
    heard = ledger._database.hand_over

    def lose(*arguments: Any) -> None:
        assert None not in heard(*arguments)
        raise ConnectionResetError

    monkeypatch.setattr(ledger._database, "hand_over", lose)


def count_requests(ledger: PostgresLedger) -> Counter[str]:
    bodies = (read_body(entry.body) for entry in ledger.read_entries() if entry.kind == "charge")
    return Counter(body["request"] for body in bodies)


def test_the_leader_writes_for_others(pair: Pair) -> None:
    leader, other = pair
    behind = other._books.seq
    released = other.release(charge(other, "asked"), "42")
    assert other._books.seq == behind  # it has read nothing of the chain
    assert leader._books.seq == released.entry
    kept = leader.charge(ask("asked"))
    assert isinstance(kept, Released)
    assert (kept.answer, kept.head) == ("42", released.head)
    replayed = other.charge(ask("asked"))
    assert isinstance(replayed, Released)
    assert replayed.answer == "42"
    assert other.verify() == leader.verify()


def test_refusals_are_decided_by_whoever_asked(pair: Pair) -> None:
    _, other = pair
    with pytest.raises(BudgetError, match="SF-B101"):
        other.charge(Charge((PEOPLE,), price(Pure(1)), "0" * 64, {}))
    with pytest.raises(LedgerError, match="SF-L109"):
        other.release(Charged(1, "0" * 64, MILLIONTH, "0" * 64), "42")
    charge(other, "still possible")
    assert other.verify().charges == 2


def test_what_was_written_without_a_word_is_looked_up(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, other = pair
    lose_replies(other, monkeypatch)
    other._is_only_writer = False
    charged = charge(other, "no word")
    other._is_only_writer = False
    released = other.release(charged, "42")
    assert other.find_entry(charged.head) == charged.seq
    assert other.find_entry(released.head) == released.entry
    verified = leader.verify()
    assert (verified.charges, verified.releases) == (2, 1)


def test_nothing_is_said_before_it_is_looked_up(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain is locked, so nobody can tell whether the leader has written: not that nothing was done."""
    with closing(open_ledger(schema)) as leader, closing(open_ledger(schema, timeout=0.1)) as other:
        leader._is_only_writer = other._is_only_writer = False
        charge(leader, "the leader's")
        lose_replies(other, monkeypatch)
        look_up, locked = other._database.begin, threading.Event()

        def wait_in_vain(*arguments: Any) -> Any:
            with leader._database.lend_connection() as db:
                db.execute("BEGIN")
                db.execute("SELECT version FROM ledger FOR UPDATE")
                locked.set()
                try:
                    return look_up(*arguments)
                finally:
                    db.execute("ROLLBACK")

        monkeypatch.setattr(other._database, "begin", wait_in_vain)
        with pytest.raises(LedgerError, match="SF-L108"):
            other.charge(ask("in doubt"))
        assert locked.is_set()
        assert leader.verify().charges == 2


@pytest.mark.parametrize("lost", [False, True], ids=["slow", "reconnected"])
def test_a_request_that_waited_for_too_long_is_withdrawn(
    pair: Pair, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader comes to it late, or with a new connection: whoever asked has written it by itself."""
    leader, other = pair
    monkeypatch.setattr(sharing, "PATIENCE", 0.1)
    with leader._database.turn:  # the leader's thread cannot go on
        charged = charge(other, "withdrawn")
        if lost:
            leader._database.close()
    assert other.find_entry(charged.head) == charged.seq
    charge(leader, "afterwards")
    while leader._database.queue._has_leader:
        time.sleep(0.01)
    assert set(count_requests(other).values()) == {1}
    assert leader.verify().charges == 3


def test_a_new_connection_writes_nothing_for_others(pair: Pair) -> None:
    """It may lead to another server than the one that the others are connected to."""
    leader, other = pair
    done: list[Charged] = []
    with leader._database.turn:
        asking = threading.Thread(target=lambda: done.append(charge(other, "elsewhere")))
        asking.start()
        while not leader._database.queue._has_leader:
            time.sleep(0.001)
        leader._database.close()
    asking.join()
    assert other._books.seq == done[0].seq  # written by itself
    assert leader.verify().charges == 2


def test_a_stranger_s_leader_is_not_asked(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    _, other = pair
    monkeypatch.setattr(sharing, "_is_same_user", lambda _: False)
    charged = charge(other, "alone")
    assert other._books.seq == charged.seq
    assert other._database._sharing._channel is None


def test_only_the_same_server_ledger_and_role_share(pair: Pair, schema: str) -> None:
    """A role that may only read gets no writer to write for it."""
    leader, other = pair
    charge(other, "asks")
    shared = leader._database._sharing._name
    assert other._database._sharing._name == shared
    names = {shared}
    with other._database.lend_connection() as db:
        for change in (f"CREATE ROLE reader_{schema}", f"GRANT USAGE ON SCHEMA {schema} TO reader_{schema}"):
            db.execute(change)
        db.execute(f"GRANT SELECT ON ledger TO reader_{schema}")
        for role in (f"SET ROLE reader_{schema}", "RESET ROLE"):
            db.execute(role)
            elsewhere = SharedWriting()
            elsewhere._find_leader(db, lambda: None)
            names.add(elsewhere._name)
            elsewhere.stop()
    assert len(names) == 2


def test_a_fork_leaves_the_leader_to_its_parent(pair: Pair) -> None:
    leader, other = pair
    charge(other, "before")
    child = os.fork()
    if child == 0:
        charge(leader, "in the child")
        os._exit(0 if leader._database._sharing._channel is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    charge(leader, "in the parent")
    charge(other, "after")
    assert leader.verify().charges == 5


# ---- deaths ----------------------------------------------------------------------------------------------


def answer_until_killed(schema: str, me: int, told: Path) -> None:
    ledger, number = open_ledger(schema), 0
    with told.open("a") as file:
        while True:
            released = ledger.release(charge(ledger, f"{me} {number}"), "42")
            file.write(f"{released.head}\n")
            file.flush()
            number += 1
            time.sleep(0.005)  # a long chain would take long to open


@pytest.mark.parametrize("deaths", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_processes_that_are_killed_take_no_charge_with_them(schema: str, tmp_path: Path, deaths: int) -> None:
    """Some die again and again, mostly the leader: what was told is there, once, and the others go on."""
    context, alive = multiprocessing.get_context("fork"), 4
    work = [
        context.Process(target=answer_until_killed, args=(schema, me, tmp_path / str(me)), daemon=True)
        for me in range(deaths + alive)
    ]
    for process in work[:alive]:
        process.start()
    for me in range(deaths):
        # All who live have been answered since the last death.
        counts = {each: count_lines(tmp_path / str(each)) for each in range(me, me + alive)}
        while any(count_lines(tmp_path / str(each)) <= count for each, count in counts.items()):
            time.sleep(0.002)
        os.kill(work[me].pid or 0, signal.SIGKILL)  # the oldest, to whom the lead has come
        work[me + alive].start()
    for process in work[deaths:]:
        os.kill(process.pid or 0, signal.SIGKILL)
    for process in work:
        process.join()
    with closing(open_ledger(schema)) as ledger:
        told = {line for path in tmp_path.iterdir() for line in path.read_text().splitlines(keepends=True)}
        kept = {f"{entry.hash}\n" for entry in ledger.read_entries() if entry.kind == "release"}
        assert {line for line in told if line.endswith("\n")} <= kept
        assert set(count_requests(ledger).values()) == {1}
        verified = ledger.verify()
        assert verified.charges - verified.releases <= deaths + alive
        assert ledger.read_spent(PEOPLE).pure == verified.charges * MILLIONTH.pure


def count_lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0
