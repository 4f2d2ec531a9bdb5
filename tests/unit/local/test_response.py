"""Randomized response: its odds never exceed e^ε, its answers have their law, its intervals cover."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import chi2

import sfumato as sf
from sequential import audit_in_stages
from sfumato import audit
from sfumato.errors import UsageError
from sfumato.local.odds import odds_within, simplest_fraction
from sfumato.local.response import RandomizedResponse
from sfumato.noise.sampling.bits import OS, draw_uniform
from sfumato.privacy import events
from sfumato.privacy.neighbours import Neighbours

LN3 = math.log(3)
FALSE_ALARM = 1e-10


def exceeds(odds: Fraction, epsilon: Fraction) -> bool:
    with mp.workprec(2000):
        return bool(
            mp.log(mpf(odds.numerator) / odds.denominator) > mpf(epsilon.numerator) / epsilon.denominator
        )


def test_the_fair_coin_is_exactly_ln_3() -> None:
    coin = sf.local.RandomizedResponse(epsilon=LN3)
    assert coin == RandomizedResponse.fair_coin()
    assert (coin.odds, coin.truth, coin.lie) == (3, Fraction(3, 4), Fraction(1, 4))
    assert not exceeds(coin.odds, coin.epsilon)
    assert coin.event() == events.RandomizedAnswer(LN3)
    assert coin.event().side_delta() == 0
    assert coin.event().neighbours is Neighbours.REPLACE_ONE


@pytest.mark.parametrize("k", range(2, 40))
def test_logarithms_typed_as_doubles_never_promise_too_much(k: int) -> None:
    response = RandomizedResponse(math.log(k))
    assert not exceeds(response.odds, response.epsilon)
    assert abs(response.odds - k) < Fraction(k, 2**28)


@given(st.fractions(Fraction(1, 2**20), Fraction(40), max_denominator=10**18))
def test_odds_stay_below_and_close(epsilon: Fraction) -> None:
    odds = odds_within(epsilon)
    assert not exceeds(odds, epsilon)
    assert exceeds(odds, epsilon * (1 - Fraction(1, 2**31)))
    assert odds.numerator + 2**20 * odds.denominator < 2**63


@given(
    st.fractions(Fraction(1, 100), 5, max_denominator=300),
    st.fractions(0, Fraction(1, 50), max_denominator=10**4),
)
@settings(max_examples=50)
def test_simplest_has_the_smallest_denominator(low: Fraction, width: Fraction) -> None:
    found = simplest_fraction(low, low + width)
    assert low <= found <= low + width
    smaller = range(1, found.denominator)
    assert all(-(-low.numerator * d // low.denominator) > (low + width) * d for d in smaller)


@pytest.mark.parametrize(
    ("epsilon", "values"), [(LN3, 2), (0.1, 2), (1, 5), (3, 17), (Fraction(1, 2**20), 3)]
)
def test_answers_have_their_law(epsilon: float, values: int) -> None:
    response, count = RandomizedResponse(epsilon, values), 200_000
    chances = [float(response.lie)] * values
    for truth in (0, values - 1):
        answers = response.privatize(np.full(count, truth))
        expected = (
            np.array([float(response.truth) if v == truth else c for v, c in enumerate(chances)]) * count
        )
        seen = np.bincount(answers, minlength=values)
        statistic = ((seen - expected) ** 2 / expected).sum()
        assert chi2.sf(statistic, values - 1) > FALSE_ALARM


@pytest.mark.parametrize("bound", [1, 2, 3, 2**32 + 1, 2**62 + 1, 2**63])
def test_uniform_numbers_reach_every_part(bound: int) -> None:
    drawn = draw_uniform(bound, 60_000, OS)
    assert drawn.min() >= 0
    assert drawn.max() < bound
    thirds = np.bincount((drawn.astype(object) * 3 // bound).astype(int), minlength=3)
    if bound >= 3:
        assert chi2.sf(((thirds - 20_000) ** 2 / 20_000).sum(), 2) > FALSE_ALARM


def test_refused_words_are_drawn_again() -> None:
    class Words:
        def __init__(self) -> None:
            self.left = [2**64 - 1, 5, 2**64 - 1, 7]

        def words(self, count: int):  # type: ignore[no-untyped-def]
            taken, self.left = self.left[:count], self.left[count:]
            return np.array(taken, dtype=np.uint64)

    assert draw_uniform(3, 2, Words()).tolist() == [7 % 3, 5 % 3]


def test_shapes_and_booleans() -> None:
    coin = RandomizedResponse.fair_coin()
    assert coin.privatize([[True, False], [False, True]]).shape == (2, 2)
    assert coin.privatize(True) in (0, 1)
    assert coin.privatize(np.array([0, 1], dtype=np.uint8)).dtype == np.int64


def test_the_yes_rate_is_a_quarter_and_half_the_share() -> None:
    """Six standard errors."""
    coin, people = RandomizedResponse.fair_coin(), 100_000
    truths = np.arange(people) < 30_000
    answers = coin.privatize(truths)
    assert abs(answers.mean() - (0.25 + 0.3 / 2)) < 6 * math.sqrt(3 / 16 / people)
    found = coin.estimate(answers)
    assert abs(found.value - 0.3) < 6 * math.sqrt(found.variance)
    assert found.variance == pytest.approx(3 / 4 / people)
    assert coin.expected_error(people) == pytest.approx(math.sqrt(found.variance))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.93])
@pytest.mark.parametrize(("epsilon", "values"), [(LN3, 2), (0.5, 2), (1, 4), (3, 4)])
@pytest.mark.parametrize("population", [False, True])
def test_intervals_cover_95_of_100(share: float, epsilon: float, values: int, population: bool) -> None:
    """Ten thousand runs: within one percentage point, and a slack of 5.2 standard errors (1e-7)."""
    response, people, runs = RandomizedResponse(epsilon, values), 2001, 10_000
    rng = np.random.default_rng(1)
    holders = rng.binomial(people, share, runs) if population else np.full(runs, round(share * people))
    true_share = share if population else round(share * people) / people
    seen = rng.binomial(holders, float(response.truth)) + rng.binomial(people - holders, float(response.lie))
    covered = 0
    found = {}
    for count in seen.tolist():
        if count not in found:
            counts = (people - count, count) + (0,) * (values - 2)
            low, high = type(response.estimate([0]))(counts, response.truth, response.lie).interval(
                population=population
            )
            found[count] = low - 1e-12 <= true_share <= high + 1e-12
        covered += found[count]
    slack = 5.2 * math.sqrt(0.95 * 0.05 / runs)
    assert covered / runs >= 0.94 - slack
    if share:
        assert covered / runs <= 0.96 + slack


def test_shares_of_many_answers_add_to_one() -> None:
    response = RandomizedResponse(2, values=5)
    found = response.estimate(response.privatize(np.arange(5000) % 5))
    assert sum(found.shares) == pytest.approx(1)
    assert len(found.to_dict()["intervals"]) == 5
    assert "share of 4" in str(found)
    assert len(found.plot().spec["data"]["values"]) == 5
    assert found._repr_html_().startswith("<table>")


def test_asking_again_composes() -> None:
    coin = RandomizedResponse(1)
    week = coin.repeat(7)
    assert week.epsilon == 7
    assert week.event == events.Repeated(events.RandomizedAnswer(1), 7)
    assert (round(coin.repeat(1).guess_rate, 3), round(week.guess_rate, 3)) == (0.731, 0.911)
    assert coin.repeat(30).guess_rate == pytest.approx(0.9965, abs=1e-3)
    assert coin.repeat(100_000).guess_rate == pytest.approx(1)
    assert "first answer" in str(week)
    assert "Asked once" in str(coin.repeat(1))
    assert RandomizedResponse(1, 3).repeat(2).guess_rate == pytest.approx(math.exp(2) / (math.exp(2) + 2))


@pytest.mark.parametrize("values", [2, 3])
def test_audits_pass_the_claim_and_fail_half_of_it(values: int) -> None:
    def target(epsilon: float):  # type: ignore[no-untyped-def]
        return audit.pair(RandomizedResponse(epsilon, values).privatize, 0, 1)

    claim = RandomizedResponse(1, values).event()
    found = audit.run(target(1), claim, alpha=FALSE_ALARM)
    assert not found.violates
    assert found.lower_bound > 0.9
    assert audit_in_stages(target(2), claim, samples=200_000, alpha=FALSE_ALARM).violates


def test_a_replay_sees_people_not_codes() -> None:
    response = RandomizedResponse(1, values=9)
    pairs = [([1, 2, 8], [1, 2, 0]), ([5], [5])]
    assert not audit.replay(lambda truths: response.privatize(truths).tolist(), pairs, claim=1).violates
    twice = lambda truths: [response.privatize(truths).tolist() for _ in range(2)]  # noqa: E731
    assert audit.replay(twice, pairs, claim=1).violates


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: RandomizedResponse(0), "SF-N101"),
        (lambda: RandomizedResponse(41), "SF-N101"),
        (lambda: RandomizedResponse(1e-9), "SF-N101"),
        (lambda: RandomizedResponse(1, 1), "SF-N101"),
        (lambda: RandomizedResponse(1, 2**21), "SF-N101"),
        (lambda: RandomizedResponse(1).privatize([0, 2]), "SF-N502"),
        (lambda: RandomizedResponse(1).privatize([-1]), "SF-N502"),
        (lambda: RandomizedResponse(1).privatize([0.5]), "SF-N202"),
        (lambda: RandomizedResponse(1).privatize([]), "SF-N203"),
        (lambda: RandomizedResponse(1).estimate([0, 1]).interval(1), "SF-N101"),
        (lambda: RandomizedResponse(1).estimate([0, 1]).interval(of=2), "SF-N502"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code
