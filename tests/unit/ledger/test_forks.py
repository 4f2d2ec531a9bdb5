"""Forks: every process has a connection of its own, and nobody loses a commit."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import Charged, SqliteLedger, failpoints
from sfumato.privacy import Pure, price
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.ledger import Charge

    Fork = Callable[[Callable[[], object]], Callable[[], int]]

PEOPLE = "population:patient_id"
TENTH = price(Pure(Fraction(1, 10)))


def test_a_childs_charge_outlives_the_parents_connection(
    path: Path, ledger: SqliteLedger, fork: Fork, ask: Callable[..., Charge]
) -> None:
    """Where a connection has crossed a fork, the parent's last close takes the child's commits with it."""
    ledger.charge(ask("parent"))
    go, wait = os.pipe()[::-1], os.pipe()

    def charge_twice() -> None:
        ledger.charge(ask("child, before the parent closes"))
        os.write(wait[1], b".")
        os.read(go[1], 1)
        ledger.charge(ask("child, after the parent closed"))

    wait_for_child = fork(charge_twice)
    os.read(wait[0], 1)
    ledger.charge(ask("parent again"))
    ledger.close()
    os.write(go[0], b".")
    assert wait_for_child() == 0
    with closing(SqliteLedger.open(path)) as after:
        assert after.verify().charges == 4
        assert after.read_spent(PEOPLE) == TENTH + TENTH + TENTH + TENTH


def test_forking_while_other_threads_charge(
    path: Path, ledger: SqliteLedger, fork: Fork, ask: Callable[..., Charge]
) -> None:
    stop, made = threading.Event(), [0, 0, 0]
    with closing(SqliteLedger.open(path, timeout=PATIENCE)) as shared:

        def keep_charging(me: int) -> None:
            while not stop.is_set():
                shared.charge(ask(f"{me}: {made[me]}", epsilon="1/100000"))
                made[me] += 1

        threads = [threading.Thread(target=keep_charging, args=(me,)) for me in range(3)]
        for thread in threads:
            thread.start()
        try:
            children = [
                fork(lambda name=f"child {n}": shared.charge(ask(name, epsilon="1/100000")))
                for n in range(10)
            ]
            assert [wait() for wait in children] == [0] * 10
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert shared.verify().charges == sum(made) + 10


def test_threads_of_a_child_can_charge(ledger: SqliteLedger, fork: Fork, ask: Callable[..., Charge]) -> None:
    def charge_in_a_thread() -> None:
        thread = threading.Thread(target=lambda: ledger.charge(ask("in a thread")), daemon=True)
        thread.start()
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive()

    assert fork(charge_in_a_thread)() == 0
    assert ledger.verify().charges == 1


def test_a_fork_inside_our_own_transaction_charges_nothing(
    ledger: SqliteLedger, fork: Fork, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[Callable[[], int]] = []

    def fork_when_written(name: str) -> None:
        if name == "charge:written":
            children.append(fork(lambda: None))

    monkeypatch.setattr(failpoints, "reach", fork_when_written)
    with pytest.raises(LedgerError, match="SF-L106"):
        ledger.charge(ask("forked"))
    monkeypatch.undo()
    assert [wait() for wait in children] == [0]
    assert ledger.verify().charges == 0
    assert isinstance(ledger.charge(ask("forked")), Charged)


def test_a_child_that_never_uses_the_ledger_does_no_harm(
    path: Path, ledger: SqliteLedger, fork: Fork, ask: Callable[..., Charge]
) -> None:
    assert fork(ledger.close)() == 0
    ledger.charge(ask("afterwards"))
    assert ledger.verify().charges == 1
