"""A small ledger to look at, and questions to put to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from sfumato.ledger import Charge, Charged, SqliteLedger
from sfumato.ledger.chain import hash_text
from sfumato.privacy import Budget, Pure, price

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEOPLE = "population:patient_id"
ADA = "quota:patient_id:ada"

Ask = Callable[..., Charge]
Fork = Callable[[Callable[[], object]], Callable[[], int]]


@pytest.fixture
def ask() -> Ask:
    def ask(
        name: str, epsilon: str = "1/10", key: str | None = None, accounts: tuple[str, ...] = (PEOPLE,)
    ) -> Charge:
        return Charge(accounts, price(Pure(Fraction(epsilon))), hash_text(name), {"table": "visits"}, key)

    return ask


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    """Two accounts: entries 1 and 2."""
    with closing(SqliteLedger.create(path, timeout=0)) as ledger:
        ledger.open_account(PEOPLE, Budget(4, 1e-7))
        ledger.grant(ADA, Budget(1))
        yield ledger


@pytest.fixture
def filled(ledger: SqliteLedger, ask: Ask) -> SqliteLedger:
    """Two questions answered, one charged and lost: entries 3 to 7."""
    for name in ("first", "second"):
        charged = ledger.charge(ask(name, key=f"key of {name}", accounts=(PEOPLE, ADA)))
        assert isinstance(charged, Charged)
        ledger.release(charged, f"answer to {name}\nin two lines")
    ledger.charge(ask("lost"))
    return ledger


@pytest.fixture
def fork() -> Fork:
    """Start work in a forked child that never cleans up; call what comes back for its exit code."""

    def fork(work: Callable[[], object]) -> Callable[[], int]:
        pid = os.fork()
        if pid == 0:
            try:
                work()
            except BaseException:
                os._exit(1)
            os._exit(0)
        return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return fork
