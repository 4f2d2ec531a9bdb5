"""Sums over ranges: best estimates, exact variances, coverage, prices, audits. False alarms below 1e-6."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sequential import audit_in_stages
from sfumato import audit
from sfumato.errors import UsageError
from sfumato.noise import GaussianNoise, LaplaceNoise, RangeSums
from sfumato.noise.ordered.ranges import best_branching
from sfumato.noise.ordered.trees import SumTree, build_tree
from sfumato.privacy import events

FALSE_ALARM = 1e-10
RUNS = 10_000
SHAPES = [(1, 2), (2, 2), (5, 2), (8, 2), (13, 3), (16, 4), (17, 4), (10, 10), (10, 50), (30, 5), (33, 2)]


def design(shape: SumTree) -> np.ndarray:
    """For every sum that is released, the cells that are in it."""
    return np.concatenate(
        [
            np.array(level)
            for level in zip(
                *(map(np.ndarray.tolist, shape.sum_levels(row)) for row in np.eye(shape.cells, dtype=int)),
                strict=True,
            )
        ],
        axis=1,
    ).T


@pytest.mark.parametrize(("cells", "branching"), SHAPES)
def test_estimates_are_least_squares(cells: int, branching: int) -> None:
    shape = build_tree(cells, branching)
    a = design(shape)
    noisy = np.random.default_rng(1).integers(-50, 50, len(a))
    parts = np.split(
        noisy, np.cumsum([level.size for level in shape.sum_levels(np.zeros(cells, dtype=int))])[:-1]
    )
    assert shape.estimate_cells(parts) == pytest.approx(np.linalg.lstsq(a, noisy, rcond=None)[0], abs=1e-9)


@pytest.mark.parametrize(("cells", "branching"), SHAPES)
def test_variances_are_those_of_least_squares(cells: int, branching: int) -> None:
    shape = build_tree(cells, branching)
    covariance = np.linalg.inv(design(shape).T @ design(shape))
    for start in range(cells):
        for stop in range(start + 1, cells + 1):
            wanted = (np.arange(cells) >= start) & (np.arange(cells) < stop)
            expected = wanted @ covariance @ wanted
            assert shape.range_variance(start, stop) == pytest.approx(expected)
            assert sum((each**2).sum() for each in shape.range_weights(start, stop)) == pytest.approx(
                expected
            )


@pytest.mark.parametrize(("cells", "branching"), SHAPES)
def test_each_row_is_in_one_sum_of_each_level(cells: int, branching: int) -> None:
    shape = build_tree(cells, branching)
    a = design(shape)
    assert set(np.unique(a)) <= {0, 1}
    assert (a.sum(axis=0) == shape.height).all()


def test_prices_count_the_levels() -> None:
    laplace = RangeSums(64, 4, LaplaceNoise(Fraction(30)))
    assert laplace.tree.height == 3
    assert laplace.event(rows=2) == events.SpreadLaplace(30, ((2, 3),))
    assert RangeSums.calibrated(1000, 0.5, rows=3).event(3).pure() == Fraction(1, 2)
    gaussian = RangeSums(64, 4, GaussianNoise(Fraction(30))).event(2)
    assert isinstance(gaussian, events.Gaussian)
    assert 0 <= 30 / (2 * math.sqrt(3)) - float(gaussian.sigma) < 1e-4


def test_trees_beat_flat_noise_where_there_are_many_cells() -> None:
    """Variance at equal ε, on average over the ranges that the choice is made by."""
    flat = RangeSums(4096, 4096, LaplaceNoise(Fraction(1)))
    tall = RangeSums.calibrated(4096, 1)
    assert tall.branching < 64
    assert tall.variance(100, 3000) < flat.variance(100, 3000) / 4
    assert best_branching(8) == 8
    assert best_branching(4096, gaussian=True) <= best_branching(4096)


def test_answers_agree_with_each_other() -> None:
    ranges = RangeSums.calibrated(100, 1).release(np.arange(100))
    assert ranges.sum(0, 100) == pytest.approx(ranges.sum(0, 37) + ranges.sum(37, 100))
    low, high = ranges.interval(3, 50)
    assert low < ranges.sum(3, 50) < high
    assert ranges.variance(3, 50) == ranges.mechanism.variance(3, 50)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(50)])
@pytest.mark.parametrize("kind", [LaplaceNoise, GaussianNoise])
def test_moments_are_those_of_the_noise(kind: type, scale: Fraction) -> None:
    """Six standard errors of the mean of the powers, estimated from what is drawn."""
    noise = kind(scale)
    drawn = noise.release(np.zeros(400_000, dtype=np.int64)).astype(float)
    found = noise.moments
    for power, expected in [(2, found.variance), (4, (found.excess + 3) * found.variance**2)]:
        error = (drawn**power).std() / math.sqrt(len(drawn))
        assert abs((drawn**power).mean() - expected) < 6 * error


@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(20)), GaussianNoise(Fraction(20))], ids=str)
@pytest.mark.parametrize(("cells", "branching"), [(16, 16), (64, 4), (50, 3)])
@pytest.mark.parametrize("span", [(0, 1), (3, 13)])
def test_intervals_cover_95_of_100(
    noise: LaplaceNoise | GaussianNoise, cells: int, branching: int, span: tuple[int, int]
) -> None:
    """Ten thousand runs, within one percentage point and 5.2 standard errors (1e-7)."""
    covered = _coverage(RangeSums(cells, branching, noise), span)
    assert abs(covered - 0.95) <= 0.01 + 5.2 * math.sqrt(0.95 * 0.05 / RUNS)


@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(1, 3)), GaussianNoise(Fraction(2))], ids=str)
@pytest.mark.parametrize(("cells", "branching"), [(16, 16), (64, 4)])
def test_intervals_of_coarse_noise_hold_as_often(
    noise: LaplaceNoise | GaussianNoise, cells: int, branching: int
) -> None:
    """Moments alone held in 86 to 92 of 100 cases."""
    assert _coverage(RangeSums(cells, branching, noise), (0, 1)) >= 0.94


def _coverage(mechanism: RangeSums, span: tuple[int, int]) -> float:
    weights = np.concatenate(
        [
            level[: size.size]
            for level, size in zip(
                mechanism.tree.range_weights(*span),
                mechanism.tree.sum_levels(np.zeros(mechanism.cells, int)),
                strict=True,
            )
        ]
    )
    errors = mechanism.noise.release(np.zeros((RUNS, weights.size), dtype=np.int64)) @ weights
    return float((np.abs(errors) <= mechanism.half_width(*span, 0.95)).mean())


def test_weights_and_estimates_are_one_computation() -> None:
    mechanism = RangeSums(23, 3, LaplaceNoise(Fraction(5)))
    levels = mechanism.tree.sum_levels(np.random.default_rng(2).integers(0, 99, 23))
    noisy = [level + 7 for level in levels]
    weights = mechanism.tree.range_weights(4, 19)
    direct = sum(float(weight[: level.size] @ level) for weight, level in zip(weights, noisy, strict=True))
    assert mechanism.tree.estimate_cells(noisy)[4:19].sum() == pytest.approx(direct)


@pytest.mark.parametrize("kind", [LaplaceNoise, GaussianNoise])
def test_audits_pass_the_claim_and_fail_half_the_noise(kind: type) -> None:
    """The released sums of a small tree, on no rows and on one."""
    claim = RangeSums(4, 2, kind(Fraction(2))).event()

    def target(scale: Fraction):  # type: ignore[no-untyped-def]
        shape = build_tree(4, 2)
        exact = [np.concatenate(shape.sum_levels(np.array(each))) for each in ([0, 0, 0, 0], [1, 0, 0, 0])]
        return audit.pair(kind(scale).release, exact[0], exact[1])

    assert not audit.run(target(Fraction(2)), claim, alpha=FALSE_ALARM).violates
    assert audit_in_stages(target(Fraction(1)), claim, samples=200_000, alpha=FALSE_ALARM).violates


def test_replays_price_rows() -> None:
    mechanism = RangeSums.calibrated(8, 1)
    pairs = [([0] * 8, [0, 0, 1, 0, 0, 0, 0, 0])]
    assert not audit.replay(lambda h: mechanism.release(h, rows=1).sum(0, 5), pairs, claim=1).violates
    assert audit.replay(lambda h: mechanism.release(h).sum(0, 5), pairs, claim=0.9).violates


def test_wide_counts_do_not_wrap() -> None:
    ranges = RangeSums(4, 2, LaplaceNoise(Fraction(1))).release([2**62] * 4)
    assert ranges.sum(0, 4) == pytest.approx(2.0**64)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: RangeSums(0, 2, LaplaceNoise(Fraction(1))), "SF-N101"),
        (lambda: RangeSums(2**22 + 1, 2, LaplaceNoise(Fraction(1))), "SF-N203"),
        (lambda: RangeSums(4, 1, LaplaceNoise(Fraction(1))), "SF-N203"),
        (lambda: RangeSums.calibrated(4, 0), "SF-N101"),
        (lambda: RangeSums.calibrated(4, 1).release([1, 2, 3]), "SF-N203"),
        (lambda: RangeSums.calibrated(4, 1).release([1, 2, 3, -4]), "SF-N203"),
        (lambda: RangeSums.calibrated(4, 1).variance(2, 2), "SF-N203"),
        (lambda: RangeSums.calibrated(4, 1).variance(0, 5), "SF-N203"),
        (lambda: RangeSums.calibrated(4, 1).release([0] * 4).interval(0, 1, 1), "SF-N101"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code


def test_the_expected_error_is_the_root_of_the_variance() -> None:
    mechanism = RangeSums.calibrated(16, 1)
    assert mechanism.expected_error(2, 9) ** 2 == pytest.approx(mechanism.variance(2, 9))
