"""The sparse vector technique: its noise, its count of yeses, and that it lives once."""

from __future__ import annotations

import copy
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato import noise
from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.noise import LaplaceNoise, SparseVector
from sfumato.noise.sparse_vector import LaplaceDifference
from sfumato.privacy.events import Pure

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

FAR = 10**6  # at ε = 1 and a few yeses, noise passes this with a chance below e^−10000


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


@pytest.mark.parametrize("positives", [1, 2, 10, 1000])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("sensitivity", [1, 7])
def test_both_noises_are_paid_for(positives: int, monotone: bool, sensitivity: int) -> None:
    """ε₁ + ε₂ is ε exactly, and ε₂ / ε₁ is about (2c)^(2/3), or c^(2/3)."""
    epsilon, shifts = Fraction(1, 3), positives * (1 if monotone else 2)
    mechanism = SparseVector(epsilon, sensitivity, positives, monotone)
    first = sensitivity / mechanism.threshold_noise().scale
    second = shifts * sensitivity / mechanism.answer_noise().scale
    assert first + second == epsilon
    assert second / first == pytest.approx(shifts ** (2 / 3), rel=0.04)
    assert mechanism.event() == Pure(epsilon)


def test_it_stops_after_its_yeses() -> None:
    watch = noise.sparse_vector(epsilon=1, positives=2)
    assert [watch.reaches(answer, 0) for answer in (-FAR, FAR, -FAR, FAR)] == [False, True, False, True]
    assert watch.left == 0
    with pytest.raises(PolicyError, match="SF-N604"):
        watch.reaches(-FAR, 0)


def test_a_list_is_answered_up_to_the_last_yes() -> None:
    answers = [0, FAR, 0, FAR, FAR]
    assert SparseVector(1, positives=2).release(answers, FAR // 2) == [False, True, False, True]
    assert SparseVector(1, positives=9).release([0, 0], FAR) == [False, False]
    assert SparseVector(1).release([5 * FAR], FAR) == [True]


@pytest.mark.parametrize(
    ("answers", "threshold"), [([], 1), ([0.5], 1), (5, 1), ([1, 2], 0.5), ([1, 2], [1, 2])]
)
def test_a_bad_list_is_refused_before_any_bit(answers: Any, threshold: Any) -> None:
    with pytest.raises(UsageError):
        SparseVector(1).release(answers, threshold, source=Never())


def test_known_bits_give_known_answers() -> None:
    """The median of all noise is 0, so an answer that equals the threshold reaches it."""
    watch = SparseVector(1, positives=3).begin(source=Constant(0x8000_8000_8000_8000))
    assert [watch.reaches(answer, 5) for answer in (4, 5, 6)] == [False, True, True]
    assert watch.left == 1


def test_thresholds_may_differ_and_integers_are_wide() -> None:
    watch = SparseVector(1, positives=2).begin()
    assert not watch.reaches(2**80, 2**81)
    assert watch.reaches(np.int64(FAR), -(2**90))


@pytest.mark.parametrize(
    "twice", [copy.copy, copy.deepcopy, pickle.dumps, lambda watch: pickle.dumps(watch, protocol=0)]
)
def test_it_is_not_copied(twice: Callable[[Any], Any]) -> None:
    with pytest.raises(PolicyError, match="SF-L303"):
        twice(SparseVector(1).begin())


def test_it_is_not_taken_into_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = SparseVector(1).begin()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(PolicyError, match="SF-L303"):
        watch.reaches(0, 0)


def test_threads_share_the_yeses() -> None:
    watch = SparseVector(1, positives=20).begin()

    def ask(_: int) -> bool:
        try:
            return watch.reaches(FAR, 0)
        except PolicyError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(200))) == 20


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"epsilon": 0}, "SF-N101"),
        ({"epsilon": math.nan}, "SF-N105"),
        ({"epsilon": math.inf}, "SF-N105"),
        ({"epsilon": 1, "sensitivity": 0}, "SF-N101"),
        ({"epsilon": 1, "sensitivity": math.inf}, "SF-N105"),
        ({"epsilon": 1, "positives": 0}, "SF-N101"),
        ({"epsilon": 1, "positives": 1.5}, "SF-N104"),
        ({"epsilon": 1, "monotone": "no"}, "SF-N104"),
        ({"epsilon": 10**6}, "SF-N201"),
        ({"epsilon": 1e-17}, "SF-N201"),
        ({"epsilon": 1, "positives": 10**17}, "SF-N201"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        noise.sparse_vector(**settings)


@pytest.mark.parametrize(
    ("answer", "code"), [(1.5, "SF-N202"), (math.nan, "SF-N202"), ([1, 2], "SF-N203"), ([], "SF-N203")]
)
def test_a_bad_answer_costs_nothing(answer: Any, code: str) -> None:
    watch = SparseVector(1).begin(source=Constant(0x8000_8000_8000_8000))
    watch._source = Never()
    with pytest.raises(SfumatoError, match=code):
        watch.reaches(answer, 0)
    with pytest.raises(SfumatoError, match=code):
        watch.reaches(0, answer)
    assert watch.left == 1


def test_noise_is_laplace() -> None:
    assert isinstance(SparseVector(1).threshold_noise(), LaplaceNoise)
    assert (
        SparseVector(Fraction(1), 1, 4, monotone=True).answer_noise().scale
        < SparseVector(Fraction(1), 1, 4).answer_noise().scale
    )


@pytest.mark.parametrize(("one", "other"), [(3.0, 3.0), (2.0, 5.0), (7.0, 0.4), (0.01, 0.3), (0.001, 0.001)])
def test_the_difference_of_two_noises_has_its_law(one: float, other: float) -> None:
    """Against the convolution."""
    x = np.arange(-400, 401)
    chances = [np.exp(-np.abs(x) / scale) / np.exp(-np.abs(x) / scale).sum() for scale in (one, other)]
    law, d, found = np.convolve(*chances), np.arange(-800, 801), LaplaceDifference(one, other)
    assert found.mean_absolute() == pytest.approx((np.abs(d) * law).sum(), abs=1e-12)
    for t in (1, 2, 7, 30):
        assert found.tail_probability(t) == pytest.approx(law[d >= t].sum(), abs=1e-12)


@pytest.mark.parametrize("scale", [2.0**20, 2.0**40])
def test_wide_differences_tend_to_continuous_ones(scale: float) -> None:
    assert LaplaceDifference(scale, scale).mean_absolute() == pytest.approx(1.5 * scale, rel=1e-9)
    assert LaplaceDifference(scale, 2 * scale).mean_absolute() == pytest.approx(7 / 3 * scale, rel=1e-9)


@pytest.mark.parametrize(
    "mechanism", [SparseVector(1), SparseVector(1, 3, 5), SparseVector(2, 1, 2, monotone=True)]
)
def test_the_margin_is_the_smallest(mechanism: SparseVector) -> None:
    difference = LaplaceDifference(
        float(mechanism.answer_noise().scale), float(mechanism.threshold_noise().scale)
    )
    for confidence in (0.6, 0.95, 1 - 1e-9):
        margin = mechanism.margin(confidence)
        assert difference.tail_probability(margin) <= 1 - confidence
        assert margin == 1 or difference.tail_probability(margin - 1) > 1 - confidence
    assert mechanism.margin(0.95, questions=100) == mechanism.margin(0.9995)
    assert mechanism.expected_error() == difference.mean_absolute()
