"""The Gaussian mechanism as a value: its error, its arithmetic, its limits."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato.errors import UsageError
from sfumato.noise import GaussianNoise

SIGMAS = [Fraction(n) for n in ("1/1000", "1/3", 1, 10, 64, 1000, 1025, 2**34, 2**40, 2**42, 2**52)]


def outside(sigma: Fraction, t: int) -> mpf:
    """P(|noise| > t)."""
    return mp.erfc((t + mpf(1) / 2) * sigma.denominator / sigma.numerator / mp.sqrt(2))


@pytest.mark.parametrize(
    "sigma", [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(49), Fraction(51)]
)
def test_expected_error_is_the_mean_of_the_noise(sigma: Fraction) -> None:
    with mp.workprec(100):
        mean = mp.fsum(outside(sigma, t) for t in range(int(12 * sigma) + 2))
    assert GaussianNoise(sigma).expected_error() == pytest.approx(float(mean), rel=1e-9)


def test_expected_error_of_wide_noise() -> None:
    assert GaussianNoise(Fraction(2**34)).expected_error() == pytest.approx(
        2**34 * 0.7978845608028654, rel=1e-12
    )


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@pytest.mark.parametrize("confidence", [0, 0.5, 0.9, 0.95, 0.99, 1 - 1e-12])
def test_half_width_is_the_smallest_that_suffices(sigma: Fraction, confidence: float) -> None:
    with mp.workprec(4000):
        t, allowed = GaussianNoise(sigma).half_width(confidence), 1 - mpf(repr(confidence))
        assert outside(sigma, t) <= allowed
        assert t == 0 or outside(sigma, t - 1) > allowed


def test_a_confidence_is_below_one() -> None:
    with pytest.raises(UsageError, match="SF-N101"):
        GaussianNoise(Fraction(1)).half_width(1)


@pytest.mark.parametrize("sigma", [Fraction(1, 1001), Fraction(2**52 + 1), Fraction(0), Fraction(-1)])
def test_absurd_sigmas_are_refused(sigma: Fraction) -> None:
    with pytest.raises(UsageError):
        GaussianNoise(sigma)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,), (4, 0)])
@pytest.mark.parametrize("sigma", [Fraction(2), Fraction(10**6)])
def test_the_shape_is_kept(shape: tuple[int, ...], sigma: Fraction) -> None:
    noisy = GaussianNoise(sigma).release(np.zeros(shape, dtype=np.int64))
    assert isinstance(noisy, np.ndarray)
    assert (noisy.shape, noisy.dtype) == (shape, np.int64)


@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63)])
def test_sums_never_wrap(edge: int) -> None:
    """Of 200 draws some take either side, except with probability 2^−198."""
    noisy = GaussianNoise(Fraction(10**4)).release(np.full(200, edge))
    assert noisy.dtype == object
    assert min(noisy) < edge < max(noisy)


def test_wide_integers_stay_wide() -> None:
    exact = np.array([2**100, -(2**90), 0], dtype=object)
    noisy = GaussianNoise(Fraction(1)).release(exact)
    assert all(type(value) is int for value in noisy)
    assert all(abs(a - b) < 100 for a, b in zip(exact, noisy, strict=True))


def test_a_mechanism_is_a_plain_value() -> None:
    mechanism = GaussianNoise(Fraction(3, 2))
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert GaussianNoise(1.5) == mechanism  # type: ignore[arg-type]
