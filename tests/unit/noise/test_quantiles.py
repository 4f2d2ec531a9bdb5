"""Quantiles: exact law, exact sensitivity, ascending answers, and an audit. False alarms below 1e-6."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from sfumato import audit
from sfumato.errors import UsageError
from sfumato.noise import Quantile, Quantiles
from sfumato.noise.bits import OS
from sfumato.noise.chances import chances
from sfumato.noise.quantiles import distances, parted
from sfumato.privacy import events

FALSE_ALARM = 1e-7
HALF = Fraction(1, 2)


def law(mechanism: Quantile, counts: list[int]) -> np.ndarray:
    weights = np.exp(-distances(np.array(counts), mechanism.share).astype(float) / float(mechanism.scale))
    return weights / weights.sum()


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
    st.data(),
)
@settings(max_examples=300)
def test_one_row_changes_scores_by_no_more_than_priced(
    counts: list[int], share: Fraction, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    more = [count + (i == place) for i, count in enumerate(counts)]
    before, after = (distances(np.array(each), share).astype(int) for each in (counts, more))
    assert np.abs(before - after).max() <= max(share.numerator, share.denominator - share.numerator)
    assert before.min() == 0


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_loss_has_the_range_that_is_charged(counts: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    more = [count + 3 * (i == place) for i, count in enumerate(counts)]
    mechanism = Quantile(Fraction(1, 3), Fraction(9, 10))
    loss = np.log(law(mechanism, counts) / law(mechanism, more))
    assert np.ptp(loss) <= float(mechanism.event(3).pure()) + 1e-9


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_parting_keeps_every_row_on_one_side(counts: list[int], data: st.DataObject) -> None:
    place, row = (data.draw(st.integers(0, len(counts) - 1)) for _ in range(2))
    more = [count + (i == row) for i, count in enumerate(counts)]
    sides = [np.concatenate(parted(np.array(each), place)) for each in (counts, more)]
    assert np.abs(sides[0] - sides[1]).sum() == 1
    assert sides[0].sum() == sum(counts)


@pytest.mark.parametrize("share", [HALF, Fraction(1, 10), Fraction(9, 10)])
def test_choices_have_their_law(share: Fraction) -> None:
    counts, draws = [3, 0, 0, 5, 1, 0, 9, 2], 8_000
    mechanism = Quantile(Fraction(7, 10), share)
    seen = np.bincount([mechanism.release(counts) for _ in range(draws)], minlength=len(counts))
    expected = law(mechanism, counts) * draws
    kept = expected > 20
    assert chi2.sf((((seen - expected) ** 2) / expected)[kept].sum(), kept.sum() - 1) > FALSE_ALARM


def test_a_sharp_choice_is_the_quantile() -> None:
    counts = [10, 0, 5, 5, 80]
    assert Quantile(Fraction(100), HALF).release(counts) == 4
    assert Quantile(Fraction(100), Fraction(12, 100)).release(counts) == 2
    assert Quantiles(Fraction(300), (Fraction(1, 20), Fraction(12, 100), HALF, Fraction(9, 10))).release(
        counts
    ) == (0, 2, 4, 4)


def test_huge_counts_do_not_wrap() -> None:
    assert Quantile(Fraction(1), HALF).release([2**62, 2**61, 2**62]) == 1


def test_no_rows_choose_any_cell() -> None:
    seen = np.bincount([Quantile(Fraction(1), HALF).release([0, 0, 0]) for _ in range(6000)], minlength=3)
    assert chi2.sf(((seen - 2000) ** 2 / 2000).sum(), 2) > FALSE_ALARM


def test_answers_ascend_and_are_close() -> None:
    rng = np.random.default_rng(4)
    counts = np.bincount(np.clip(rng.normal(500, 100, 20_000), 0, 999).astype(int), minlength=1000)
    shares = tuple(Fraction(k, 10) for k in range(1, 10))
    found = Quantiles(Fraction(1), shares).release(counts)
    assert all(one <= other for one, other in pairwise(found))
    ranks = np.cumsum(counts)[list(found)] / counts.sum()
    assert np.abs(ranks - [float(share) for share in shares]).max() < 0.05


def test_rank_error_holds() -> None:
    """At 90 % over 2,000 draws; a bound that is right fails the test with chance below 1e-9."""
    mechanism, counts = Quantile(Fraction(1, 2), HALF), np.ones(64, dtype=np.int64)
    bound = mechanism.rank_error(64, 0.9)
    off = [int(distances(counts, HALF)[mechanism.release(counts)]) for _ in range(2000)]
    assert sum(Fraction(each, 2) > bound for each in off) < 280
    assert bound < 32


def test_prices() -> None:
    assert Quantile(HALF, HALF).event(rows=3) == events.Exponential(Fraction(3, 2))
    three = Quantiles(Fraction(1), (Fraction(1, 4), HALF, Fraction(3, 4)))
    assert three.event() == events.Repeated(events.Exponential(HALF), 2)
    assert Quantiles(1, tuple(Fraction(k, 5) for k in range(1, 5))).levels == 3  # type: ignore[arg-type]


def test_audits_pass_the_claim_and_fail_half_the_noise() -> None:
    """The draw of `pick` in bulk, from its own law, as single draws take too long for an audit."""
    counts, more = [0, 1, 0, 0], [0, 1, 0, 1]
    rng = np.random.default_rng(8)

    def target(epsilon: int):  # type: ignore[no-untyped-def]
        laws = [law(Quantile(Fraction(epsilon), HALF), each) for each in (counts, more)]
        return lambda n: rng.choice(4, n, p=laws[0]), lambda n: rng.choice(4, n, p=laws[1])

    claim = Quantile(Fraction(2), HALF).event()
    assert not audit.run(target(2), claim, alpha=FALSE_ALARM).violates
    assert audit.run(target(4), claim, alpha=FALSE_ALARM).violates


def test_single_draws_are_audited_too() -> None:
    def target(epsilon: Fraction):  # type: ignore[no-untyped-def]
        mechanism = Quantiles(epsilon, (Fraction(1, 4), HALF, Fraction(3, 4)))
        return tuple(lambda n, h=each: [mechanism.release(h) for _ in range(n)] for each in ([0, 0], [0, 4]))

    claim = Quantiles(Fraction(1, 2), (Fraction(1, 4), HALF, Fraction(3, 4))).event(rows=4)
    assert not audit.run(target(Fraction(1, 2)), claim, samples=2000, alpha=FALSE_ALARM).violates
    assert audit.run(target(Fraction(4)), claim, samples=2000, alpha=FALSE_ALARM).violates


def test_replays_price_rows() -> None:
    pairs = [([1, 2, 3], [1, 2, 4]), ([0, 0, 0], [0, 1, 0])]
    mechanism = Quantiles(Fraction(1), (Fraction(1, 4), HALF))
    assert not audit.replay(lambda h: mechanism.release(h, rows=1), pairs, claim=1).violates
    assert audit.replay(lambda h: mechanism.release(h, rows=1), [([0, 0], [0, 2])], claim=1).violates


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: Quantile(Fraction(1), Fraction(1)), "SF-N504"),
        (lambda: Quantile(Fraction(1), Fraction(0)), "SF-N504"),
        (lambda: Quantile(Fraction(1), Fraction(1, 2**21)), "SF-N504"),
        (lambda: Quantiles(Fraction(1), ()), "SF-N504"),
        (lambda: Quantiles(Fraction(1), (HALF, HALF)), "SF-N504"),
        (lambda: Quantiles(Fraction(1), (HALF, Fraction(1, 4))), "SF-N504"),
        (lambda: Quantile(Fraction(0), HALF), "SF-N102"),
        (lambda: Quantile(Fraction(10**6), HALF), "SF-N402"),
        (lambda: Quantiles(Fraction(10**6), (HALF,)), "SF-N402"),
        (lambda: Quantiles(Fraction(1, 2**30), (Fraction(1, 2**20), HALF)), "SF-N402"),
        (lambda: Quantile(Fraction(1), HALF).release([[1]]), "SF-N505"),
        (lambda: Quantile(Fraction(1), HALF).release([1, -1]), "SF-N505"),
        (lambda: Quantile(Fraction(1), HALF).release([]), "SF-N203"),
        (lambda: Quantile(Fraction(1), HALF).release([0.5]), "SF-N202"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code


def test_it_is_fast_enough_for_a_fine_grid() -> None:
    counts = np.ones(2**18, dtype=np.int64)
    assert 0 <= chances(Fraction(4)).pick(distances(counts, HALF), OS) < 2**18
    assert math.isfinite(float(Quantile(Fraction(1), HALF).rank_error(2**18, 0.95)))
