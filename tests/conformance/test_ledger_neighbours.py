"""Every account holds prices for one kind of neighbours, on every ledger; older accounts take the first."""

from __future__ import annotations

import io
import json
import runpy
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conformance.stores import KINDS, Store, store_of

from sfumato.errors import LedgerError, PolicyError
from sfumato.ledger import Charge, Charged, Entry, Ledger, Reserved, replay_entries
from sfumato.ledger.chain import hash_entry, hash_text
from sfumato.privacy import Budget, Pure, price
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

PEOPLE, ADA = "population:patient_id", "quota:patient_id:ada"
ADD, REPLACE, EDGE = "add-remove", "replace-one", "add-remove edge"
VERIFIER = Path(__file__).parents[2] / "tools" / "verify_ledger.py"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, tmp_path)


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    with closing(store.create(timeout=PATIENCE)) as ledger:
        yield ledger


def ask(name: str, neighbours: str | None, accounts: tuple[str, ...] = (PEOPLE,)) -> Charge:
    return Charge(accounts, price(Pure(1)), hash_text(name), {}, neighbours=neighbours)


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(PolicyError) as refusal:
        call()
    assert refusal.value.code == "SF-N303"


@pytest.mark.parametrize("named", [True, False])
def test_an_account_takes_one_kind_of_neighbours(store: Store, ledger: Ledger, named: bool) -> None:
    """Named when it is opened or, as in ledgers of older versions, by the first charge that says it."""
    ledger.open_account(PEOPLE, Budget(100), ADD if named else None)
    if not named:
        assert isinstance(ledger.charge(ask("before", None)), Charged)
    assert isinstance(ledger.charge(ask("first", ADD)), Charged)
    spent = ledger.read_spent(PEOPLE)
    with closing(store.open()) as again:
        for other in (REPLACE, EDGE, None):
            refused(lambda other=other: again.charge(ask("other", other)))  # type: ignore[misc]
            refused(lambda other=other: again.reserve(ask("other", other), 3))  # type: ignore[misc]
        refused(lambda: again.open_account(PEOPLE, Budget(100), REPLACE))
        assert again.read_spent(PEOPLE) == spent
        again.open_account(PEOPLE, Budget(100), ADD)
        assert isinstance(again.charge(ask("second", ADD)), Charged)
        assert isinstance(again.reserve(ask("third", ADD), 3), Reserved)
        again.verify()


def test_a_charge_given_up_is_begun_again_for_the_same_neighbours_only(ledger: Ledger) -> None:
    ledger.open_account(PEOPLE, Budget(100), ADD)
    charged = ledger.charge(ask("first", ADD))
    assert isinstance(charged, Charged)
    ledger.note_unread(charged)
    refused(lambda: ledger.charge(ask("first", REPLACE)))
    again = ledger.charge(ask("first", ADD))
    assert isinstance(again, Charged)
    assert again.seq == charged.seq


def test_a_quota_keeps_its_neighbours_when_it_is_changed(ledger: Ledger) -> None:
    ledger.open_account(PEOPLE, Budget(100))
    ledger.grant(ADA, Budget(50))
    ledger.charge(ask("first", REPLACE, (ADA,)))
    ledger.grant(ADA, Budget(60))
    refused(lambda: ledger.charge(ask("second", ADD, (PEOPLE, ADA))))
    assert isinstance(ledger.charge(ask("third", ADD)), Charged), "a refused charge names nothing"


def test_a_chain_that_mixes_neighbours_is_broken(ledger: Ledger) -> None:
    """Ours and the verifier that imports nothing of ours agree on that; older versions may name none."""
    ledger.open_account(PEOPLE, Budget(100), ADD)
    ledger.charge(ask("first", ADD))
    exported = io.StringIO()
    ledger.export(exported)
    check = runpy.run_path(str(VERIFIER))["check_export"]
    lines = exported.getvalue().splitlines()
    assert check(lines, [], None).startswith("2 entries hold")
    for neighbours, holds in ((REPLACE, False), ("", False), (7, False), (None, True)):
        changed = [Entry.from_json(lines[0]), forge(Entry.from_json(lines[1]), neighbours)]
        said = check([entry.to_json() for entry in changed], [], None)
        assert said.startswith("2 entries hold" if holds else "BROKEN at line 2")
        if holds:
            assert replay_entries(changed).accounts[PEOPLE].neighbours == ADD
        else:
            with pytest.raises(LedgerError, match="neighbours"):
                replay_entries(changed)


def forge(entry: Entry, neighbours: object) -> Entry:
    """Return the entry of another story, with a hash that fits it."""
    body = json.loads(entry.body) | {"neighbours": neighbours}
    if neighbours is None:
        del body["neighbours"]
    text = json.dumps(body)
    return replace(entry, body=text, hash=hash_entry(entry.seq, entry.kind, text, entry.prev))
