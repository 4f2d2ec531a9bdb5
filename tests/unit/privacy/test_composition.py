"""Runs fixed in advance: known numbers, and lower bounds below upper ones."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.privacy import (
    ApproxDP,
    Concentrated,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    KNorm,
    Laplace,
    NonPrivate,
    Parallel,
    Pure,
    RandomizedAnswer,
    Repeated,
    Sampled,
    Sequential,
    ThresholdedKeys,
    delta,
    epsilon,
    mu,
    renyi_delta,
    renyi_epsilon,
    rho,
    rho_epsilon,
)
from sfumato.privacy.gaussian import delta_bounds
from sfumato.privacy.losses.atoms import discrete_laplace, kary_randomized_response
from sfumato.privacy.losses.distribution import bounded_range_profile


def test_one_gaussian() -> None:
    assert epsilon(Gaussian(1), 1e-5) == pytest.approx(4.377178, abs=5e-7)
    assert delta(Gaussian(1), 4.377178) == pytest.approx(1e-5, rel=1e-5)


@pytest.mark.parametrize("move", [1e-6, 0.001, 0.1, 1.0, 7.0, 60.0])
@pytest.mark.parametrize("scaled", [0.0, 0.5, 3.0, 8.0, 25.0])
def test_the_gaussian_profile_in_many_digits(move: float, scaled: float) -> None:
    """At ε = μ²/2 + scaled·μ the truth lies between the bounds, and these are close."""
    e = move * move / 2 + scaled * move
    low, high = delta_bounds(move, e)
    with mp.workdps(60):
        near, far = mp.mpf(move) / 2 - mp.mpf(e) / move, -mp.mpf(move) / 2 - mp.mpf(e) / move
        truth = mp.ncdf(near) - mp.e ** mp.mpf(e) * mp.ncdf(far)
    assert low <= truth <= high
    assert high - low <= max(1e-6, 1e-9 / move) * truth


def test_gaussian_events_compose_exactly() -> None:
    assert epsilon([Gaussian(10)] * 100, 1e-5) == pytest.approx(4.377178, abs=5e-7)
    assert epsilon([Gaussian(3), Gaussian(4)], 1e-6) == pytest.approx(epsilon(Gaussian(2.4), 1e-6))


def test_mu_composes_by_squares_and_belongs_to_gaussian_noise() -> None:
    assert mu([Gaussian(Fraction(1, 3)), Gaussian(Fraction(1, 4))]) == pytest.approx(5)
    assert mu(Repeated(Gaussian(1), 9)) == pytest.approx(3)
    with pytest.raises(UsageError) as refusal:
        mu([Gaussian(1), Laplace(1)])
    assert refusal.value.code == "SF-N309"


def test_the_fair_coin_is_exactly_ln_3() -> None:
    coin = RandomizedAnswer.truthful(Fraction(3, 4))
    assert epsilon(coin, 0) == pytest.approx(math.log(3), rel=1e-11)
    assert delta(coin, coin.epsilon) == 0
    for at in (0.5, 1.0):
        assert delta(coin, at) == pytest.approx(3 / 4 - math.exp(at) / 4, abs=1e-6)


def test_dp_sgd() -> None:
    """Ten thousand steps at one per cent: two other libraries bracket the truth by [6.17771, 6.187713]."""
    run = Repeated(Sampled(Gaussian(1), 0.01), 10_000)
    upper = epsilon(run, 1e-5)
    assert 6.17771 <= upper <= 6.1890
    assert 6.1876 < epsilon(run, 1e-5, lower=True) < 6.187713 < upper < renyi_epsilon(run, 1e-5) < 6.73


@pytest.mark.parametrize(
    ("event", "wide"),
    [
        (Sampled(Gaussian(1), 0.01), 2e-4),
        (Sampled(Laplace(1.3), 0.01), 5e-3),
        (Laplace(97), 5e-3),
        (DiscreteLaplace(970, 13), 5e-4),
        (Pure(0.0123457), 5e-2),
    ],
)
def test_brackets_stay_narrow_on_long_runs(event: Event, wide: float) -> None:
    """Losses that lie on no grid, added up twenty thousand times."""
    run = Repeated(event, 20_000)
    lower, upper = epsilon(run, 1e-5, lower=True), epsilon(run, 1e-5)
    assert 4 < lower < upper < lower + wide


def test_five_hundred_of_each() -> None:
    """The first 500 draws are the Laplace scales, the next 500 the Gaussian ones."""
    noise = np.random.default_rng(0).uniform(20, 400, 1000).tolist()
    events = [*map(Laplace, noise[:500]), *map(Gaussian, noise[500:])]
    upper, lower = epsilon(events, 1e-5), epsilon(events, 1e-5, lower=True)
    assert 1.257 <= lower < upper <= 1.309
    assert upper - lower < 0.03
    assert upper < renyi_epsilon(events, 1e-5)


RUNS: list[Event | list[Event]] = [
    [Pure(0.1)] * 30,
    [Exponential(0.1)] * 30,
    [DiscreteLaplace(200, 20)] * 30,
    [DiscreteLaplace(1, 1), DiscreteLaplace(3, 2), DiscreteLaplace(Fraction(100_000), 70_000)],
    [KNorm(200, 20)] * 30,
    [Laplace(10)] * 30,
    [RandomizedAnswer(0.1, 4)] * 30,
    [ApproxDP(0.1, 1e-7)] * 30,
    [ThresholdedKeys(0, 1e-7), Gaussian(3), Pure(0.5)],
    [Parallel([Gaussian(20), Laplace(10)])] * 10,
    [Sampled(Laplace(1), 0.05)] * 30,
    [Sampled(Gaussian(1), 1), Pure(1)],
    Grouped(Sequential([Laplace(10), Gaussian(10)]), 3),
    Parallel([]),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: (run if isinstance(run, Event) else run[0]).tag)
def test_lower_bounds_are_below_upper_ones_and_those_below_renyi(run: Event | list[Event]) -> None:
    upper, lower, renyi = epsilon(run, 1e-5), epsilon(run, 1e-5, lower=True), renyi_epsilon(run, 1e-5)
    assert lower <= upper <= renyi
    middle = max(upper, 0.1)
    assert delta(run, middle, lower=True) <= delta(run, middle) <= renyi_delta(run, middle)


def test_round_trips() -> None:
    run = [Laplace(5), Exponential(0.3), Pure(0.2)]
    assert delta(run, epsilon(run, 1e-5)) == pytest.approx(1e-5, rel=0.01)


def test_what_pure_events_never_exceed() -> None:
    assert epsilon([Pure(1), Pure(2)], 0) == pytest.approx(3)
    assert delta([Pure(1), Pure(2)], 3) == 0
    assert epsilon([Gaussian(1)], 0) == math.inf


def test_no_privacy_is_no_number() -> None:
    assert epsilon([NonPrivate(), Pure(1)], 1e-5) == math.inf
    assert delta([NonPrivate(), Pure(1)], 1) == 1


@pytest.mark.parametrize(("e0", "times"), [(0.1, 100), (0.5, 50), (0.003, 100_000)])
@pytest.mark.parametrize("small", [1e-4, 1e-11])
def test_many_coins_against_the_binomial_law(e0: float, times: int, small: float) -> None:
    """The loss of n randomized responses is (2k − n)·ε₀ with k binomial, in 40 digits."""
    run = Repeated(RandomizedAnswer(Fraction(str(e0)), 2), times)
    upper, lower = epsilon(run, small), epsilon(run, small, lower=True)
    assert coins_delta(e0, times, upper) <= small
    assert coins_delta(e0, times, lower * (1 - 1e-9)) >= small
    assert coins_delta(e0, times, 1.002 * lower + 1e-3) <= small * 2
    for at in (0.5 * upper, upper, 1.3 * upper):
        truth = coins_delta(e0, times, at)
        assert delta(run, at, lower=True) <= truth <= delta(run, at)


def coins_delta(e0: float, times: int, at: float) -> mp.mpf:
    with mp.workdps(40):
        one, e = mp.mpf(str(e0)), mp.mpf(at)
        p = 1 / (1 + mp.e**-one)
        k = int(mp.floor((e / one + times) / 2)) + 1
        total, term = mp.mpf(0), mp.binomial(times, k) * p**k * (1 - p) ** (times - k)
        while k <= times and (not total or term > total * mp.mpf(10) ** -30):
            total += term * -mp.expm1(e - (2 * k - times) * one)
            term *= mp.mpf(times - k) / (k + 1) * p / (1 - p)
            k += 1
        return total


def test_tiny_deltas_are_composed_too() -> None:
    run = [Laplace(10)] * 50 + [Gaussian(10)]
    for small in (1e-9, 1e-12):
        assert epsilon(run, small, lower=True) < epsilon(run, small) < renyi_epsilon(run, small)


def test_samples_of_fixed_size_have_a_curve_only() -> None:
    run = Repeated(Sampled.fixed(Gaussian(2), 10, 1000), 100)
    with pytest.raises(UsageError) as refusal:
        epsilon(run, 1e-5)
    assert refusal.value.code == "SF-N309"
    assert 0 < renyi_epsilon(run, 1e-5) < 5
    assert epsilon(Sampled.fixed(Pure(1), 1, 100), 0) == pytest.approx(math.log1p(0.01 * math.expm1(1)))


def test_what_is_concentrated_has_the_epsilon_of_its_rho() -> None:
    for run in ([Concentrated(0.02)], [Concentrated(0.01), Gaussian(10)] * 2):
        assert 0 < epsilon(run, 1e-6) == renyi_epsilon(run, 1e-6) < 2
        assert 0 < delta(run, 1) == renyi_delta(run, 1) < 1e-3
    with pytest.raises(UsageError, match="SF-N309"):
        epsilon([Concentrated(0.02)], 1e-6, lower=True)


def test_no_lower_bound_where_the_price_of_a_group_is_only_a_bound() -> None:
    for event in (Grouped(ApproxDP(0.1, 1e-9), 2), Grouped(Pure(0.1), 2), Sampled(Pure(1), 0.1)):
        assert epsilon(event, 1e-5) > 0
        with pytest.raises(UsageError) as refusal:
            epsilon(event, 1e-5, lower=True)
        assert refusal.value.code == "SF-N309"


def test_profiles_against_sums() -> None:
    """Σ (p − e^ε·q)₊ written out."""
    rate, steps, at = 0.3, 4, 0.7
    xs = np.arange(-400, 400)
    law = np.exp(-rate * np.abs(xs)) * math.tanh(rate / 2)
    moved = np.exp(-rate * np.abs(xs - steps)) * math.tanh(rate / 2)
    truth = np.maximum(0, law - math.exp(at) * moved).sum()
    assert discrete_laplace(rate, steps).profile(np.array([at]))[0] == pytest.approx(truth, rel=1e-12)
    assert discrete_laplace(rate, steps).masses.sum() == pytest.approx(1)
    assert kary_randomized_response(1.0, 5).masses.sum() == pytest.approx(1)


def test_the_bounded_range_profile_is_the_largest_of_all_two_point_pairs() -> None:
    e, at = 1.3, np.linspace(-1.5, 1.5, 31)
    t = np.linspace(0, e, 2001)[:, None]
    weight = np.expm1(t - e) / (np.exp(t - e) - np.exp(t))
    pairs = weight * np.maximum(0, np.exp(t) - np.exp(at)) + (1 - weight) * np.maximum(
        0, np.exp(t - e) - np.exp(at)
    )
    assert bounded_range_profile(e, at) == pytest.approx(pairs.max(axis=0), abs=1e-6)
    assert np.all(bounded_range_profile(e, at) >= pairs.max(axis=0) - 1e-12)


def test_rho_bounds_every_order() -> None:
    for event in (Pure(2), Laplace(1), Gaussian(2), Exponential(1), Sequential([Pure(1), Gaussian(1)])):
        for order in (1.01, 2.0, 10.0, 500.0):
            assert event.renyi(order) <= float(rho(event)) * order * (1 + 1e-12)
    assert rho(Repeated(Gaussian(2), 8)) == 1
    assert rho(Grouped(Gaussian(2), 2)) == Fraction(1, 2)
    assert rho(Parallel([Exponential(2), Pure(1)])) == Fraction(1, 2)
    with pytest.raises(UsageError):
        rho(Sampled(Gaussian(1), 0.1))


def test_rho_epsilon_is_below_the_simple_formula() -> None:
    for r in (0.01, 0.5, 3):
        simple = r + 2 * math.sqrt(r * math.log(1e6))
        assert epsilon(Gaussian(1 / math.sqrt(2 * r)), 1e-6) < rho_epsilon(r, 1e-6) < simple
