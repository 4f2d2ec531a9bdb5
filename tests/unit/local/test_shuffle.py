"""Shuffling: bounds from both sides, held against sums over all outcomes."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.errors import UsageError
from sfumato.local import HadamardBit, MeanResponse, RandomizedResponse, Shuffled, SubsetResponse
from sfumato.local.designs import find_members
from sfumato.local.lattice_sums import LatticeSum
from sfumato.local.shuffle import report_law, spread_over_lattice


def blanket(mechanism, people: int, epsilon: float) -> float:  # type: ignore[no-untyped-def]
    """The upper bound's own quantity, summed over how many people draw each kind of report."""
    law, grown = report_law(mechanism), math.exp(epsilon)
    odds, both = float(law.odds), np.intersect1d(law.truth, law.other).size
    only, total = law.truth.size - both, (float(law.odds) - 1) * law.truth.size + law.reports
    values = [odds - grown, 1 - odds * grown, odds * (1 - grown), 1 - grown, 0.0]
    weights = [only, only, both, law.reports - 2 * only - both, (odds - 1) * law.truth.size]
    found = 0.0
    for counts in product(range(people + 1), repeat=4):
        if sum(counts) <= people:
            counts = (*counts, people - sum(counts))
            ways = math.factorial(people) // math.prod(map(math.factorial, counts))
            chance = ways * math.prod((w / total) ** c for w, c in zip(weights, counts, strict=True))
            found += chance * max(0.0, sum(v * c for v, c in zip(values, counts, strict=True)))
    return found / people


def coin_delta(odds: float, people: int, epsilon: float) -> float:
    """Exact for two answers, if all others have one of them: the number of ones is all there is."""
    truth, grown = odds / (1 + odds), math.exp(epsilon)
    others = binom.pmf(np.arange(people), people - 1, truth)
    one, zero = np.convolve(others, [1 - truth, truth]), np.convolve(others, [truth, 1 - truth])
    return float(max(np.maximum(one - grown * zero, 0).sum(), np.maximum(zero - grown * one, 0).sum()))


@pytest.mark.parametrize(
    "mechanism", [RandomizedResponse(1), RandomizedResponse(1, 3), SubsetResponse(2, 7)], ids=str
)
@pytest.mark.parametrize("epsilon", [0.1, 0.6])
def test_the_upper_bound_is_the_blanket(mechanism, epsilon: float) -> None:  # type: ignore[no-untyped-def]
    exact, found = blanket(mechanism, 9, epsilon), Shuffled(mechanism, 9).delta(epsilon)
    assert exact <= found.upper <= exact * 1.003 + 1e-12
    assert found.lower <= exact


@pytest.mark.parametrize(("people", "epsilon"), [(12, 0.6), (1000, 0.1), (10_000, 0.05)])
def test_the_lower_bound_is_the_exact_divergence_of_two_answers(people: int, epsilon: float) -> None:
    coin = RandomizedResponse(1)
    exact, found = coin_delta(float(coin.odds), people, epsilon), Shuffled(coin, people).delta(epsilon)
    assert exact * 0.9999 <= found.lower <= exact
    assert exact <= found.upper


@pytest.mark.parametrize(
    "mechanism", [RandomizedResponse(2, 10), SubsetResponse(5, 1000), MeanResponse(2, 0, 1)], ids=str
)
def test_both_bounds_meet_where_sets_are_disjoint(mechanism) -> None:  # type: ignore[no-untyped-def]
    bounds = Shuffled(mechanism, 1000).delta(float(mechanism.epsilon) / 10)
    assert bounds.lower <= bounds.upper <= 1.02 * bounds.lower


def test_more_people_hide_more() -> None:
    found = [Shuffled(RandomizedResponse(1, 4), people).epsilon(1e-6) for people in (30, 300)]
    assert found[0].lower > found[1].upper > found[1].lower
    assert Shuffled(RandomizedResponse(1, 4), 2).epsilon(1e-9).upper <= 1
    assert "(ε, 1e-6)" in str(Shuffled(RandomizedResponse(1), 30))


def test_a_known_answer_is_the_local_one() -> None:
    """With one other person there is hardly anybody to hide among: δ at 0 is close to the total variation."""
    coin = RandomizedResponse(math.log(3))
    assert Shuffled(coin, 2).delta(0).upper == pytest.approx(blanket(coin, 2, 0), rel=0.01)


def test_sums_of_a_lattice_variable() -> None:
    """Against a convolution, in the middle and where only one in 1e12 goes."""
    numbers, chances = np.array([-7, 0, 5]), np.array([0.5, 0.2, 0.3])
    single = np.zeros(13)
    single[numbers + 7] = chances
    law = np.ones(1)
    for _ in range(200):
        law = np.convolve(law, single)
    places = np.arange(law.size) - 1400
    for centre in (-400, 0, 300):
        first, low, high = LatticeSum(numbers, chances, 200, centre).tails()
        for number in (centre - 20, centre, centre + 20):
            exact = float(law[places > number].sum())
            assert low[number - first] <= exact * (1 + 1e-9)
            assert high[number - first] >= exact * (1 - 1e-9)
            assert high[number - first] - low[number - first] <= 1e-6 * exact
    expected = float((law * np.maximum(places, 0)).sum())
    assert expected <= LatticeSum(numbers, chances, 200).positive_part() <= expected * (1 + 1e-6)


@pytest.mark.parametrize(
    "response", [SubsetResponse(0.5, 4000), SubsetResponse(3, 40), SubsetResponse(5, 1000)]
)
def test_the_worst_pair_is_one_of_values(response: SubsetResponse) -> None:
    """Every pair of a value with the first, counted: none shares fewer reports."""
    law, design = report_law(response), response.design
    members, cycle = find_members(design.places), design.places.cycle
    speaking = np.zeros((response.values, design.reports), dtype=bool)
    for value in range(response.values):
        group, place = value % design.groups, value // design.groups
        speaking[value, group * cycle + (members + place) % cycle] = True
    shared = (speaking & speaking[0]).sum(axis=1)
    assert np.intersect1d(law.truth, law.other).size == shared.min()
    told = {row.tobytes() for row in speaking}
    for reports in (law.truth, law.other, *law.crowd):
        assert np.isin(np.arange(design.reports), reports).tobytes() in told


def test_spreading_keeps_the_mean() -> None:
    numbers, chances = np.array([0.25, -1.5, 3.0]), np.array([0.5, 0.25, 0.25])
    places, weights = spread_over_lattice(numbers, chances)
    assert weights @ places == pytest.approx(chances @ numbers)
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: Shuffled(RandomizedResponse(1), 1), "SF-N517"),
        (lambda: Shuffled(RandomizedResponse(1), 10**9), "SF-N517"),
        (lambda: Shuffled(HadamardBit(1, 4), 100), "SF-N518"),
        (lambda: Shuffled(RandomizedResponse(1), 100).delta(-1), "SF-N111"),
        (lambda: Shuffled(RandomizedResponse(1), 100).epsilon(0), "SF-N409"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code
