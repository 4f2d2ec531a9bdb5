"""A ledger against a reference that fits on a page, over whatever sequence of calls hypothesis thinks of."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.conformance import servers
from tests.conformance.stores import store_of

from sfumato.errors import SfumatoError
from sfumato.ledger import Charge, Charged, Released, Reserved
from sfumato.ledger.group_commit import Job
from sfumato.privacy import NOTHING, Budget, Cost, Pure, caps, price
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.store import StoredLedger
    from sfumato.ledger.transaction import Transaction
    from sfumato.privacy.account import Caps

NAMES = ("population:a", "population:b", "quota:a:ada", "quota:a:bob")
BUDGETS = (Budget(1), Budget(0.5), Budget(2, 1e-6))
PURE = tuple(price(Pure(Fraction(epsilon))) for epsilon in ("1/10", "1/3", "1"))
SMALL = (NOTHING, price(Pure(Fraction(1, 40))), Cost(None, (10**8,) * 12, 2**20))
CROWD = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(SMALL),
    st.sampled_from("pqrstuvwxyz"),
    st.sampled_from([None] * 8 + ["k", "l"]),
)
UNKNOWN = Charged(0, "", NOTHING, "")
COSTS = (NOTHING, *PURE, Cost(None, (10**9,) * 12, 0), Cost(10**11, (10**11,) * 12, 2**38))


@dataclass
class Asked:
    """A charge the reference has accepted."""

    accounts: tuple[str, ...]
    request: str
    key: str | None
    charged: Charged
    answer: str | None = None
    answered: int = 0
    """When, counted in releases."""
    steps: int | None = None
    """Of a reservation."""
    drawn: int = 0
    returned: int = 0
    unread: bool = False
    """Whether it was given up before anything was read."""
    given_up: int = 0
    """When, counted in entries."""

    @property
    def rest(self) -> int:
        return 0 if self.answer is not None else (self.steps or 0) - self.drawn - self.returned


@dataclass
class Reference:
    """What the ledger should say, by lists and loops."""

    opened: dict[str, str] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    spent: dict[str, Cost] = field(default_factory=dict)
    caps: dict[str, Caps] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    entries: int = 0
    resumed: Asked | None = None
    """The charge that was begun again last."""

    def set_budget(self, kind: str, name: str, budget: Budget) -> str:
        if (self.opened.get(name), self.budgets.get(name)) == (kind, budget):
            return "done"
        if name in self.opened and (kind, self.opened[name]) != ("grant", "grant"):
            return "SF-L201"
        self.opened[name], self.budgets[name] = kind, budget
        known = self.spent.setdefault(name, NOTHING).gaussian is not None
        self.caps[name] = caps(budget, gaussian=known)
        self.entries += 1
        return "done"

    def kept(self, request: str) -> Asked | None:
        answered = [asked for asked in self.asked if asked.request == request and asked.answer is not None]
        return min(answered, key=lambda asked: asked.answered, default=None)

    def unread(self, charge: Charge) -> Asked | None:
        """The first charge that was given up, of those that cost as much and ask the same."""
        asked = (charge.accounts, charge.request, charge.key, charge.cost)
        same = [a for a in self.asked if (a.accounts, a.request, a.key, a.charged.cost) == asked and a.unread]
        return min(same, key=lambda each: each.given_up, default=None)

    def charge(self, charge: Charge, steps: int | None = None) -> str:
        """The code of the refusal, "charged", or the answer given for nothing."""
        for name in sorted(charge.accounts):
            if name not in self.opened:
                return "SF-B103"
        mine = [asked for asked in self.asked if asked.accounts == charge.accounts]
        keyed = next((asked for asked in mine if charge.key and asked.key == charge.key), None)
        if keyed is not None and keyed.request != charge.request:
            return "SF-L204"
        if keyed is not None and keyed.answer is not None:
            return keyed.answer
        if kept := self.kept(charge.request):
            return str(kept.answer)
        if steps is None and (unread := self.unread(charge)):
            unread.unread, self.entries, self.resumed = False, self.entries + 1, unread
            return "resumed"
        return "SF-L107" if keyed is not None else self._pay(charge, charge.cost * (steps or 1))

    def reserved(self) -> list[tuple[Asked, Reserved]]:
        return [(asked, asked.charged) for asked in self.asked if isinstance(asked.charged, Reserved)]

    def _pay(self, charge: Charge, cost: Cost) -> str:
        for name in sorted(charge.accounts):
            if not self.caps[name].admits(self.spent[name], cost):
                return "SF-B102" if name.startswith("quota") else "SF-B101"
        for name in charge.accounts:
            self.spent[name] += cost
        self.entries += 1
        return "charged"

    def give_back(self, asked: Asked, each: Cost) -> Cost:
        rest, asked.returned = asked.rest, asked.returned + asked.rest
        if rest == 0:
            return NOTHING
        for name in asked.accounts:
            self.spent[name] = less(self.spent[name], each * rest)
        self.entries += 1
        return each * rest


def less(spent: Cost, cost: Cost) -> Cost:
    pure = None if spent.pure is None or cost.pure is None else spent.pure - cost.pure
    renyi = tuple(a - b for a, b in zip(spent.renyi, cost.renyi, strict=True))
    known = spent.gaussian is not None and cost.gaussian is not None
    normal = [a - b for a, b in zip(spent.gaussian or (), cost.gaussian or (), strict=False)]
    return Cost(pure, renyi, spent.side - cost.side, tuple(normal) if known else None)


class LedgerMachine(RuleBasedStateMachine):
    """Subclasses say which kind of ledger it is, and after how many steps each all of it is verified."""

    kind: ClassVar[str]
    every: ClassVar[int] = 1
    looks: ClassVar[int] = 1
    """After how many steps each the accounts are compared."""
    opens: ClassVar[int] = 1
    """After how many steps each someone may open the ledger anew."""
    done: ClassVar[int] = 0
    """Operations of all runs."""
    crowd: ClassVar[int] = 4
    """Charges that share a commit, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = store_of(self.kind, self.folder)
        self.ledger: StoredLedger = self.store.create(timeout=PATIENCE)  # type: ignore[assignment]
        self.reference = Reference()
        self.steps = 0

    def teardown(self) -> None:
        self.accounts_agree()
        self.all_entries_agree()
        self.ledger.close()
        shutil.rmtree(self.folder)

    @rule(name=st.sampled_from(NAMES), budget=st.sampled_from(BUDGETS))
    def open_account(self, name: str, budget: Budget) -> None:
        expected = self.reference.set_budget("account", name, budget)
        assert said(partial(self.ledger.open_account, name, budget)) == expected

    @rule(name=st.sampled_from(NAMES), budget=st.sampled_from(BUDGETS))
    def grant(self, name: str, budget: Budget) -> None:
        expected = self.reference.set_budget("grant", name, budget)
        assert said(partial(self.ledger.grant, name, budget)) == expected

    @rule(
        accounts=st.sets(st.sampled_from(NAMES), min_size=1),
        cost=st.sampled_from(COSTS),
        request=st.sampled_from("pqrs"),
        key=st.sampled_from([None, None, "k", "l", "m"]),
    )
    def charge(self, accounts: set[str], cost: Cost, request: str, key: str | None) -> None:
        charge = Charge(tuple(accounts), cost, hash_text(request), {"table": "t"}, key)
        expected = self.reference.charge(charge)
        got: list[Charged | Released] = []
        assert said(lambda: got.append(self.ledger.charge(charge))) in (expected, "done")
        match got:
            case [Charged() as charged] if expected == "resumed":
                assert self.reference.resumed is not None
                assert self.reference.resumed.charged.seq == charged.seq
                self.reference.resumed.charged = charged
            case [Charged() as charged]:
                assert expected == "charged"
                self.reference.asked.append(Asked(charge.accounts, charge.request, key, charged))
            case [Released() as released]:
                assert (expected, NOTHING, True) == (released.answer, released.cost, released.replayed)

    @rule(
        accounts=st.sets(st.sampled_from(NAMES), min_size=1, max_size=2),
        cost=st.sampled_from(SMALL),
        request=st.sampled_from("pqrs"),
        key=st.sampled_from([None, None, "k", "n"]),
        number=st.integers(1, 6),
    )
    def reserve(self, accounts: set[str], cost: Cost, request: str, key: str | None, number: int) -> None:
        charge = Charge(tuple(accounts), cost, hash_text(request), {"table": "t"}, key)
        expected = self.reference.charge(charge, number)
        got: list[Reserved | Released] = []
        assert said(lambda: got.append(self.ledger.reserve(charge, number))) in (expected, "done")
        match got:
            case [Reserved() as reserved]:
                assert (expected, cost * number) == ("charged", reserved.cost)
                asked = Asked(charge.accounts, charge.request, key, reserved, steps=number)
                self.reference.asked.append(asked)
            case [Released() as released]:
                assert (expected, NOTHING, True) == (released.answer, released.cost, released.replayed)

    @initialize(data=st.data())
    def begin_with_a_crowd(self, data: st.DataObject) -> None:
        for name in data.draw(st.sets(st.sampled_from(NAMES), min_size=1)):
            self.open_account(name, BUDGETS[2])
        self.charge_together(data)

    @rule(data=st.data())
    def charge_together(self, data: st.DataObject) -> None:
        """Threads that share a commit, in an order that is known."""
        asked = data.draw(st.lists(CROWD, min_size=self.crowd // 2, max_size=self.crowd))
        charges = [Charge((name,), cost, hash_text(request), {}, key) for name, cost, request, key in asked]
        expected = [self.expect(charge) for charge in charges]
        got = [outcome(partial(self.settle, *each)) for each in zip(charges, self.lead(charges), strict=True)]
        for mine, (charge, told) in zip(expected, zip(charges, got, strict=True), strict=True):
            match told:
                case Charged():
                    assert isinstance(mine, Asked)
                    mine.charged = told
                case Released():
                    assert mine == told.answer
                case _:
                    assert mine == told, charge
        type(self).done += len(charges) - 1

    def expect(self, charge: Charge) -> Asked | str | None:
        expected = self.reference.charge(charge)
        if expected == "resumed":
            return self.reference.resumed
        if expected != "charged":
            return expected
        self.reference.asked.append(Asked(charge.accounts, charge.request, charge.key, UNKNOWN))
        return self.reference.asked[-1]

    def lead(self, charges: list[Charge]) -> list[Job[Any]]:
        group = self.ledger._database.queue
        jobs = [Job("charge", partial(charge_in, charge)) for charge in charges]
        group._queue.extend(jobs)
        self.ledger._lead()
        return jobs

    def settle(self, charge: Charge, job: Job[Any]) -> object:
        return self.ledger._settle(charge, job.take_result())

    @precondition(lambda self: self.reference.reserved())
    @rule(data=st.data(), number=st.integers(1, 4))
    def draw(self, data: st.DataObject, number: int) -> None:
        asked, reserved = data.draw(st.sampled_from(self.reference.reserved()))
        expected = "done" if number <= asked.rest else "SF-L109"
        assert said(partial(self.ledger.draw, reserved, number)) == expected
        if expected == "done":
            self.reference.entries += 1
            asked.drawn += number

    @precondition(lambda self: self.reference.reserved())
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        asked, reserved = data.draw(st.sampled_from(self.reference.reserved()))
        assert self.ledger.give_back(reserved) == self.reference.give_back(asked, reserved.step_cost)

    @precondition(lambda self: self.reference.asked)
    @rule(data=st.data())
    def note_unread(self, data: st.DataObject) -> None:
        asked = data.draw(st.sampled_from(self.reference.asked))
        is_open = asked.answer is None and asked.steps is None and not asked.unread
        assert said(partial(self.ledger.note_unread, asked.charged)) == ("done" if is_open else "SF-L109")
        if is_open:
            self.reference.entries += 1
            asked.unread, asked.given_up = True, self.reference.entries

    @precondition(lambda self: self.reference.asked)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        asked = data.draw(st.sampled_from(self.reference.asked))
        answer = f"answer {self.reference.entries}"
        expected = "done" if asked.answer is None and not asked.unread else "SF-L109"
        if asked.steps is not None and asked.drawn == 0:
            expected = "SF-L109"
        assert said(partial(self.ledger.release, asked.charged, answer)) == expected
        if expected == "done":
            self.reference.entries += 1
            asked.answer, asked.answered = answer, self.reference.entries

    @precondition(lambda self: self.steps % self.opens == 0)
    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = self.store.open(timeout=PATIENCE)

    @rule(request=st.sampled_from("pqrs"))
    def find(self, request: str) -> None:
        found, kept = self.ledger.find_release(hash_text(request)), self.reference.kept(hash_text(request))
        assert (found and found.answer) == (kept and kept.answer)

    @precondition(lambda self: self.steps % self.opens == 0)
    @rule()
    def ask_a_second_reader(self) -> None:
        with closing(self.store.open(timeout=PATIENCE)) as other:
            assert other.verify() == self.ledger.verify()

    @invariant()
    def the_books_agree(self) -> None:
        self.steps += 1
        type(self).done += 1
        if self.steps % self.looks == 0:
            self.accounts_agree()
        if self.steps % self.every == 0:
            self.all_entries_agree()

    def accounts_agree(self) -> None:
        reference, ledger = self.reference, self.ledger
        assert ledger.list_accounts() == tuple(sorted(reference.opened))
        assert {name: ledger.read_spent(name) for name in reference.opened} == reference.spent
        assert {name: ledger.read_budget(name) for name in reference.opened} == reference.budgets

    def all_entries_agree(self) -> None:
        reference, verified = self.reference, self.ledger.verify()
        answered = [asked for asked in reference.asked if asked.answer is not None]
        counts = (verified.entries, verified.charges, verified.releases)
        assert counts == (reference.entries, len(reference.asked), len(answered))


def said(call: Callable[[], object]) -> str:
    """The code of the refusal, or "done"."""
    try:
        call()
    except SfumatoError as refusal:
        return refusal.code
    return "done"


def outcome(call: Callable[[], object]) -> object:
    """What it gave, or the code of the refusal."""
    try:
        return call()
    except SfumatoError as refusal:
        return refusal.code


def charge_in(charge: Charge, transaction: Transaction) -> object:
    return transaction.charge(charge)


def hash_text(name: str) -> str:
    return sha256(name.encode()).hexdigest()


class SqliteMachine(LedgerMachine):
    kind = "sqlite"


class LongSqliteMachine(LedgerMachine):
    kind = "sqlite"
    every = 25
    looks = 4
    opens = 4


class PostgresMachine(LedgerMachine):
    kind = "postgres"
    every = 10


class LongPostgresMachine(LedgerMachine):
    kind = "postgres"
    every = 100
    looks = 25
    opens = 12
    crowd = 200


def run(machine: type[LedgerMachine], examples: int, length: int) -> None:
    servers.running() if machine.kind == "postgres" else None
    chosen = settings(
        max_examples=examples,
        stateful_step_count=length,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(machine, settings=chosen)  # type: ignore[no-untyped-call]


def test_sqlite_agrees_with_the_reference() -> None:
    run(SqliteMachine, 40, 30)


def test_postgres_agrees_with_the_reference() -> None:
    run(PostgresMachine, 5, 30)


@pytest.mark.slow
def test_a_hundred_thousand_operations_on_sqlite_agree_with_the_reference() -> None:
    run(LongSqliteMachine, 1020, 100)
    assert LongSqliteMachine.done >= 10**5


@pytest.mark.slow
def test_a_hundred_thousand_operations_on_postgres_agree_with_the_reference() -> None:
    run(LongPostgresMachine, 230, 100)
    assert LongPostgresMachine.done >= 10**5
