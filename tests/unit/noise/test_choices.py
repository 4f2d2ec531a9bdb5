"""Choices among candidates: prices, errors, refusals, and answers from known bits."""

from __future__ import annotations

import inspect
import math
import pickle
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato import noise
from sfumato.errors import UsageError
from sfumato.noise import ExponentialMechanism, LaplaceNoise, NoisyMax, PermuteAndFlip, TopK
from sfumato.privacy import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ONE = [noise.exponential, noise.permute_and_flip, noise.noisy_max]
KINDS = [ExponentialMechanism, PermuteAndFlip, NoisyMax]
ALL = [*ONE, lambda scores, *args, **named: noise.top_k(scores, 1, *args, **named)]


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


def test_plain_names_are_functions() -> None:
    """And not the modules of the same names."""
    for name in noise.__all__:
        assert inspect.isfunction(getattr(noise, name)) or inspect.isclass(getattr(noise, name)), name


@pytest.mark.parametrize("choose", ALL)
@pytest.mark.parametrize(
    "scores", [[5, 100_000, 7], np.array([1, 10**6], dtype=np.uint32), [2**80, 2**90], [-(2**63), 2**63 - 1]]
)
def test_a_clear_winner_wins(choose: Callable[..., Any], scores: Any) -> None:
    """Another candidate has a chance below e^−1000."""
    chosen = choose(scores, epsilon=1)
    assert chosen in (1, [1])
    assert type(chosen) is int or type(chosen[0]) is int


@pytest.mark.parametrize("choose", ALL)
def test_one_candidate_is_chosen(choose: Callable[..., Any]) -> None:
    assert choose([-3], epsilon=1) in (0, [0])


@pytest.mark.parametrize("choose", ALL)
@pytest.mark.parametrize(
    ("scores", "settings", "code"),
    [
        ([], {"epsilon": 1}, "SF-N203"),
        ([1.5, 2], {"epsilon": 1}, "SF-N202"),
        ([float("nan")], {"epsilon": 1}, "SF-N202"),
        (["a"], {"epsilon": 1}, "SF-N202"),
        (5, {"epsilon": 1}, "SF-N203"),
        ([[1, 2], [3, 4]], {"epsilon": 1}, "SF-N203"),
        ([1, 2], {"epsilon": 0}, "SF-N101"),
        ([1, 2], {"epsilon": -1}, "SF-N101"),
        ([1, 2], {"epsilon": math.nan}, "SF-N105"),
        ([1, 2], {"epsilon": math.inf}, "SF-N105"),
        ([1, 2], {"epsilon": "1"}, "SF-N104"),
        ([1, 2], {"epsilon": 1, "sensitivity": 0}, "SF-N101"),
        ([1, 2], {"epsilon": 1, "sensitivity": 0.5}, "SF-N104"),
        ([1, 2], {"epsilon": 1, "sensitivity": math.inf}, "SF-N105"),
        ([1, 2], {"epsilon": 10_000}, "SF-N201"),
        ([1, 2], {"epsilon": 1e-13}, "SF-N201"),
        ([1, 2], {"epsilon": 1, "monotone": "no"}, "SF-N104"),
        ([1, 2], {"epsilon": 1, "monotone": 1}, "SF-N104"),
    ],
)
def test_bad_input_is_refused(
    choose: Callable[..., Any], scores: Any, settings: dict[str, Any], code: str
) -> None:
    with pytest.raises(UsageError, match=code):
        choose(scores, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_come_before_any_bit(kind: type[ExponentialMechanism]) -> None:
    for scores in ([], [[1]], [0.5]):
        with pytest.raises(UsageError):
            kind(Fraction(1)).release(scores, source=Never())


def test_k_places_need_k_candidates() -> None:
    with pytest.raises(UsageError, match="SF-N203"):
        TopK(Fraction(1), 3).release([1, 2], source=Never())
    for k in (0, -1, 1.5):
        with pytest.raises(UsageError):
            noise.top_k([1, 2], k, epsilon=1)  # type: ignore[arg-type]


def test_all_places_are_a_permutation() -> None:
    for _ in range(20):
        assert sorted(noise.top_k([3, 1, 2, 2], 4, epsilon=1)) == [0, 1, 2, 3]


def test_top_k_is_in_the_order_of_the_choices() -> None:
    """The order fails with a chance below e^−1000."""
    assert noise.top_k([0, 30_000, 10_000, 20_000], 3, epsilon=1) == [1, 3, 2]


def test_prices() -> None:
    half = Fraction(1, 2)
    assert ExponentialMechanism(half, 3).event() == events.Exponential(half)
    assert PermuteAndFlip(half).event() == events.Pure(half)
    assert NoisyMax(half, monotone=True).event() == events.Pure(half)
    price = TopK(half, 5).event()
    assert price == events.Repeated(events.Exponential(Fraction(1, 10)), 5)
    assert price.pure() == half
    assert price.renyi(2.0) < events.Pure(half).renyi(2.0)


@pytest.mark.parametrize("kind", KINDS)
def test_scales(kind: type[ExponentialMechanism]) -> None:
    assert kind(Fraction(1, 10), 3).scale == 60
    assert kind(Fraction(1, 10), 3, monotone=True).scale == 30
    assert kind(0.1, 3) == kind(Fraction(1, 10), 3)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(kind(Fraction(1)))) == kind(Fraction(1))


def law(gaps: list[int], scale: float) -> list[float]:
    weights = [math.exp(-gap / scale) for gap in gaps]
    return [weight / math.fsum(weights) for weight in weights]


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_the_expected_error_is_a_bound(count: int) -> None:
    """On the worst tables: one candidate at the top and all others at one gap."""
    mechanism = ExponentialMechanism(Fraction(1, 2))
    for gap in range(60):
        chances = law([0] + [gap] * (count - 1), 4)
        assert gap * math.fsum(chances[1:]) <= mechanism.expected_error(count) + 1e-12


@pytest.mark.parametrize("count", [1, 5, 100])
def test_the_expected_errors_of_noisy_max_and_top_k_are_bounds(count: int) -> None:
    """By draws, on tables that lose much. The bounds are far enough off for any luck."""
    scores, most = [0] + [-6] * (count - 1), NoisyMax(Fraction(1, 2)).expected_error(count)
    lost = [-scores[NoisyMax(Fraction(1, 2)).release(scores)] for _ in range(400)]
    assert np.mean(lost) <= most == pytest.approx(4 * (1 + math.log(count)))
    assert TopK(Fraction(1), 2).expected_error(count) == ExponentialMechanism(Fraction(1, 2)).expected_error(
        count
    )


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
@pytest.mark.parametrize("confidence", [0, 0.5, 0.95, 1 - 1e-9])
def test_the_shortfall_is_kept(count: int, confidence: float) -> None:
    scale, bound = 4, ExponentialMechanism(Fraction(1, 2)).shortfall(count, confidence)
    assert (count - 1) * math.exp(-(bound + 1) / scale) <= (1 - confidence) * (1 + 1e-9)
    assert PermuteAndFlip(Fraction(1, 2)).shortfall(count, confidence) == bound
    assert TopK(Fraction(1, 2), 1).shortfall(count, confidence) == bound
    half = NoisyMax(Fraction(1, 2)).shortfall(count, confidence) // 2
    rare = (1 - Fraction(repr(confidence))) / count
    assert half == LaplaceNoise(Fraction(4)).half_width(1 - rare)


@pytest.mark.parametrize("confidence", [1, -0.1, math.nan, "0.9"])
def test_a_confidence_is_below_one(confidence: Any) -> None:
    for mechanism in (ExponentialMechanism(Fraction(1)), NoisyMax(Fraction(1)), TopK(Fraction(1), 2)):
        with pytest.raises(UsageError):
            mechanism.shortfall(10, confidence)


def test_known_bits_give_known_choices() -> None:
    """Zero bits are the first candidate's column, all heads, and ties that the first wins."""
    zeros, middle = Constant(0), Constant(0x8000_8000_8000_8000)
    assert ExponentialMechanism(Fraction(1)).release([4, 5, 5], source=zeros) == 0
    assert PermuteAndFlip(Fraction(1)).release([4, 5, 5], source=zeros) == 0
    assert PermuteAndFlip(Fraction(1)).release([0, 5, 5], source=Constant(2**64 - 1)) == 2
    assert NoisyMax(Fraction(1)).release([4, 5, 5, 5], source=middle) == 3  # 2^63 + … is 2 mod 3
    assert NoisyMax(Fraction(1)).release([4, 5, 3], source=middle) == 1
    assert TopK(Fraction(1), 3).release([4, 5, 5], source=zeros) == [0, 1, 2]


def test_a_hundred_thousand_candidates() -> None:
    scores = np.arange(100_000)
    for kind in KINDS:
        assert 99_000 < kind(Fraction(1)).release(scores) < 100_000
    assert min(TopK(Fraction(1), 10).release(scores)) > 95_000
