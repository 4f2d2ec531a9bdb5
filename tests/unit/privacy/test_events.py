"""The closed forms against sums written out in high precision."""

from fractions import Fraction

import mpmath as mp
import pytest

from sfumato.privacy import ORDERS, DiscreteLaplace, Pure, Sequential
from sfumato.privacy.account import NAT, price

RATES = [Fraction(1), Fraction(1, 10), Fraction(1, 1000), Fraction(7, 3), Fraction(50), Fraction(1, 100_000)]


def _summed_divergence(rate: Fraction, steps: int, order: float) -> mp.mpf:
    """Σ p(x)^α p(x − k)^(1 − α) with the two geometric tails in closed form and the middle term by term."""
    with mp.workdps(60):
        r, alpha = mp.e ** (-mp.mpf(rate.numerator) / rate.denominator), mp.mpf(order)
        middle = mp.fsum(r ** (alpha * x + (1 - alpha) * (steps - x)) for x in range(1, steps))
        tails = (r ** ((1 - alpha) * steps) + r ** (alpha * steps)) / (1 - r)
        return mp.log((1 - r) / (1 + r) * (middle + tails)) / (alpha - 1)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("steps", [1, 2, 20, 300])
def test_discrete_laplace_curve_is_exact(rate: Fraction, steps: int) -> None:
    event = DiscreteLaplace(1 / rate, steps)
    for order in ORDERS:
        truth = _summed_divergence(rate, steps, order)
        assert abs(event.renyi(order) - truth) <= 1e-12 * truth + 1e-18


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("steps", [1, 20])
def test_price_is_never_below_the_truth_and_hardly_above(rate: Fraction, steps: int) -> None:
    cost = price(DiscreteLaplace(1 / rate, steps))
    assert cost.pure is not None
    assert 0 <= Fraction(cost.pure, NAT) - steps * rate < Fraction(1, NAT)
    for units, order in zip(cost.renyi, ORDERS, strict=True):
        truth = _summed_divergence(rate, steps, order)
        assert mp.mpf(units) / NAT >= truth
        assert mp.mpf(units) / NAT <= truth * (1 + 1e-11) + mp.mpf(3) / NAT


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(8)])
def test_pure_has_the_curve_of_randomized_response(epsilon: Fraction) -> None:
    for order in ORDERS:
        e = mp.mpf(epsilon.numerator) / epsilon.denominator
        truth = mp.log((mp.e ** (order * e) + mp.e ** ((1 - order) * e)) / (1 + mp.e**e)) / (order - 1)
        assert Pure(epsilon).renyi(order) == pytest.approx(float(truth), rel=1e-12)


def test_a_spread_shift_never_costs_more_than_one_coordinate() -> None:
    for order in ORDERS:
        whole = DiscreteLaplace(Fraction(7), 12).renyi(order)
        spread = sum(DiscreteLaplace(Fraction(7), part).renyi(order) for part in (5, 4, 2, 1))
        assert spread <= whole * (1 + 1e-12)


def test_discrete_laplace_never_costs_more_than_pure() -> None:
    for order in ORDERS:
        assert DiscreteLaplace(Fraction(100), 20).renyi(order) <= Pure(Fraction(1, 5)).renyi(order) * (
            1 + 1e-12
        )


def test_sequential_adds() -> None:
    parts = (Pure(Fraction(1, 3)), DiscreteLaplace(Fraction(6), 1))
    both = Sequential(parts)
    assert both.pure() == Fraction(1, 2)
    assert both.renyi(2.0) == pytest.approx(sum(part.renyi(2.0) for part in parts))
    assert both.side_delta() == 0
