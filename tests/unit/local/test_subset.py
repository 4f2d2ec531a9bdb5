"""Subset selection: exact odds, the least size, unbiased estimates, intervals that cover."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.local import RandomizedResponse, SubsetResponse
from sfumato.local.subset import plan_size, subset_chances
from sfumato.privacy import events
from sfumato.privacy.neighbours import Neighbours
from unit.local.scripted import Words

LN3 = math.log(3)


def enumerate_reports(response: SubsetResponse, truth: int) -> dict[tuple[int, ...], int]:
    """How often each report comes up, if every number that can be drawn is drawn once."""
    first = response.odds.numerator * response.size + response.odds.denominator * (
        response.values - response.size
    )
    bounds = [first, *(response.values - 1 - place for place in range(response.size))]
    words = [word for drawn in product(*map(range, bounds)) for word in drawn]
    found: dict[tuple[int, ...], int] = {}
    source = Words(words)
    for _ in range(math.prod(bounds)):
        report = tuple(response.privatize(truth, source=source).tolist())
        found[report] = found.get(report, 0) + 1
    return found


@pytest.mark.parametrize(("values", "epsilon", "size"), [(2, LN3, 1), (9, LN3, 2)])
def test_reports_have_exactly_their_odds(values: int, epsilon: float, size: int) -> None:
    """A set with the truth comes up `odds` times as often as one without it, and every set comes up."""
    response = SubsetResponse(epsilon, values)
    assert response.size == size
    for truth in (0, values - 1):
        found = enumerate_reports(response, truth)
        least = min(found.values())
        expected = {
            each: least * int(response.odds if truth in each else 1)
            for each in combinations(range(values), size)
        }
        assert found == expected


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 3, 4])
@pytest.mark.parametrize("values", [2, 16, 100, 4096])
def test_no_other_size_has_less_error(values: int, epsilon: float) -> None:
    response = SubsetResponse(epsilon, values)

    def error(size: int) -> float:
        truth, lie = subset_chances(values, size, response.odds)
        return float(lie * (1 - lie) / (truth - lie) ** 2)

    sizes = range(1, values) if values < 200 else range(max(response.size - 5, 1), response.size + 6)
    assert error(response.size) == min(map(error, sizes))
    assert response.expected_error(100) == pytest.approx(math.sqrt(error(response.size) / 100))


def test_long_lists_reach_the_known_limit_and_short_ones_are_randomized_response() -> None:
    odds = float(SubsetResponse(1, 4096).odds)
    assert SubsetResponse(1, 4096).expected_error(1) ** 2 == pytest.approx(
        4 * odds / (odds - 1) ** 2, rel=1e-3
    )
    one, other = SubsetResponse(3, 10), RandomizedResponse(3, 10)
    assert (one.size, one.truth, one.lie) == (1, other.truth, other.lie)
    assert plan_size(2, Fraction(3)) == 1


@pytest.mark.parametrize(("values", "epsilon"), [(6, LN3), (7, 0.5), (12, 2)])
def test_estimates_are_unbiased_and_have_their_variance(values: int, epsilon: float) -> None:
    """Exactly: all reports weighted by their chances, for one person."""
    response = SubsetResponse(epsilon, values)
    sets = list(combinations(range(values), response.size))
    chances = np.array([float(response.odds) if 0 in each else 1.0 for each in sets])
    chances /= chances.sum()
    shares = np.array([response.estimate([each]).shares for each in sets])
    np.testing.assert_allclose(chances @ shares, [1.0] + [0.0] * (values - 1), atol=1e-9)
    assert (chances @ shares**2)[1] == pytest.approx(response.expected_error(1) ** 2)


def surveys(response: SubsetResponse, truths: np.ndarray, runs: int) -> np.ndarray:  # type: ignore[type-arg]
    """Whether the intervals of values 0 and 1 hold, survey by survey; each of them a tenth of the people."""
    shares = np.bincount(truths, minlength=response.values)[:2] / truths.size
    held = np.empty((runs, 2), dtype=bool)
    for run in range(runs):
        found = response.estimate(response.privatize(truths))
        ends = [found.interval(0.95, of=value) for value in (0, 1)]
        held[run] = [low <= share <= high for share, (low, high) in zip(shares, ends, strict=True)]
    return held


@pytest.mark.slow
@pytest.mark.parametrize(("values", "epsilon"), [(60, 0.5), (60, 1), (60, 4), (1024, 4)])
def test_intervals_cover_94_to_96_of_100_over_ten_thousand_surveys(values: int, epsilon: float) -> None:
    """The share that holds has a standard error of 0.2 points, so chance leaves the band once in 1e6."""
    truths = np.concatenate([np.zeros(300, int), np.ones(300, int), np.arange(2400) % (values - 2) + 2])
    held = surveys(SubsetResponse(epsilon, values), truths, 10_000).mean(axis=0)
    assert ((held >= 0.94) & (held <= 0.96)).all()


def test_intervals_cover() -> None:
    """At 1,000 surveys within eight standard errors, which chance leaves once in 1e14: the true coverage is
    .950.
    """
    truths = np.concatenate([np.zeros(300, int), np.ones(300, int), np.arange(2400) % 38 + 2])
    held = surveys(SubsetResponse(2, 40), truths, 1000).mean(axis=0)
    assert (np.abs(held - 0.95) < 8 * math.sqrt(0.95 * 0.05 / 1000)).all()


def test_a_long_estimate_prints_its_largest_values() -> None:
    response = SubsetResponse(4, 500)
    found = response.estimate(response.privatize(np.arange(4000) % 3))
    assert set(found.top(3)) == {0, 1, 2}
    assert found.answers == 4000
    assert str(found).splitlines()[-1] == "smaller  488 values"
    assert found.plot().spec


def test_the_price() -> None:
    response = SubsetResponse(1, 1000)
    assert response.event() == events.RandomizedAnswer(1)
    assert response.event(3) == events.Repeated(events.RandomizedAnswer(1), 3)
    assert response.event().neighbours is Neighbours.REPLACE_ONE
    assert response == SubsetResponse(Fraction(1), 1000)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: SubsetResponse(0, 10), "SF-N101"),
        (lambda: SubsetResponse(math.nan, 10), "SF-N105"),
        (lambda: SubsetResponse(41, 10), "SF-N101"),
        (lambda: SubsetResponse(1, 0), "SF-N101"),
        (lambda: SubsetResponse(1, 1), "SF-N101"),
        (lambda: SubsetResponse(1, 2**12 + 1), "SF-N101"),
        (lambda: SubsetResponse(1, 100).privatize([100]), "SF-N502"),
        (lambda: SubsetResponse(1, 100).privatize([math.nan]), "SF-N202"),
        (lambda: SubsetResponse(1, 100).privatize([]), "SF-N203"),
        (lambda: SubsetResponse(3, 100).estimate([[1, 2, 3, 4, 10**6]]), "SF-N502"),
        (lambda: SubsetResponse(3, 100).estimate([[1, 1, 2, 3, 4]]), "SF-N502"),
        (lambda: SubsetResponse(3, 100).estimate([1]), "SF-N502"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code
