"""The words of a refusal: public numbers, and what was asked always reads larger than what is left."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.ledger import Charge
from sfumato.ledger.books import AccountState, read_terms, write_terms
from sfumato.ledger.chain import hash_text
from sfumato.ledger.refusal import shortage_error, unknown_account_error
from sfumato.privacy import NOTHING, Budget, Cost, Pure, price
from sfumato.privacy.account import NAT, SIDE


def holding(budget: Budget, spent: Cost = NOTHING) -> AccountState:
    return read_terms(1, "account", write_terms("population:a", budget), spent)


def question(cost: Cost, about: dict[str, str] | None = None) -> Charge:
    return Charge(("population:a",), cost, hash_text("q"), about or {"table": "visits"})


def pure(epsilon: str) -> Cost:
    return price(Pure(Fraction(epsilon)))


def gaussian(divergence_per_order: Fraction) -> Cost:
    orders = (1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 512)
    return Cost(None, tuple(int(divergence_per_order * Fraction(order) * NAT) for order in orders), 0)


def test_a_population_refuses_in_the_shape_everyone_knows() -> None:
    refusal = shortage_error(question(pure("0.5")), "population:patient_id", holding(Budget(2), pure("1.68")))
    assert str(refusal) == (
        "SF-B101  Not enough privacy budget for this query on 'visits'.\n"
        "  requested  ε = 0.50\n"
        "  remaining  ε = 0.32 of 2.00 for patient_id\n"
        "  hint       epsilon=0.32 or less; earlier answers stay free"
    )


def test_a_quota_refuses_by_name() -> None:
    refusal = shortage_error(question(pure("0.5")), "quota:patient_id:ada", holding(Budget(1), pure("0.9")))
    assert str(refusal) == (
        "SF-B102  Not enough quota for this query on 'visits'.\n"
        "  requested  ε = 0.50\n"
        "  remaining  ε = 0.10 of 1.00 for analyst 'ada'\n"
        "  hint       epsilon=0.1 or less; ask the steward for more: "
        's.request(epsilon=0.5, reason="…"); earlier answers stay free'
    )


def test_an_empty_account_points_to_what_is_free() -> None:
    refusal = shortage_error(
        question(pure("0.5"), {"about": "nothing"}), "population:p", holding(Budget(1), pure("1"))
    )
    assert refusal.sentence == "Not enough privacy budget for this query."
    assert refusal.facts["left"] == "ε = 0.00 of 1.00 for p"
    assert refusal.facts["try"] == "earlier answers stay free"


def test_gaussian_noise_is_told_as_a_share_of_the_nearest_filter() -> None:
    holder = holding(Budget(4, 1e-7), gaussian(Fraction(1, 8)))
    refusal = shortage_error(question(gaussian(Fraction(1, 8))), "population:p", holder)
    assert refusal.facts["asked"].endswith(" %")
    assert refusal.facts["left"].endswith(" % of Budget(epsilon=4, delta=1e-07) for p")
    assert 100 > numbers(refusal.facts["asked"]) > numbers(refusal.facts["left"].split(" of ")[0]) > 0


def test_gaussian_noise_on_a_pure_budget_is_told_as_that() -> None:
    refusal = shortage_error(question(gaussian(Fraction(1, 100))), "population:p", holding(Budget(4)))
    assert refusal.facts["asked"] == "noise without a pure ε"
    assert refusal.facts["left"] == "a budget of pure ε = 4 for p"


def test_side_delta_is_told_where_it_is_the_reason() -> None:
    refusal = shortage_error(
        question(Cost(0, NOTHING.renyi, SIDE // 4)), "population:p", holding(Budget(4, 0.25))
    )
    assert refusal.facts["asked"] == "side δ = 0.25"
    assert refusal.facts["left"] == "side δ = 0.125 of 0.125 for p"


def numbers(refusal_fact: str) -> float:
    return float(re.search(r"[\d.e-]+(?= | %|$)", refusal_fact)[0])  # type: ignore[index]


@given(
    spent=st.fractions(min_value=Fraction(1, 10**7), max_value=1, max_denominator=10**7),
    asked=st.fractions(min_value=Fraction(1, 10**7), max_value=2, max_denominator=10**7),
)
@example(spent=Fraction("0.6666666"), asked=Fraction("0.3333335"))
def test_what_was_asked_never_reads_smaller_than_what_is_left(spent: Fraction, asked: Fraction) -> None:
    holder = holding(Budget(1), pure(str(spent)))
    cost = pure(str(asked))
    if holder.after_charge(cost) is None:
        refusal = shortage_error(question(cost), "population:p", holder)
        assert numbers(refusal.facts["asked"]) > numbers(refusal.facts["left"].split(" of ")[0])


def test_what_the_refusal_offers_is_admitted() -> None:
    for spent in ("0.1", "0.333333333333", "0.9999999"):
        holder = holding(Budget(1, 1e-9), pure(spent))
        refusal = shortage_error(question(pure("1")), "population:p", holder)
        offered = refusal.facts["try"].removeprefix("epsilon=").partition(" or less")[0]
        assert holder.after_charge(pure(offered)) is not None


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("population:patient_id", "SF-B103", "No budget was ever set for 'patient_id'."),
        ("quota:patient_id:bob", "SF-B103", "'bob' has no quota for 'patient_id'."),
    ],
)
def test_an_unknown_account_is_named(name: str, code: str, words: str) -> None:
    refusal = unknown_account_error(name)
    assert (refusal.code, refusal.sentence) == (code, words)


@pytest.mark.parametrize("name", ["bare", "quota:a:b:c", "population:a:b"])
def test_a_refusal_never_guesses_whose_account_it_is(name: str) -> None:
    with pytest.raises(UsageError, match="SF-C113"):
        unknown_account_error(name)
    with pytest.raises(UsageError, match="SF-C113"):
        shortage_error(question(pure("0.5")), name, holding(Budget(1), pure("0.9")))
