"""Which groups are shown: exact tails, the procedures against SciPy, and the share of empty groups."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from sfumato.curator.answers.laws.drawn_noise import NormalNoise
from sfumato.curator.answers.noise_law import Draw, NoiseLaw, exceedance
from sfumato.curator.answers.shown_groups import FALSE_DISCOVERIES, GroupRule, GroupTest, reject_together
from sfumato.noise import GaussianNoise, LaplaceNoise

if TYPE_CHECKING:
    from numpy.typing import NDArray

RARE = 1e-9
"""The false-alarm rate of each statistical test below."""

# ---- tails -------------------------------------------------------------------------------------------------


def _pmf(noise: LaplaceNoise | GaussianNoise, reach: int) -> NDArray[np.float64]:
    """Return P(noise = k) for k from −reach to reach, from the definition of each law."""
    places = np.arange(-reach, reach + 1)
    if isinstance(noise, LaplaceNoise):
        weights = np.exp(-np.abs(places) / float(noise.scale))
        rate = 1 / float(noise.scale)
        return np.asarray(weights * math.tanh(rate / 2))
    ends = (np.arange(-reach, reach + 2) - 0.5) / float(noise.sigma) / math.sqrt(2)
    return np.diff([math.erf(end) for end in ends]) / 2


@pytest.mark.parametrize(
    "noise",
    [
        LaplaceNoise(Fraction(1, 3)),
        LaplaceNoise(Fraction(9, 2)),
        GaussianNoise(Fraction(2, 5)),
        GaussianNoise(Fraction(7)),
    ],
    ids=str,
)
@pytest.mark.parametrize("weight", [1.0, -2.5])
def test_the_tail_of_one_draw_is_exact(noise: Any, weight: float) -> None:
    reach = 250
    masses = _pmf(noise, reach)
    steps = np.arange(1, 30)
    expected = [masses[np.abs(np.arange(-reach, reach + 1)) >= step].sum() for step in steps]
    law = NoiseLaw((Draw(noise),), np.array([[weight]]))
    found = exceedance(law, abs(weight) * steps)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert exceedance(law, np.array([0.0, -3.0])).tolist() == [1, 1]


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 1.0), (1.0, -3.0)])
def test_the_tail_of_two_draws_is_never_too_small_and_at_most_three_percent_too_large(
    weights: tuple[float, float],
) -> None:
    noises, reach = (LaplaceNoise(Fraction(3)), GaussianNoise(Fraction(5))), 150
    first, second = (_pmf(noise, reach) for noise in noises)
    places = np.arange(-reach, reach + 1)
    sums = np.abs(weights[0] * places[:, None] + weights[1] * places).reshape(-1)
    masses = np.outer(first, second).reshape(-1)
    law = NoiseLaw(tuple(map(Draw, noises)), np.array(weights)[:, None])
    sizes = np.arange(1, 60) * 0.5
    expected = np.array([masses[sums >= size - 1e-9].sum() for size in sizes])
    found = exceedance(law, sizes)
    assert np.all(found >= expected * (1 - 1e-9))
    assert np.all(found <= expected * 1.03)


def test_cells_may_have_different_weights() -> None:
    weights = np.array([[1.0, 2.0, 1.0]])
    found = exceedance(NoiseLaw((Draw(LaplaceNoise(Fraction(4))),), weights), np.array([8.0, 8.0, 4.0]))
    assert found[1] == found[2] > found[0]
    assert exceedance(NoiseLaw.of(None), np.array([0.0, 1.0])).tolist() == [1, 0]


def test_a_few_sizes_have_the_risks_that_many_have() -> None:
    noises = (LaplaceNoise(Fraction(4)), GaussianNoise(Fraction(3)))
    law = NoiseLaw(tuple(Draw(noise, place) for place, noise in enumerate(noises)), np.array([[1.0], [-0.5]]))
    sizes = np.linspace(-1, 90, 300)
    assert exceedance(law, sizes).tolist() == [
        float(exceedance(law, sizes[at : at + 1])[0]) for at in range(300)
    ]


# ---- procedures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dependent", [False, True])
def test_the_procedures_reject_what_scipy_rejects(dependent: bool) -> None:
    rng = np.random.default_rng(3)
    for many in (1, 2, 5, 100, 1000):
        chances = rng.random((20, many)) ** rng.integers(1, 6)
        adjusted = false_discovery_control(chances, axis=-1, method="by" if dependent else "bh")
        found = reject_together(chances, FALSE_DISCOVERIES, dependent=dependent)
        assert np.array_equal(found, adjusted <= FALSE_DISCOVERIES)
        assert np.array_equal(found[3], reject_together(chances[3], FALSE_DISCOVERIES, dependent=dependent))


# ---- false discoveries -------------------------------------------------------------------------------------


def _rule(cells: int, noise: Any) -> GroupRule:
    every = np.ones(cells, dtype=np.bool_)
    tests = (GroupTest(0, NoiseLaw.of(noise), counts=True, signed=False),)
    return GroupRule(every, ~every, tests, dependent=False, selects=False, missing=~every)


def _share_of_empty(
    rng: np.random.Generator, noise: Any, present: NDArray[np.float64], empty: int, runs: int
) -> tuple[float, float]:
    """Return the mean share of empty groups among significant ones, and the share of runs with any."""
    counts = np.append(present, np.zeros(empty))
    rule, shares = _rule(counts.size, noise), []
    for start in range(0, runs, 200):
        drawn = noise.quantiles(rng.random((min(200, runs - start), 1, counts.size)))
        found = rule.find_significant(counts + drawn)
        wrong = found[:, present.size :].sum(axis=1)
        shares.append(wrong / np.maximum(1, found.sum(axis=1)))
    every = np.concatenate(shares)
    return float(every.mean()), float((every > 0).mean())


def _check_shares(rng: np.random.Generator, runs: int) -> None:
    # A share lies between 0 and 1: its mean over the runs is above its expectation by more than this with a
    # probability of at most 1e-9 (Hoeffding).
    slack = math.sqrt(math.log(1 / RARE) / (2 * runs))
    for noise in (LaplaceNoise(Fraction(20)), GaussianNoise(Fraction(15))):
        for present in (np.zeros(0), np.full(8, 4000.0), np.linspace(10, 300, 40)):
            mean, _ = _share_of_empty(rng, noise, present, 3000, runs)
            assert mean <= FALSE_DISCOVERIES + slack


def test_at_most_five_percent_of_the_significant_groups_are_empty() -> None:
    """Judged one by one at 5 %, 150 of 3,000 empty groups would be shown beside eight others."""
    _check_shares(np.random.default_rng(4), 1000)


@pytest.mark.slow
def test_at_most_five_percent_of_the_significant_groups_are_empty_over_many_runs() -> None:
    _check_shares(np.random.default_rng(5), 20_000)


def test_groups_with_rows_are_found() -> None:
    """Forty scales above nothing, a count is below its threshold with a probability under 1e-9 in all."""
    counts = np.append(np.full(8, 40.0 * 20), np.zeros(3000))
    drawn = LaplaceNoise(Fraction(20)).quantiles(np.random.default_rng(6).random((1, counts.size)))
    assert _rule(counts.size, LaplaceNoise(Fraction(20))).find_significant(counts + drawn)[:8].all()


# ---- the rule ----------------------------------------------------------------------------------------------


def test_what_is_shown_follows_from_significance_and_public_facts() -> None:
    cells = np.array([True, True, True, False])
    missing = np.array([False, False, True, False])
    rule = replace(_rule(4, LaplaceNoise(Fraction(2))), possible=cells, missing=missing)
    some, none = np.array([[90.0, 0.0, 0.0, 90.0]]), np.array([[1.0, -2.0, 3.0, 90.0]])
    assert rule.choose(some).shown.tolist() == [True, False, False, False]
    assert rule.choose(none).shown.tolist() == [True, True, False, False]
    assert rule.choose(none).warnings == [
        "No group has a significant count, so the answer says little about single groups"
    ]
    few = replace(rule, fixed=cells & ~missing)
    assert few.choose(some).shown.tolist() == [True, True, False, False]
    assert replace(few, selects=True).choose(some).shown.tolist() == [True, False, False, False]
    assert few.choose(np.array([[90.0, 0.0, 90.0, 0.0]])).shown.tolist() == [True, True, True, False]
    both = few.choose(np.array([some, none])).shown
    assert both.tolist() == [[True, True, False, False], [True, True, False, False]]


def test_several_counts_of_a_group_are_judged_by_the_smallest_chance() -> None:
    noise = NoiseLaw.of(NormalNoise(1.0))
    tests = tuple(GroupTest(at, noise, counts=True, signed=False) for at in range(4))
    rule = replace(_rule(1, None), tests=tests)
    at = NormalNoise(1.0).quantiles(np.array([1 - 0.05 / 4]))[0]
    assert rule.find_significant(np.array([[0], [0], [at * 1.01], [0]])).all()
    assert not rule.find_significant(np.array([[0], [0], [at * 0.99], [0]])).any()


def test_sums_count_on_both_sides_if_they_can_be_negative() -> None:
    law = NoiseLaw.of(LaplaceNoise(Fraction(2)))
    sums = np.array([[-40.0, 40.0]])
    assert GroupTest(0, law, counts=False, signed=True).chances(sums)[0] < 1e-6
    assert GroupTest(0, law, counts=False, signed=False).chances(sums).tolist()[0] == 1
