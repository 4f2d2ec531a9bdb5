"""Noise and sample sizes: known values, and that what is returned meets the wish."""

import math
from fractions import Fraction

import pytest

from sfumato.errors import UsageError
from sfumato.privacy import (
    NOTHING,
    Budget,
    Gaussian,
    Pure,
    Repeated,
    Sampled,
    average_error,
    caps,
    delta,
    epsilon,
    gaussian_sigma,
    price,
    sample_size,
    sampled_sigma,
    share_epsilon,
    share_sigma,
)
from sfumato.privacy.calibration import COARSE


def test_analytic_gaussian_noise() -> None:
    assert gaussian_sigma(1, 1e-5) == pytest.approx(3.730632, abs=5e-7)
    assert gaussian_sigma(1, 1e-5, sensitivity=2) == pytest.approx(2 * 3.730632, abs=1e-6)
    assert gaussian_sigma(1, 1e-5) < math.sqrt(2 * math.log(1.25e5))


@pytest.mark.parametrize("e", [0.01, 0.5, 3, 50])
@pytest.mark.parametrize("d", [0.1, 1e-5, 1e-12])
def test_the_noise_is_enough_and_hardly_more(e: float, d: float) -> None:
    sigma = gaussian_sigma(e, d)
    assert delta(Gaussian(sigma), e) <= d
    assert delta(Gaussian(sigma * (1 - 1e-6)), e) > d


def test_noise_of_a_sampled_run() -> None:
    sigma = sampled_sigma(0.01, 1000, 2, 1e-5)
    assert epsilon(Repeated(Sampled(Gaussian(sigma), 0.01), 1000), 1e-5) <= 2
    assert epsilon(Repeated(Sampled(Gaussian(0.98 * sigma), 0.01), 1000), 1e-5) > 2


def test_noise_of_a_sampled_run_is_compared_exactly() -> None:
    """An ε less than an ulp below what some noise costs takes more noise."""

    def cost(sigma: float) -> float:
        return epsilon(Repeated(Sampled(Gaussian(sigma), 0.01), 100), 1e-5, step=COARSE)

    reached = cost(sampled_sigma(0.01, 100, 2, 1e-5))
    below = Fraction(reached) - Fraction(1, 10**40)
    assert float(below) == reached
    assert cost(sampled_sigma(0.01, 100, below, 1e-5)) < reached


@pytest.mark.parametrize("budget", [Budget(4, 1e-7), Budget(1, 1e-6), Budget(0.1, 1e-9)], ids=str)
def test_fifty_shares_of_two_per_cent_fit(budget: Budget) -> None:
    noise, small = price(Gaussian(share_sigma(budget, 0.02))), price(Pure(share_epsilon(budget, 0.02)))
    spent = noise * 25 + small * 24
    assert caps(budget).admits(spent, small)
    assert not caps(budget).admits(noise * 50, noise)
    assert share_epsilon(budget, 0.02) > budget.epsilon / 50


def test_shares_of_pure_budgets() -> None:
    assert share_epsilon(Budget(4), 0.02) == Fraction(2, 25)
    assert caps(Budget(4)).admits(NOTHING, price(Pure(share_epsilon(Budget(4), 1))))
    with pytest.raises(UsageError):
        share_sigma(Budget(4), 0.02)


def test_how_many_people() -> None:
    assert sample_size(width=1, error=0.01, queries=5, epsilon=1) == 500
    assert sample_size(width=1, error=0.3, queries=1, epsilon=1) == 4
    assert average_error(width=1, n=500, epsilon=1, queries=5) == Fraction(1, 100)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: gaussian_sigma(1, 0), "SF-N316"),
        (lambda: share_sigma(Budget(1, 1e-6), 0), "SF-N101"),
        (lambda: share_sigma(Budget(1, Fraction(1, 10**400)), 0.5), "SF-N316"),
    ],
)
def test_wishes_that_cannot_be_met(call: object, code: str) -> None:
    with pytest.raises(UsageError) as refusal:
        call()  # type: ignore[operator]
    assert refusal.value.code == code
