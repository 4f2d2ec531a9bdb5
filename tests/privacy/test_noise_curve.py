"""What integer Laplace noise is charged, against sums over its law (docs/proofs/discrete-laplace.md)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from mpmath import mp, mpf

from sfumato.noise import LaplaceNoise


def log_moment(scale: Fraction, shift: int, order: float) -> mpf:
    """log Σ P(X = x)^α · P(X = x − k)^(1−α), term by term as far as it matters."""
    r = mp.exp(-mpf(scale.denominator) / scale.numerator)
    reach = int(120 * scale) + 50
    exponents = (order * abs(x) + (1 - order) * abs(x - shift) for x in range(-reach, reach + shift))
    return mp.log((1 - r) / (1 + r) * mp.fsum(r**exponent for exponent in exponents))


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(10)])
@pytest.mark.parametrize("order", [1.5, 4.0, 32.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_charge_is_the_divergence(scale: Fraction, order: float, shift: int) -> None:
    with mp.workprec(200):
        expected = float(log_moment(scale, shift, order) / (order - 1))
    assert LaplaceNoise(scale).event(shift).renyi(order) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("parts", [(1, 1), (2, 3), (1, 1, 1, 1)])
def test_a_shift_spread_over_coordinates_costs_no_more(parts: tuple[int, ...]) -> None:
    with mp.workprec(200):
        spread = mp.fsum(log_moment(Fraction(5), part, 4.0) for part in parts)
        assert spread <= log_moment(Fraction(5), sum(parts), 4.0)
