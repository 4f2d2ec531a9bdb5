"""The normal distribution in integers against mpmath's."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from sfumato.noise.sampling.inversion import RationalNumber, invert
from sfumato.noise.sampling.normal import (
    CELLS,
    REACH,
    NormalMagnitude,
    RoundedNormal,
    central_probability,
    magnitude_table,
    normal_density,
)

if TYPE_CHECKING:
    from tests.unit.noise.conftest import Script

PRECISION = 4000  # e^−800 is 2^−1154: far below what is asked of it


def real(x: Fraction) -> mpf:
    return mpf(x.numerator) / x.denominator


def normal_below(x: Fraction) -> mpf:
    """erfc keeps the digits of the tail that erf would lose."""
    return mp.erfc(-real(x) / mp.sqrt(2)) / 2


xs = st.one_of(st.fractions(0, 12, max_denominator=2**50), st.fractions(0, 45, max_denominator=10))


@settings(max_examples=100)
@given(xs, st.integers(16, 500))
def test_the_distribution_is_caught_closely(x: Fraction, bits: int) -> None:
    found = central_probability(x, bits)
    with mp.workprec(PRECISION):
        assert found.low <= (normal_below(x) - mpf(1) / 2) * mpf(2) ** bits <= found.high
    assert found.high - found.low <= 2


@settings(max_examples=50)
@given(xs, st.integers(16, 500))
def test_the_density_is_caught_closely(x: Fraction, bits: int) -> None:
    found = normal_density(x, bits)
    with mp.workprec(PRECISION):
        assert found.low <= mp.npdf(real(x)) * mpf(2) ** bits <= found.high
    assert found.high - found.low <= 16


@pytest.mark.parametrize("bits", [64, 200])
@pytest.mark.parametrize(
    "sigma", [Fraction(1, 1000), Fraction(1, 7), Fraction(1), Fraction(10**6, 7), Fraction(2**40)]
)
def test_thresholds_of_rounded_noise_are_right(sigma: Fraction, bits: int) -> None:
    ks = [0, 1, -1, 2, int(sigma), -int(3 * sigma), int(8 * sigma) + 1, -int(9 * sigma)]
    with mp.workprec(PRECISION):
        for k in ks:
            [threshold] = RoundedNormal(sigma).bracket_cdf(range(k, k + 1), bits)
            truth = normal_below((k - Fraction(1, 2)) / sigma) * mpf(2) ** bits
            assert threshold <= truth <= threshold + 2


def test_thresholds_of_magnitudes_are_right() -> None:
    table = magnitude_table()
    assert NormalMagnitude().bracket_cdf(range(-1, 1), 64) == [-2, -2]
    with mp.workprec(300):
        for k, threshold in enumerate(table.thresholds.tolist(), start=1):
            truth = mp.erf(mpf(k) / CELLS / mp.sqrt(2)) * 2**64
            assert threshold <= truth <= threshold + 2


def test_the_table_of_magnitudes_reaches_far_enough() -> None:
    assert mp.erfc(mpf(REACH) / CELLS / mp.sqrt(2)) < mpf(2) ** -64


@pytest.mark.parametrize("bits", [192, 320])
def test_magnitudes_go_on_beyond_the_table(bits: int, script: type[Script]) -> None:
    k = 750  # 11.7 standard deviations
    with mp.workprec(PRECISION):
        tie = int(mp.floor(mp.erf(mpf(k) / CELLS / mp.sqrt(2)) * mpf(2) ** bits))
    assert magnitude_table().draw(1, script.of(tie + 3, bits)).tolist() == [k]
    assert magnitude_table().draw(1, script.of(tie - 3, bits)).tolist() == [k - 1]


def test_quantiles_of_rounded_noise() -> None:
    """1.959964 is the 97.5 % quantile of the normal law."""
    assert invert(RoundedNormal(Fraction(10**6)), RationalNumber(Fraction(975, 1000))) == 1959964
