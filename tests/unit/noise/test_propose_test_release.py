"""Propose-test-release: its threshold, its answers from known bits, its refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato import noise
from sfumato.errors import UsageError
from sfumato.noise import ProposeTestRelease
from sfumato.privacy.events import ApproxDP

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Constant:
    """The same word for ever."""

    word: int

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, self.word, dtype=np.uint64)


class Never:
    """A source that must not be asked."""

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("bits were drawn")


def reaching(epsilon: Fraction, t: int) -> mpf:
    """P(noise ≥ t)."""
    r = mp.exp(-mpf(epsilon.numerator) / epsilon.denominator)
    return r**t / (1 + r) if t > 0 else 1 - r ** (1 - t) / (1 + r)


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(5), Fraction(100)]
)
@pytest.mark.parametrize("delta", [Fraction(9, 10), Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**30)])
def test_the_threshold_is_the_smallest_that_suffices(epsilon: Fraction, delta: Fraction) -> None:
    mechanism = ProposeTestRelease(epsilon, delta)
    with mp.workprec(400):
        bound = mpf(delta.numerator) / delta.denominator
        assert reaching(epsilon, mechanism.threshold) <= bound < reaching(epsilon, mechanism.threshold - 1)
    assert mechanism.event() == ApproxDP(epsilon, delta)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 1 - 1e-12])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(2)])
def test_the_distance_needed_is_the_smallest(epsilon: Fraction, confidence: float) -> None:
    mechanism = ProposeTestRelease(epsilon, Fraction(1, 10**6))
    ahead = mechanism.distance_needed(confidence) - mechanism.threshold
    with mp.workprec(400):
        wanted = mpf(repr(confidence))
        assert reaching(epsilon, -ahead) >= wanted
        assert reaching(epsilon, 1 - ahead) < wanted


def test_known_bits_decide_at_the_threshold() -> None:
    mechanism, middle = ProposeTestRelease(Fraction(1), Fraction(1, 10**6)), Constant(0x8000_8000_8000_8000)
    assert mechanism.threshold == 14
    assert mechanism.release("stable", 14, source=middle) == "stable"
    assert mechanism.release("stable", 13, source=middle) is None
    assert mechanism.release("stable", np.int64(15), source=middle) == "stable"


def test_far_from_instability_the_value_is_told() -> None:
    """It fails with a chance below e^−900."""
    assert noise.propose_test_release([1, 2], 1000, epsilon=1, delta=1e-9) == [1, 2]
    assert noise.propose_test_release([1, 2], -1000, epsilon=1, delta=1e-9) is None


@pytest.mark.parametrize(
    ("distance", "settings", "code"),
    [
        (5, {"epsilon": 0, "delta": 0.1}, "SF-N101"),
        (5, {"epsilon": math.nan, "delta": 0.1}, "SF-N105"),
        (5, {"epsilon": math.inf, "delta": 0.1}, "SF-N105"),
        (5, {"epsilon": 2000, "delta": 0.1}, "SF-N201"),
        (5, {"epsilon": 1e-17, "delta": 0.1}, "SF-N201"),
        (5, {"epsilon": 1, "delta": 0}, "SF-N101"),
        (5, {"epsilon": 1, "delta": 1}, "SF-N101"),
        (5, {"epsilon": 1, "delta": -0.1}, "SF-N101"),
        (5, {"epsilon": 1, "delta": math.inf}, "SF-N105"),
        (5.0, {"epsilon": 1, "delta": 0.1}, "SF-N202"),
        (math.nan, {"epsilon": 1, "delta": 0.1}, "SF-N202"),
        ([], {"epsilon": 1, "delta": 0.1}, "SF-N203"),
        ([5], {"epsilon": 1, "delta": 0.1}, "SF-N203"),
    ],
)
def test_bad_input_is_refused(distance: Any, settings: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        noise.propose_test_release("value", distance, **settings)


def test_refusals_come_before_any_bit() -> None:
    for distance in ([1, 2], 0.5):
        with pytest.raises(UsageError):
            ProposeTestRelease(Fraction(1), Fraction(1, 2)).release("value", distance, source=Never())


def test_the_chance_of_telling() -> None:
    mechanism = ProposeTestRelease(Fraction(1, 3), Fraction(1, 10**6))
    for distance in (-5, 0, mechanism.threshold - 1, mechanism.threshold, mechanism.distance_needed(0.99)):
        due = reaching(mechanism.epsilon, mechanism.threshold - distance)
        assert mechanism.chance(distance) == pytest.approx(float(due))
