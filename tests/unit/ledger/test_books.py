"""A chain whose hashes are right but whose story is not: each forged story is told and refused."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import GENESIS, Entry, replay_entries
from sfumato.ledger.books import Books, check_entries, write_terms
from sfumato.ledger.chain import hash_entry, hash_text
from sfumato.privacy import Budget, Cost, Pure, price

check = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "verify_ledger.py"))["check_export"]

Told = tuple[str, dict[str, Any]]

A, B = "population:a", "quota:a:b"
TENTH = price(Pure(Fraction(1, 10)))
HALF = price(Pure(Fraction(1, 2)))


def opened(name: str = A, budget: Budget | None = None, kind: str = "account") -> Told:
    return kind, write_terms(name, budget or Budget(1))


def charged(request: str = "q", cost: Cost = TENTH, **change: Any) -> Told:
    fields = {
        "accounts": [A],
        "cost": cost.to_dict(),
        "request": hash_text(request),
        "about": {},
        "key": None,
    }
    return "charge", {**fields, **change}


def reserved(steps: Any = 5, **change: Any) -> Told:
    return "reserve", {**charged(**change)[1], "steps": steps}


def moved(kind: str, charge: Any, steps: Any) -> Told:
    return kind, {"charge": charge, "steps": steps}


def given_up(charge: Any) -> Told:
    return "unread", {"charge": charge, "cost": TENTH.to_dict()}


def resumed(charge: Any) -> Told:
    return "resume", {"charge": charge}


def released(charge: Any, answer: str = "x") -> Told:
    return "release", {"charge": charge, "commitment": hash_text(answer)}


def chain(*told: Told) -> list[Entry]:
    """Properly numbered and hashed, whatever it says."""
    entries: list[Entry] = []
    for seq, (kind, fields) in enumerate(told, start=1):
        body, prev = json.dumps(fields), entries[-1].hash if entries else GENESIS
        entries.append(Entry(seq, kind, body, prev, hash_entry(seq, kind, body, prev)))  # type: ignore[arg-type]
    return entries


def test_the_books_add_up() -> None:
    told = [
        opened(),
        opened(B, Budget(2), "grant"),
        charged(accounts=[A, B], key="k"),
        released(3),
        charged(),
    ]
    books = replay_entries(chain(*told))
    assert books.accounts[A].spent == TENTH + TENTH
    assert books.accounts[B].spent == TENTH
    both, alone = f'["{A}","{B}"]', f'["{A}"]'
    assert books.charges == {3: (hash_text("q"), both, "k"), 5: (hash_text("q"), alone, None)}
    assert books.releases == {3: (4, hash_text("x"))}
    assert books.summarize().to_dict() == {"entries": 5, "head": books.head, "charges": 2, "releases": 1}
    assert str(books.summarize()).startswith("5 entries hold, 1 of 2 charges answered, head ")


def test_what_a_reservation_gives_back_can_be_spent_again() -> None:
    told = [opened(), reserved(10), moved("draw", 2, 3), moved("return", 2, 7), charged(cost=HALF)]
    books = replay_entries(chain(*told))
    assert books.accounts[A].spent == TENTH * 3 + HALF
    assert books.reservations[2].counts == (10, 3, 7)


def test_a_charge_that_was_given_up_is_answered_once_and_costs_nothing_more() -> None:
    again = [given_up(2), resumed(2)]
    entries = chain(opened(), charged(), *again, *again, released(2))
    books = replay_entries(entries)
    assert (books.accounts[A].spent, books.releases[2][0]) == (TENTH, 7)
    assert check([entry.to_json() for entry in entries], [], None) == str(books.summarize())


def test_other_payers_may_use_the_same_key() -> None:
    told = [opened(), opened(B, kind="grant"), charged(key="k"), charged(key="k", accounts=[A, B])]
    assert len(replay_entries(chain(*told)).keys) == 2


def test_an_empty_chain_holds() -> None:
    assert replay_entries([]).head == GENESIS


def test_a_new_grant_keeps_what_was_spent() -> None:
    books = replay_entries(chain(opened(kind="grant"), charged(cost=HALF), opened(A, Budget(3), "grant")))
    assert (books.accounts[A].budget, books.accounts[A].spent) == (Budget(3), HALF)


def test_the_caps_are_read_from_the_chain_and_not_computed_again() -> None:
    kind, fields = opened()
    fields["caps"]["pure"] = HALF.pure
    with pytest.raises(LedgerError, match="spends more"):
        replay_entries(chain((kind, fields), charged(cost=HALF), charged()))


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("spends more than was left", [opened(), charged(cost=HALF), charged(cost=HALF), charged()]),
        (
            "spends more than was left",
            [opened(kind="grant"), charged(cost=HALF), opened(A, Budget(0.5), "grant"), charged()],
        ),
        ("spends more than was left", [opened(), opened(B, Budget(0.05)), charged(accounts=[A, B])]),
        ("an account that was never opened", [opened(), charged(accounts=[A, B])]),
        ("accounts are not in order", [opened(), opened(B), charged(accounts=[B, A])]),
        ("accounts are not in order", [opened(), charged(accounts=[A, A])]),
        ("accounts are not in order", [opened(), charged(accounts=[])]),
        ("changes a budget that was fixed", [opened(), opened(A, Budget(9))]),
        ("changes a budget that was fixed", [opened(), opened(A, Budget(9), "grant")]),
        ("changes a budget that was fixed", [opened(kind="grant"), opened(A, Budget(9))]),
        ("key was used before", [opened(), charged(key="k"), charged(key="k")]),
        ("answers what was never charged", [opened(), charged(), released(1)]),
        ("answers what was never charged", [opened(), released(3), charged()]),
        ("for the second time", [opened(), charged(), released(2), released(2)]),
        ("charge is malformed", [opened(), charged(cost=replace(TENTH, pure=-1))]),
        ("charge is malformed", [opened(), charged(cost=replace(TENTH, side=-1))]),
        ("charge is malformed", [opened(), charged(cost=replace(TENTH, renyi=TENTH.renyi[1:]))]),
        ("charge is malformed", [opened(), charged(cost=replace(TENTH, pure=True))]),
        ("charge is malformed", [opened(), ("charge", charged()[1] | {"request": "q"})]),
        ("commitment is malformed", [opened(), charged(), ("release", {"charge": 2, "commitment": "x"})]),
        (
            "content cannot be read",
            [opened(), charged(), ("release", {"charge": 2, "answer": hash_text("x")})],
        ),
        ("content cannot be read", [opened("a")]),
        ("content cannot be read", [opened("population:a:b")]),
        ("content cannot be read", [opened("quota:a", kind="grant")]),
        ("content cannot be read", [opened("quota:a:b:c", kind="grant")]),
        ("spends more than was left", [opened(), reserved(11)]),
        ("steps are malformed", [opened(), reserved(0)]),
        ("steps are malformed", [opened(), reserved(True)]),
        ("steps that are not there", [opened(), reserved(), moved("draw", 2, 6)]),
        ("steps that are not there", [opened(), reserved(), moved("draw", 2, 0)]),
        ("steps that are not there", [opened(), reserved(), moved("draw", 2, 3), moved("return", 2, 3)]),
        ("steps that are not there", [opened(), reserved(), moved("return", 2, 5), moved("draw", 2, 1)]),
        ("not return all that is left", [opened(), reserved(), moved("return", 2, 4)]),
        ("of no open reservation", [opened(), charged(), moved("return", 2, 1)]),
        ("of no open reservation", [opened(), reserved(), moved("draw", 1, 1)]),
        (
            "of no open reservation",
            [opened(), reserved(), moved("draw", 2, 1), released(2), moved("return", 2, 4)],
        ),
        ("of which nothing was drawn", [opened(), reserved(), released(2)]),
        ("of which nothing was drawn", [opened(), reserved(), moved("return", 2, 5), released(2)]),
        ("that was given up", [opened(), charged(), given_up(2), released(2)]),
        ("gives up what is no open charge", [opened(), charged(), given_up(2), given_up(2)]),
        ("gives up what is no open charge", [opened(), charged(), released(2), given_up(2)]),
        ("gives up what is no open charge", [opened(), charged(), given_up(1)]),
        ("gives up what is no open charge", [opened(), reserved(), moved("draw", 2, 5), given_up(2)]),
        ("resumes what was not given up", [opened(), charged(), resumed(2)]),
        ("resumes what was not given up", [opened(), charged(), given_up(2), resumed(2), resumed(2)]),
        ("resumes what was not given up", [opened(), charged(), given_up(2), resumed(1)]),
        ("content cannot be read", [("charge", {})]),
        ("content cannot be read", [opened(), charged(accounts=[[A]])]),
        ("content cannot be read", [opened(), charged(about={"epsilon": 0.1})]),
        ("content cannot be read", [opened(), released([])]),
        (
            "content cannot be read",
            [("account", {"account": A, "budget": {"epsilon": "-1", "delta": "0"}})],
        ),
    ],
)
def test_a_forged_story_is_refused(why: str, told: list[Told]) -> None:
    entries = chain(*told)
    with pytest.raises(LedgerError, match=why) as caught:
        replay_entries(entries)
    assert caught.value.code == "SF-L101"
    assert caught.value.facts["at"].startswith("entry ")
    assert check([entry.to_json() for entry in entries], [], None).startswith("BROKEN at line ")


def test_an_entry_of_a_kind_to_come_is_no_broken_chain() -> None:
    """Whoever restored an older copy because of it would forget what was spent since."""
    entries = chain(opened(), ("refund", {}))
    with pytest.raises(LedgerError, match="SF-L103  A newer version") as caught:
        replay_entries(entries)
    assert "restore" not in str(caught.value)
    assert check([entry.to_json() for entry in entries], [], None).startswith("BROKEN at line 2")


def sound() -> list[Entry]:
    return chain(opened(), charged("q"), released(2), charged("r"), charged("s"))


@pytest.mark.parametrize("field", ["kind", "body", "prev", "hash"])
@pytest.mark.parametrize("seq", [1, 3, 5])
def test_any_change_of_any_field_is_caught(field: str, seq: int) -> None:
    entries = sound()
    text = getattr(entries[seq - 1], field)
    entries[seq - 1] = replace(entries[seq - 1], **{field: text[:-1] + chr(ord(text[-1]) ^ 1)})
    with pytest.raises(LedgerError, match=f"SF-L101.*\n.*entry {seq}\n"):
        replay_entries(entries)


def test_a_missing_a_doubled_and_a_moved_entry_are_caught() -> None:
    for order in ([0, 1, 2, 4], [0, 1, 1, 2], [0, 1, 2, 4, 3], [1, 2, 3, 4]):
        with pytest.raises(LedgerError, match="number does not follow"):
            replay_entries([sound()[position] for position in order])


def test_an_entry_hashed_anew_breaks_the_link_after_it() -> None:
    entries = sound()
    body = entries[1].body.replace(str(TENTH.pure), "1")
    entries[1] = replace(entries[1], body=body, hash=hash_entry(2, "charge", body, entries[1].prev))
    with pytest.raises(LedgerError, match="does not name the entry before it"):
        replay_entries(entries)


def test_half_a_character_in_a_body_is_a_broken_chain() -> None:
    with pytest.raises(LedgerError, match="content cannot be read"):
        Books().add_entry(Entry(1, "account", "\ud800", GENESIS, "0" * 64))


def test_checked_gives_out_nothing_from_the_first_fault_on() -> None:
    entries = sound()
    entries[3] = replace(entries[3], hash="0" * 64)
    given = check_entries(entries)
    assert [next(given).seq for _ in range(3)] == [1, 2, 3]
    with pytest.raises(LedgerError):
        next(given)
