"""Attacks on the choices: can two neighbouring tables be told apart better than was promised?

For events named beforehand, the frequencies on both tables are bounded by Clopper and Pearson's intervals,
so that a true claim is called broken with probability below 1e-6. A copy with half the noise must be caught;
draws are so many that by the exact laws of these cases it is missed with probability below 1e-7. Where draws
are made one by one, the copy is looked at in stages that share the rate of false alarms, and drawing stops
as soon as it is caught.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import beta

from sfumato.noise import (
    ExponentialMechanism,
    LaplaceNoise,
    NoisyMax,
    PermuteAndFlip,
    ProposeTestRelease,
    SparseVector,
    ThresholdedNoise,
    TopK,
    TruncatedGeometric,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

FALSE_ALARM = 1e-6
DRAWS = 4000
OTHERS = 3
HIGH, LOW = [1] + [0] * OTHERS, [0] + [1] * OTHERS


def broken(
    one: Counter[Any],
    other: Counter[Any],
    epsilon: float,
    delta: float,
    events: list[Any],
    false_alarm: float = FALSE_ALARM,
) -> bool:
    """Whether some event is surely likelier on one table than e^ε times as on the other, plus δ."""
    alarm = false_alarm / (4 * len(events))
    return any(
        at_least(a[event], a.total(), alarm) > math.exp(epsilon) * at_most(b[event], b.total(), alarm) + delta
        for a, b in ((one, other), (other, one))
        for event in events
    )


def at_least(hits: int, draws: int, alarm: float) -> float:
    return float(beta.ppf(alarm, hits, draws - hits + 1)) if hits else 0.0


def at_most(hits: int, draws: int, alarm: float) -> float:
    return float(beta.isf(alarm, hits + 1, draws - hits)) if hits < draws else 1.0


def told_apart(release: Callable[[Any], Hashable], tables: tuple[Any, Any], draws: int = DRAWS) -> Any:
    """What a mechanism answers on both tables, counted."""
    return tuple(Counter(release(table) for _ in range(draws)) for table in tables)


def caught(
    release: Callable[[Any], Hashable],
    tables: tuple[Any, Any],
    epsilon: float,
    delta: float,
    events: list[Any],
    draws: int = DRAWS,
) -> bool:
    """Whether a copy is caught after an eighth, a quarter, a half or all of the draws.

    By a union bound a true claim is called broken with probability below 1e-6: the early looks have a tenth
    of that together, and the last look has the rest.
    """
    one, other = Counter[Any](), Counter[Any]()
    for share, part in ((8, 1 / 30), (4, 1 / 30), (2, 1 / 30), (1, 9 / 10)):
        more = draws // share - one.total()
        for seen, new in zip((one, other), told_apart(release, tables, more), strict=True):
            seen.update(new)
        if broken(one, other, epsilon, delta, events, part * FALSE_ALARM):
            return True
    return False


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip, NoisyMax])
@pytest.mark.parametrize("monotone", [False, True])
def test_choices_of_one(kind: type[ExponentialMechanism], monotone: bool) -> None:
    """All others rise as the first falls; or, in the monotone case, all others rise and the first stays."""
    tables = ([0] * (OTHERS + 1), LOW) if monotone else (HIGH, LOW)
    true, copy = (kind(Fraction(strength), 1, monotone).release for strength in (2, 4))
    assert not broken(*told_apart(true, tables), 2, 0, [0, OTHERS])
    assert caught(copy, tables, 2, 0, [0, OTHERS])


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip, NoisyMax])
def test_a_false_promise_of_monotone_scores_is_caught(kind: type[ExponentialMechanism]) -> None:
    """The cheaper noise on scores that move both ways."""
    assert caught(kind(Fraction(2), 1, monotone=True).release, (HIGH, LOW), 2, 0, [0])


def chosen_set(mechanism: TopK) -> Callable[[list[int]], Hashable]:
    return lambda scores: frozenset(mechanism.release(scores))


def test_top_k() -> None:
    tables = [1, 1] + [0] * 6, [0, 0] + [1] * 6
    true, copy = (chosen_set(TopK(Fraction(strength), 2)) for strength in (3, 6))
    assert not broken(*told_apart(true, tables), 3, 0, [frozenset({0, 1})])
    assert caught(copy, tables, 3, 0, [frozenset({0, 1})], 8000)


def course_told(mechanism: SparseVector) -> Callable[[list[int]], Hashable]:
    return lambda answers: tuple(mechanism.release(answers, 1))


@pytest.mark.parametrize(
    ("positives", "noes", "epsilon", "draws"),
    [(1, 3, 3, DRAWS), pytest.param(2, 4, 4, 12_000, marks=pytest.mark.slow)],
)
def test_sparse_vector(positives: int, noes: int, epsilon: int, draws: int) -> None:
    """Some noes and then all the yeses: on one of the tables each of them is likelier."""
    tables = [0] * noes + [1] * positives, [1] * noes + [0] * positives
    course = (False,) * noes + (True,) * positives
    true, copy = (course_told(SparseVector(Fraction(each), 1, positives)) for each in (epsilon, 2 * epsilon))
    assert not broken(*told_apart(true, tables, draws), epsilon, 0, [course])
    assert caught(copy, tables, epsilon, 0, [course], draws)


def test_a_threshold_without_noise_is_caught() -> None:
    """The classic mistake: with noise on the answers only, noes are not free and many of them add up."""
    noise, draws = LaplaceNoise(Fraction(2)), 20_000

    def wrong(answers: list[int]) -> Counter[bool]:
        noisy = noise.release(np.tile(answers, (draws, 1)))
        return Counter(((noisy[:, :-1].max(axis=1) < 5) & (noisy[:, -1] >= 5)).tolist())

    assert broken(wrong([0] * 20 + [5]), wrong([2] * 20 + [3]), 2, 0, [True])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_truncated_geometric(count: int) -> None:
    """Many keys with one count, and one more. A ramp of twice the ε and δ is caught where it is steep."""
    draws = 40_000
    for factor in (1, 2):
        mechanism = TruncatedGeometric(Fraction(factor), Fraction(factor, 100))
        told = [len(mechanism.release(dict.fromkeys(range(draws), n))) for n in (count, count + 1)]
        seen = [Counter({True: hits, False: draws - hits}) for hits in told]
        assert broken(*seen, 1, 0.01, [True, False]) == (factor == 2 and count < 4)


@pytest.mark.parametrize("gaussian", [False, True])
def test_thresholded_noise_on_new_keys(gaussian: bool) -> None:
    """A key that only one unit has is told with chance δ at most. The copy's threshold is for six δ."""
    draws, delta = 100_000, Fraction(1, 100)
    for share, wrong in ((delta, False), (6 * delta, True)):
        mechanism = ThresholdedNoise(Fraction(1, 9), share, 1, gaussian)
        told = len(mechanism.release(dict.fromkeys(range(draws), 1)))
        seen = Counter({True: told, False: draws - told}), Counter({False: draws})
        assert broken(*seen, 0.12, float(delta), [True, False]) == wrong


@pytest.mark.parametrize("gaussian", [False, True])
def test_thresholded_noise_on_known_keys(gaussian: bool) -> None:
    """One unit more or less on a key that many have is hidden by the noise alone."""
    keys, delta = range(200_000 if gaussian else 40_000), Fraction(1, 1000)
    for strength, wrong in ((1, False), (2, True)):
        mechanism = ThresholdedNoise(Fraction(strength, 2), delta, 1, gaussian)
        noisy = [mechanism.release(dict.fromkeys(keys, count)).values() for count in (60, 61)]
        seen = [Counter(value >= (66 if gaussian else 62) for value in values) for values in noisy]
        assert broken(*seen, 0.5, float(delta), [True, False]) == wrong


def at_distance(mechanism: ProposeTestRelease) -> Callable[[int], Hashable]:
    return lambda distance: mechanism.release("value", distance)


def unstable(mechanism: ProposeTestRelease) -> Callable[[str], Hashable]:
    return lambda value: mechanism.release(value, 0)


def test_propose_test_release_on_stable_tables() -> None:
    for strength, wrong in ((1, False), (2, True)):
        mechanism = ProposeTestRelease(Fraction(strength), Fraction(1, 100))
        tables = mechanism.threshold, mechanism.threshold - 1
        assert broken(*told_apart(at_distance(mechanism), tables), 1, 0.01, ["value", None]) == wrong


def test_propose_test_release_on_unstable_tables() -> None:
    for share, wrong in ((1, False), (10, True)):
        seen = told_apart(unstable(ProposeTestRelease(Fraction(1), Fraction(share, 100))), ("one", "other"))
        assert broken(*seen, 1, 0.01, ["one", "other", None]) == wrong
