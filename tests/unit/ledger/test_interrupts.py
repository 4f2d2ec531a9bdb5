"""Ctrl-C at every place where Python can notice it: it comes through, and nobody waits for ever."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.interruption import interrupt_at

from sfumato.ledger import Charged, SqliteLedger
from sfumato.ledger.group_commit import CommitBatch, CommitQueue, Job
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

    Ask = Callable[..., Charge]


def _lead(queue: CommitQueue, before: Callable[[], object] = lambda: None) -> Callable[[], None]:
    def lead() -> None:
        with CommitBatch() as batch:
            before()
            batch.jobs = queue.take_jobs()
            for job in batch.jobs:
                job.attempt(_NOTHING_WRITTEN)

    return lead


class _NothingWritten:
    entries: tuple[()] = ()


_NOTHING_WRITTEN: Any = _NothingWritten()


def _run_beside(queue: CommitQueue, lead: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=lambda: queue.run_job(Job("other", lambda _: None), lead), daemon=True)
    thread.start()
    return thread


def _join_queue(place: int, role: str) -> bool:
    """Interrupt a job at this place. Returns whether there was such a place."""
    queue, may_end = CommitQueue(), threading.Event()
    others = []
    if role == "follows":
        others.append(_run_beside(queue, _lead(queue, lambda: may_end.wait(PATIENCE))))
        while not queue._queue:
            threading.Event().wait(0.0001)
    if role == "waits for absent":
        queue._absent, queue._last_duration = {-1}, 0.0004
    job = Job("own", lambda _: None)
    threading.Timer(0.0005, may_end.set).start()
    with interrupt_at(CommitQueue.run_job, place) as interruption:
        queue.run_job(job, _lead(queue))
    may_end.set()
    others.append(_run_beside(queue, _lead(queue)))
    for thread in others:
        thread.join(PATIENCE)
        assert not thread.is_alive(), f"interrupted at {place}, nobody leads"
    assert queue._leader is None
    assert not queue._queue
    return interruption.left <= 0


@pytest.mark.parametrize("role", ["leads", "follows", "waits for absent"])
def test_ctrl_c_in_the_queue_comes_through_and_others_lead_on(role: str) -> None:
    place = 1
    while _join_queue(place, role):
        place += 1
    assert place > 9


def test_ctrl_c_in_a_charge_comes_through_and_what_was_told_stays(ledger: SqliteLedger, ask: Ask) -> None:
    told, place, interruption = [], 0, None
    while interruption is None or interruption.left <= 0:
        place += 1
        with interrupt_at(SqliteLedger.charge, place) as interruption:
            charged = ledger.charge(ask(f"{place}", "1/1000000"))
            assert isinstance(charged, Charged)
            told.append(charged.head)
        after = ledger.charge(ask(f"after {place}", "1/1000000"))
        assert isinstance(after, Charged)
        told.append(after.head)
    assert place > 100
    assert set(told) <= {entry.hash for entry in ledger.read_entries()}
    assert len(told) <= ledger.verify().charges <= 2 * place
