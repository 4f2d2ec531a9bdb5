"""The format of the chain is frozen: these texts and hashes never change."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import pytest

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import GENESIS, Charge, Entry, chain
from sfumato.ledger.api import is_digest, parse_account
from sfumato.ledger.chain import hash_entry, hash_text, read_date, write_body
from sfumato.ledger.receipts.commitment import commit_to_answer, draw_nonce
from sfumato.privacy import NOTHING, Cost

ZEROS = (0,) * 12


def test_the_hash_is_over_five_lines_that_anyone_can_write() -> None:
    text = "sfumato ledger 1\n7\ncharge\n" + "a" * 64 + '\n{"cost":1}'
    assert hash_entry(7, "charge", '{"cost":1}', "a" * 64) == hashlib.sha256(text.encode()).hexdigest()


def test_the_hash_of_a_known_entry() -> None:
    known = "1af87017554d56b517489f9891ac2ddc4827b7dc43349d0be66709dc746e7338"
    assert hash_entry(1, "account", '{"account":"population:p"}', GENESIS) == known


@pytest.mark.parametrize("change", [{"seq": 2}, {"kind": "grant"}, {"body": "{ }"}, {"prev": "1" * 64}])
def test_every_field_is_under_the_hash(change: dict[str, object]) -> None:
    fields = {"seq": 1, "kind": "account", "body": "{}", "prev": GENESIS}
    assert hash_entry(**fields) != hash_entry(**{**fields, **change})  # type: ignore[arg-type]


def test_an_entry_follows_the_one_before() -> None:
    body = write_body({"charge": 3, "commitment": hash_text("x")})
    entry = Entry.make_next(4, "b" * 64, "release", body)
    assert (entry.seq, entry.prev) == (5, "b" * 64)
    assert entry.hash == hash_entry(5, "release", entry.body, "b" * 64)


@pytest.mark.parametrize(
    ("second", "day"), [(0, "1970-01-01"), (1_792_454_399, "2026-10-19"), (1_792_454_400, "2026-10-20")]
)
def test_the_day_is_that_of_utc(monkeypatch: pytest.MonkeyPatch, second: int, day: str) -> None:
    monkeypatch.setattr(chain.time, "time", lambda: second + 0.9)
    assert read_date() == day


def test_an_entry_survives_its_export() -> None:
    entry = Entry.make_next(0, GENESIS, "grant", write_body({"name": "Zoë \n ε"}))
    assert Entry.from_json(entry.to_json()) == entry


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"seq":1}', "{" * 100_000, '{"seq":1.5}'])
def test_a_line_that_is_no_entry_is_named_as_such(line: str) -> None:
    with pytest.raises(LedgerError, match="SF-L114"):
        Entry.from_json(line)


def test_fractions_are_kept_exactly() -> None:
    assert write_body({"b": Fraction(1, 3), "a": [1, None, True]}) == '{"a":[1,null,true],"b":"1/3"}'


@pytest.mark.parametrize("key", [None, 'a "key" \\ \n \u2028 ε'])
@pytest.mark.parametrize("cost", [Cost(3, (10**40,) * 12, 2**60), Cost(None, ZEROS, 0)])
@pytest.mark.parametrize("steps", [None, 7])
def test_the_body_of_a_charge_is_the_canonical_text_of_its_fields(
    key: str | None, cost: Cost, steps: int | None
) -> None:
    about = {"z": ["ε", {"b": 1, "a": None}], "question": 'SELECT "x"'}
    charge = Charge(("quota:a:b", "population:ä"), cost, hash_text("q"), about, key)
    fields = {
        "accounts": ["population:ä", "quota:a:b"],
        "cost": cost.to_dict(),
        "request": hash_text("q"),
        "about": about,
        "key": key,
        "at": read_date(),
        "by": "0123",
    }
    written = write_body(fields | ({} if steps is None else {"steps": steps}))
    assert charge.write_entry_body(str(fields["at"]), "0123", steps) == written


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf"), [{"deep": 1e300}], object(), {1, 2}])
def test_no_float_and_no_object_enters_the_chain(value: object) -> None:
    with pytest.raises(UsageError, match="SF-L302"):
        write_body({"value": value})


def test_half_a_character_is_refused_without_repeating_the_text() -> None:
    with pytest.raises(UsageError, match="SF-L302") as caught:
        hash_text("secret \ud800")
    assert caught.value.__cause__ is None
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"accounts": ()},
        {"accounts": ("population:a", "population:a")},
        {"accounts": ("",)},
        {"accounts": ("population:" + "a" * 190,)},
        {"accounts": ("quota:a:b:c",)},
        {"request": "not a hash"},
        {"request": "A" * 64},
        {"key": ""},
        {"key": "k" * 201},
        {"cost": Cost(-1, ZEROS, 0)},
        {"cost": Cost(0, (-1, *ZEROS[1:]), 0)},
        {"cost": Cost(0, ZEROS, -1)},
        {"cost": Cost(0, ZEROS[1:], 0)},
        {"cost": Cost(0.5, ZEROS, 0)},
        {"cost": Cost(True, ZEROS, 0)},
        {"about": {"epsilon": 0.1}},
        {"about": {"table": "\ud800"}},
    ],
)
def test_a_charge_that_could_not_be_kept_is_refused_when_made(change: dict[str, object]) -> None:
    fields = {
        "accounts": ("population:a",),
        "cost": NOTHING,
        "request": hash_text("q"),
        "about": {},
        "key": None,
    }
    Charge(**fields)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"SF-(C113|L302)"):
        Charge(**{**fields, **change})  # type: ignore[arg-type]


def test_a_charge_names_its_accounts_in_order() -> None:
    names = ("population:b", "population:a")
    assert Charge(names, NOTHING, hash_text("q"), {}).accounts == ("population:a", "population:b")


@pytest.mark.parametrize(
    ("account", "who"),
    [("population:p", ("p", None)), ("quota:p:ada", ("p", "ada")), ("quota:a b:ε", ("a b", "ε"))],
)
def test_an_account_says_whose_it_is(account: str, who: tuple[str, str | None]) -> None:
    assert parse_account(account) == who


@pytest.mark.parametrize(
    "account",
    [
        "bare",
        ":",
        "population",
        "population:",
        "population:a:b",
        "Population:a",
        "quota:a",
        "quota::b",
        "quota:a:",
        "quota:a:b:c",
        "grant:a:b",
        " population:a",
    ],
)
def test_a_name_that_could_be_read_in_two_ways_or_in_none_is_no_account(account: str) -> None:
    with pytest.raises(UsageError, match="SF-C113"):
        parse_account(account)


# ---- commitments -----------------------------------------------------------------------------------------


def test_a_commitment_is_over_three_lines_that_anyone_can_write() -> None:
    text = "sfumato answer 1\n" + "ab" * 32 + "\n[[7]]"
    assert commit_to_answer("ab" * 32, "[[7]]") == hashlib.sha256(text.encode()).hexdigest()


def test_a_commitment_is_never_the_hash_of_an_entry() -> None:
    """Their first lines differ, whatever the nonce and the answer are."""
    text = f"sfumato ledger 1\n7\nrelease\n{GENESIS}\n{{}}"
    assert (
        commit_to_answer("7", f"release\n{GENESIS}\n{{}}")
        != hash_text(text)
        == hash_entry(7, "release", "{}", GENESIS)
    )


def test_every_nonce_is_fresh_and_of_one_shape() -> None:
    nonces = {draw_nonce() for _ in range(1000)}
    assert len(nonces) == 1000
    assert all(is_digest(nonce) for nonce in nonces)


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("account", {"account": "population:p", "budget": {"epsilon": "4"}}, 'population:p: {"epsilon":"4"}'),
        ("charge", {"accounts": ["a", "b"], "about": {"table": "t"}}, 'a, b: {"table":"t"}'),
        ("release", {"charge": 3}, "answers entry 3"),
    ],
)
def test_the_summary_says_who_and_what(kind: str, fields: dict[str, object], words: str) -> None:
    assert Entry.make_next(0, GENESIS, kind, write_body(fields)).summarize() == words  # type: ignore[arg-type]
