"""What every ledger promises to one caller: accounts, idempotency, a chain that anyone can check."""

from __future__ import annotations

import io
import json
from contextlib import closing
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from tests.conformance.stores import KINDS, Store, store_of

from sfumato.errors import BudgetError, LedgerError, PolicyError, UsageError
from sfumato.ledger import Charge, Charged, Entry, Ledger, PostgresLedger, Released, replay_entries
from sfumato.privacy import NOTHING, Budget, Cost, Pure, price
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PEOPLE, ADA = "population:patient_id", "quota:patient_id:ada"
HUNDREDTH = price(Pure(Fraction(1, 100)))


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


def ask(
    name: str, cost: Cost = HUNDREDTH, key: str | None = None, accounts: tuple[str, ...] = (PEOPLE,)
) -> Charge:
    return Charge(accounts, cost, hash_text(name), {"table": "visits"}, key)


def charge(ledger: Ledger, question: Charge) -> Charged:
    charged = ledger.charge(question)
    assert isinstance(charged, Charged)
    return charged


def answer(ledger: Ledger, question: Charge, answer: str = "42") -> Released:
    return ledger.release(charge(ledger, question), answer)


def count(ledger: Ledger) -> tuple[int, int]:
    verified = ledger.verify()
    return verified.charges, verified.releases


# ---- accounts --------------------------------------------------------------------------------------------


def test_a_population_is_opened_once_and_for_ever(ledger: Ledger) -> None:
    ledger.open_account(PEOPLE, Budget(1))
    assert ledger.verify().entries == 1
    for change in (ledger.open_account, ledger.grant):
        with pytest.raises(PolicyError, match="SF-L201"):
            change(PEOPLE, Budget(2))
    assert ledger.read_budget(PEOPLE) == Budget(1)


def test_a_quota_is_set_anew_and_what_was_spent_stays_spent(ledger: Ledger) -> None:
    ledger.grant(ADA, Budget(0.02))
    ledger.grant(ADA, Budget(0.02))
    assert ledger.verify().entries == 2
    for name in "ab":
        charge(ledger, ask(name, accounts=(PEOPLE, ADA)))
    with pytest.raises(BudgetError, match="SF-B102"):
        ledger.charge(ask("c", accounts=(PEOPLE, ADA)))
    ledger.grant(ADA, Budget(0.03, 1e-9))
    charge(ledger, ask("c", accounts=(PEOPLE, ADA)))
    ledger.grant(ADA, Budget(0.01))
    with pytest.raises(BudgetError, match=r"ε = 0\.00 of 0\.01 for analyst 'ada'"):
        ledger.charge(ask("d", accounts=(PEOPLE, ADA)))
    assert (ledger.read_budget(ADA), ledger.read_spent(ADA).pure) == (Budget(0.01), 3 * 10**10)
    with pytest.raises(PolicyError, match="SF-L201"):
        ledger.open_account(ADA, Budget(1))


def test_accounts_are_listed_by_name_with_exact_totals(ledger: Ledger) -> None:
    ledger.grant(ADA, Budget(1))
    ledger.open_account("population:a", Budget(3))
    assert ledger.list_accounts() == ("population:a", PEOPLE, ADA)
    assert ledger.read_spent(PEOPLE) == NOTHING
    charge(ledger, ask("q", accounts=(ADA, PEOPLE)))
    assert ledger.read_spent(PEOPLE) == ledger.read_spent(ADA) == HUNDREDTH
    assert ledger.read_spent("population:a") == NOTHING


@pytest.mark.parametrize("account", ["population:nobody", "quota:patient_id:bob"])
def test_an_unknown_account_pays_nothing_and_neither_do_the_others(ledger: Ledger, account: str) -> None:
    with pytest.raises(PolicyError, match="SF-B103"):
        ledger.charge(ask("q", accounts=(PEOPLE, account)))
    for look in (ledger.read_budget, ledger.read_spent):
        with pytest.raises(PolicyError, match="SF-B103"):
            look(account)
    assert ledger.read_spent(PEOPLE) == NOTHING


@pytest.mark.parametrize(
    "name",
    ["", "population:" + "a" * 190, "population:half a character \ud800", "bare", "quota:a", "quota:a:b:c"],
)
def test_a_name_that_cannot_be_kept_is_refused(ledger: Ledger, name: str) -> None:
    for change in (ledger.open_account, ledger.grant):
        with pytest.raises(UsageError, match=r"SF-(C113|L302)"):
            change(name, Budget(1))
    assert ledger.list_accounts() == (PEOPLE,)


def test_all_accounts_pay_or_none(ledger: Ledger) -> None:
    ledger.grant(ADA, Budget(0.005))
    with pytest.raises(BudgetError, match="SF-B102"):
        ledger.charge(ask("q", accounts=(PEOPLE, ADA)))
    assert (ledger.read_spent(PEOPLE), ledger.verify().charges) == (NOTHING, 0)


def test_totals_beyond_any_machine_integer_are_exact(ledger: Ledger) -> None:
    huge = Cost(10**40, (10**40,) * 12, 0)
    ledger.open_account("population:huge", Budget(2**99))
    charge(ledger, ask("q", cost=huge, accounts=("population:huge",)))
    assert ledger.read_spent("population:huge") == huge


# ---- the same question, the same key ---------------------------------------------------------------------


def test_a_question_released_before_is_free(ledger: Ledger) -> None:
    first = answer(ledger, ask("q"))
    again = ledger.charge(ask("q"))
    assert (
        again
        == Released(first.seq, first.head, NOTHING, "42", replayed=True)
        == ledger.find_release(hash_text("q"))
    )
    assert (first.replayed, first.cost) == (False, HUNDREDTH)
    assert ledger.read_spent(PEOPLE) == HUNDREDTH


def test_who_has_no_account_is_not_shown_what_others_paid_for(ledger: Ledger) -> None:
    answer(ledger, ask("q", key="k"))
    for key in ("k", None):
        with pytest.raises(PolicyError, match="SF-B103"):
            ledger.charge(ask("q", key=key, accounts=(PEOPLE, ADA)))
    ledger.grant(ADA, Budget(0.001))
    assert isinstance(ledger.charge(ask("q", accounts=(PEOPLE, ADA))), Released)


def test_a_question_never_released_is_not_found_and_charged_again(ledger: Ledger) -> None:
    first, second = charge(ledger, ask("q")), charge(ledger, ask("q"))
    assert ledger.find_release(hash_text("q")) is None
    assert first.seq != second.seq
    assert ledger.read_spent(PEOPLE) == HUNDREDTH + HUNDREDTH


def test_the_first_answer_kept_is_the_answer_for_ever(ledger: Ledger) -> None:
    first, second = charge(ledger, ask("q")), charge(ledger, ask("q"))
    ledger.release(second, "second charge, first answer")
    ledger.release(first, "first charge, second answer")
    found = ledger.find_release(hash_text("q"))
    assert found is not None
    assert (found.seq, found.answer) == (second.seq, "second charge, first answer")


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("key", ["same", "other", None])
@pytest.mark.parametrize("question", ["same", "other"])
def test_every_way_of_asking_a_second_time(
    ledger: Ledger, question: str, key: str | None, released: bool
) -> None:
    first = charge(ledger, ask("same", key="same"))
    if released:
        ledger.release(first, "42")
    expected: dict[tuple[str, str | None, bool], str] = {
        ("same", "same", True): "replayed",
        ("same", "other", True): "replayed",
        ("same", None, True): "replayed",
        ("same", "same", False): "SF-L107",
        ("other", "same", True): "SF-L204",
        ("other", "same", False): "SF-L204",
    }
    try:
        second = ledger.charge(ask(question, key=key))
        became = "replayed" if isinstance(second, Released) and second.answer == "42" else "charged"
    except (LedgerError, PolicyError) as refusal:
        became = refusal.code
    assert became == expected.get((question, key, released), "charged")
    assert count(ledger) == (1 + (became == "charged"), int(released))


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("question", ["same", "other"])
def test_others_neither_block_a_key_nor_learn_of_it(ledger: Ledger, question: str, released: bool) -> None:
    """Bob fares with Ada's key as with any other: what he is told depends on the question alone."""
    bob = "quota:patient_id:bob"
    for account in (ADA, bob):
        ledger.grant(account, Budget(1))
    first = charge(ledger, ask("same", key="nightly", accounts=(PEOPLE, ADA)))
    if released:
        ledger.release(first, "42")
    second = ledger.charge(ask(question, key="nightly", accounts=(PEOPLE, bob)))
    assert isinstance(second, Released if released and question == "same" else Charged)
    if released:
        assert ledger.charge(ask("same", key="nightly", accounts=(PEOPLE, ADA))).seq == first.seq
    with pytest.raises(PolicyError, match="SF-L204"):
        ledger.charge(ask("third", key="nightly", accounts=(PEOPLE, ADA)))


def test_a_key_gives_the_answer_to_its_own_charge(ledger: Ledger) -> None:
    mine, other = charge(ledger, ask("q", key="mine")), charge(ledger, ask("q"))
    ledger.release(other, "other's")
    ledger.release(mine, "mine")
    again = ledger.charge(ask("q", key="mine"))
    assert isinstance(again, Released)
    assert again.answer == "mine"


def test_a_lost_key_is_answered_once_the_question_is(ledger: Ledger) -> None:
    charge(ledger, ask("q", key="lost"))
    with pytest.raises(LedgerError, match="or without the key"):
        ledger.charge(ask("q", key="lost"))
    answer(ledger, ask("q"), "found")
    again = ledger.charge(ask("q", key="lost"))
    assert isinstance(again, Released)
    assert again.answer == "found"


def test_a_charge_is_answered_once(ledger: Ledger) -> None:
    charged = charge(ledger, ask("q"))
    ledger.release(charged, "once")
    with pytest.raises(LedgerError, match="SF-L109"):
        ledger.release(charged, "twice")
    assert ledger.find_release(hash_text("q")).answer == "once"  # type: ignore[union-attr]


def test_an_open_charge_is_taken_over_by_its_key_alone(ledger: Ledger) -> None:
    first = ledger.charge(ask("q", key="k"), take_over=True)
    assert ledger.charge(ask("q", key="k"), take_over=True) == first
    assert ledger.charge(ask("q", key="other"), take_over=True) != first
    with pytest.raises(PolicyError, match="SF-L204"):
        ledger.charge(ask("another", key="k"), take_over=True)
    assert isinstance(first, Charged)
    ledger.release(first, "once")
    again = ledger.charge(ask("q", key="k"), take_over=True)
    assert isinstance(again, Released)
    assert (again.answer, count(ledger)) == ("once", (2, 1))


def test_a_charge_of_another_ledger_is_not_answered(ledger: Ledger) -> None:
    charged = charge(ledger, ask("q"))
    for forged in (
        Charged(charged.seq, "0" * 64, NOTHING, charged.request),
        Charged(9, charged.head, NOTHING, ""),
    ):
        with pytest.raises(LedgerError, match="SF-L109"):
            ledger.release(forged, "x")
    assert count(ledger) == (1, 0)


@pytest.mark.parametrize("text", ["", "ε \u2028 😀", "back\\slash %s ? {}", "x" * 3_000_000])
def test_an_answer_is_kept_to_the_letter(store: Store, ledger: Ledger, text: str) -> None:
    answer(ledger, ask("q"), text)
    ledger.close()
    with closing(store.open()) as reopened:
        assert reopened.find_release(hash_text("q")).answer == text  # type: ignore[union-attr]


def test_a_zero_character_is_kept_or_refused_and_harms_nothing_else(ledger: Ledger) -> None:
    charged = charge(ledger, ask("q"))
    if isinstance(ledger, PostgresLedger):
        with pytest.raises(UsageError, match=r"SF-L302.*\n.*zero character"):
            ledger.release(charged, "NUL \0 inside")
        assert count(ledger) == (1, 0)
    else:
        ledger.release(charged, "NUL \0 inside")
        assert ledger.charge(ask("q")).answer == "NUL \0 inside"  # type: ignore[union-attr]


@pytest.mark.parametrize("call", ["key", "answer", "find", "spent"])
def test_half_a_character_is_refused_everywhere(ledger: Ledger, call: str) -> None:
    half = "\ud800"
    calls: dict[str, Callable[[], object]] = {
        "key": lambda: ledger.charge(ask("q", key=half)),
        "answer": lambda: answer(ledger, ask("q"), half),
        "find": lambda: ledger.find_release(half),
        "spent": lambda: ledger.read_spent(half),
    }
    with pytest.raises(UsageError, match="SF-L302"):
        calls[call]()
    assert count(ledger) == (int(call == "answer"), 0)


# ---- the chain -------------------------------------------------------------------------------------------


def test_an_export_can_be_checked_without_our_code(ledger: Ledger) -> None:
    for name in "abc":
        answer(ledger, ask(name), f"answer to {name}")
    exported = io.StringIO()
    assert ledger.export(exported) == 7
    head, spent, charges = "0" * 64, 0, []
    for number, line in enumerate(exported.getvalue().splitlines(), start=1):
        entry = json.loads(line)
        text = "\n".join(["sfumato ledger 1", str(number), entry["kind"], head, entry["body"]])
        head = sha256(text.encode()).hexdigest()
        assert (entry["seq"], entry["hash"]) == (number, head)
        body = json.loads(entry["body"])
        spent += body["cost"]["pure"] if entry["kind"] == "charge" else 0
        charges += [body["charge"]] if entry["kind"] == "release" else []
    assert head == ledger.verify().head
    assert spent == ledger.read_spent(PEOPLE).pure
    assert charges == [2, 4, 6]


def test_an_export_gives_no_answer_away(ledger: Ledger) -> None:
    """Two charges, one answer: nothing in the export is a hash of it, nor are they seen to be the same."""
    first, second = charge(ledger, ask("q")), charge(ledger, ask("q"))
    for charged in (first, second):
        ledger.release(charged, "[[42]]")
    exported = io.StringIO()
    ledger.export(exported)
    assert hash_text("[[42]]") not in exported.getvalue()
    bodies = [json.loads(entry.body) for entry in ledger.read_entries() if entry.kind == "release"]
    assert [set(body) for body in bodies] == [{"charge", "commitment"}] * 2
    assert bodies[0]["commitment"] != bodies[1]["commitment"]


def test_an_export_can_be_read_back(ledger: Ledger) -> None:
    answer(ledger, ask("q"))
    exported = io.StringIO()
    ledger.export(exported)
    entries = [Entry.from_json(line) for line in exported.getvalue().splitlines()]
    assert entries == list(ledger.read_entries())
    assert replay_entries(entries).summarize() == ledger.verify()


def test_a_receipt_names_an_entry_of_the_chain(ledger: Ledger) -> None:
    released = answer(ledger, ask("q"))
    heads = {entry.hash: entry for entry in ledger.read_entries()}
    assert json.loads(heads[released.head].body)["charge"] == released.seq


def test_the_entries_are_one_chain_over_many_pages(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.ledger.tables.PAGE", 2)
    for number in range(7):
        charge(ledger, ask(str(number)))
    assert [entry.seq for entry in ledger.read_entries()] == list(range(1, 9))
    assert ledger.verify().entries == 8


def test_what_others_wrote_meanwhile_is_taken_in_over_many_pages(
    store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.ledger.tables.PAGE", 2)
    for others in (1, 2, 3, 4, 5, 6):
        with closing(store.open(timeout=PATIENCE)) as other:
            for number in range(others):
                charge(other, ask(f"{others} {number}"))
        if others % 2:
            charge(ledger, ask(f"after {others}"))
        assert ledger.read_spent(PEOPLE) == HUNDREDTH * count(ledger)[0]
    assert count(ledger) == (24, 0)
