"""Processes that write at the same time have one of them write for all, and miss nothing when it dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections import Counter
from contextlib import closing
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.stores import KINDS, Store, store_of
from tests.unit.interruption import interrupt_at

from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger import Charge, Charged, Released, sharing
from sfumato.ledger.carried import carry_charge
from sfumato.ledger.chain import read_body
from sfumato.ledger.database import MeetingPlace
from sfumato.ledger.failures import busy_error, full_error
from sfumato.ledger.group_commit import CommitBatch, Job
from sfumato.ledger.sharing import SharedWriting
from sfumato.privacy import Budget, Pure, price

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEOPLE = "population:patient_id"
MILLIONTH = price(Pure(Fraction(1, 10**6)))

Pair = tuple[Any, Any]


def ask(name: str) -> Charge:
    return Charge((PEOPLE,), MILLIONTH, sha256(name.encode()).hexdigest(), {"table": "visits"})


def charge(ledger: Any, name: str) -> Charged:
    charged = ledger.charge(ask(name))
    assert isinstance(charged, Charged)
    return charged


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make_store(request.param, tmp_path)


def make_store(kind: str, folder: Path) -> Store:
    (folder / "ledger").mkdir()
    store = store_of(kind, folder / "ledger")
    with closing(store.create()) as ledger:
        ledger.open_account(PEOPLE, Budget(Fraction(1, 10)))
    return store


@pytest.fixture
def pair(store: Store) -> Iterator[Pair]:
    """Two ledgers as of two processes: the first leads, and the second asks it."""
    with closing(store.open()) as leader, closing(store.open()) as other:
        leader._is_only_writer = other._is_only_writer = False
        charge(leader, "the leader's")
        assert leader._database.sharing._leader is not None
        yield leader, other


def lose_replies(ledger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader writes everything, and dies before it says so."""
    heard = ledger._database.hand_over

    def lose(*arguments: Any) -> None:
        assert None not in heard(*arguments)
        raise ConnectionResetError

    monkeypatch.setattr(ledger._database, "hand_over", lose)


def count_requests(ledger: Any) -> Counter[str]:
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


def test_nothing_is_said_before_it_is_looked_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain is locked, so nobody can tell whether the leader has written: not that nothing was done."""
    with closing(store.open()) as leader, closing(store.open(timeout=0.1)) as other:
        leader._is_only_writer = other._is_only_writer = False
        charge(leader, "the leader's")
        lose_replies(other, monkeypatch)
        look_up, locked = other._database.begin, threading.Event()

        def wait_in_vain(*arguments: Any) -> Any:
            def look_up_in_vain(db: Any) -> Any:
                leader._database.begin(db, lambda: None)
                locked.set()
                return look_up(*arguments)

            return leader._database.write(look_up_in_vain)

        monkeypatch.setattr(other._database, "begin", wait_in_vain)
        with pytest.raises(LedgerError, match="SF-L108"):
            other.charge(ask("in doubt"))
        assert locked.is_set()
        assert leader.verify().charges == 2


def test_a_look_up_that_is_repeated_begins_where_the_request_was_made(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may have read the entry in question meanwhile."""
    leader, other = pair
    lose_replies(other, monkeypatch)
    look_up, failed = other._database.begin, threading.Event()

    def fail_at_first(*arguments: Any) -> Any:
        if failed.is_set():
            return look_up(*arguments)
        failed.set()
        other.read_spent(PEOPLE)
        raise busy_error()

    monkeypatch.setattr(other._database, "begin", fail_at_first)
    charge(other, "asked once")
    assert set(count_requests(leader).values()) == {1}
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
    while leader._database.queue._leader is not None:
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
        while leader._database.queue._leader is None:
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
    assert other._database.sharing._channel is None


def lead_falsely(name: bytes, tell: int) -> None:
    """Bind the name as a process of the same user, and claim to have written whatever is asked."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(name)
        listener.listen()
        os.write(tell, b"bound")
        while True:
            channel, _ = listener.accept()
            if channel.recv(100_000):
                channel.send(json.dumps([[3, "0" * 64]]).encode())


def test_a_false_leader_of_the_same_user_is_not_believed(store: Store) -> None:
    """Everyone can list the names that were bound, and bind one once its leader has ended."""
    with closing(store.open()) as leader:
        leader._is_only_writer = False
        charge(leader, "the leader's")
        name, thread = leader._database.sharing._name, leader._database.sharing._leader
    thread.join()  # the name is free now
    heard, tell = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=lead_falsely, args=(name, tell), daemon=True)
    process.start()
    assert os.read(heard, 5) == b"bound"
    with closing(store.open()) as other:
        other._is_only_writer = False
        if other._database.outlives_writers:
            assert other.find_entry(charge(other, "asked").head) is not None  # written by itself
        else:
            with pytest.raises(LedgerError, match="SF-L112"):
                charge(other, "asked")
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()


def test_requests_count_only_from_those_who_know_the_ledger(pair: Pair) -> None:
    leader, other = pair
    carried = carry_charge(ask("by a stranger")).message
    for token in ("0" * 64, ""):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
            channel.connect(leader._database.sharing._name)
            channel.send(json.dumps([token, time.monotonic() + 9, [carried]]).encode())
            assert channel.recv(100) == b""
    charge(other, "asked")
    assert leader.verify().charges == 2


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_only_the_same_server_ledger_and_role_share(pair: Pair) -> None:
    """A role that may only read gets no writer to write for it."""
    leader, other = pair
    schema = other._database._schema
    charge(other, "asks")
    shared = leader._database.sharing._name
    assert other._database.sharing._name == shared
    names = {shared}
    with other._database.lend_connection() as db:
        for change in (f"CREATE ROLE reader_{schema}", f"GRANT USAGE ON SCHEMA {schema} TO reader_{schema}"):
            db.execute(change)
        db.execute(f"GRANT SELECT ON ledger TO reader_{schema}")
        for role in (f"SET ROLE reader_{schema}", "RESET ROLE"):
            db.execute(role)
            elsewhere = SharedWriting()
            elsewhere._find_leader(MeetingPlace(other._database, db), lambda: None)
            names.add(elsewhere._name)
            elsewhere.stop()
    assert len(names) == 2


def test_a_fork_leaves_the_leader_to_its_parent(pair: Pair) -> None:
    leader, other = pair
    charge(other, "before")
    child = os.fork()
    if child == 0:
        charge(leader, "in the child")
        os._exit(0 if leader._database.sharing._channel is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    charge(leader, "in the parent")
    charge(other, "after")
    assert leader.verify().charges == 5


def test_a_refusal_after_the_look_up_is_said_as_it_is(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, say: nothing was written for whoever asked, and it may go on once there is room."""
    leader, other = pair
    refused = threading.Event()

    def refuse(*_: Any) -> Any:
        refused.set()
        raise full_error()

    def close(*_: Any) -> Any:
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(other._database, "hand_over", close)
        patch.setattr(other._database, "commit", refuse)
        patch.setattr(other, "_timeout", 0.1)
        late = other._database.outlives_writers
        with pytest.raises(LedgerError, match="SF-L108" if late else "SF-L105"):
            other.charge(ask("no room"))
    assert refused.is_set()
    if not late:
        assert isinstance(other.charge(ask("no room")), Charged)
    assert leader.verify().charges == (1 if late else 2)


def test_an_interruption_of_the_leader_leaves_its_ledger_in_use(pair: Pair) -> None:
    """A request of another process was in the same commit, and only its sender has to look for it."""
    leader, _ = pair
    carried: Job[Any] = Job("carried", lambda _: [], is_for_others=True)
    own: Job[Any] = Job("charge", lambda _: None)
    batch = CommitBatch()
    batch.jobs = [own, carried]
    batch.mark_written()
    batch.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    with pytest.raises(ConnectionResetError), leader._guard:
        carried.take_result()
    with pytest.raises(LedgerError, match="SF-L108"):
        own.take_result()
    charge(leader, "goes on")


# A generator of the driver is left half-way, and complains about that when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_among_other_writers_comes_through(store: Store) -> None:
    """Also where the driver fails at cleaning up after it. The next charge is made, what was told stays."""
    told, place, interruption = list[str](), 0, None
    with closing(store.open()) as ledger:
        while interruption is None or interruption.left <= 0:
            place += 11
            ledger._is_only_writer = False
            with interrupt_at(type(ledger).charge, place) as interruption:
                told.append(charge(ledger, f"{place}").head)
            told.append(charge(ledger, f"after {place}").head)
        assert place > 200
        assert set(told) <= {entry.hash for entry in ledger.read_entries()}
        assert len(told) <= ledger.verify().charges


# ---- deaths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [True, False])
def test_the_next_leader_looks_for_what_the_last_was_asked(
    store: Store, pair: Pair, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked needs to read nothing of the chain, although the leader has died without a word."""
    leader, other = pair
    heard, died = other._database.hand_over, threading.Event()

    def lose_the_first(*arguments: Any) -> Any:
        if died.is_set():
            return heard(*arguments)
        died.set()
        assert not written or None not in heard(*arguments)
        raise ConnectionResetError

    monkeypatch.setattr(other._database, "hand_over", lose_the_first)
    behind = other._books.seq
    released = other.release(charge(other, "asked twice"), "42")
    assert other._books.seq == behind
    assert set(count_requests(leader).values()) == {1}
    verified = leader.verify()
    assert (verified.charges, verified.releases) == (2, 1)
    assert leader.find_entry(released.head) == released.entry


def lead_and_stop(store: Store, moment: str, tell: int) -> None:
    """Lead, and stop as by SIGSTOP when another process has asked for something."""
    ledger: Any = store.open()
    ledger._is_only_writer = False
    charge(ledger, "the leader's")
    commit = ledger._database.commit_at_once

    def stop_within(db: Any, done: Any, mark_written: Any) -> bool:
        def stop_when_written() -> None:
            mark_written()
            if moment == "written":
                stop()

        if moment == "attempted":
            stop()
        try:
            return bool(commit(db, done, stop_when_written))
        finally:
            os.write(tell, b"done")

    def stop() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # before this thread goes on

    ledger._database.commit_at_once = stop_within
    os.write(tell, b"leads")
    time.sleep(60)


@pytest.mark.parametrize("moment", ["attempted", "written"])
def test_a_leader_that_stops_keeps_nobody_waiting_for_ever(
    store: Store, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked is told in time that nobody knows, or writes by itself; the leader then does not."""
    monkeypatch.setattr(sharing, "PATIENCE", 0.1)
    heard, tell = os.pipe()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=lead_and_stop, args=(store, moment, tell), daemon=True)
    process.start()
    assert os.read(heard, 5) == b"leads"
    with closing(store.open(timeout=0.2)) as other:
        other._is_only_writer = False
        try:
            told = charge(other, "asked").head
        except LedgerError as error:
            told, code = None, error.code
    os.kill(process.pid or 0, signal.SIGCONT)
    assert os.read(heard, 4) == b"done"
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert told is not None or (moment, code) == ("written", "SF-L108")
    with closing(store.open()) as ledger:
        assert set(count_requests(ledger).values()) == {1}
        assert ledger.verify().charges == 2
        assert told is None or ledger.find_entry(told) is not None


def answer_until_killed(store: Store, me: int, told: Path, pause: float) -> None:
    ledger, number = store.open(), 0
    with told.open("a") as file:
        while True:
            released = ledger.release(charge(ledger, f"{me} {number}"), "42")
            file.write(f"{released.head}\n")
            file.flush()
            number += 1
            time.sleep(pause)  # a long chain would take long to open


@pytest.mark.parametrize(
    ("deaths", "alive", "pause"), [(15, 4, 0.005), pytest.param(300, 8, 0.1, marks=pytest.mark.slow)]
)
def test_processes_that_are_killed_take_no_charge_with_them(
    store: Store, tmp_path: Path, deaths: int, alive: int, pause: float
) -> None:
    """Some die again and again, mostly the leader: what was told is there, once, and the others go on."""
    context, folder = multiprocessing.get_context("fork"), tmp_path / "told"
    folder.mkdir()
    work = [
        context.Process(target=answer_until_killed, args=(store, me, folder / str(me), pause), daemon=True)
        for me in range(deaths + alive)
    ]
    for process in work[:alive]:
        process.start()
    for me in range(deaths):
        # All who live have been answered since the last death.
        counts = {each: count_lines(folder / str(each)) for each in range(me, me + alive)}
        while any(count_lines(folder / str(each)) <= count for each, count in counts.items()):
            time.sleep(0.002)
        os.kill(work[me].pid or 0, signal.SIGKILL)  # the oldest, to whom the lead has come
        work[me + alive].start()
    for process in work[deaths:]:
        os.kill(process.pid or 0, signal.SIGKILL)
    for process in work:
        process.join()
    with closing(store.open()) as ledger:
        told = {line for path in folder.iterdir() for line in path.read_text().splitlines(keepends=True)}
        kept = {f"{entry.hash}\n" for entry in ledger.read_entries() if entry.kind == "release"}
        assert {line for line in told if line.endswith("\n")} <= kept
        assert set(count_requests(ledger).values()) == {1}
        verified = ledger.verify()
        assert verified.charges - verified.releases <= deaths + alive
        assert ledger.read_spent(PEOPLE).pure == verified.charges * MILLIONTH.pure


def count_lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0
