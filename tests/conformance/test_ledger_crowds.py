"""What every ledger promises to a crowd: one budget for all, and charges that survive every death."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from tests.conformance.stores import KINDS, Store, store_of
from tests.unit.interruption import interrupt_at

from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger import Charge, Charged, Ledger, Released, failpoints, transaction
from sfumato.privacy import Budget, Pure, price
from sfumato.privacy.account import NOTHING
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sfumato.privacy.account import Cost

PEOPLE = "population:patient_id"
HUNDREDTH = price(Pure(Fraction(1, 100)))
MILLIONTH = price(Pure(Fraction(1, 10**6)))


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, tmp_path)


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    """One account, whose budget is ε = 1."""
    with closing(store.create(timeout=PATIENCE)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        yield ledger


def hash_text(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def ask(name: str, key: str | None = None, cost: Cost = HUNDREDTH) -> Charge:
    return Charge((PEOPLE,), cost, hash_text(name), {"table": "visits"}, key)


def charge(ledger: Ledger, question: Charge) -> Charged:
    charged = ledger.charge(question)
    assert isinstance(charged, Charged)
    return charged


def answer(ledger: Ledger, question: Charge, answer: str = "42") -> Released:
    return ledger.release(charge(ledger, question), answer)


def answer_once(ledger: Ledger, question: Charge, text: str) -> Released:
    """Charge and answer, or ask again with the same key until someone else's answer is kept."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            got = ledger.charge(question)
        except LedgerError as refusal:
            if refusal.code != "SF-L107" or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return ledger.release(got, text) if isinstance(got, Charged) else got


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
    with closing(store.open(timeout=PATIENCE)) as shared:

        def work(me: int) -> None:
            granted[me] = spend_until_refused(shared, me)

        threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert granted.total() == count(ledger)[0] == 100
    assert ledger.read_spent(PEOPLE).pure == 10**12


def test_fifty_threads_with_one_key_get_one_charge_and_the_same_bytes(store: Store, ledger: Ledger) -> None:
    with closing(store.open(timeout=PATIENCE)) as shared, ThreadPoolExecutor(50) as pool:
        work = [pool.submit(answer_once, shared, ask("q", key="k"), f"by {me}") for me in range(50)]
        answers = {each.result().answer for each in work}
    assert len(answers) == 1
    assert count(ledger) == (1, 1)


def test_a_key_whose_charge_has_no_answer_is_refused_without_a_wait(
    store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is charged again, and the answer is free once it is kept."""

    def refuse_to_wait(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    charged = charge(ledger, ask("q", key="k"))
    with closing(store.open()) as other:
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", refuse_to_wait)
            for _ in range(2):
                with pytest.raises(LedgerError, match="SF-L107"):
                    other.charge(ask("q", key="k"))
        assert count(ledger) == (1, 0)
        ledger.release(charged, "42")
        kept = other.charge(ask("q", key="k"))
    assert isinstance(kept, Released)
    assert (kept.answer, kept.cost) == ("42", NOTHING)
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
        return spend_until_refused(store.open(timeout=PATIENCE), me)

    children = [in_child(partial(work, me)) for me in range(16)]
    granted = [outcome(child) for child in children]
    assert 255 not in granted
    assert sum(granted) == count(ledger)[0] == 100
    assert ledger.read_spent(PEOPLE).pure == 10**12


# ---- sudden death ----------------------------------------------------------------------------------------

DEATHS = {
    "account:begun": (0, 0, 0),
    "account:written": (0, 0, 0),
    "account:durable": (1, 0, 0),
    "grant:begun": (1, 0, 0),
    "grant:written": (1, 0, 0),
    "grant:durable": (2, 0, 0),
    "charge:begun": (2, 0, 0),
    "charge:written": (2, 0, 0),
    "charge:durable": (2, 1, 0),
    "release:begun": (2, 1, 0),
    "release:written": (2, 1, 0),
    "release:durable": (2, 1, 1),
}
"""By the step at which someone dies: accounts, charges and releases that are kept."""


def live(ledger: Ledger, number: int) -> None:
    """All that can happen to a ledger, once."""
    ledger.open_account(f"population:{number}", Budget(1))
    ledger.grant(f"quota:{number}:ada", Budget(1))
    asked = Charge(
        (PEOPLE,), MILLIONTH, hash_text(f"question {number}"), {"table": "visits"}, f"key {number}"
    )
    answer(ledger, asked)


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", DEATHS)
def test_kill_nine_at_every_step(store: Store, ledger: Ledger, step: str, rounds: int) -> None:
    """What the step says is kept is kept, nothing else is, and the next one goes on."""

    def die(number: int) -> int:
        failpoints.reach = lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == step else None
        live(store.open(), number)
        return 0

    accounts, charges, releases = DEATHS[step]
    for number in range(rounds):
        assert outcome(in_child(partial(die, number))) == -signal.SIGKILL
        assert count(ledger) == ((number + 1) * charges, (number + 1) * releases)
    assert len(ledger.list_accounts()) == 1 + rounds * accounts
    assert ledger.read_spent(PEOPLE).pure == rounds * charges * 10**6
    with closing(store.open(timeout=PATIENCE)) as reopened:
        answered = [
            reopened.find_release(hash_text(f"question {number}")) is not None for number in range(rounds)
        ]
        assert answered == [releases == 1] * rounds
        if charges > releases:
            with pytest.raises(LedgerError, match="SF-L107"):
                reopened.charge(ask("question 0", key="key 0"))
        live(reopened, rounds)


@pytest.mark.parametrize("alone", [True, False])
def test_ctrl_c_in_a_charge_comes_through_and_what_was_told_stays(store: Store, alone: bool) -> None:
    """Alone, a process decides before it locks the chain; among others, it locks the chain first."""
    told, place, interruption = list[str](), 0, None
    with closing(store.create()) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        while interruption is None or interruption.left <= 0:
            place += 13
            ledger._is_only_writer = alone  # type: ignore[attr-defined]
            with interrupt_at(type(ledger).charge, place) as interruption:
                told.append(charge(ledger, ask(f"{place}", cost=MILLIONTH)).head)
            told.append(charge(ledger, ask(f"after {place}", cost=MILLIONTH)).head)
        assert place > 90
        assert set(told) <= {entry.hash for entry in ledger.read_entries()}
        assert len(told) <= count(ledger)[0]


# ---- a crowd that dies -----------------------------------------------------------------------------------


def ask_for_ever(store: Store, me: int, tell: int) -> int:
    """Each receipt is told as soon as it is held."""
    ledger = store.open(timeout=PATIENCE)
    for number in range(10**6):
        charged = ledger.charge(Charge((PEOPLE,), MILLIONTH, hash_text(f"{me}: {number}"), {}))
        assert isinstance(charged, Charged)
        os.write(tell, f"{charged.head}\n{ledger.release(charged, 'x').head}\n".encode())
    return 0


@pytest.mark.parametrize("deaths", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_random_deaths_lose_nothing_that_was_told(store: Store, ledger: Ledger, deaths: int) -> None:
    chance = random.Random(161803)
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    told, children, ends = bytearray(), set[int](), set[int]()
    for me in range(deaths + 3):
        children.add(in_child(partial(ask_for_ever, store, me, writes)))
        while len(children) > 3 or (me == deaths + 2 and children):
            time.sleep(chance.uniform(0.02, 0.4))
            victim = chance.choice(sorted(children))
            os.kill(victim, signal.SIGKILL)
            ends.add(outcome(victim))
            children.remove(victim)
            with suppress(BlockingIOError):
                told += os.read(reads, 1 << 20)
    assert ends == {-signal.SIGKILL}
    # A server may still be at work for the last one who died. Whoever writes next waits for that.
    with closing(store.open(timeout=PATIENCE)) as last:
        last.grant("quota:patient_id:last", Budget(1))
    kept = {each.hash for each in ledger.read_entries()}
    assert {line for line in told.decode().split("\n") if len(line) == 64} <= kept
    verified = ledger.verify()
    assert verified.releases <= verified.charges
    assert ledger.read_spent(PEOPLE).pure == verified.charges * 10**6


def test_fifty_processes_with_one_key_get_one_charge_and_the_same_bytes(
    store: Store, ledger: Ledger, tmp_path: Path
) -> None:
    def work(me: int) -> int:
        mine = store.open(timeout=PATIENCE)
        (tmp_path / f"{me}").write_text(answer_once(mine, ask("q", key="k"), f"by {me}").answer)
        return 0

    children = [in_child(partial(work, me)) for me in range(50)]
    assert [outcome(child) for child in children] == [0] * 50
    assert len({(tmp_path / f"{me}").read_bytes() for me in range(50)}) == 1
    assert count(ledger) == (1, 1)


@pytest.mark.parametrize("years", [-10, 10])
def test_a_clock_that_is_ten_years_off_changes_nothing(
    store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    answer(ledger, ask("before"))

    def shifted() -> str:
        return (datetime.now(UTC) + timedelta(days=365 * years)).date().isoformat()

    monkeypatch.setattr(transaction, "read_date", shifted)
    answer(ledger, ask("on another day"))
    monkeypatch.undo()
    answer(ledger, ask("today"))
    with closing(store.open()) as reopened:
        assert reopened.verify().entries == 7
        assert ledger.find_release(hash_text("on another day")).answer == "42"  # type: ignore[union-attr]
        assert isinstance(reopened.charge(ask("on another day")), Released)


@pytest.mark.slow
def test_sixteen_processes_with_two_hundred_attempts_each(store: Store) -> None:
    """A cap of a thousand: exactly a thousand."""
    with closing(store.create()) as ledger:
        ledger.open_account(PEOPLE, Budget(10))

    def work(me: int) -> int:
        mine, granted = store.open(timeout=PATIENCE), 0
        for number in range(200):
            with suppress(BudgetError):
                mine.charge(ask(f"{me}: {number}"))
                granted += 1
        return granted

    granted = [outcome(child) for child in [in_child(partial(work, me)) for me in range(16)]]
    assert 255 not in granted
    with closing(store.open()) as ledger:
        assert sum(granted) == count(ledger)[0] == 1000
        assert ledger.read_spent(PEOPLE).pure == 10**13
