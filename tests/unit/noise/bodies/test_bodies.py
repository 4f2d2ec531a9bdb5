"""Shaped noise as a value: its norm, price, law by enumeration, errors, and what it refuses."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.errors import UsageError
from sfumato.noise import LaplaceNoise, SimplicesNoise
from sfumato.noise.additive import LARGEST
from sfumato.noise.bodies.shaped import MOST_SUMS, ShapedNoise
from sfumato.noise.bodies.simplices import _draw_pairs
from sfumato.noise.sampling.bits import OS
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.events import KNorm

FALSE_ALARM = 1e-10
DRAWS = 60_000
NOISES = [
    SimplicesNoise((), Fraction(3)),
    SimplicesNoise((1,), Fraction(2)),
    SimplicesNoise((2,), Fraction(3, 2)),
    SimplicesNoise((1, 1), Fraction(2)),
    SimplicesNoise((2, 1), Fraction(1)),
    SimplicesNoise((2, 2), Fraction(4, 5)),
]

WIDE = [SimplicesNoise((2, 1), Fraction(500))]


def zeros(noise: ShapedNoise, cells: int) -> Any:
    return np.zeros((noise.sums, cells), dtype=np.int64)


def lattice(size: int, reach: int) -> Any:
    axes = [np.arange(-reach, reach + 1)] * size
    return np.stack(np.meshgrid(*axes, indexing="ij")).reshape(size, -1)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_draws_have_the_law_of_the_norm(noise: ShapedNoise) -> None:
    """Pearson's statistic over the points near 0 that are common, each against e^(−N/scale)."""
    reach = {1: 12, 2: 6, 3: 4, 4: 3, 5: 2}[noise.sums]
    points = lattice(noise.sums, reach)
    weights = np.exp(-noise.norms(points).astype(float) / float(noise.scale))
    drawn = noise.release(zeros(noise, DRAWS))
    inside = (np.abs(drawn) <= reach).all(axis=0)
    place = np.ravel_multi_index(tuple((drawn[:, inside] + reach).astype(int)), (2 * reach + 1,) * noise.sums)
    counts = np.bincount(place, minlength=points.shape[1])
    common = weights / weights.sum() * inside.sum() >= 30
    expected = weights[common] / weights[common].sum() * counts[common].sum()
    statistic = float(((counts[common] - expected) ** 2 / expected).sum())
    assert common.sum() > 12
    assert statistic < chi2.isf(FALSE_ALARM, common.sum() - 1)


def assert_uniform(found: Any, points: set[tuple[int, ...]]) -> None:
    """All points are seen equally often, and no others."""
    counts = Counter(map(tuple, found.tolist()))
    assert set(counts) == points
    each = len(found) / len(points)
    statistic = sum((count - each) ** 2 / each for count in counts.values())
    assert statistic < chi2.isf(FALSE_ALARM, len(points) - 1)


@pytest.mark.parametrize(("high", "low"), [(1, 0), (3, 0), (0, 4), (3, 2), (2, 5)])
@pytest.mark.parametrize("cells", [4, 20_000])
def test_pairs_are_all_points_of_their_column_equally_often(high: int, low: int, cells: int) -> None:
    """Three parts from −low to high that add up to high − low: by enumeration, in few cells and in many."""
    axis, total = range(-low, high + 1), high - low
    points = {(a, b) for a in axis for b in axis if total - a - b in axis}
    most, least = np.full(cells, high), np.full(cells, low)
    drawn = [_draw_pairs(2, most, least, OS) for _ in range(max(1, 8000 // cells))]
    assert_uniform(
        np.stack([np.stack(each, axis=-1).reshape(-1, 2) for each in drawn]).reshape(-1, 2), points
    )


@pytest.mark.parametrize("noise", [SimplicesNoise((2,), 1), SimplicesNoise((1, 2), 1)])
def test_few_cells_at_a_time_have_the_same_law(noise: ShapedNoise) -> None:
    """Norms of 6,000 draws, three at a time, against the norms of all points: N has few values."""
    points = lattice(noise.sums, 14 if noise.sums < 4 else 9)
    norms = noise.norms(points).astype(int)
    law = np.bincount(norms, weights=np.exp(-norms))[:7] / np.exp(-norms).sum()
    drawn = np.concatenate([noise.release(zeros(noise, 3)) for _ in range(2000)], axis=1)
    seen = np.bincount(noise.norms(drawn).astype(int), minlength=7)
    expected, seen = np.append(law, 1 - law.sum()) * 6000, np.append(seen[:7], seen[7:].sum())
    used = expected > 5
    assert float(((seen - expected) ** 2 / expected)[used].sum()) < chi2.isf(FALSE_ALARM, used.sum())


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_norm_is_symmetric_and_subadditive(noise: ShapedNoise) -> None:
    rng = np.random.default_rng(4)
    one, other = rng.integers(-9, 10, (2, noise.sums, 4000))
    norms = noise.norms
    assert (norms(one) == norms(-one)).all()
    assert (norms(one + other) <= norms(one) + norms(other)).all()
    assert norms(zeros(noise, 1)).tolist() == [0]


def test_a_row_with_values_and_gaps_adds_its_width() -> None:
    """Whatever the values, missing or not, a row has the norm W, and several rows no more than their sum."""
    rng, width, rows = np.random.default_rng(6), 40, 3000
    first, second = rng.integers(0, width + 1, (2, rows))
    gap = rng.random(rows) < 0.3
    pair = np.where(gap, 0, np.stack([second, width - second]))
    table = np.concatenate([np.full((1, rows), width), first[None], pair])
    noise = SimplicesNoise((1, 2), Fraction(1))
    assert set(noise.norms(table)) == {width}
    assert max(noise.norms(table[:, ::2] + table[:, 1::2])) == 2 * width
    assert max(noise.norms(table[:, ::2] - table[:, 1::2])) <= 2 * width


@pytest.mark.parametrize("noise", [*NOISES, SimplicesNoise((2, 1), 500)], ids=str)
def test_errors_and_intervals_are_those_of_the_law(noise: ShapedNoise) -> None:
    """Beside 60,000 draws; each comparison fails without cause less than once in 1e9."""
    drawn = noise.release(zeros(noise, DRAWS)).astype(float)
    scales = np.sqrt(noise.variances)
    slack = 40 / math.sqrt(DRAWS)
    assert np.allclose(np.atleast_2d(np.cov(drawn)) / np.outer(scales, scales),
                       noise.covariance / np.outer(scales, scales), atol=slack)  # fmt: skip
    for place in range(noise.sums):
        assert np.abs(drawn[place]).mean() == pytest.approx(
            noise.expected_error(place), abs=slack * scales[place]
        )
        half = noise.half_width(place, 0.95)
        assert noise.coverage(place, half) >= 0.95 > (noise.coverage(place, half - 1) if half else 0)
        assert (np.abs(drawn[place]) <= half).mean() == pytest.approx(noise.coverage(place, half), abs=0.0065)


def test_intervals_of_several_sums_together() -> None:
    noise = SimplicesNoise((2, 1), Fraction(700))
    drawn = noise.release(zeros(noise, DRAWS))
    weights = np.array([0.0, 1.0, 1.0, 0.0])
    half = noise.combined_half_width(weights, 0.95)
    assert (np.abs(weights @ drawn) <= half).mean() == pytest.approx(0.95, abs=0.009)
    assert noise.combined_half_width([0, 0, 2, 0], 0.9) == 2 * noise.half_width(2, 0.9)
    assert (noise.draw_points(10) == noise.draw_points(10)).all()


def test_one_column_is_laplace_noise() -> None:
    scale = Fraction(17, 2)
    laplace, pair = LaplaceNoise(scale), SimplicesNoise((2,), scale)
    assert pair.variances[1] == pytest.approx(laplace.moments.variance)
    assert pair.variances[0] == pytest.approx(3 * laplace.moments.variance)
    assert pair.half_width(1, 0.95) == laplace.half_width(0.95)
    assert SimplicesNoise((), scale).half_width(0, 0.99) == laplace.half_width(0.99)


def test_a_stretched_law_meets_the_exact_one() -> None:
    """Wide laws are narrow ones stretched: their deviations agree with the closed form to a thousandth."""
    for columns in ((1,), (2, 1), (1,) * 8):
        noise = SimplicesNoise(columns, Fraction(10**6))
        for place in range(noise.sums):
            inside = noise.coverage(place, 2 * int(math.sqrt(noise.variances[place])))
            scaled = SimplicesNoise(columns, Fraction(40))
            assert inside == pytest.approx(
                scaled.coverage(place, round(2 * math.sqrt(scaled.variances[place]) - 0.5)), abs=0.01
            )


def test_many_averages_need_less_noise_than_shares_of_epsilon() -> None:
    """Half widths against an even split of ε over a count and k averages: 1.7 times less at 2, 2.3 at 8."""
    width = 1000
    for k, least in ((2, 1.6), (8, 2.2)):
        shaped = SimplicesNoise.calibrated(Fraction(1), width, (1,) * k)
        split = LaplaceNoise(Fraction(k + 1) * width)
        assert split.half_width(0.95) / shaped.half_width(0, 0.95) > least


def test_prices_are_exact_and_read_back() -> None:
    noise = SimplicesNoise.calibrated(Fraction(7, 3), 4, (1,))
    assert noise.event(4) == KNorm(Fraction(12, 7), 4)
    assert noise.event(4).pure() == Fraction(7, 3)
    assert noise.event(1).pure() == Fraction(7, 12)
    assert SimplicesNoise.calibrated(Fraction(1, 2), 80, (1,)).scale == 160


def test_no_move_costs_more_than_its_price() -> None:
    """Losses and Rényi divergences, added up over points, for every move of a norm up to 2."""
    noise = SimplicesNoise((2,), Fraction(1))
    points = lattice(noise.sums, 16)
    at = -noise.norms(points).astype(float) / float(noise.scale)
    whole, closest = np.exp(at).sum(), 0.0
    for move in lattice(noise.sums, 4).T:
        norm = int(noise.norms(move[:, None])[0])
        if not 1 <= norm <= 2:
            continue
        moved = -noise.norms(points - move[:, None]).astype(float) / float(noise.scale)
        event = noise.event(norm)
        assert np.abs(moved - at).max() <= float(event.pure()) + 1e-12
        for order in (1.5, 2.0, 8.0):
            spent = math.log(np.exp(order * at + (1 - order) * moved).sum() / whole) / (order - 1)
            assert spent <= event.renyi(order) * (1 + 1e-5)
            closest = max(closest, spent / event.renyi(order))
    assert closest > 0.9


def test_the_hashed_forms_never_change() -> None:
    assert (
        canonical_json(SimplicesNoise((2, 1), Fraction(9))) == '{"":"Simplices","columns":[2,1],"scale":"9"}'
    )


def test_cells_keep_their_places() -> None:
    noise = SimplicesNoise((1,), Fraction(1, 1000))
    exact = np.arange(24).reshape(2, 3, 4)
    assert (noise.release(exact) == exact).all()  # a draw of this scale is 0 all but always


def test_far_numbers_are_python_integers() -> None:
    exact = np.array([[2**63 - 1] * 20] * 2, dtype=np.int64)
    drawn = SimplicesNoise((1,), Fraction(50)).release(exact)
    assert max(int(each) for each in drawn.ravel()) > 2**63 - 1


def test_pairs_are_drawn_again_until_their_last_part_fits() -> None:
    noise = SimplicesNoise((2, 1, 2), Fraction(50))
    drawn = noise.release(zeros(noise, 4000))
    high_low = np.stack([drawn[[1, 2]], drawn[[4, 5]]])
    for pair in high_low:
        last = drawn[0] - pair.sum(axis=0)
        assert (np.abs(last) <= noise.norms(drawn).astype(int)).all()


def refused(code: str, make: Any) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.code == code


def test_what_is_refused() -> None:
    refused("SF-N203", lambda: SimplicesNoise((1,), 1).release([1, 2, 3]))
    refused("SF-N203", lambda: SimplicesNoise((), 1).release(3))
    refused("SF-N201", lambda: SimplicesNoise((2,) * 32, 1))
    refused("SF-N203", lambda: SimplicesNoise((3,), 1))
    refused("SF-N201", lambda: SimplicesNoise((1,), 2 * LARGEST))
    refused("SF-N202", lambda: SimplicesNoise((), 1).release([0.5]))


def test_the_largest_cells_can_be_drawn() -> None:
    noise = SimplicesNoise((2,) * 31 + (1,), Fraction(10**6))
    assert noise.sums == MOST_SUMS
    assert noise.release(zeros(noise, 3)).shape == (noise.sums, 3)
    assert noise.half_width(0, 0.95) > 0
