"""Hostile sessions with real workers: whatever happens in one, the charge stays and the session goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from ready_replies import ReadyReader, SharedWorkers, share_workers
from sfumato.curator.gate import decode_answer
from sfumato.curator.hostile import reading
from sfumato.curator.hostile.apart import WorkerError
from sfumato.curator.hostile.host import WorkerHost
from sfumato.curator.hostile.reading import SlotReader
from sfumato.curator.hostile.slots import SlotClock
from sfumato.curator.hostile.worker import END, FORK, ORDER
from sfumato.curator.payer import Payer
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import LedgerError, SealedError
from sfumato.ledger import Charged
from unit.curator.hostile.bad_steps import WAYS, BadStep, NeverAnswers
from unit.curator.hostile.kinds import ASKED, SPEND, make_lab
from waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


class NoWait(SlotClock):
    """Nobody waits for the end of a slot."""

    def wait_until(self, moment: float) -> None:
        assert moment > 0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Lab]:
    """Its workers have little memory, two places, and minutes to answer, however busy the machine is."""
    made = make_lab(tmp_path_factory.mktemp("hostile") / "lab", target=True)
    for name in ("visits", "friends"):
        made.set_pace(name, seconds=2)
    host = WorkerHost(made.folder, made._schema, memory=2**29, places=2)
    vars(made)["_slots"] = ReadyReader(host, made.engine)
    yield made
    made.close()


def _plan(lab: sf.Lab, *ways: str) -> Plan[Any, None]:
    counted = lab.session().sql("SELECT COUNT(*) AS n FROM visits").quote(epsilon=1).plan
    steps = tuple(BadStep(counted.steps[0].program, way) for way in ways)
    return Plan(counted.table, PureSpend(Fraction(1)), steps, None)


def _spent(lab: sf.Lab) -> int:
    spent = lab.ledger.read_spent("population:who").pure
    assert spent is not None
    return spent


def _pay(lab: sf.Lab, *ways: str) -> list[Any]:
    plan, reader = _plan(lab, *ways), lab._slots
    if "never ends" in ways:  # it is ended in the shortest slot, and whatever the machine does it is late
        plan = replace(plan, table=replace(plan.table, pace=1))
        reader = SlotReader(reader.workers, lab.engine, NoWait(lambda: 0.0))
    return decode_answer(Payer(lab, None, reader).pay(plan, "a test").answer)


# ---- answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ASKED)
def test_every_kind_of_question_is_answered_in_a_worker(
    lab: sf.Lab, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever reads in this process fails.
    monkeypatch.setattr("sfumato.curator.payer.read_steps", None)
    question = ASKED[kind](lab.session(hostile=True))
    before = _spent(lab)
    question.release(**SPEND)
    assert kind in ("degrees", "edges") or _spent(lab) > before


def test_the_rounds_of_a_fit_are_read_in_workers(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.curator.payer.read_steps", None)
    model = sf.learn.GaussianNB(epsilon=1)
    fitted = lab.session(hostile=True).fit(model, table="visits", features=["cost"], target="ward")
    assert fitted.classes_.tolist() == ["A", "B", "C"]


def test_a_key_whose_charge_has_no_answer_is_refused_and_keeps_no_place(lab: sf.Lab) -> None:
    """Others are answered meanwhile, and the answer is free once it is kept."""
    payer, plan = Payer(lab, None, lab._slots), _plan(lab, "answers")
    charged = lab.ledger.charge(payer.make_charge(plan, "a test", "theirs"))
    assert isinstance(charged, Charged)
    for _ in range(3):  # more often than there are places
        with pytest.raises(LedgerError, match="SF-L107"):
            payer.pay(plan, "a test", "theirs")
    other = lab.session(hostile=True).sql("SELECT COUNT(*) AS n FROM visits WHERE cost > 3")
    assert other.release(epsilon=0.001).receipt.replayed is False
    before = _spent(lab)
    lab.ledger.release(charged, "[1]")
    assert payer.pay(plan, "a test", "theirs").answer == "[1]"
    assert _spent(lab) == before


@pytest.mark.slow
def test_learners_that_see_rows_see_them_in_workers(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation of a model runs the model in its worker, which needs scikit-learn there."""
    monkeypatch.setattr("sfumato.curator.payer.read_steps", None)
    session = lab.session(hostile=True)
    model = session.fit(sf.learn.GaussianNB(epsilon=1), table="visits", features=["cost"], target="ward")
    found = session.evaluate(model, table="visits", target="ward", epsilon=1)
    assert 0 <= found.accuracy.value <= 1


def test_the_quote_says_when_the_reply_leaves(lab: sf.Lab) -> None:
    asked = "SELECT SUM(cost) AS c FROM visits"
    quote, trusted = (lab.session(hostile=hostile).sql(asked).quote(epsilon=1) for hostile in (True, False))
    assert (quote.slot, trusted.slot) == (4.0, None)
    assert "after 4 s" in str(quote)
    assert "replies" not in str(trusted)
    assert quote.to_dict()["slot"] == 4.0


def test_a_kept_answer_needs_no_worker(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it was kept is public, so it leaves at once."""
    question = lab.session(hostile=True).sql("SELECT COUNT(*) AS n FROM visits WHERE age > 7")
    first = question.release(epsilon=1)
    monkeypatch.setattr(SlotReader, "begin", None)
    assert question.quote(epsilon=1).slot is None
    assert question.release(epsilon=1).to_dict()["columns"] == first.to_dict()["columns"]


def test_each_question_has_a_process_of_its_own_which_ends(lab: sf.Lab) -> None:
    seen = [_pay(lab, "says", name)[0][0] for name in ("first", "second", "third")]
    assert len({*seen, os.getpid()}) == 4
    wait_until(lambda: not any(map(_exists, seen)), "no worker is left behind")


def test_a_question_that_finds_no_row_imports_nothing_more(lab: sf.Lab) -> None:
    asked = "SELECT ward, SUM(cost) AS c FROM visits WHERE note LIKE '%nowhere%' GROUP BY ward"
    plan = lab.session().sql(asked).bounded(groups=1, rows=1).quote(epsilon=1).plan
    step = BadStep(plan.steps[0].program, "says what was imported")
    # The process that forks workers may have imported pandas for a learner before, so this one is new.
    with closing(WorkerHost(lab.folder, lab._schema)) as host:
        reader = ReadyReader(host, lab.engine)
        paid = Payer(lab, None, reader).pay(replace(_plan(lab), steps=(step,)), "a test")
    assert decode_answer(paid.answer)[0][1] is False


def test_a_steward_need_not_wait_for_the_end_of_a_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are free when the worker has read them; here they are dropped before the reply leaves."""
    monkeypatch.setattr(reading, "reading_time", lambda slot: PATIENCE)
    lab = make_lab(tmp_path / "lab", target=True)
    dropped = list[str]()

    class Drops(SlotClock):
        def wait_until(self, moment: float) -> None:
            lab.drop("visits")
            dropped.append("visits")

    share_workers(lab, Drops(lambda: 0.0))
    Payer(lab, None, lab._slots).pay(_plan(lab, "reads"), "a test")
    assert dropped == ["visits"]


def test_a_slot_begins_with_a_place_and_ready_processes_and_before_the_fork(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = list[str]()
    host = SharedWorkers(lab.folder, lab._schema, places=1)
    fork = host._fork

    def look() -> float:
        free = host._places.acquire(blocking=False)
        if free:
            host._places.release()
        ready = host._forker is not None and host._forker.ready
        events.append("begun" if ready and not free else "begun too early")
        return 0.0

    def note(kind: bytes) -> Any:
        events.append("forked")
        return fork(kind)

    monkeypatch.setattr(host, "_fork", note)
    reader = SlotReader(host, lab.engine, NoWait(look))
    with closing(host), reader.begin(_plan(lab, "says"), lambda: None):
        assert host._places.acquire(blocking=False) is False
    assert events == ["begun", "forked"]


# ---- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_worker_that_goes_wrong_says_the_constant_sentence(lab: sf.Lab, way: str) -> None:
    before, entries = _spent(lab), lab.ledger.verify()
    with pytest.raises(SealedError) as refusal:
        _pay(lab, way)
    assert refusal.value.code == "SF-X901"
    assert set(refusal.value.facts) == {"incident", "try"}
    after = lab.ledger.verify()
    assert _spent(lab) > before
    assert (after.charges, after.releases) == (entries.charges + 1, entries.releases)
    assert refusal.value.facts["incident"] in (lab.folder / "incidents.log").read_text()
    assert (
        lab.session(hostile=True)
        .sql(f"SELECT COUNT(*) AS n FROM visits WHERE cost > {len(way)}")
        .release(epsilon=1)
    )


def test_what_failed_is_told_to_the_steward(lab: sf.Lab) -> None:
    with pytest.raises(SealedError):
        _pay(lab, "says", "raises")
    assert "ZeroDivisionError" in (lab.folder / "incidents.log").read_text()


def test_a_late_answer_is_not_kept_and_the_question_is_charged_again(lab: sf.Lab) -> None:
    question, entries = "SELECT COUNT(*) AS n FROM visits WHERE age > 50", lab.ledger.verify()
    plan = lab.session().sql(question).quote(epsilon=1).plan
    slow = SlotReader(lab._slots.workers, lab.engine, NoWait(iter((0.0, 0.0, 1000.0)).__next__))
    with pytest.raises(SealedError, match="SF-X901"):
        Payer(lab, None, slow).pay(plan, question)
    assert lab.ledger.find_release(plan.request) is None
    lab.session(hostile=True).sql(question).release(epsilon=1)
    after = lab.ledger.verify()
    assert (after.charges, after.releases) == (entries.charges + 2, entries.releases + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_worker_ends_with_the_process_that_forked_it_which_is_replaced(lab: sf.Lab) -> None:
    (shown,) = _pay(lab, "says it")
    workers: Any = lab._slots.workers
    with workers.start_worker() as ask:
        forker = workers._forker.close.peek()[2][0]
        forker.kill()
        with pytest.raises(WorkerError):
            ask((NeverAnswers(),), 1000)  # a test that hangs here has found a worker that lives on
    forker.wait()
    assert _pay(lab, "says it again") != [shown]


def test_two_workers_share_no_random_bits(lab: sf.Lab) -> None:
    """The same steps twice: noise of this size is the same by chance once in 10^9 times or less."""
    steps = lab.session().sql("SELECT COUNT(*) AS n FROM visits").quote(epsilon=1e-9).plan.steps
    answers = []
    for _ in range(2):
        with lab._slots.workers.start_worker() as ask:
            answers.append(ask(steps, PATIENCE))
    assert answers[0] != answers[1]


def test_threads_ask_side_by_side(lab: sf.Lab) -> None:
    session = lab.session(hostile=True)

    def ask(limit: int) -> Any:
        return session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE cost < {limit}").release(epsilon=100)

    with ThreadPoolExecutor(4) as pool:
        answers = [each.to_arrow()["n"][0].as_py() for each in pool.map(ask, range(100, 900, 200))]
    assert answers == sorted(answers)


# ---- ends --------------------------------------------------------------------------------------------------


def test_closing_leaves_no_process_and_a_later_question_starts_anew(lab: sf.Lab) -> None:
    _pay(lab, "before")
    forker: Any = lab._slots.workers._forker  # type: ignore[attr-defined]
    group = forker.close.peek()[2][0].pid
    os.killpg(group, 0)
    lab.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
    _pay(lab, "after")


_KILLS_NOBODY = """
import os
from sfumato.curator.hostile import worker
os.kill, worker._PRELOADED = lambda *_: None, ()
worker.main()
"""


def test_a_worker_that_takes_long_to_end_is_not_waited_for() -> None:
    """Or the next question would wait for it, and its reply would tell how much the other one held."""
    orders, theirs = socket.socketpair()
    orders.settimeout(PATIENCE)  # only a worker that is waited for lets it pass
    paths = os.pathsep.join(path for path in sys.path if path)
    with theirs:
        forking = subprocess.Popen(
            [sys.executable, "-c", _KILLS_NOBODY, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": paths},
        )
    connections = list[socket.socket]()

    def receive() -> int:
        return int(ORDER.unpack(orders.recv(ORDER.size, socket.MSG_WAITALL))[1])

    def fork() -> int:
        ours, other = socket.socketpair()
        connections.append(ours)
        with other:
            socket.send_fds(orders, [ORDER.pack(FORK, 0)], [other.fileno()])
        return receive()

    try:
        receive()  # it is ready
        first = fork()
        orders.sendall(ORDER.pack(END, first))  # it lives on
        assert fork() != first
    finally:
        for each in (*connections, orders):  # which ends them all
            each.close()
        forking.wait()


_ASKS_FOR_EVER = """
import pathlib, sys
from sfumato.curator.hostile import host, worker
from ready_replies import ReadyReader
from unit.curator.hostile.bad_steps import NeverAnswers
workers = host.WorkerHost(pathlib.Path("."), "none")
with workers.start_worker() as ask:
    print(workers._forker.close.peek()[2][0].pid, flush=True)
    ask((NeverAnswers(),), 1000)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_a_process_that_was_interrupted_or_killed(sent: signal.Signals) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-c", _ASKS_FOR_EVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    ) as asking:
        assert asking.stdout is not None
        try:
            group = int(asking.stdout.readline())
            asking.send_signal(sent)
            asking.wait(PATIENCE)
        finally:
            asking.kill()
    wait_until(lambda: not _is_alive(group), "no worker is left behind")


def _is_alive(group: int) -> bool:
    """Return whether a group has a process that is not dead; dead ones wait for whoever adopted them."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            state, _, of, *_ = file.read_text().rpartition(")")[2].split()
            if int(of) == group and state != "Z":
                return True
    return False


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
