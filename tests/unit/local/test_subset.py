"""Reports about large domains: exact odds, even spectra, unbiased estimates, intervals that cover."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.local import SubsetResponse
from sfumato.local.designs import (
    CyclotomicSet,
    PlaceSet,
    PointSet,
    SingerSet,
    find_members,
    least_squared_error,
    plan_design,
)
from sfumato.local.fields import prime_factors, primitive_polynomial, recurrence
from sfumato.local.subset import convolve, second_moments
from sfumato.privacy import events
from sfumato.privacy.neighbours import Neighbours
from unit.local.scripted import Words

LN3 = math.log(3)
SINGER = [(2, 1, 5), (3, 1, 4), (2, 2, 3), (5, 1, 3), (3, 2, 3), (2, 3, 4)]
UNEVEN = CyclotomicSet(1051, 10, (0, 4, 5, 6), 0.0)


def overlaps(places: PlaceSet) -> np.ndarray:  # type: ignore[type-arg]
    """How many members a set shares with itself, moved by 1, 2, …"""
    indicator = np.zeros(places.cycle)
    indicator[find_members(places)] = 1
    return np.rint(np.fft.irfft(np.abs(np.fft.rfft(indicator)) ** 2, places.cycle)).astype(int)[1:]


@pytest.mark.parametrize("field", SINGER, ids=str)
def test_singer_sets_are_difference_sets(field: tuple[int, int, int]) -> None:
    places = SingerSet(*field)
    q = field[0] ** field[1]
    assert find_members(places).size == places.size
    assert set(overlaps(places).tolist()) == {(q ** (field[2] - 2) - 1) // (q - 1)}


@pytest.mark.parametrize(("prime", "degree"), [(2, 8), (3, 5), (7, 3), (13, 2)])
def test_recurrences_have_the_longest_period(prime: int, degree: int) -> None:
    period = prime**degree - 1
    terms = recurrence(primitive_polynomial(prime, degree), 2 * period, prime)
    assert (terms[:period] == terms[period:]).all()
    windows = {tuple(terms[i : i + degree].tolist()) for i in range(period)}
    assert len(windows) == period


def test_prime_factors() -> None:
    assert prime_factors(2**20 - 1) == [3, 5, 11, 31, 41]
    assert prime_factors(1) == []


@pytest.mark.parametrize("places", [SingerSet(3, 1, 4), SingerSet(2, 2, 3), UNEVEN], ids=str)
def test_inverses_undo_the_sets(places: PlaceSet) -> None:
    indicator = np.zeros(places.cycle)
    indicator[find_members(places)] = 1
    alone = np.zeros(places.cycle)
    alone[0] = 1
    np.testing.assert_allclose(convolve(indicator[None], places)[0], alone, atol=1e-9)


def test_the_evenness_is_that_of_the_spectrum() -> None:
    design = plan_design(4000, math.exp(0.5))
    assert isinstance(design.places, CyclotomicSet)
    indicator = np.zeros(design.places.cycle)
    indicator[find_members(design.places)] = 1
    spectrum = np.abs(np.fft.fft(indicator)) ** 2
    assert design.places.evenness == pytest.approx((1 / spectrum).mean(), rel=1e-9)
    assert SingerSet(3, 1, 4).evenness == pytest.approx((39 / 9 + 1 / 13**2) / 40)


@pytest.mark.parametrize("values", [2, 7, 60])
def test_reports_have_exactly_their_odds(values: int) -> None:
    """Every number that can be drawn, once: each report comes up a times or b times, as the set says."""
    response = SubsetResponse(LN3, values)
    assert response.odds == 3
    design, members = response.design, find_members(response.design.places)
    numbers = 2 * members.size + design.reports
    for truth in {0, 1, values - 1}:
        told = response.privatize(np.full(numbers, truth), source=Words(list(range(numbers))))
        seen = np.bincount(told, minlength=design.reports)
        group, place = truth % design.groups, truth // design.groups
        speaking = group * design.places.cycle + (members + place) % design.places.cycle
        expected = np.ones(design.reports, dtype=int)
        expected[speaking] = 3
        assert (seen == expected).all()


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("bits", [10, 20])
def test_short_reports_come_within_five_per_cent_of_the_optimum(epsilon: float, bits: int) -> None:
    response = SubsetResponse(epsilon, 2**bits)
    assert response.excess <= 1.05
    # With 2^10 values at ε = 5, no regular design of 11 bits does better than 1.058: docs/proofs/local.md.
    assert response.bits <= bits + (2 if (bits, epsilon) == (10, 5) else 1)
    assert SubsetResponse(epsilon, 2**bits, bits=bits + 1).excess <= 1.07


def test_the_optimum_is_that_of_subset_selection() -> None:
    odds = math.exp(2)
    assert least_squared_error(2**20, odds) == pytest.approx(4 * odds / (odds - 1) ** 2, rel=1e-4)
    # For two values every method is randomized response.
    assert least_squared_error(2, 3.0) == pytest.approx(1)
    assert plan_design(2, 3.0).places == PointSet()


CASES = [(6, LN3, None), (40, 0.5, None), (60, 5, 7), (60, 2, 9)]


@pytest.mark.parametrize(("values", "epsilon", "bits"), CASES)
def test_estimates_are_unbiased_and_have_their_variance(
    values: int, epsilon: float, bits: int | None
) -> None:
    """Exactly: all reports weighted by their chances, for one person, truth by truth."""
    response = SubsetResponse(epsilon, values, bits=bits)
    design, odds = response.design, float(response.odds)
    members, cycle = find_members(design.places), design.places.cycle
    for truth in (0, values - 1):
        chances = np.ones(design.reports)
        group, place = truth % design.groups, truth // design.groups
        chances[group * cycle + (members + place) % cycle] = odds
        chances /= chances.sum()
        shares = np.array([response.estimate([report]).shares for report in range(design.reports)])
        expected = np.zeros(values)
        expected[truth] = 1
        np.testing.assert_allclose(chances @ shares, expected, atol=1e-9)
        own, inside, outside = second_moments(design, odds)
        seconds = chances @ shares**2
        assert seconds[truth] == pytest.approx(own)
        for other in range(values):
            if other != truth:
                same = other % design.groups == group
                assert seconds[other] == pytest.approx(inside if same else outside)


def surveys(response: SubsetResponse, truths: np.ndarray, runs: int) -> np.ndarray:  # type: ignore[type-arg]
    """Whether the intervals of values 0 and 1 hold, survey by survey; each of them a tenth of the people."""
    shares = np.bincount(truths, minlength=response.values)[:2] / truths.size
    held = np.empty((runs, 2), dtype=bool)
    for run in range(runs):
        low, high = response.estimate(response.privatize(truths)).interval(0.95, of=[0, 1])
        held[run] = (low <= shares) & (shares <= high)
    return held


@pytest.mark.slow
@pytest.mark.parametrize(("values", "epsilon"), [(60, 0.5), (60, 1), (60, 4), (1024, 2)])
def test_intervals_cover_94_to_96_of_100_over_ten_thousand_surveys(values: int, epsilon: float) -> None:
    """The share that holds has a standard error of 0.2 points, so chance leaves the band once in 1e6."""
    truths = np.concatenate([np.zeros(300, int), np.ones(300, int), np.arange(2400) % (values - 2) + 2])
    held = surveys(SubsetResponse(epsilon, values), truths, 10_000).mean(axis=0)
    assert ((held >= 0.94) & (held <= 0.96)).all()


def test_intervals_cover() -> None:
    """At 3,000 surveys within eight standard errors, which chance leaves once in 1e14: the true coverage is
    .950.
    """
    truths = np.concatenate([np.zeros(300, int), np.ones(300, int), np.arange(2400) % 38 + 2])
    held = surveys(SubsetResponse(1, 40), truths, 3000).mean(axis=0)
    assert (np.abs(held - 0.95) < 8 * math.sqrt(0.95 * 0.05 / 3000)).all()


def test_intervals_for_a_population_are_wider() -> None:
    found = SubsetResponse(2, 50).estimate(np.arange(5000) % 50)
    inner, outer = found.interval(), found.interval(population=True)
    assert (outer[1] - outer[0] >= inner[1] - inner[0]).all()


def test_the_price() -> None:
    response = SubsetResponse(1, 1000)
    assert response.event() == events.RandomizedAnswer(1)
    assert response.event(3) == events.Repeated(events.RandomizedAnswer(1), 3)
    assert response.event().neighbours is Neighbours.REPLACE_ONE
    assert response == SubsetResponse(Fraction(1), 1000)
    assert response != SubsetResponse(1, 1000, bits=10)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: SubsetResponse(0, 10), "SF-N102"),
        (lambda: SubsetResponse(math.nan, 10), "SF-N105"),
        (lambda: SubsetResponse(41, 10), "SF-N501"),
        (lambda: SubsetResponse(1, 0), "SF-N102"),
        (lambda: SubsetResponse(1, 1), "SF-N503"),
        (lambda: SubsetResponse(1, 2**22 + 1), "SF-N503"),
        (lambda: SubsetResponse(1, 100, bits=6), "SF-N513"),
        (lambda: SubsetResponse(1, 100).privatize([100]), "SF-N502"),
        (lambda: SubsetResponse(1, 100).privatize([math.nan]), "SF-N202"),
        (lambda: SubsetResponse(1, 100).privatize([]), "SF-N203"),
        (lambda: SubsetResponse(1, 100).estimate([10**6]), "SF-N502"),
        (lambda: SubsetResponse(1, 100).estimate([5]).interval(of=100), "SF-N502"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code
