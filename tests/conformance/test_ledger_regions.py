"""Accounts of regions in every ledger: none is left out by mistake, and new regions begin at the largest."""

from __future__ import annotations

import io
import json
import random
import runpy
from contextlib import closing
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conformance.stores import KINDS, Store, store_of

from sfumato.errors import BudgetError, LedgerError, PolicyError, UsageError
from sfumato.ledger import Charge, Charged, Ledger, books
from sfumato.ledger.api import RegionAccounts, Reserved
from sfumato.ledger.books import Books, replay_entries
from sfumato.ledger.chain import Entry
from sfumato.ledger.transaction import BudgetShortage, Transaction
from sfumato.privacy import NOTHING, Budget, Cost, Pure, price
from sfumato.privacy.account import caps as account_caps
from sfumato.privacy.account import find_dearest

if TYPE_CHECKING:
    from collections.abc import Iterator

PEOPLE, A, B = "population:id", "population:id where ward=A", "population:id where ward=B"
ADA = "quota:id:ada"
BUDGET = Budget(1, 1e-6)
TENTH, GAUSSIAN = price(Pure(Fraction(1, 10))), Cost(None, (10**10,) * 12, 2**20)
FIRST, SECOND = "a" * 32, "b" * 32
VERIFIER = Path(__file__).parents[2] / "tools" / "verify_ledger.py"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, tmp_path)


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    with closing(store.create(timeout=0)) as ledger:
        open_accounts(ledger, PEOPLE, A, B)
        ledger.grant(ADA, BUDGET)
        ledger.note_snapshot("visits", FIRST, None, RegionAccounts("id", FIRST, (PEOPLE, A, B)))
        yield ledger


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
    said = runpy.run_path(str(VERIFIER))["check_export"](iter(exported.getvalue().splitlines()), [], None)
    assert said == str(ledger.verify())


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
        check = runpy.run_path(str(VERIFIER))["check_export"]
        assert check(iter([*lines[:-1], forged.to_json()]), [], None).endswith("it leaves out a region")


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
                cost = draw.choice([TENTH, GAUSSIAN, price(Pure(Fraction(1, 50)))])
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


def test_regions_have_the_filters_of_their_population(store: Store) -> None:
    """An account of an older version has no filter of Gaussian DP, and its regions then have none either."""
    with closing(store.create(timeout=0)) as ledger, pytest.MonkeyPatch.context() as older:
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
