"""What every ledger promises to a crowd: one budget for all, and charges that survive every death."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger import Charge, Charged, Ledger, Released, SqliteLedger, steps
from sfumato.privacy import Budget, Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PEOPLE = "population:patient_id"
HUNDREDTH = price(Pure(Fraction(1, 100)))

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@dataclass(frozen=True)
class Store:
    """Where a ledger lives: made once, opened as often as wished."""

    create: Callable[..., Ledger]
    open: Callable[..., Ledger]


@pytest.fixture(params=["sqlite"])
def store(tmp_path: Path) -> Store:
    path = tmp_path / "ledger.sqlite"
    return Store(partial(SqliteLedger.create, path), partial(SqliteLedger.open, path))


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    """Without patience: what is not there at once is refused at once."""
    with closing(store.create(patience=0)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        yield ledger


def digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def ask(name: str, key: str | None = None) -> Charge:
    return Charge((PEOPLE,), HUNDREDTH, digest(name), {"table": "visits"}, key)


def charge(ledger: Ledger, question: Charge) -> Charged:
    charged = ledger.charge(question)
    assert isinstance(charged, Charged)
    return charged


def answer(ledger: Ledger, question: Charge, answer: str = "42") -> Released:
    return ledger.release(charge(ledger, question), answer)


def count(ledger: Ledger) -> tuple[int, int]:
    verified = ledger.verify()
    return verified.charges, verified.releases


# ---- many at once ----------------------------------------------------------------------------------------


def spend_until_refused(ledger: Ledger, me: int) -> int:
    """How many charges this one was granted."""
    for number in range(1000):
        try:
            ledger.charge(ask(f"{me}: {number}"))
        except BudgetError:
            return number
    raise AssertionError("never refused")


def test_eight_threads_get_exactly_what_one_budget_allows(store: Store, ledger: Ledger) -> None:
    granted: Counter[int] = Counter()
    with closing(store.open(patience=60)) as shared:

        def work(me: int) -> None:
            granted[me] = spend_until_refused(shared, me)

        threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert granted.total() == count(ledger)[0] == 100
    assert ledger.spent(PEOPLE).pure == 10**12


def test_eight_threads_with_one_key_share_one_charge(store: Store, ledger: Ledger) -> None:
    answers: list[str] = []
    with closing(store.open(patience=60)) as shared:

        def work() -> None:
            got = shared.charge(ask("q", key="k"))
            released = shared.release(got, f"by {got.seq}") if isinstance(got, Charged) else got
            answers.append(released.answer)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == ["by 2"] * 8
    assert count(ledger) == (1, 1)


def in_child(work: Callable[[], int]) -> int:
    """A forked child; its exit code is what the work returns."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        except BaseException:
            os._exit(255)
    return pid


def outcome(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_sixteen_processes_get_exactly_what_one_budget_allows(store: Store, ledger: Ledger) -> None:
    def work(me: int) -> int:
        return spend_until_refused(store.open(patience=120), me)

    children = [in_child(partial(work, me)) for me in range(16)]
    granted = [outcome(child) for child in children]
    assert 255 not in granted
    assert sum(granted) == count(ledger)[0] == 100
    assert ledger.spent(PEOPLE).pure == 10**12


# ---- sudden death ----------------------------------------------------------------------------------------

DEATHS = {
    "charge:begun": (0, 0),
    "charge:written": (0, 0),
    "charge:durable": (1, 0),
    "release:begun": (1, 0),
    "release:written": (1, 0),
    "release:durable": (1, 1),
}


@pytest.mark.parametrize("step", DEATHS)
def test_kill_nine_at_every_step(store: Store, ledger: Ledger, step: str) -> None:
    """Fifty times: what the step says is kept is kept, nothing else is, and the next one goes on."""

    def die(number: int) -> int:
        steps.step = lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == step else None
        answer(store.open(), ask(f"question {number}", key=f"key {number}"))
        return 0

    charges, releases = DEATHS[step]
    for number in range(50):
        assert outcome(in_child(partial(die, number))) == -signal.SIGKILL
        assert count(ledger) == ((number + 1) * charges, (number + 1) * releases)
    assert ledger.spent(PEOPLE).pure == 50 * charges * 10**10
    with closing(store.open(patience=0)) as reopened:
        answered = [reopened.find(digest(f"question {number}")) is not None for number in range(50)]
        assert answered == [releases == 1] * 50
        if charges > releases:
            with pytest.raises(LedgerError, match="SF-L107"):
                reopened.charge(ask("question 0", key="key 0"))
        charge(reopened, ask("life goes on"))
