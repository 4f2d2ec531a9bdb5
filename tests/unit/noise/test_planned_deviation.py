"""The deviations that learners plan with are part of what a fit asks, so their digits are pinned."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.noise import GaussianNoise, LaplaceNoise

LAPLACE = {
    Fraction(1, 1000): "0x1.19799812dea11p-40",
    Fraction(1, 3): "0x1.540eb51b9736ap-2",
    Fraction(7, 2): "0x1.3bb57a97fe425p+2",
    Fraction(10**9, 7): "0x1.8157b59d2257ap+27",
}


@pytest.mark.parametrize("scale", LAPLACE)
def test_planned_deviations_of_laplace_noise_never_change(scale: Fraction) -> None:
    assert LaplaceNoise(scale).planned_deviation.hex() == LAPLACE[scale]


@pytest.mark.parametrize("sigma", [Fraction(5), Fraction(10**9, 7)])
def test_planned_deviations_of_gaussian_noise_leave_rounding_out(sigma: Fraction) -> None:
    noise = GaussianNoise(sigma)
    assert noise.planned_deviation == float(sigma)
    assert noise.moments.variance == pytest.approx(float(sigma) ** 2 + 1 / 12, rel=1e-12)
