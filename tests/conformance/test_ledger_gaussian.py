"""The filter of Gaussian DP in every ledger: kept, replayed, checked by others; older accounts have none."""

from __future__ import annotations

import io
import json
import runpy
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.stores import KINDS, Store, store_of

from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger import Charge, Charged, Entry, Ledger, Reserved, replay_entries
from sfumato.ledger.chain import hash_entry
from sfumato.privacy import NOTHING, Budget, Cost, Gaussian, RenyiCurve, caps, price, share_sigma
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PEOPLE, BUDGET = "population:patient_id", Budget(1, 1e-6)
ALMOST = price(Gaussian(share_sigma(BUDGET, 0.9999)))
"""A charge that the filter of Gaussian DP admits, and no other."""
SMALL = price(Gaussian(200))
VERIFIER = Path(__file__).parents[2] / "tools" / "verify_ledger.py"
check = runpy.run_path(str(VERIFIER))["check_export"]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, tmp_path)


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    with closing(store.create(timeout=PATIENCE)) as ledger:
        ledger.open_account(PEOPLE, BUDGET)
        yield ledger


def ask(name: str, cost: Cost) -> Charge:
    return Charge((PEOPLE,), cost, sha256(name.encode()).hexdigest(), {"table": "visits"})


def export(ledger: Ledger) -> list[str]:
    exported = io.StringIO()
    ledger.export(exported)
    return [line for line in exported.getvalue().splitlines() if '"signature"' not in line]


def forge(lines: list[str], change: Callable[[dict[str, Any]], object]) -> list[str]:
    """Every body changed, and everything hashed anew."""
    prev, forged = "0" * 64, []
    for entry in map(Entry.from_json, lines):
        fields = json.loads(entry.body)
        change(fields)
        body = json.dumps(fields)
        forged.append(
            replace(entry, body=body, prev=prev, hash=hash_entry(entry.seq, entry.kind, body, prev))
        )
        prev = forged[-1].hash
    return [entry.to_json() for entry in forged]


def require_broken(lines: list[str]) -> None:
    """Our own replay and the verifier that stands alone both refuse it."""
    assert str(check(lines, [], None)).startswith("BROKEN")
    with pytest.raises(LedgerError):
        replay_entries(map(Entry.from_json, lines))


def test_a_charge_that_only_this_filter_admits_is_kept_and_replayed(ledger: Ledger, store: Store) -> None:
    assert not replace(caps(BUDGET), gaussian=None).admits(NOTHING, ALMOST)
    assert isinstance(ledger.charge(ask("all", ALMOST)), Charged)
    with pytest.raises(BudgetError, match=r"SF-B101[^🙂]*requested +[0-9.]+ %"):
        ledger.charge(ask("more", SMALL))
    assert ledger.read_allowance(PEOPLE).caps == caps(BUDGET)
    with closing(store.open(timeout=PATIENCE)) as other:
        assert (other.read_spent(PEOPLE), other.verify().charges) == (ALMOST, 1)
        assert other.read_allowance(PEOPLE).caps.gaussian is not None
    assert str(check(export(ledger), [], None)) == str(ledger.verify())


def test_steps_that_are_given_back_leave_nothing_behind(ledger: Ledger) -> None:
    reserved = ledger.reserve(ask("run", SMALL), 100)
    assert isinstance(reserved, Reserved)
    ledger.draw(reserved, 30)
    ledger.give_back(reserved)
    assert ledger.read_spent(PEOPLE) == SMALL * 30
    assert str(check(export(ledger), [], None)) == str(ledger.verify())


def test_a_charge_without_a_cost_closes_the_filter_and_not_the_account(ledger: Ledger) -> None:
    ledger.charge(ask("claim", price(RenyiCurve([(512, 0.001)]))))
    assert ledger.read_spent(PEOPLE).gaussian is None
    ledger.charge(ask("small", SMALL))
    with pytest.raises(BudgetError, match="SF-B101"):
        ledger.charge(ask("all", ALMOST))
    assert str(check(export(ledger), [], None)) == str(ledger.verify())


def test_a_quota_that_is_changed_keeps_to_filters_that_can_admit(ledger: Ledger) -> None:
    quota = "quota:patient_id:ada"
    ledger.grant(quota, BUDGET)
    assert ledger.read_allowance(quota).caps == caps(BUDGET)
    charge = ask("claim", price(RenyiCurve([(512, 0.001)])))
    ledger.charge(replace(charge, accounts=(PEOPLE, quota)))
    ledger.grant(quota, Budget(2, 1e-6))
    assert ledger.read_allowance(quota).caps == caps(Budget(2, 1e-6), gaussian=False)


def test_accounts_of_older_versions_have_no_such_filter(ledger: Ledger) -> None:
    """The same chain, with terms and charges as they were written before there was one."""
    ledger.charge(ask("all", ALMOST))
    lines = export(ledger)
    require_broken(forge(lines, lambda fields: fields.get("caps", {}).pop("gaussian", None)))
    require_broken(forge(lines, lambda fields: fields.get("cost", {}).pop("gaussian", None)))


def test_numbers_that_are_not_costs_are_refused(ledger: Ledger) -> None:
    ledger.charge(ask("one", SMALL))
    lines, most = export(ledger), caps(BUDGET).gaussian
    assert most is not None
    for wrong in (-1, True, [1] * 11, most.most + 1, [most.most + 1] * 12):
        require_broken(forge(lines, update("cost", gaussian=wrong, pure=None, renyi=[10**15] * 12)))
    for terms in ([12, 5], [-1, 5], [3], [3, "5"]):
        require_broken(forge(lines, update("caps", gaussian=terms)))


def update(name: str, **change: Any) -> Callable[[dict[str, Any]], object]:
    return lambda fields: name in fields and fields[name].update(change)
