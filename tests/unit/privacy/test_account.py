"""Filters: what they admit, how they round, what they call left."""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy import (
    NOTHING,
    ORDERS,
    ApproxDP,
    Budget,
    Caps,
    Concentrated,
    Cost,
    DiscreteLaplace,
    Gaussian,
    Pure,
    RenyiCurve,
    Repeated,
    Sampled,
    Sequential,
    caps,
    epsilon,
    left,
    price,
)
from sfumato.privacy.account import NAT, SIDE, GaussianCap
from sfumato.privacy.gaussian_costs import RESERVES


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


BUDGETS = [
    Budget(2, 1e-6),
    Budget(4, 1e-7),
    Budget(0.1, 1e-9),
    Budget(0.01, 0.001),
    Budget(20, 1e-5),
    Budget(1, 0.5),
    Budget(0.3, Fraction(1, 10**400)),
    Budget(3000, Fraction(1, 10**400)),
]


def _share(budget: Budget, order: float, cap: int) -> mp.mpf:
    """The δ at which a cap of this order converts to the budget's ε."""
    a, e = mp.mpf(order), mp.mpf(budget.epsilon.numerator) / budget.epsilon.denominator
    return mp.e ** ((a - 1) * (mp.mpf(cap) / NAT - e + mp.log(1 - 1 / a))) / a


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_filters_share_half_of_delta(budget: Budget) -> None:
    with mp.workdps(60):
        limits = caps(budget)
        used = [(order, cap) for order, cap in zip(ORDERS, limits.renyi, strict=True) if cap >= 0]
        total = mp.fsum(_share(budget, order, cap) for order, cap in used)
        half = mp.mpf(budget.delta.numerator) / budget.delta.denominator / 2
        orders = half if limits.gaussian is None else half / 2
        assert total <= orders
        if used:
            assert total >= orders * (1 - mp.mpf("1e-4"))
        if limits.gaussian is not None:
            gaussian = _gaussian_share(budget, limits.gaussian)
            assert half / 2 * (1 - mp.mpf("1e-4")) <= gaussian <= half / 2
        assert 2 * Fraction(limits.side, SIDE) <= budget.delta


def _gaussian_share(budget: Budget, cap: GaussianCap) -> mp.mpf:
    """The δ at the budget's ε of Gaussian noise that uses up the cap and the reserve."""
    epsilon, mu = mp.mpf(float(budget.epsilon)), mp.sqrt(mp.mpf(RESERVES[cap.place]) + mp.mpf(cap.most) / NAT)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def test_the_steward_sets_the_share_of_side_delta() -> None:
    budget = Budget(1, 1e-6, side_share=0.9)
    assert caps(budget).side == math.floor(Fraction(9, 10) * budget.delta * SIDE)
    assert budget != Budget(1, 1e-6)
    assert Budget.from_dict(budget.to_dict()) == budget
    assert repr(budget) == "Budget(epsilon=1, delta=1e-06, side_share=0.9)"
    # What was said by default is written as it was before there was a choice.
    assert Budget(1, 1e-6, side_share=0.5).to_dict() == {"epsilon": "1", "delta": "1/1000000"}
    assert Budget(1, 0, side_share=0.9) == Budget(1)
    whole, none = caps(Budget(1, 1e-6, side_share=1)), caps(Budget(1, 1e-6, side_share=0))
    assert (whole.admits_noise, none.side) == (False, 0)
    assert none.admits(NOTHING, price(Gaussian(5)))
    for wrong in (-0.1, 1.1, "much"):
        with pytest.raises(UsageError):
            Budget(1, 1e-6, side_share=wrong)


def test_a_run_of_dp_sgd_is_admitted_where_side_delta_has_its_share() -> None:
    """σ = 1, q = 0.01, 120 steps at (1, 1e-6), as one run that is priced as (ε, δ)."""
    budget, run = Budget(1, 1e-6, side_share=0.99), Repeated(Sampled(Gaussian(1), 0.01), 120)
    delta = Fraction(caps(budget).side, SIDE)
    found = epsilon(run, delta)
    assert found <= 1
    assert caps(budget).admits(NOTHING, price(ApproxDP(found, delta)))
    assert not caps(Budget(1, 1e-6)).admits(NOTHING, price(ApproxDP(found, delta)))


def test_small_budgets_admit_gaussian_noise() -> None:
    limits, cost = caps(Budget(0.01, 1e-6)), price(Gaussian(1000))
    assert limits.admits(cost * 5, cost)
    assert not limits.admits(cost * 8, cost)


def test_costs_of_gaussian_dp_are_kept_and_given_back() -> None:
    noise, coin, claim = (
        price(Gaussian(30)),
        price(Pure(Fraction(1, 10))),
        price(RenyiCurve([(8, Fraction(1, 100))])),
    )
    for cost in (noise, coin, claim, noise + coin, NOTHING):
        assert Cost.from_dict(cost.to_dict()) == cost
    assert isinstance(noise.to_dict()["gaussian"], int)
    assert "gaussian" not in claim.to_dict()
    assert (noise + coin * 3).take_back(coin * 3) == noise
    assert (noise + claim).gaussian is None
    assert (noise + claim).take_back(claim).gaussian is None
    assert (coin * 7).divide(7) == coin
    old = {"pure": 5, "renyi": [1] * 12, "side": 0}
    assert Cost.from_dict(old) == Cost(5, (1,) * 12, 0)
    assert Cost.from_dict(old).to_dict() == old


def test_filters_of_older_accounts_are_read_as_they_were() -> None:
    limits = caps(Budget(1, 1e-6))
    assert Caps.from_dict(limits.to_dict()) == limits
    old = {name: value for name, value in limits.to_dict().items() if name != "gaussian"}
    assert Caps.from_dict(old).gaussian is None
    assert Caps.from_dict(old).to_dict() == old
    for wrong in ([12, 5], [-1, 5], [3, 5.0], [True, 5]):
        with pytest.raises(ValueError, match="reserve"):
            Caps.from_dict({**old, "gaussian": wrong})


def test_filters_before_gaussian_dp_are_pinned() -> None:
    """By these runs in older labs find their noise, and so their answers."""
    limits = caps(Budget(4, 1e-7), gaussian=False)
    assert (limits.gaussian, limits.side, limits.renyi[:4]) == (None, 57646075230, (-1,) * 4)
    assert limits.renyi[4:8] == (1013527556345, 1846120052313, 2613720322050, 2973504238330)
    assert limits.renyi[8:] == (3485479186116, 3731333865045, 3854049795872, 3951283281162)


def test_a_charge_without_a_cost_closes_the_filter_of_gaussian_dp() -> None:
    limits = caps(Budget(1, 1e-6))
    assert limits.gaussian is not None
    only = replace(limits, pure=-1, renyi=(-1,) * 12)
    noise = price(Gaussian(20))
    assert only.admits(NOTHING, noise)
    assert not only.admits(price(RenyiCurve([(512, Fraction(1, 10**6))])), noise)
    assert only.admits(price(Concentrated(Fraction(1, 10**6))), noise)
    assert not only.admits(Cost(0, NOTHING.renyi, 0), noise)


def test_shares_are_better_than_equal_ones() -> None:
    """More Gaussian events fit than with a twelfth of δ/4 for every order."""
    for budget in BUDGETS[:6]:
        limits = caps(budget)
        ours = max(cap / NAT / order for order, cap in zip(ORDERS, limits.renyi, strict=True))
        equal = float(budget.delta) / 4 / len(ORDERS)
        theirs = max(
            (float(budget.epsilon) - math.log1p(-1 / order) + math.log(equal * order) / (order - 1)) / order
            for order in ORDERS
        )
        assert ours > 1.03 * theirs


def test_the_smallest_questions_are_never_free() -> None:
    assert min(price(Pure(Fraction(1, 10**11))).renyi) >= 1
    assert min(price(Gaussian(10**20)).renyi) >= 1
    assert price(Pure(0)) == NOTHING


def test_delta_too_small_for_any_order_leaves_pure_questions() -> None:
    limits = caps(Budget(1, Fraction(1, 10**400)))
    assert max(limits.renyi) < 0
    assert limits.admits(NOTHING, price(Pure(1)))
    assert not limits.admits(NOTHING, price(Gaussian(1000)))


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
        ({"epsilon": 0}, "SF-N101"),
        ({"epsilon": -1}, "SF-N101"),
        ({"epsilon": math.nan}, "SF-N105"),
        ({"epsilon": math.inf}, "SF-N105"),
        ({"epsilon": "1"}, "SF-N104"),
        ({"epsilon": True}, "SF-N104"),
        ({"epsilon": 1j}, "SF-N104"),
        ({"epsilon": 10**40}, "SF-N101"),
        ({"epsilon": 1, "delta": Decimal("1e-40000")}, "SF-N101"),
        ({"epsilon": 1, "delta": 1}, "SF-N101"),
        ({"epsilon": 1, "delta": -1e-9}, "SF-N101"),
    ],
)
def test_bad_budgets_are_refused(arguments: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Budget(**arguments)  # type: ignore[arg-type]
    assert refusal.value.code == code


def test_numbers_read_as_typed() -> None:
    assert Budget(0.1).epsilon == Fraction(1, 10)
    assert Budget.from_dict(Budget(0.3, 1e-7).to_dict()) == Budget(0.3, 1e-7)


def test_the_parts_of_a_question_cost_what_the_whole_was_told_to() -> None:
    third = Sequential((DiscreteLaplace(Fraction(120), 20),) * 3)
    assert price(third).pure == NAT // 2
    assert _how_many(Budget(1), price(third)) == 2


def test_a_budget_below_the_finest_unit_has_nothing_left() -> None:
    rest = left(caps(Budget(Fraction(1, 10**30))), NOTHING)
    assert rest.share == 0
    assert rest.epsilon == 0
