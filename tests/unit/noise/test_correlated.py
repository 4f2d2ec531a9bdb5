"""Correlated noise: its lattice, its covariance, its price, and what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.noise import CorrelatedGaussian, GaussianNoise

RUNS = 20_000
FALSE_ALARM = 1e-10  # of the covariance test: three entries, each beyond seven standard errors


def test_near_keeps_the_covariance_asked_for() -> None:
    asked = [[400.0, 120.0, 0.0], [120.0, 100.0, -30.0], [0.0, -30.0, 50.0]]
    noise = CorrelatedGaussian.near(asked)
    assert np.allclose(np.array(noise.covariance, dtype=float), asked, rtol=0.01, atol=0.5)


def test_drawn_noise_has_its_covariance() -> None:
    noise = CorrelatedGaussian(((2, 0), (1, 3)), Fraction(5))
    drawn = np.array([noise.release([7, -4]).astype(float) for _ in range(RUNS)]) - [7, -4]
    expected = np.array(noise.covariance, dtype=float)
    found = drawn.T @ drawn / RUNS
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / RUNS)
    assert (np.abs(found - expected) < 7 * spread + 0.1).all()


def test_answers_lie_on_the_lattice_of_the_factor() -> None:
    noise = CorrelatedGaussian(((2, 0), (1, 3)), Fraction(1))
    assert noise.denominator == 6
    for _ in range(50):
        first, second = noise.release([1, 1])
        steps = (first - 1) / 2, ((second - 1) - (first - 1) / 2) / 3
        assert all((6 * step).denominator == 1 for step in steps)


def test_the_price_is_in_the_norm_of_the_inverse() -> None:
    noise = CorrelatedGaussian(((2, 0), (0, 3)), Fraction(5))
    assert noise.event([(1, 0)]).sigma == 10
    assert noise.event([(1, 0), (0, 1)]).sigma == 10
    assert float(noise.event([(1, 1)]).sigma) == pytest.approx(1 / math.sqrt(1 / 100 + 1 / 225), rel=1e-12)


def test_an_identity_factor_is_plain_noise() -> None:
    assert CorrelatedGaussian(((1, 0), (0, 1)), Fraction(3))._independent() == GaussianNoise(Fraction(3))


@pytest.mark.parametrize("covariance", [[[1, 1], [1, 1]], [[-1]], [[1, 0]], [[float("nan")]], "text"])
def test_what_is_no_covariance_is_refused(covariance: object) -> None:
    with pytest.raises(UsageError, match="SF-N203"):
        CorrelatedGaussian.near(covariance)  # type: ignore[arg-type]


def test_a_factor_without_inverse_and_a_wrong_size_are_refused() -> None:
    with pytest.raises(UsageError, match="SF-N203"):
        CorrelatedGaussian(((1, 2), (2, 4)), Fraction(1))
    with pytest.raises(UsageError, match="SF-N203"):
        CorrelatedGaussian(((1, 0), (0, 1)), Fraction(3)).release([1, 2, 3])


def test_the_gaussian_function_takes_what_laplace_takes() -> None:
    assert isinstance(sf.noise.gaussian(7, epsilon=1, delta=1e-5), int)
    noisy = sf.noise.gaussian(np.zeros((3, 4), dtype=np.int64), sensitivity=2, epsilon=1, delta=1e-5)
    assert noisy.shape == (3, 4)
    with pytest.raises(UsageError):
        sf.noise.gaussian([1], epsilon=1, delta=0)


def test_intervals_of_entries() -> None:
    """Against the deviation and what rounding can add; coverage is tested with every other mechanism's."""
    noise = CorrelatedGaussian(((2, 0), (1, 3)), Fraction(5))
    deviation, rounding = math.sqrt(10) * 5, 4 / 12
    assert noise.half_width(1, 0.95) == pytest.approx(1.959963985 * deviation + rounding)
    assert noise.expected_error(1) == pytest.approx(math.sqrt(2 / math.pi) * deviation + rounding)
    assert noise.half_width(0, 0) == pytest.approx(2 / 12)
