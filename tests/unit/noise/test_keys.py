"""Telling keys: the ramp against the closed form, thresholds against tails, order, refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato import noise
from sfumato.errors import UsageError
from sfumato.noise import GaussianNoise, LaplaceNoise, ThresholdedNoise, TruncatedGeometric
from sfumato.noise.keys import KeepProbability, _table
from sfumato.privacy import events

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETTINGS = [
    (Fraction(1), Fraction(1, 10**5)),
    (Fraction(1, 10), Fraction(1, 10**9)),
    (Fraction(7, 3), Fraction(1, 10**12)),
    (Fraction(50), Fraction(1, 10**30)),
    (Fraction(1, 3), Fraction(1, 4)),
    (Fraction(2), Fraction(9, 10)),
]


@dataclass
class Script:
    """Gives out the words it was told, in order, and runs dry after them."""

    queue: list[int] = field(default_factory=list)

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count <= len(self.queue), "more bits were drawn than are needed"
        given, self.queue = self.queue[:count], self.queue[count:]
        return np.array(given, dtype=np.uint64)


def real(x: Fraction) -> mpf:
    return mpf(x.numerator) / x.denominator


def closed_form(epsilon: Fraction, delta: Fraction, count: int) -> mpf:
    """The two halves of the ramp, each a geometric series, and where they meet."""
    e, d, last = real(epsilon), real(delta), turn(epsilon, delta)
    if count <= last:
        return climbing(e, d, count)
    m = count - last
    series = mp.exp(-e) * (1 - mp.exp(-m * e)) / (1 - mp.exp(-e))
    return min(mpf(1), 1 - (mp.exp(-m * e) * (1 - climbing(e, d, last)) - d * series))


def climbing(e: mpf, d: mpf, count: int) -> mpf:
    return d * mp.expm1(count * e) / mp.expm1(e)


@lru_cache
def turn(epsilon: Fraction, delta: Fraction) -> int:
    """The last count of the steep half."""
    e, d, count = real(epsilon), real(delta), 0
    while climbing(e, d, count + 1) <= min(1, 1 - mp.exp(-e) * (1 - climbing(e, d, count) - d)):
        count += 1
    return count


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
def test_the_ramp_is_its_closed_form(epsilon: Fraction, delta: Fraction) -> None:
    with mp.workprec(600):
        ramp = KeepProbability(epsilon, delta)
        table = _table(ramp).tolist()
        for count in range(1, min(len(table), 400) + 1):
            truth = closed_form(epsilon, delta, count)
            assert table[count - 1] <= truth * mpf(2) ** 64 <= table[count - 1] + 2
            caught = ramp.enclose(count, 256)
            assert caught.low <= truth * mpf(2) ** 256 <= caught.high
        assert closed_form(epsilon, delta, len(table) + 1) == 1
        assert closed_form(epsilon, delta, len(table)) < 1


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
def test_neighbouring_counts_are_private_and_no_steeper_ramp_is(epsilon: Fraction, delta: Fraction) -> None:
    with mp.workprec(600):
        factor, d = mp.exp(real(epsilon)), real(delta)
        chances = [
            closed_form(epsilon, delta, n) for n in range(TruncatedGeometric(epsilon, delta).always + 2)
        ]
        assert chances[0] == 0
        for one, more in pairwise(chances):
            slack = mpf(2) ** -500
            assert one <= more <= factor * one + d + slack
            assert 1 - one <= factor * (1 - more) + d + slack
            tight = [more - factor * one - d, 1 - one - factor * (1 - more) - d]
            assert more == 1 or max(tight) > -(mpf(2) ** -400)


def test_a_ramp_in_numbers() -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10**5))
    assert [mechanism.chance(n) for n in (0, 1, 2)] == pytest.approx([0, 1e-5, 3.718281828e-5])
    assert mechanism.always == 23
    assert mechanism.chance(23) == mechanism.chance(10**9) == 1


def test_several_keys_a_unit_share() -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10**5), per_unit=4)
    alone = TruncatedGeometric(Fraction(1, 4), Fraction(1, 4 * 10**5))
    assert mechanism.chance(17) == alone.chance(17)
    noise = events.SpreadLaplace(4, ((1, 4),))
    assert mechanism.event() == events.KeyRelease(1, Fraction(1, 10**5), noise)


def test_keys_come_in_their_own_order() -> None:
    counts = {"zebra": 10**6, "ant": 10**30, "bee": 5000, "cow": 0}
    for given in (counts, dict(reversed(counts.items()))):
        assert noise.keys(given, epsilon=1, delta=1e-9) == ["ant", "bee", "zebra"]
    assert noise.keys({(2, "b"): 999, (1, "z"): 999}, epsilon=1, delta=1e-9) == [(1, "z"), (2, "b")]
    assert noise.keys({3: np.int64(999), 1: 999}, epsilon=1, delta=1e-9) == [1, 3]


def test_no_keys_are_no_error() -> None:
    """An empty table must look like any other, and a key of no unit is never told."""
    laplace = ThresholdedNoise(Fraction(1), Fraction(1, 2))
    for counts in ({}, {"a": 0}, {"a": 0, "b": 0}):
        assert noise.keys(counts, epsilon=50, delta=0.99) == []
        assert laplace.release(counts) == {}


def test_known_bits_settle_the_coins() -> None:
    """The words come in the order of the keys; a tie in 64 bits draws more."""
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10**5))
    with mp.workprec(400):
        exact = int(mp.floor(closed_form(mechanism.epsilon, mechanism.delta, 3) * mpf(2) ** 128))
    lead, rest = exact >> 64, exact % 2**64
    for change, told in ((-2, ["c"]), (2, [])):
        script = Script([2**64 - 1, 2**64 - 1, lead, rest + change])
        assert mechanism.release({"c": 3, "a": 1, "b": 2}, source=script) == told
        assert not script.queue
    assert mechanism.release({"c": 3, "a": 1, "b": 2}, source=Script([0, 2**64 - 1, 0])) == ["a", "c"]


def tail(kind: LaplaceNoise | GaussianNoise, t: int) -> mpf:
    """P(noise ≥ t) for t ≥ 1."""
    if isinstance(kind, LaplaceNoise):
        r = mp.exp(-1 / real(kind.scale))
        return r**t / (1 + r)
    return mp.erfc((t - mpf(1) / 2) / real(kind.sigma) / mp.sqrt(2)) / 2


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(3)])
@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**9), Fraction(1, 10**15)])
@pytest.mark.parametrize("per_unit", [1, 5])
def test_the_threshold_is_the_smallest_that_suffices(
    epsilon: Fraction, delta: Fraction, per_unit: int, gaussian: bool
) -> None:
    mechanism = ThresholdedNoise(epsilon, delta, per_unit, gaussian)
    kind, threshold = mechanism.noise(), mechanism.threshold
    with mp.workprec(400):
        allowed = real(delta) / per_unit / (2 if gaussian else 1)
        assert tail(kind, threshold - 1) <= allowed
        assert threshold <= 2 or tail(kind, threshold - 2) > allowed


@pytest.mark.parametrize("per_unit", [1, 2, 5, 100])
def test_both_noises_are_calibrated(per_unit: int) -> None:
    """Laplace by the l1 norm, Gaussian by Balle and Wang's profile at half of δ and the l2 norm."""
    half, delta = Fraction(1, 2), Fraction(1, 10**6)
    laplace = ThresholdedNoise(half, delta, per_unit).noise()
    assert isinstance(laplace, LaplaceNoise)
    assert laplace.scale == 2 * per_unit
    noise = ThresholdedNoise(half, delta, per_unit, gaussian=True).noise()
    assert isinstance(noise, GaussianNoise)
    with mp.workprec(200):
        mu = mp.sqrt(per_unit) / real(noise.sigma)
        found = mp.ncdf(mu / 2 - real(half) / mu) - mp.exp(real(half)) * mp.ncdf(-mu / 2 - real(half) / mu)
        assert found <= real(delta) / 2
        assert found >= real(delta) / 2 * (1 - mpf(10) ** -4)


def test_gaussian_noise_is_lower_for_many_keys() -> None:
    few, many = (
        [
            ThresholdedNoise(Fraction(1), Fraction(1, 10**6), per_unit, kind).threshold
            for kind in (False, True)
        ]
        for per_unit in (1, 100)
    )
    assert few[0] < few[1]
    assert many[0] > many[1]


def test_noisy_counts_are_told_from_the_threshold_on() -> None:
    mechanism = ThresholdedNoise(Fraction(1, 2), Fraction(1, 100))
    told = mechanism.release(dict.fromkeys(range(500), mechanism.threshold))
    assert 0 < len(told) < 500  # each is told with a chance of 0.62; all or none with one below 1e-100
    assert list(told) == sorted(told)
    assert min(told.values()) >= mechanism.threshold
    assert list(mechanism.release({"b": 10**6, "a": 1000})) == ["a", "b"]


@pytest.mark.parametrize("gaussian", [False, True])
def test_prices_of_thresholded_noise(gaussian: bool) -> None:
    tenth = Fraction(1, 10)
    event = ThresholdedNoise(Fraction(1, 2), tenth, 3, gaussian).event()
    assert isinstance(event, events.KeyRelease)
    assert event.event.pure() == (None if gaussian else Fraction(1, 2))
    assert (event.pure(), event.side_delta()) == (Fraction(1, 2), tenth)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ((0, 0.1), "SF-N101"),
        ((math.inf, 0.1), "SF-N105"),
        ((1, 0), "SF-N101"),
        ((1, 0.1, 0), "SF-N101"),
        ((1, 0.1, 2, "no"), "SF-N104"),
        ((10**6, 0.1), "SF-N201"),
        ((1e-17, 0.1), "SF-N201"),
    ],
)
def test_bad_settings_are_refused(settings: tuple[Any, ...], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        ThresholdedNoise(*settings)


@pytest.mark.parametrize(
    ("counts", "settings", "code"),
    [
        ({"a": 1}, {"epsilon": 0, "delta": 0.1}, "SF-N101"),
        ({"a": 1}, {"epsilon": math.nan, "delta": 0.1}, "SF-N105"),
        ({"a": 1}, {"epsilon": math.inf, "delta": 0.1}, "SF-N105"),
        ({"a": 1}, {"epsilon": 1, "delta": 0}, "SF-N101"),
        ({"a": 1}, {"epsilon": 1, "delta": 1}, "SF-N101"),
        ({"a": 1}, {"epsilon": 1, "delta": math.nan}, "SF-N105"),
        ({"a": 1}, {"epsilon": 1e-4, "delta": 0.1}, "SF-N201"),
        ({"a": 1}, {"epsilon": 51, "delta": 0.1}, "SF-N201"),
        ({"a": 1}, {"epsilon": 1, "delta": 0.1, "per_unit": 1001}, "SF-N201"),
        ({"a": 1}, {"epsilon": 1, "delta": 0.1, "per_unit": 0}, "SF-N101"),
        ({"a": 1}, {"epsilon": 1, "delta": 0.1, "per_unit": 1.5}, "SF-N104"),
        ([("a", 1)], {"epsilon": 1, "delta": 0.1}, "SF-N203"),
        ({"a": -1}, {"epsilon": 1, "delta": 0.1}, "SF-N203"),
        ({"a": 1.5}, {"epsilon": 1, "delta": 0.1}, "SF-N202"),
        ({"a": [1, 2], "b": [3, 4]}, {"epsilon": 1, "delta": 0.1}, "SF-N203"),
        ({"a": 1, 2: 1}, {"epsilon": 1, "delta": 0.1}, "SF-N203"),
        ({math.nan: 1, 2.0: 1}, {"epsilon": 1, "delta": 0.1}, "SF-N203"),
    ],
)
def test_bad_input_is_refused(counts: Any, settings: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        noise.keys(counts, **settings)


@pytest.mark.parametrize("mechanism", [
    TruncatedGeometric(Fraction(1), Fraction(1, 10**5)),
    TruncatedGeometric(Fraction(3), Fraction(1, 4), per_unit=2),
    ThresholdedNoise(Fraction(1), Fraction(1, 10**5)),
    ThresholdedNoise(Fraction(1), Fraction(1, 10**5), 3, gaussian=True),
], ids=str)  # fmt: skip
def test_the_units_needed_are_the_smallest(mechanism: TruncatedGeometric | ThresholdedNoise) -> None:
    for confidence in (0.5, 0.9, 0.95, 1 - 1e-9):
        needed = mechanism.units_needed(confidence)
        assert mechanism.chance(needed) >= confidence - 1e-15
        assert mechanism.chance(needed - 1) < confidence
    assert mechanism.chance(0) == 0


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_chance_is_the_tail(gaussian: bool) -> None:
    mechanism = ThresholdedNoise(Fraction(1, 3), Fraction(1, 1000), 2, gaussian)
    for count in range(1, mechanism.threshold):
        assert mechanism.chance(count) == pytest.approx(
            float(tail(mechanism.noise(), mechanism.threshold - count))
        )
    assert mechanism.expected_error() == mechanism.noise().expected_error()
    assert mechanism.half_width(0.95) == mechanism.noise().half_width(0.95)
