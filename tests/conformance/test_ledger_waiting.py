"""Waiting for an answer that someone else makes under the same key, and noticing that nobody makes it."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.conformance.stores import KINDS, Store, store_of
from tests.conformance.test_ledger_crowds import PEOPLE, ask, charge, count, in_child, outcome

from sfumato.errors import LedgerError
from sfumato.ledger import Ledger, Released, failpoints, waiting
from sfumato.ledger.waiting import HolderLock
from sfumato.privacy import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = 60.0
"""Seconds for which these ledgers would wait, were nobody known to have ended."""


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(waiting, "PATIENCE", 0.1)
    return store_of(request.param, tmp_path)


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    with closing(store.create(timeout=LONG)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        yield ledger


def die_at(store: Store, step: str) -> int:
    """Charge and answer under the key "k", and be killed at a step of that."""

    def work() -> int:
        failpoints.reach = lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == step else None
        mine = store.open(timeout=LONG)
        mine.release(charge(mine, ask("q", key="k")), "42")
        return 0

    return outcome(in_child(work))


@pytest.mark.parametrize("way", ["charge", "await_answer"])
@pytest.mark.parametrize("step", ["charge:durable", "release:begun"])
def test_a_charge_whose_process_was_killed_says_so_soon(
    store: Store, ledger: Ledger, step: str, way: str
) -> None:
    assert die_at(store, step) == -signal.SIGKILL
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(LedgerError, match="SF-L124"):
            getattr(ledger, way)(ask("q", key="k"))
    assert time.monotonic() - began < LONG / 2
    assert count(ledger) == (1, 0)  # neither charged again nor given back
    assert charge(ledger, ask("q", key="new")).seq > 1


@pytest.mark.parametrize("step", ["release:written", "release:durable"])
def test_an_answer_that_was_being_written_at_death_is_found_or_never_there(
    store: Store, ledger: Ledger, step: str
) -> None:
    die_at(store, step)
    told = is_answered(ledger)
    assert count(ledger) == (1, told)
    again = [outcome(in_child(lambda: is_answered(store.open(timeout=LONG)))) for _ in range(2)]
    assert again == [told] * 2


def is_answered(ledger: Ledger) -> int:
    """Return 1 if the key has its answer, and 0 if it has none and never will."""
    try:
        found = ledger.charge(ask("q", key="k"))
    except LedgerError as problem:
        return 0 if problem.code == "SF-L124" else 99
    return 1 if isinstance(found, Released) and found.answer == "42" else 98


def test_a_process_at_work_is_waited_for(store: Store, ledger: Ledger) -> None:
    reads, writes = os.pipe()
    go_on, answer = os.pipe()

    def work() -> int:
        mine = store.open(timeout=LONG)
        charged = charge(mine, ask("q", key="k"))
        os.write(writes, b"charged")
        os.read(go_on, 1)
        mine.release(charged, "42")
        return 0

    child = in_child(work)
    assert os.read(reads, 7) == b"charged"
    found: list[Released | None] = []
    thread = threading.Thread(target=lambda: found.append(ledger.await_answer(ask("q", key="k"))))
    thread.start()
    time.sleep(0.5)  # several times the patience with a process that has ended
    assert thread.is_alive()
    os.write(answer, b"x")
    thread.join(LONG)
    assert outcome(child) == 0
    assert [each and each.answer for each in found] == ["42"]
    assert ledger.await_answer(ask("q", key="k")) is None  # it is kept, and nobody makes it
    assert ledger.await_answer(ask("other", key="k2")) is None
    assert ledger.await_answer(ask("q")) is None


def test_nothing_is_said_of_a_process_elsewhere(store: Store, ledger: Ledger, tmp_path: Path) -> None:
    """Another machine has other locks: its processes can only be waited for."""
    die_at(store, "charge:durable")
    with closing(store.open(timeout=0.5)) as elsewhere:
        elsewhere._holder = HolderLock(tmp_path / "elsewhere")
        with pytest.raises(LedgerError, match="SF-L107"):
            elsewhere.charge(ask("q", key="k"))


def test_a_child_does_not_keep_its_parent_alive(store: Store, ledger: Ledger) -> None:
    """A process that was forked from the one that charged lives on when that is killed."""
    reads, writes = os.pipe()

    def work() -> int:
        mine = store.open(timeout=LONG)
        charge(mine, ask("q", key="k"))
        grandchild = in_child(lambda: len(os.read(reads, 1)))
        os.write(writes, b"")
        os.kill(os.getpid(), signal.SIGKILL)
        return grandchild

    assert outcome(in_child(work)) == -signal.SIGKILL
    with pytest.raises(LedgerError, match="SF-L124"):
        ledger.charge(ask("q", key="k"))
    os.write(writes, b"x")
