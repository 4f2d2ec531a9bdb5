"""Filters: what they admit, how they round, what they call left."""

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy import NOTHING, ORDERS, Budget, Cost, DiscreteLaplace, Pure, caps, left, price
from sfumato.privacy.account import NAT, SIDE


def _how_many(budget: Budget, cost: Cost) -> int:
    spent, count = NOTHING, 0
    while caps(budget).admits(spent, cost):
        spent, count = spent + cost, count + 1
    return count


@pytest.mark.parametrize(
    ("epsilon", "questions"), [(0.1, 40), (0.3, 13), (4, 1), (4.000000000001, 0), (0.007, 571)]
)
def test_pure_budgets_divide_exactly(epsilon: float, questions: int) -> None:
    assert _how_many(Budget(4), price(Pure(Fraction(str(epsilon))))) == questions


def test_many_small_questions_go_further_with_delta() -> None:
    small = price(DiscreteLaplace(Fraction(2000), 20))
    assert _how_many(Budget(4), small) == 400
    assert _how_many(Budget(4, 1e-7), small) > 4000


def test_every_order_converts_back_to_the_budget() -> None:
    budget = Budget(2, 1e-6)
    for order, cap in zip(ORDERS, caps(budget).renyi, strict=True):
        share = mp.mpf(10) ** -6 / 2 / len(ORDERS)
        epsilon = mp.mpf(cap) / NAT + mp.log(1 - 1 / mp.mpf(order)) - mp.log(share * order) / (order - 1)
        assert epsilon <= 2
        assert epsilon > 2 - 1e-8


def test_shares_of_delta_stay_within_delta() -> None:
    delta = Fraction(1, 10**6)
    side = Fraction(caps(Budget(1, delta)).side, SIDE)
    assert side + len(ORDERS) * (delta / 2 / len(ORDERS)) <= delta


def test_no_pure_guarantee_closes_the_pure_filter_for_good() -> None:
    no_pure = Cost(None, (1,) * len(ORDERS), 0)
    assert not caps(Budget(4)).admits(NOTHING, no_pure)
    assert caps(Budget(4, 1e-6)).admits(NOTHING, no_pure)
    assert (no_pure + price(Pure(Fraction(1)))).pure is None


def test_side_delta_has_its_own_cap() -> None:
    limits = caps(Budget(1, 1e-6))
    assert limits.admits(NOTHING, Cost(0, NOTHING.renyi, limits.side))
    assert not limits.admits(NOTHING, Cost(0, NOTHING.renyi, limits.side + 1))


@given(
    st.fractions(Fraction(1, 100), 8),
    st.sampled_from([Fraction(0), Fraction(1, 10**9), Fraction(1, 10**5)]),
    st.lists(st.fractions(Fraction(1, 1000), Fraction(1, 2)), max_size=30),
)
def test_what_is_left_is_admitted_and_a_unit_more_is_not(
    epsilon: Fraction, delta: Fraction, asked: list[Fraction]
) -> None:
    limits, spent = caps(Budget(epsilon, delta)), NOTHING
    for question in asked:
        cost = price(Pure(question))
        spent = spent + cost if limits.admits(spent, cost) else spent
    rest = left(limits, spent)
    assert 0 <= rest.share <= 1
    assert limits.admits(spent, price(Pure(rest.epsilon))) or rest.epsilon == 0
    assert not limits.admits(spent, price(Pure(rest.epsilon + Fraction(2, NAT))))


def test_left_of_an_untouched_account() -> None:
    rest = left(caps(Budget(3, 1e-8)), NOTHING)
    assert rest.share == 1
    assert rest.epsilon == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"epsilon": 0}, "SF-N102"),
        ({"epsilon": -1}, "SF-N102"),
        ({"epsilon": math.nan}, "SF-N105"),
        ({"epsilon": math.inf}, "SF-N105"),
        ({"epsilon": "1"}, "SF-N104"),
        ({"epsilon": True}, "SF-N104"),
        ({"epsilon": 1j}, "SF-N104"),
        ({"epsilon": 10**40}, "SF-N101"),
        ({"epsilon": 1, "delta": 1}, "SF-N106"),
        ({"epsilon": 1, "delta": -1e-9}, "SF-N106"),
    ],
)
def test_bad_budgets_are_refused(arguments: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Budget(**arguments)  # type: ignore[arg-type]
    assert refusal.value.code == code


def test_numbers_read_as_typed() -> None:
    assert Budget(0.1).epsilon == Fraction(1, 10)
    assert Budget.from_dict(Budget(0.3, 1e-7).to_dict()) == Budget(0.3, 1e-7)
