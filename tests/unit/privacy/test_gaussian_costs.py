"""Costs in Gaussian DP beside a reserve, against high precision and against whole profiles."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import mpmath as mp
import pytest

from sfumato.privacy import (
    ApproxDP,
    BestOf,
    Budget,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    PrivacyProfile,
    Pure,
    RenyiCurve,
    Repeated,
    Sampled,
    SpreadLaplace,
    price,
)
from sfumato.privacy import gaussian as closed_form
from sfumato.privacy.account import caps
from sfumato.privacy.events import Event, KeyRelease, SpreadExponential
from sfumato.privacy.gaussian_costs import (
    NO_COST,
    RESERVES,
    UNIT,
    choose_reserve,
    find_capacity,
    find_costs,
    price_choice,
    price_coin,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EPSILONS = [
    Fraction(1, 10**9),
    Fraction(1, 10**5),
    Fraction(1, 300),
    Fraction(1, 20),
    Fraction(1, 2),
    1,
    4,
    30,
]


def profile(x: mp.mpf, variance: mp.mpf) -> mp.mpf:
    """δ at ε = x of Gaussian noise of this μ²."""
    mu = mp.sqrt(variance)
    return mp.ncdf(mu / 2 - x / mu) - mp.exp(x) * mp.ncdf(-mu / 2 - x / mu)


def coin_profile(x: mp.mpf, epsilon: mp.mpf, reserve: mp.mpf) -> mp.mpf:
    """δ at ε = x of a coin of randomized response beside Gaussian noise."""
    right = 1 / (1 + mp.exp(-epsilon))
    return right * profile(x - epsilon, reserve) + (1 - right) * profile(x + epsilon, reserve)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_coin_costs_what_its_total_variation_says(epsilon: Fraction) -> None:
    with mp.workdps(60):
        costs = price_coin(Fraction(epsilon))
        assert costs is not None
        for reserve, cost in zip(RESERVES, costs, strict=True):
            variation = coin_profile(
                mp.mpf(0), mp.mpf(epsilon.numerator) / epsilon.denominator, mp.mpf(reserve)
            )
            exact = (2 * mp.sqrt(2) * mp.erfinv(variation)) ** 2 - mp.mpf(reserve) if variation < 1 else None
            assert exact is not None
            above = mp.mpf(cost) / UNIT - exact
            assert 0 <= above <= 3 / mp.mpf(UNIT) + exact * mp.mpf(2) ** -38


@pytest.mark.parametrize("reserve", RESERVES[::4])
@pytest.mark.parametrize("multiple", [0.1, 1, 5, 20])
def test_the_profile_is_dominated_everywhere(reserve: float, multiple: float) -> None:
    epsilon = Fraction(multiple * math.sqrt(reserve))
    costs = price_coin(epsilon)
    assert costs is not None
    with mp.workdps(100):
        total = mp.mpf(reserve) + mp.mpf(costs[RESERVES.index(reserve)]) / UNIT
        size, root = mp.mpf(multiple) * mp.sqrt(reserve), mp.sqrt(total)
        for step in range(-60, 61, 3):
            x = step * root / 4 + step * size / 20
            assert coin_profile(x, size, mp.mpf(reserve)) <= profile(x, total)
        # A hundredth less is too little, where the two are compared at 0.
        less = mp.mpf(reserve) + mp.mpf(costs[RESERVES.index(reserve)]) / UNIT * mp.mpf("0.99")
        assert coin_profile(mp.mpf(0), size, mp.mpf(reserve)) > profile(mp.mpf(0), less)


def test_costs_never_fall_with_epsilon_and_never_rise_with_the_reserve() -> None:
    for find in (price_coin, price_choice):
        before = NO_COST
        for step in range(1, 400):
            costs = find(Fraction(step, 97) ** 3)
            assert costs is not None
            assert all(one <= other for one, other in zip(before, costs, strict=True))
            assert all(one >= other - 2 for one, other in pairwise(costs))
            before = costs


def test_a_small_choice_costs_a_quarter_of_a_coin() -> None:
    choices, coins = price_choice(Fraction(1, 100)), price_coin(Fraction(1, 100))
    assert choices is not None
    assert coins is not None
    assert choices[-1] < 0.2503 * coins[-1]


def test_gaussian_noise_costs_its_mu_squared_at_every_reserve() -> None:
    assert find_costs(Gaussian(Fraction(3))) == (math.ceil(Fraction(UNIT, 9)),) * len(RESERVES)


def test_what_may_have_any_tail_has_no_cost() -> None:
    assert find_costs(RenyiCurve([(512, Fraction(1, 100))])) is None
    assert find_costs(BestOf(Gaussian(10), Fraction(1, 10))) is None
    assert find_costs(Sampled.fixed(RenyiCurve([(512, Fraction(1, 100))]), 1, 2)) is None
    assert find_costs(Concentrated(Fraction(51, 100))) is None
    assert find_costs(Pure(201)) is None


@pytest.mark.parametrize("rho", [Fraction(1, 10**12), Fraction(1, 10**6), Fraction(1, 400), Fraction(1, 2)])
def test_a_concentrated_claim_meets_the_condition_of_its_theorem(rho: Fraction) -> None:
    costs = find_costs(Concentrated(rho))
    assert costs is not None
    with mp.workdps(40):
        for cost, reserve in zip(costs, map(mp.mpf, RESERVES), strict=True):
            total = reserve + mp.mpf(cost) / UNIT
            # The theorem may be used at a larger reserve, and its best is a quarter of the whole.
            beside = max(reserve, total / 4)
            more = total - beside
            assert (
                beside * (mp.sqrt(1 + more / beside) - 1) * mp.exp(-more / 8)
                >= mp.mpf(rho.numerator) / rho.denominator
            )
            assert cost / UNIT <= max(2, 4.0 * (beside > reserve)) * float(rho) * 1.6 + 3 / UNIT


def test_small_concentrated_claims_cost_what_gaussian_noise_does() -> None:
    claim = find_costs(Concentrated(Fraction(1, 10**6)))
    assert claim is not None
    assert claim[-1] < 2.00001e-6 * UNIT
    assert find_costs(DiscreteGaussian(1000, 1)) == find_costs(Concentrated(Fraction(1, 2 * 10**6)))
    assert find_costs(Concentrated(0)) == NO_COST


def test_a_profile_costs_what_its_losses_say() -> None:
    """Points of Gaussian noise of μ² = 1/100, whose tail is cut at ε = 0.5: little more than that noise."""
    noise = Gaussian(10)
    points = [(Fraction(k, 32), Fraction(closed_form.delta_of(0.1, k / 32))) for k in range(17)]
    costs, coin, whole = find_costs(PrivacyProfile(points)), price_coin(Fraction(1, 2)), find_costs(noise)
    assert costs is not None
    assert coin is not None
    assert whole is not None
    assert all(one <= other for one, other in zip(costs, coin, strict=True))
    assert whole[-1] < costs[-1] < 1.7 * whole[-1]
    assert costs[-1] < coin[-1] / 15
    tiny = PrivacyProfile([(Fraction(1, 10**60), Fraction(1, 10**6))])
    assert find_costs(tiny) == price_coin(Fraction(1, 10**60))
    assert find_costs(PrivacyProfile([(150, Fraction(1, 10**6))])) == price_coin(Fraction(150))


def test_noise_on_a_sample_costs_no_more_than_on_all_units() -> None:
    assert find_costs(Sampled(Gaussian(7), 0.01)) == find_costs(Gaussian(7))
    assert find_costs(Sampled.fixed(Concentrated(Fraction(1, 100)), 1, 9)) == find_costs(
        Concentrated(Fraction(1, 100))
    )


def test_keys_with_other_noise_than_gaussian_are_coins() -> None:
    claim = KeyRelease(Fraction(1, 10), Fraction(1, 10**6), Concentrated(Fraction(1, 10**9)))
    assert find_costs(claim) == price_coin(Fraction(1, 10))
    assert find_costs(Pure(0)) == NO_COST


def test_other_events_are_coins_of_their_pure_epsilon() -> None:
    coin = price_coin(Fraction(1, 10))
    assert find_costs(Laplace(10)) == find_costs(DiscreteLaplace(20, 2)) == coin
    assert find_costs(ApproxDP(Fraction(1, 10), Fraction(1, 10**6))) == coin


def test_many_cells_cost_the_sum_of_their_squares() -> None:
    spread = find_costs(SpreadLaplace(200, ((1, 100),)))
    single, whole = price_coin(Fraction(1, 200)), price_coin(Fraction(1, 2))
    assert spread is not None
    assert single is not None
    assert whole is not None
    for cells, cell, alone in zip(spread, single, whole, strict=True):
        assert cells <= alone
        assert 100 * (cell - 3) <= cells or cells == alone
        assert cells <= 1.003 * 100 * cell or math.isclose(cells, math.pi / 2 * 0.0025 * UNIT, rel_tol=1e-6)


def test_keys_cost_no_more_than_their_noise() -> None:
    keys = KeyRelease(Fraction(1), Fraction(1, 10**7), Gaussian(20))
    assert find_costs(keys) == find_costs(Gaussian(20))
    wide = KeyRelease(Fraction(1, 10), Fraction(1, 10**7), Gaussian(2))
    assert find_costs(wide) == price_coin(Fraction(1, 10))


def test_choices_in_many_cells_add_up() -> None:
    many, one = find_costs(SpreadExponential(Fraction(1, 500), ((1, 50),))), price_choice(Fraction(1, 500))
    assert many is not None
    assert one is not None
    assert 0.98 * 50 * one[-1] <= many[-1] <= 1.03 * 50 * one[-1]
    assert find_costs(Exponential(Fraction(1, 500))) == one


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (4, 1e-7), (0.1, 1e-6), (0.01, 1e-6), (20, 1e-9)])
def test_the_capacity_is_exact_from_below(epsilon: float, delta: float) -> None:
    found = find_capacity(Fraction(epsilon), Fraction(delta))
    with mp.workdps(50):
        assert profile(mp.mpf(epsilon), mp.mpf(found)) <= mp.mpf(delta)
        assert profile(mp.mpf(epsilon), mp.mpf(found) * (1 + mp.mpf(10) ** -9)) > mp.mpf(delta)
    assert found == pytest.approx(closed_form.mu_of(epsilon, delta) ** 2, rel=1e-9)


def test_the_reserve_is_between_a_64th_and_a_16th_of_the_capacity() -> None:
    for power in range(-19, 3):
        for part in (1.0, 1.3, 1.99):
            place = choose_reserve(part * 2.0**power)
            assert place is not None
            assert place == len(RESERVES) - 1 or part * 2.0**power / 64 < RESERVES[place]
            assert RESERVES[place] <= part * 2.0**power / 16
    assert choose_reserve(RESERVES[0] * 4) == 0
    assert choose_reserve(RESERVES[0] * 3.9) is None


@pytest.mark.parametrize("kind", [Pure, Exponential, lambda e: Sampled(Pure(e), Fraction(1, 2))])
def test_what_is_repeated_often_enough_is_never_free(kind: Callable[[Fraction], Event]) -> None:
    """An ε below the range of doubles costs a unit of each filter, as often as it is repeated."""
    event = kind(Fraction(1, 10**330))
    for _ in range(12):
        event = Repeated(event, 2**99)
    total = price(event)
    assert total.gaussian is not None
    assert min(*total.gaussian, *total.renyi) >= 2**1188
    assert not caps(Budget(1, 1e-6)).holds(total)


def test_a_sample_of_a_sample_is_never_free() -> None:
    event: Event = Pure(1)
    for _ in range(12):
        event = Sampled(event, Fraction(1, 2**99))
    assert event.pure()
    assert not price(event).is_free


def test_points_below_the_range_of_doubles_are_priced() -> None:
    claim = PrivacyProfile([(1, 0), (Fraction(1, 1000), Fraction(1, 10**330))])
    found = find_costs(claim)
    assert found is not None
    assert min(found) > 0
