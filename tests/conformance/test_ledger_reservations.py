"""Long work paid for at once: steps are begun durably, and only those never begun come back."""

from __future__ import annotations

import io
import os
import runpy
import signal
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conformance.stores import KINDS, Store, store_of

from sfumato.errors import BudgetError, LedgerError, PolicyError, UsageError
from sfumato.ledger import Charge, Ledger, Released, Reserved, failpoints
from sfumato.privacy import NOTHING, Budget, Cost, Pure, price
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PEOPLE, ADA = "population:patient_id", "quota:patient_id:ada"
HUNDREDTH = price(Pure(Fraction(1, 100)))
ROUGH = Cost(None, (10**9,) * 12, 2**20)
VERIFIER = Path(__file__).parents[2] / "tools" / "verify_ledger.py"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, tmp_path)


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    with closing(store.create(timeout=PATIENCE)) as ledger:
        ledger.open_account(PEOPLE, Budget(1, 1e-6))
        ledger.grant(ADA, Budget(0.8))
        yield ledger


def ask(name: str, cost: Cost = HUNDREDTH, key: str | None = None) -> Charge:
    return Charge((PEOPLE, ADA), cost, sha256(name.encode()).hexdigest(), {"table": "visits"}, key)


def reserve(ledger: Ledger, number: int = 10, name: str = "run", **asked: object) -> Reserved:
    reserved = ledger.reserve(ask(name, **asked), number)  # type: ignore[arg-type]
    assert isinstance(reserved, Reserved)
    return reserved


def test_all_steps_are_paid_for_at_once(ledger: Ledger) -> None:
    reserved = reserve(ledger, 30)
    assert (reserved.cost, reserved.step_cost, reserved.steps) == (HUNDREDTH * 30, HUNDREDTH, 30)
    assert ledger.read_spent(PEOPLE) == ledger.read_spent(ADA) == HUNDREDTH * 30
    with pytest.raises(BudgetError, match=r"SF-B102[^🙂]*requested +ε = 0\.51\n +remaining +ε = 0\.50 "):
        ledger.reserve(ask("another"), 51)
    assert reserve(ledger, 50, "another").steps == 50


def test_steps_are_drawn_in_turn_and_no_more_than_there_are(ledger: Ledger, store: Store) -> None:
    reserved = reserve(ledger)
    assert [ledger.draw(reserved), ledger.draw(reserved, 4)] == [1, 5]
    with closing(store.open(timeout=PATIENCE)) as other:
        assert other.draw(reserved, 5) == 10
    with pytest.raises(LedgerError, match=r"SF-L109[^🙂]*remaining +0\n"):
        ledger.draw(reserved)
    assert ledger.read_spent(PEOPLE) == HUNDREDTH * 10
    assert ledger.verify().entries == 6


def test_what_was_never_begun_comes_back_once_and_cannot_be_begun_after(ledger: Ledger) -> None:
    reserved = reserve(ledger)
    ledger.draw(reserved, 3)
    assert ledger.give_back(reserved) == HUNDREDTH * 7
    assert ledger.read_spent(PEOPLE) == ledger.read_spent(ADA) == HUNDREDTH * 3
    assert ledger.give_back(reserved) == NOTHING
    with pytest.raises(LedgerError, match="SF-L109"):
        ledger.draw(reserved)
    assert ledger.release(reserved, "a model").seq == reserved.seq
    again = ledger.charge(ask("run"))
    assert isinstance(again, Released)
    assert (again.answer, again.cost) == ("a model", NOTHING)
    assert ledger.verify().releases == 1


def test_nothing_comes_back_after_an_answer(ledger: Ledger) -> None:
    reserved = reserve(ledger)
    ledger.draw(reserved)
    ledger.release(reserved, "a model")
    assert ledger.give_back(reserved) == NOTHING
    with pytest.raises(LedgerError, match="SF-L109"):
        ledger.draw(reserved)
    assert ledger.read_spent(PEOPLE) == HUNDREDTH * 10


def test_without_a_step_there_is_no_answer(ledger: Ledger) -> None:
    """Else all could be given back, and what was read all the same be released for nothing."""
    reserved = reserve(ledger)
    for _ in range(2):
        with pytest.raises(LedgerError, match="SF-L109"):
            ledger.release(reserved, "a model")
        ledger.give_back(reserved)
    assert ledger.read_spent(PEOPLE) == NOTHING
    assert (ledger.verify().charges, ledger.verify().releases) == (1, 0)


def test_no_pure_epsilon_once_is_none_for_ever(ledger: Ledger) -> None:
    """A question without one was asked for; that it was never begun does not bring the old total back."""
    charge = Charge((PEOPLE,), ROUGH, sha256(b"rough").hexdigest(), {})
    reserved = ledger.reserve(charge, 5)
    assert isinstance(reserved, Reserved)
    ledger.draw(reserved, 2)
    ledger.give_back(reserved)
    assert ledger.read_spent(PEOPLE) == ROUGH * 2
    assert ledger.read_spent(PEOPLE).pure is None


def test_a_key_and_a_request_mean_what_they_mean_to_a_charge(ledger: Ledger) -> None:
    reserved = reserve(ledger, key="k")
    with pytest.raises(LedgerError, match="SF-L107"):
        ledger.reserve(ask("run", key="k"), 10)
    with pytest.raises(PolicyError, match="SF-L204"):
        ledger.reserve(ask("another", key="k"), 10)
    ledger.draw(reserved)
    ledger.release(reserved, "a model")
    for again in (ledger.reserve(ask("run", key="k"), 10), ledger.reserve(ask("run"), 99)):
        assert isinstance(again, Released)
    assert ledger.verify().charges == 1


def test_a_plain_charge_is_no_reservation_and_a_forged_one_is_refused(ledger: Ledger) -> None:
    charged, reserved = ledger.charge(ask("plain")), reserve(ledger)
    forged = Reserved(charged.seq, charged.head, NOTHING, "", (PEOPLE, ADA), HUNDREDTH, 5)
    with pytest.raises(LedgerError, match="SF-L109"):
        ledger.draw(forged)
    others = ({"head": "0" * 64}, {"accounts": (PEOPLE,)}, {"step_cost": HUNDREDTH * 9}, {"steps": 99})
    for other in (forged, *(replace(reserved, **each) for each in others)):
        for call in (ledger.draw, ledger.give_back):
            with pytest.raises(LedgerError, match="SF-L109"):
                call(other)
    assert ledger.give_back(reserved) == HUNDREDTH * 10
    assert ledger.read_spent(PEOPLE) == HUNDREDTH


@pytest.mark.parametrize("number", [0, -1, True, 1.0, 10**9 + 1])
def test_steps_are_whole_numbers(ledger: Ledger, number: int) -> None:
    reserved = reserve(ledger)
    for call in (lambda: ledger.reserve(ask("q"), number), lambda: ledger.draw(reserved, number)):
        with pytest.raises(UsageError, match="SF-L302"):
            call()


def test_the_verifier_that_is_not_ours_agrees(ledger: Ledger) -> None:
    check = runpy.run_path(str(VERIFIER))["check_export"]
    first, second = reserve(ledger, 20), reserve(ledger, 30, "second")
    ledger.draw(first, 7)
    ledger.draw(second)
    ledger.give_back(first)
    ledger.release(first, "a model")
    exported = io.StringIO()
    ledger.export(exported)
    lines = exported.getvalue().splitlines()
    assert check(lines, [], None) == str(ledger.verify())
    for entry in ledger.read_entries():
        assert entry.summarize()


# ---- sudden death ------------------------------------------------------------------------------------------

DEATHS = {
    "reserve:begun": (0, 0),
    "reserve:written": (0, 0),
    "reserve:durable": (10, 0),
    "draw:begun": (10, 0),
    "draw:written": (10, 0),
    "draw:durable": (10, 4),
    "return:begun": (10, 4),
    "return:written": (10, 4),
    "return:durable": (4, 4),
}
"""By the step at which someone dies: steps that stay paid for, and steps begun."""


def in_child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", DEATHS)
def test_kill_nine_returns_nothing_by_itself(store: Store, step: str, rounds: int) -> None:
    """What was reserved stays reserved; what the last word says is begun is begun."""
    with closing(store.create()) as ledger:
        ledger.open_account(PEOPLE, Budget(1000))

    def run(number: int) -> None:
        failpoints.reach = lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == step else None
        mine = store.open()
        charge = Charge((PEOPLE,), HUNDREDTH, sha256(f"run {number}".encode()).hexdigest(), {})
        reserved = mine.reserve(charge, 10)
        assert isinstance(reserved, Reserved)
        mine.draw(reserved, 4)
        mine.give_back(reserved)

    for number in range(rounds):
        assert in_child(lambda number=number: run(number)) == -signal.SIGKILL
    paid, _ = DEATHS[step]
    with closing(store.open(timeout=PATIENCE)) as ledger:
        assert ledger.read_spent(PEOPLE) == HUNDREDTH * (paid * rounds) if paid else NOTHING
        drawn = [entry for entry in ledger.read_entries() if entry.kind == "draw"]
        assert len(drawn) == rounds * (DEATHS[step][1] > 0)
