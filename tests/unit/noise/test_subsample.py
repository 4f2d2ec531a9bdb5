"""Subsample and aggregate: one unit changes one block; prices, laws, audits. False alarms below 1e-6."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from sequential import audit_in_stages
from sfumato import audit
from sfumato.errors import UsageError
from sfumato.noise import BlockMean, BlockMedian, Histograms, LaplaceNoise, UnitBlocks
from sfumato.privacy import events

FALSE_ALARM = 1e-10
BLOCKS = UnitBlocks(10, b"key")


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(-99, 99)), max_size=60), st.integers(0, 30))
def test_one_unit_changes_one_block(rows: list[tuple[int, int]], unit: int) -> None:
    def outputs(table: list[tuple[int, int]]) -> list[int]:
        def middle(places: list[int]) -> float:
            return median(table[place][1] for place in places)

        return BLOCKS.apply(middle, [who for who, _ in table], -50, 50)

    without = [row for row in rows if row[0] != unit]
    changed = [one != other for one, other in zip(outputs(rows), outputs(without), strict=True)]
    assert sum(changed) <= 1
    assert not any(change for block, change in enumerate(changed) if block != BLOCKS.block_of(unit))


def test_units_are_spread_evenly_and_by_key() -> None:
    seen = np.bincount([BLOCKS.block_of(unit) for unit in range(20_000)], minlength=10)
    assert chi2.sf(((seen - 2000) ** 2 / 2000).sum(), 9) > FALSE_ALARM
    other = UnitBlocks(10, b"another")
    assert sum(BLOCKS.block_of(unit) == other.block_of(unit) for unit in range(2000)) < 300
    assert (
        BLOCKS.block_of("1") != BLOCKS.block_of(1)
        or BLOCKS.block_of("2") != BLOCKS.block_of(2)
        or BLOCKS.block_of("3") != BLOCKS.block_of(3)
    )


def test_every_row_is_in_one_block() -> None:
    units = [f"u{i % 37}" for i in range(500)]
    blocks = BLOCKS.split(units)
    assert sorted(place for block in blocks for place in block) == list(range(500))
    assert all(len({BLOCKS.block_of(units[place]) for place in block}) <= 1 for block in blocks)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (3.4, 3),
        (3.5, 4),
        (-1e300, 0),
        (math.inf, 9),
        (-math.inf, 0),
        (math.nan, 4),
        ("x", 4),
        (None, 4),
        (10**400, 4),
    ],
)
def test_outputs_are_total(value: object, kept: int) -> None:
    assert UnitBlocks(2, b"k").apply(lambda places: value, [1, 2, 3], 0, 9) == [kept, kept]


def test_a_failing_kernel_counts_as_the_middle() -> None:
    def kernel(places: list[int]) -> float:
        return 1 / len(places)

    assert UnitBlocks(2, b"k").apply(kernel, [], 0, 9) == [4, 4]


def test_prices() -> None:
    mean = BlockMean.calibrated(50, 0, 100, 0.5)
    assert mean.noise == LaplaceNoise(Fraction(200))
    assert mean.event() == events.DiscreteLaplace(200, 100)
    assert BlockMedian(50, 0, 100, Fraction(1, 2)).event() == events.Exponential(Fraction(1, 2))
    assert mean.expected_error() == pytest.approx(200 / 50, rel=1e-3)
    assert mean.half_width(0.95) == Fraction(mean.noise.half_width(0.95), 50)


def test_answers_are_near_the_blocks() -> None:
    outputs = [40] * 20 + [60] * 30
    assert abs(float(BlockMean.calibrated(50, 0, 100, 10).release(outputs)) - 52) < 10
    assert 40 <= BlockMedian(50, 0, 100, Fraction(50)).release(outputs) <= 60
    assert BlockMedian(50, 0, 100, Fraction(1)).rank_error(0.95) < 25


def test_the_interval_of_the_mean_covers() -> None:
    """Ten thousand runs: at least 95 % less 5.2 standard errors (1e-7), and no more than a point above."""
    mean, runs = BlockMean.calibrated(20, 0, 50, 1), 10_000
    errors = mean.noise.release(np.zeros(runs, dtype=np.int64)) / 20
    covered = (np.abs(errors) <= float(mean.half_width(0.95))).mean()
    assert abs(covered - 0.955) <= 0.005 + 5.2 * math.sqrt(0.95 * 0.05 / runs)


def test_audits_of_the_mean_pass_the_claim_and_fail_half_the_noise() -> None:
    def target(epsilon: float):  # type: ignore[no-untyped-def]
        noise = BlockMean.calibrated(5, 0, 8, epsilon).noise
        return audit.pair(noise.release, 4 * 3, 4 * 3 + 8)

    claim = BlockMean.calibrated(5, 0, 8, 1).event()
    assert not audit.run(target(1), claim, alpha=FALSE_ALARM).violates
    assert audit_in_stages(target(2), claim, samples=200_000, alpha=FALSE_ALARM).violates


def test_audits_of_the_median_pass_the_claim_and_fail_half_the_noise() -> None:
    """Outputs 0, 3, 3, 4 and, with one changed, 0, 0, 3, 3."""

    def draws(epsilon: int, steps: list[int], n: int) -> np.ndarray:
        choice = BlockMedian(4, 0, 4, Fraction(epsilon))._choice()
        rows = np.divmod(np.arange(5 * n), 5), np.tile(steps, n)
        return choice.release_groups(Histograms.from_triplets(*rows[0], rows[1], groups=n, cells=5))

    def target(epsilon: int):  # type: ignore[no-untyped-def]
        return tuple(lambda n, s=steps: draws(epsilon, s, n) for steps in ([1, 0, 0, 2, 1], [2, 0, 0, 2, 0]))

    claim = BlockMedian(4, 0, 4, Fraction(2)).event()
    assert not audit.run(target(2), claim, samples=50_000, alpha=FALSE_ALARM).violates
    assert audit_in_stages(target(4), claim, samples=120_000, alpha=FALSE_ALARM).violates
    drawn = np.bincount(
        [BlockMedian(4, 0, 4, Fraction(2)).release([0, 3, 3, 4]) for _ in range(4000)], minlength=5
    )
    # |2·rank − 4| beyond the ranks of an output, and below 0 as deep as it lies within them, for ε = 2
    weights = np.exp(-np.array([2, 2, 2, -2, 2]) / 2)
    expected = weights / weights.sum() * 4000
    assert chi2.sf(((drawn - expected) ** 2 / expected).sum(), 4) > FALSE_ALARM


@pytest.mark.parametrize("mechanism", [BlockMean.calibrated(3, 0, 9, 1), BlockMedian(3, 0, 9, Fraction(1))])
def test_replays_price_blocks(mechanism: BlockMean | BlockMedian) -> None:
    assert not audit.replay(mechanism.release, [([0, 1, 2], [9, 1, 2])], claim=1).violates
    assert audit.replay(mechanism.release, [([0, 1, 2], [9, 9, 2])], claim=1).violates


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: UnitBlocks(1, b""), "SF-N203"),
        (lambda: BlockMean.calibrated(1, 0, 1, 1), "SF-N203"),
        (lambda: BlockMean.calibrated(5, 1, 1, 1), "SF-N203"),
        (lambda: BlockMedian(5, 0.0, 1, Fraction(1)), "SF-N203"),  # type: ignore[arg-type]
        (lambda: BlockMedian(5, 0, 1, Fraction(0)), "SF-N101"),
        (lambda: BlockMedian(5, 0, 2**22, Fraction(1)), "SF-N203"),
        (lambda: BlockMedian(5, 0, 1, Fraction(10**6)), "SF-N201"),
        (lambda: BLOCKS.block_of(1.5), "SF-N203"),  # type: ignore[arg-type]
        (lambda: BLOCKS.block_of(True), "SF-N203"),
        (lambda: BlockMean.calibrated(3, 0, 1, 1).release([1, 0]), "SF-N203"),
        (lambda: BlockMedian(3, 0, 1, Fraction(1)).release([0.5, 1, 1]), "SF-N202"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code


def test_the_expected_error_of_the_median_is_that_of_its_choice() -> None:
    assert BlockMedian(9, 0, 99, Fraction(2)).expected_error() == pytest.approx(math.log(100))
