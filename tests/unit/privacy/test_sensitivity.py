"""Norms in exact numbers, and correlated noise."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy import Gaussian, Neighbours, Sensitivity, correlated_gaussian
from sfumato.privacy.sensitivity import root_up


@given(st.fractions(Fraction(1, 10**12), 10**12))
def test_roots_round_up_and_hardly(square: Fraction) -> None:
    root = root_up(square)
    assert root * root >= square
    assert (root * (1 - Fraction(1, 2**55))) ** 2 < square
    assert root_up(square * square) == square


def test_norms() -> None:
    one = Sensitivity.of([[3, -4], [0.1, 0]], Neighbours.ADD_REMOVE)
    assert (one.l1, one.l2_squared, one.l2) == (7, 25, 5)
    two = one.for_replacement()
    assert (two.l1, two.l2, two.neighbours) == (14, 10, Neighbours.REPLACE_ONE)
    assert two.for_replacement() is two


def test_independent_noise_of_one_size_is_the_usual_event() -> None:
    assert correlated_gaussian([[4, 0], [0, 4]], [[0, 1]]) == Gaussian(2)
    assert correlated_gaussian([[1, 0], [0, 9]], [[1, 0], [0, 3]]) == Gaussian(1)


def test_correlated_noise_by_the_inverse() -> None:
    covariance = [[2, Fraction(1, 2)], [Fraction(1, 2), 1]]
    move = np.array([1.0, -2.0])
    norm = move @ np.linalg.inv(np.array(covariance, dtype=float)) @ move
    event = correlated_gaussian(covariance, [[1, -2], [0, 1]])
    assert float(event.sigma) == pytest.approx(norm**-0.5)
    assert event.sigma**2 <= Fraction(7, 4) / (1 + 2 + 8)


@pytest.mark.parametrize(
    ("covariance", "move", "code"),
    [
        ([[1, 2], [2, 1]], [1, 0], "SF-N203"),
        ([[0]], [1], "SF-N203"),
        ([[1, 2], [0, 1]], [1, 0], "SF-N203"),
        ([[1]], [1, 0], "SF-N203"),
        ([[1]], [0], "SF-N312"),
    ],
)
def test_what_is_no_covariance(covariance: list[list[int]], move: list[int], code: str) -> None:
    with pytest.raises(UsageError) as refusal:
        correlated_gaussian(covariance, [move])
    assert refusal.value.code == code
