"""Accounts of regions in every ledger: none is left out by mistake, and new regions begin at the largest."""

from __future__ import annotations

import io
import json
import random
import runpy
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.stores import KINDS, Store, store_of

from sfumato.errors import BudgetError, LedgerError, PolicyError, UsageError
from sfumato.ledger import Charge, Charged, Ledger, books
from sfumato.ledger.api import RegionAccounts, Reserved
from sfumato.ledger.books import Books, replay_entries
from sfumato.ledger.chain import Entry
from sfumato.ledger.history import trace_budget
from sfumato.ledger.transaction import BudgetShortage, Transaction
from sfumato.privacy import NOTHING, Budget, Cost, Pure, price
from sfumato.privacy.account import caps as account_caps
from sfumato.privacy.account import find_dearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.ledger.chain import Kind

PEOPLE, A, B = "population:id", "population:id where ward=A", "population:id where ward=B"
ADA = "quota:id:ada"
BUDGET = Budget(1, 1e-6)
TENTH, GAUSSIAN = price(Pure(Fraction(1, 10))), Cost(None, (10**10,) * 12, 2**20)
PRICES = [TENTH, GAUSSIAN, price(Pure(Fraction(1, 50)))]
FIRST, SECOND, THIRD = "a" * 32, "b" * 32, "c" * 32
VERIFIER = Path(__file__).parents[2] / "tools" / "verify_ledger.py"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, tmp_path)


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    with closing(store.create(timeout=60)) as ledger:
        open_accounts(ledger, PEOPLE, A, B)
        ledger.grant(ADA, BUDGET)
        ledger.note_snapshot("visits", FIRST, None, RegionAccounts("id", FIRST, (PEOPLE, A, B)))
        yield ledger


def check(lines: list[str]) -> str:
    """What the stand-alone verifier says."""
    return str(runpy.run_path(str(VERIFIER))["check_export"](iter(lines), [], None))


def open_accounts(ledger: Ledger, *names: str) -> None:
    for name in names:
        ledger.open_account(name, BUDGET, "add-remove")


def ask(*accounts: str, cost: Cost = TENTH, regions: str | None = None, name: str = "a question") -> Charge:
    request = sha256(f"{name} {accounts} {cost}".encode()).hexdigest()
    return Charge(accounts, cost, request, {}, neighbours="add-remove", regions=regions)


def spent(ledger: Ledger) -> tuple[Cost, ...]:
    return tuple(ledger.read_spent(name) for name in (PEOPLE, A, B))


def test_a_charge_to_some_regions_names_the_snapshot_that_divides(ledger: Ledger) -> None:
    ledger.charge(ask(A, ADA, regions=FIRST))
    ledger.charge(ask(PEOPLE, A, B))
    assert spent(ledger) == (TENTH, TENTH * 2, TENTH)
    for wrong in (ask(A), ask(PEOPLE), ask(A, B), ask(A, regions=SECOND), ask(PEOPLE, ADA)):
        with pytest.raises(PolicyError, match="SF-L206"):
            ledger.charge(wrong)
    ledger.charge(ask(PEOPLE, cost=NOTHING))  # nothing is nothing in every region
    assert spent(ledger) == (TENTH, TENTH * 2, TENTH)


def test_reservations_are_for_all_regions(ledger: Ledger) -> None:
    """Else what is given back could lower an account below one that took its total over."""
    for wrong in (ask(A, regions=FIRST), ask(A), ask(PEOPLE, ADA)):
        with pytest.raises(PolicyError, match="SF-L206"):
            ledger.reserve(wrong, 3)
    reserved = ledger.reserve(ask(PEOPLE, A, B), 3)
    assert isinstance(reserved, Reserved)
    ledger.charge(ask(A, regions=FIRST))
    ledger.note_snapshot("visits", SECOND, None, RegionAccounts("id", SECOND, (PEOPLE, A, B)))
    ledger.give_back(reserved)
    assert spent(ledger) == (TENTH,) * 3


def test_a_new_snapshot_raises_every_account_to_the_largest_total(ledger: Ledger, store: Store) -> None:
    ledger.charge(ask(A, regions=FIRST))
    ledger.charge(ask(B, cost=GAUSSIAN, regions=FIRST))
    ledger.note_snapshot("visits", SECOND, None, RegionAccounts("id", SECOND, (PEOPLE, A, B)))
    largest = find_dearest([TENTH, GAUSSIAN])
    assert largest.pure is None
    assert spent(ledger) == (largest,) * 3
    with pytest.raises(PolicyError, match="SF-L206"):
        ledger.charge(ask(A, regions=FIRST, name="another"))
    ledger.charge(ask(A, regions=SECOND, name="another"))
    with closing(store.open()) as again:
        assert spent(again) == spent(ledger) == (largest, largest + TENTH, largest)
        found = again.read_regions("id")
        assert found == RegionAccounts("id", SECOND, (PEOPLE, A, B))
    exported = io.StringIO()
    ledger.export(exported)
    assert check(exported.getvalue().splitlines()) == str(ledger.verify())


def test_what_was_reserved_apart_from_a_population_stays_with_its_region(store: Store) -> None:
    """Its total is also what others were charged, as the account was raised to theirs."""
    with closing(store.create(timeout=60)) as ledger:
        open_accounts(ledger, PEOPLE, A)
        ledger.charge(ask(PEOPLE))
        reserved = ledger.reserve(ask(A), 3)
        assert isinstance(reserved, Reserved)
        ledger.note_snapshot("visits", FIRST, None, RegionAccounts("id", FIRST, (PEOPLE, A)))
        ledger.give_back(reserved)
        assert ledger.read_spent(A) == ledger.read_spent(PEOPLE) == TENTH * 3
        assert trace_budget(ledger, A)[-1].left_epsilon == pytest.approx(0.7)
        lines = io.StringIO()
        ledger.export(lines)
        assert check(lines.getvalue().splitlines()) == str(ledger.verify())


def test_what_no_filter_holds_any_more_admits_nothing(ledger: Ledger) -> None:
    """One region has spent its pure ε, another has none: together no filter is left, and none is invented."""
    ledger.charge(ask(A, cost=price(Pure(Fraction(1))), regions=FIRST))
    ledger.charge(ask(B, cost=GAUSSIAN, regions=FIRST))
    ledger.note_snapshot("visits", SECOND, None, RegionAccounts("id", SECOND, (PEOPLE, A, B)))
    with pytest.raises(BudgetError, match="SF-B101"):
        ledger.charge(ask(B, regions=SECOND))
    ledger.verify()


def test_accounts_that_are_no_longer_regions_keep_what_they_had(ledger: Ledger) -> None:
    ledger.charge(ask(A, regions=FIRST))
    open_accounts(ledger, "population:id where ward=C")
    fewer = RegionAccounts("id", SECOND, (PEOPLE, "population:id where ward=C"))
    ledger.note_snapshot("visits", SECOND, None, fewer)
    assert ledger.read_spent("population:id where ward=C") == TENTH
    for old in (ask(A, regions=FIRST, name="more"), ask(A, regions=SECOND, name="more")):
        with pytest.raises(PolicyError, match="SF-L206"):
            ledger.charge(old)


def test_regions_need_accounts_of_units_that_come_and_go(ledger: Ledger) -> None:
    ledger.open_account("population:voters", BUDGET, "replace-one")
    with pytest.raises(PolicyError, match="SF-L205"):
        ledger.note_snapshot("v", SECOND, None, RegionAccounts("voters", SECOND, ("population:voters",)))
    with pytest.raises(PolicyError, match="SF-L202"):
        ledger.note_snapshot("v", SECOND, None, RegionAccounts("no", SECOND, ("population:no",)))
    for wrong in ((A, B), (B, A, PEOPLE), (PEOPLE, ADA)):
        with pytest.raises(UsageError, match="SF-L302"):
            RegionAccounts("id", SECOND, wrong)


def test_a_forged_chain_that_leaves_a_region_out_is_broken() -> None:
    books = Books()
    transaction = begin(books, [PEOPLE, A, B])
    charge = ask(A, regions=FIRST)
    transaction.charge(charge)
    lines = [entry.to_json() for entry in transaction.entries]
    assert replay_entries(map(Entry.from_json, lines)).accounts[A].spent == TENTH
    last = transaction.entries[-1]
    said = json.loads(last.body)
    for fields in (said | {"regions": SECOND}, {name: said[name] for name in said if name != "regions"}):
        forged = Entry.make_next(last.seq - 1, last.prev, "charge", json.dumps(fields))
        with pytest.raises(LedgerError, match="it leaves out a region"):
            replay_entries(map(Entry.from_json, [*lines[:-1], forged.to_json()]))
        assert check([*lines[:-1], forged.to_json()]).endswith("it leaves out a region")


# ---- an analyst who adapts, and units that move ------------------------------------------------------------


def begin(books: Books, names: list[str]) -> Transaction:
    transaction = Transaction(books)
    for name in names:
        transaction.set_terms("account", name, BUDGET, "add-remove")
    transaction.note_snapshot("visits", FIRST, None, RegionAccounts("id", FIRST, tuple(sorted(names))))
    return transaction


@pytest.mark.parametrize("seed", range(30))
def test_no_unit_was_ever_charged_more_than_the_account_that_it_is_in(seed: int) -> None:
    """Questions to random regions, runs that give back, and snapshots that move everyone, in any order."""
    draw, names = random.Random(seed), [PEOPLE, A, B]
    books = begin(Books(), names).apply_to_books()
    units = {(one, two): NOTHING for one in names for two in names}
    """What units lost that were in one region and are now in another."""
    snapshot, open_runs, now = FIRST, [], 1
    for step in range(60):
        transaction = Transaction(books)
        match draw.choice(["some", "some", "some", "all", "move", "run", "return"]):
            case "some" | "all" as which:
                paid = draw.sample(names, 3 if which == "all" else draw.choice([1, 2]))
                cost = draw.choice(PRICES)
                regions = snapshot if len(paid) < 3 else None
                done = transaction.charge(ask(*paid, cost=cost, regions=regions, name=str(step)))
                if isinstance(done, Charged):
                    units = {each: lost + cost if each[now] in paid else lost for each, lost in units.items()}
            case "run":
                done = transaction.reserve(ask(*names, name=str(step)), 3)
                if not isinstance(done, BudgetShortage):
                    assert isinstance(done, Reserved)
                    open_runs.append(done)
                    drawn = draw.randint(0, 3)
                    if drawn:
                        transaction.draw(done, drawn)
                    units = {each: lost + TENTH * drawn for each, lost in units.items()}
            case "return" if open_runs:
                transaction.give_back(open_runs.pop())
            case "move":
                snapshot = f"{step:032x}"
                regions = RegionAccounts("id", snapshot, tuple(sorted(names)))
                transaction.note_snapshot("visits", snapshot, None, regions)
                # From each region someone moves to each: the worst off of those who are there now.
                worst = {
                    name: find_dearest([units[each] for each in units if each[now] == name]) for name in names
                }
                units = {(one, two): worst[one] for one, two in units}
        books = transaction.apply_to_books()
        for each, lost in units.items():
            state = books.accounts[each[now]]
            assert find_dearest([lost, state.spent]) == state.spent, (seed, step)
    assert any(lost != NOTHING for lost in units.values())


# ---- units that keep their region --------------------------------------------------------------------------


def pinned(identity: str, follows: str = "", names: tuple[str, ...] = (PEOPLE, A, B)) -> RegionAccounts:
    return RegionAccounts("id", identity, names, follows)


def test_pinned_regions_that_go_on_keep_their_totals(ledger: Ledger, store: Store) -> None:
    ledger.note_snapshot("visits", SECOND, None, pinned(SECOND))
    ledger.charge(ask(A, regions=SECOND))
    ledger.charge(ask(B, cost=GAUSSIAN, regions=SECOND))
    ledger.note_snapshot("visits", THIRD, None, pinned(THIRD, follows=SECOND))
    assert spent(ledger) == (NOTHING, TENTH, GAUSSIAN)
    with pytest.raises(PolicyError, match="SF-L206"):
        ledger.charge(ask(A, regions=SECOND, name="late"))
    ledger.charge(ask(A, regions=THIRD, name="late"))
    with closing(store.open()) as again:
        assert spent(again) == spent(ledger) == (NOTHING, TENTH * 2, GAUSSIAN)
        assert again.read_regions("id") == pinned(THIRD, follows=SECOND)
        assert trace_budget(again, A)[-1].left_epsilon == pytest.approx(0.8)
    exported = io.StringIO()
    ledger.export(exported)
    assert check(exported.getvalue().splitlines()) == str(ledger.verify())


OTHERS: dict[str, tuple[RegionAccounts, RegionAccounts]] = {
    "a memory that begins": (pinned(SECOND), pinned(THIRD)),
    "the memory of another copy": (pinned(SECOND), pinned(THIRD, follows=FIRST)),
    "units that could move before": (RegionAccounts("id", SECOND, (PEOPLE, A, B)), pinned(THIRD, SECOND)),
    "units that may move from now on": (pinned(SECOND), RegionAccounts("id", THIRD, (PEOPLE, A, B))),
    "fewer regions": (pinned(SECOND), pinned(THIRD, SECOND, (PEOPLE, A))),
    "more regions": (pinned(SECOND, names=(PEOPLE, A)), pinned(THIRD, SECOND)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_does_not_go_on_is_levelled(name: str) -> None:
    first, second = OTHERS[name]
    transaction = begin(Books(), [PEOPLE, A, B])
    transaction.note_snapshot("visits", SECOND, None, first)
    transaction.charge(ask(A, regions=SECOND))
    transaction.note_snapshot("visits", THIRD, None, second)
    books = transaction.apply_to_books()
    named = {*first.accounts, *second.accounts}
    assert {books.accounts[each].spent for each in named} == {TENTH}
    lines = [entry.to_json() for entry in transaction.entries]
    assert replay_entries(map(Entry.from_json, lines)).accounts == books.accounts
    assert check(lines) == str(books.summarize())


def test_a_forged_chain_gains_nothing_from_what_it_says_to_follow() -> None:
    """With one ε left for everyone, a total that was not raised would admit what the true chain refuses."""
    transaction = begin(Books(), [PEOPLE, A, B])
    transaction.note_snapshot("visits", SECOND, None, pinned(SECOND))
    transaction.charge(ask(A, cost=price(Pure(Fraction(1))), regions=SECOND))
    transaction.note_snapshot("visits", THIRD, None, pinned(THIRD, follows=SECOND))
    transaction.charge(ask(B, cost=price(Pure(Fraction(1))), regions=THIRD))
    entries = transaction.entries
    assert check([each.to_json() for each in entries]) == str(replay_entries(entries).summarize())
    said = json.loads(entries[-2].body)
    wrong: list[tuple[Kind, dict[str, Any], str]] = [
        ("pinned", said | {"follows": FIRST}, "it spends more than was left"),
        ("pinned", said | {"accounts": dict.fromkeys(said["accounts"])}, "its content cannot be read"),
        ("pinned", said | {"follows": ""}, "it spends more than was left"),
        ("pinned", said | {"follows": "x"}, "its content cannot be read"),
        ("pinned", said | {"follows": None}, "its regions are of another kind"),
        ("regions", said, "its regions are of another kind"),
    ]
    for kind, fields, why in wrong:
        forged = Entry.make_next(entries[-2].seq - 1, entries[-2].prev, kind, json.dumps(fields))
        last = Entry.make_next(forged.seq, forged.hash, "charge", entries[-1].body)
        chain = [*entries[:-2], forged, last]
        with pytest.raises(LedgerError, match=why):
            replay_entries(chain)
        assert check([each.to_json() for each in chain]).startswith("BROKEN")


@dataclass
class Someone:
    """One unit, which may come, move, go and come back."""

    home: str | None = None
    """The region that is remembered; None as long as the unit was in no snapshot."""
    here: bool = False
    """Whether the unit has a row in the newest snapshot."""
    lost: Cost = NOTHING

    def can_be_in(self, names: list[str]) -> list[str]:
        return names if self.home is None else [self.home]

    def prepare(self, named: str | None) -> None:
        """Take the unit into the next snapshot, whose rows name this region, if it has any."""
        if named is not None and self.home is None:
            self.home = named
        self.here = named is not None and named == self.home


class Years:
    """A ledger of pinned regions, and some units, over many random entries.

    `absent_are_in` is the account that units without a row are held to be in: none, unless by mistake.
    """

    def __init__(self, seed: int, absent_are_in: str | None = None) -> None:
        self.draw, self.names, self.absent_are_in = random.Random(seed), [PEOPLE, A, B], absent_are_in
        transaction = begin(Books(), self.names)
        transaction.note_snapshot("visits", SECOND, None, pinned(SECOND))
        self.books, self.older = transaction.apply_to_books(), [FIRST, SECOND]
        self.units, self.runs = [Someone() for _ in range(12)], list[tuple[Reserved, Cost]]()
        for unit in self.units:
            unit.prepare(self.draw.choice([None, *self.names]))

    def go_on(self, step: int) -> None:
        kinds = [self.ask_some, self.ask_some, self.ask_some, self.ask_all, self.advance, self.advance]
        transaction = Transaction(self.books)
        self.draw.choice([*kinds, self.lose_memory, self.run, self.give_back])(transaction, step)
        self.books = transaction.apply_to_books()
        waiting = sum((rest for _, rest in self.runs), NOTHING)
        for unit in self.units:
            for name in unit.can_be_in(self.names):
                total = self.books.accounts[name].spent
                assert find_dearest([unit.lost + waiting, total]) == total, step

    def ask_some(self, transaction: Transaction, step: int) -> None:
        paid, cost = self.draw.sample(self.names, self.draw.choice([1, 2])), self.draw.choice(PRICES)
        charge = ask(*paid, cost=cost, regions=self.older[-1], name=str(step))
        if isinstance(transaction.charge(charge), Charged):
            for unit in self.units:
                place = unit.home if unit.here else self.absent_are_in
                unit.lost += cost if place in paid else NOTHING

    def ask_all(self, transaction: Transaction, step: int) -> None:
        cost = self.draw.choice(PRICES)
        if isinstance(transaction.charge(ask(*self.names, cost=cost, name=str(step))), Charged):
            self.lose(cost)

    def run(self, transaction: Transaction, step: int) -> None:
        done = transaction.reserve(ask(*self.names, name=str(step)), 3)
        if isinstance(done, Reserved):
            drawn = self.draw.randint(1, 3)
            transaction.draw(done, drawn)
            self.runs.append((done, TENTH * (3 - drawn)))
            self.lose(TENTH * drawn)

    def give_back(self, transaction: Transaction, _: int) -> None:
        if self.runs:
            transaction.give_back(self.runs.pop()[0])

    def advance(self, transaction: Transaction, step: int) -> None:
        self.note(transaction, step, self.older[-1])

    def lose_memory(self, transaction: Transaction, step: int) -> None:
        """Begin anew, or by an older copy of what was remembered: the ledger goes on from neither."""
        for unit in self.draw.sample(self.units, 6):
            unit.home = None
        self.note(transaction, step, self.draw.choice(["", *self.older[:-1]]))

    def note(self, transaction: Transaction, step: int, follows: str) -> None:
        self.older.append(f"{step:032x}")
        transaction.note_snapshot("visits", self.older[-1], None, pinned(self.older[-1], follows))
        for unit in self.units:
            unit.prepare(self.draw.choice([None, unit.home, unit.home, *self.names]))

    def lose(self, cost: Cost) -> None:
        for unit in self.units:
            unit.lost += cost


@pytest.mark.parametrize("seed", range(15))
def test_no_pinned_unit_was_charged_more_than_an_account_that_it_can_be_in(seed: int) -> None:
    years = Years(seed)
    for step in range(80):
        years.go_on(step)
    assert any(unit.lost != NOTHING for unit in years.units)


def test_units_without_a_row_that_counted_in_no_region_would_be_noticed() -> None:
    """They may be pinned elsewhere, or be pinned there later."""
    years = Years(1, absent_are_in=PEOPLE)
    with pytest.raises(AssertionError):
        list(map(years.go_on, range(80)))


def test_regions_have_the_filters_of_their_population(store: Store) -> None:
    """An account of an older version has no filter of Gaussian DP, and its regions then have none either."""
    with closing(store.create(timeout=60)) as ledger, pytest.MonkeyPatch.context() as older:
        older.setattr(books, "caps_of", lambda budget, gaussian=True: account_caps(budget, gaussian=False))
        ledger.open_account(PEOPLE, BUDGET, "add-remove")
        older.undo()
        open_accounts(ledger, A, B)
        assert ledger.read_allowance(A).caps.gaussian is not None
        ledger.note_snapshot("visits", FIRST, None, RegionAccounts("id", FIRST, (PEOPLE, A, B)))
        assert {ledger.read_allowance(name).caps for name in (PEOPLE, A, B)} == {
            account_caps(BUDGET, gaussian=False)
        }
        ledger.export(exported := io.StringIO())
    entries = map(Entry.from_json, exported.getvalue().splitlines())
    assert replay_entries(entries).accounts[A].caps.gaussian is None


def test_caps_beyond_the_budget_are_refused() -> None:
    fields = books.write_terms(PEOPLE, BUDGET, "add-remove")
    for name in ("pure", "side"):
        forged = {**fields, "caps": {**fields["caps"], name: fields["caps"][name] + 1}}
        with pytest.raises(LedgerError, match="exceed"):
            Books().set_terms("account", forged)
