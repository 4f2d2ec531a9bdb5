"""Noise with a sharper total: its law and price by enumeration of small cases, and its draws and errors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.errors import UsageError
from sfumato.noise import LaplaceNoise, SharpTotalNoise, SimplicesNoise
from sfumato.noise.bodies.sharp_total import find_discounts
from sfumato.noise.bodies.sharp_total_law import tabulate_law
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.events import KNorm

FALSE_ALARM = 1e-10
DRAWS = 60_000
NARROW = [
    SharpTotalNoise(Fraction(2), 1),
    SharpTotalNoise(Fraction(3, 2), 2),
    SharpTotalNoise(Fraction(3, 2), 0),
    SharpTotalNoise(Fraction(1), 2),
]


def lattice(reach: int) -> Any:
    axes = [np.arange(-reach, reach + 1)] * 3
    return np.stack(np.meshgrid(*axes, indexing="ij")).reshape(3, -1)


def heights(parts: Any, dent: int) -> Any:
    """The function g of the proof note, as it is written there."""
    a, b, c = parts
    return np.maximum.reduce(
        [
            abs(a) + abs(b) + abs(c) - 2 * dent,
            abs(a) + abs(b + c) - dent,
            abs(b) + abs(a + c) - dent,
            abs(a + b + c),
        ]
    )


def weights(noise: SharpTotalNoise, parts: Any) -> Any:
    return np.exp(-heights(parts, noise.dent) / float(noise.scale))


@pytest.mark.parametrize("dent", range(6))
def test_discounts_are_those_of_the_formula(dent: int) -> None:
    points = lattice(9)
    assert (abs(points).sum(axis=0) - find_discounts(points, dent) == heights(points, dent)).all()
    far = points.astype(object) * 2**70
    assert (abs(far).sum(axis=0) - find_discounts(far, dent) == heights(far, dent)).all()


@pytest.mark.parametrize("dent", range(6))
def test_a_step_of_one_part_changes_g_by_one_at_most(dent: int) -> None:
    points = lattice(8)
    for place in range(3):
        step = np.zeros((3, 1), dtype=int)
        step[place] = 1
        assert abs(heights(points + step, dent) - heights(points, dent)).max() == 1


@pytest.mark.parametrize("noise", NARROW, ids=str)
@pytest.mark.parametrize("cells", [3, 20_000])
def test_draws_have_the_law(noise: SharpTotalNoise, cells: int) -> None:
    """Pearson's statistic over the points near 0 that are common, in few cells at a time and in many."""
    times = 3 if cells > 3 else 1500
    drawn = np.concatenate([noise.release(np.zeros((3, cells), dtype=int)) for _ in range(times)], axis=1)
    assert pearson(noise, drawn) < 1


def pearson(noise: SharpTotalNoise, drawn: Any) -> float:
    """The statistic in parts of what is exceeded once in 1e10 times."""
    parts = np.stack([drawn[1], drawn[2], drawn[0] - drawn[1] - drawn[2]]).astype(int)
    reach, points = 4, lattice(4)
    law = weights(noise, points)
    inside = (abs(parts) <= reach).all(axis=0)
    place = np.ravel_multi_index(tuple(parts[:, inside] + reach), (2 * reach + 1,) * 3)
    counts = np.bincount(place, minlength=points.shape[1])
    common = law / law.sum() * inside.sum() >= 20
    assert common.sum() > 12
    expected = law[common] / law[common].sum() * counts[common].sum()
    statistic = float(((counts[common] - expected) ** 2 / expected).sum())
    return statistic / float(chi2.isf(FALSE_ALARM, common.sum() - 1))


def test_draws_of_another_law_are_told_apart() -> None:
    """The statistic is far beyond its bound where the dent is another, or noise is Laplace noise."""
    noise = SharpTotalNoise(Fraction(2), 2)
    zeros = np.zeros((3, DRAWS), dtype=int)
    for other in (SharpTotalNoise(Fraction(2), 1), SimplicesNoise((2,), Fraction(2))):
        assert pearson(noise, other.release(zeros)) > 2


@pytest.mark.parametrize(("scale", "dent"), [("3/2", 1), ("2", 3), ("1", 0), ("3/2", 3)])
def test_the_tables_are_those_of_all_points(scale: str, dent: int) -> None:
    """Weights of all points up to 26 scales, beyond which next to nothing lies."""
    noise = SharpTotalNoise(Fraction(scale), dent)
    points = lattice(math.ceil(26 * float(noise.scale)))
    law = weights(noise, points)
    law /= law.sum()
    sums = np.stack([points.sum(axis=0), points[0], points[1]])
    assert noise.covariance == pytest.approx((sums * law) @ sums.T, rel=1e-8, abs=1e-8)
    for place in range(3):
        within = np.cumsum(np.bincount(abs(sums[place]), law))
        for t in (0, 1, 2, 5, 9):
            assert noise.coverage(place, t) == pytest.approx(within[t], abs=1e-9)
        assert noise.expected_error(place) == pytest.approx(float(abs(sums[place]) @ law), rel=1e-8)


@pytest.mark.parametrize("scale", [Fraction(7), Fraction(40), Fraction(900), Fraction(10**9)])
def test_errors_and_intervals_are_those_of_draws(scale: Fraction) -> None:
    noise = SharpTotalNoise.of_scale(scale)
    drawn = noise.release(np.zeros((3, DRAWS), dtype=int)).astype(float)
    deviations = np.sqrt(noise.variances)
    assert np.cov(drawn) / np.outer(deviations, deviations) == pytest.approx(
        noise.covariance / np.outer(deviations, deviations), abs=0.05
    )
    for place in range(3):
        half = noise.half_width(place, 0.95)
        assert (abs(drawn[place]) <= half).mean() == pytest.approx(noise.coverage(place, half), abs=0.006)
    for form in ([0, 1, 1], [0, 0.7, -0.3], [0, 0.5, -0.5]):
        half = noise.combined_half_width(form, 0.95)
        assert (abs(np.array(form) @ drawn) <= half + 0.5).mean() == pytest.approx(0.95, abs=0.012)


def test_a_wide_law_is_a_narrow_one_stretched() -> None:
    """Beside the exact table of a scale that is stretched otherwise."""
    exact = tabulate_law(Fraction(160), 60)
    noise = SharpTotalNoise(Fraction(160), 60)
    for place, steps in ((0, exact.total), (1, exact.part)):
        half = int(np.searchsorted(steps, 0.95))
        assert noise.half_width(place, 0.95) == pytest.approx(half, rel=1e-3)
    assert noise.covariance == pytest.approx(exact.covariance, rel=1e-3, abs=4)


def test_totals_are_sharper_and_parts_hardly_less_sharp() -> None:
    scale = Fraction(1000)
    sharp, plain = SharpTotalNoise.of_scale(scale), SimplicesNoise((2,), scale)
    assert sharp.half_width(0, 0.95) < 0.956 * plain.half_width(0, 0.95)
    assert sharp.half_width(1, 0.95) < 1.006 * plain.half_width(1, 0.95)
    ratios = sharp.covariance / plain.covariance
    assert ratios[0, 0] < 0.9
    for form in ([0, 1, 1], [0, 0.9, -0.1], [0, 0.5, -0.5]):
        ours, before = (np.array(form) @ each.covariance @ form for each in (sharp, plain))
        assert ours < 1.017 * before


@pytest.mark.parametrize("noise", NARROW[:2], ids=str)
def test_no_move_costs_more_than_its_price(noise: SharpTotalNoise) -> None:
    """Losses and Rényi divergences, added up over points, for every move of a norm up to 2."""
    points = lattice(24)
    at = -heights(points, noise.dent) / float(noise.scale)
    whole, closest = np.exp(at).sum(), 0.0
    for move in lattice(2).T:
        norm = int(abs(move).sum())
        if not 1 <= norm <= 2:
            continue
        moved = -heights(points - move[:, None], noise.dent) / float(noise.scale)
        event = noise.event(norm)
        assert abs(moved - at).max() <= float(event.pure()) + 1e-12
        for order in (1.5, 2.0, 8.0):
            spent = math.log(np.exp(order * at + (1 - order) * moved).sum() / whole) / (order - 1)
            assert spent <= event.renyi(order) * (1 + 1e-5)
            closest = max(closest, spent / event.renyi(order))
    assert closest > 0.8


def test_norms_are_those_of_the_three_parts() -> None:
    noise = SharpTotalNoise.of_scale(Fraction(9))
    assert noise.norms(np.array([[7, 7, -7], [3, 0, -2], [4, 0, 0]])).tolist() == [7, 7, 7]
    assert noise.norms(np.array([[0], [5], [-5]])).tolist() == [10]
    assert noise.input_distance([[9, 0], [3, 0], [6, 0]], [[2, 0], [1, 1], [1, 0]]) == 7 + 2


def test_prices_and_hashed_forms_never_change() -> None:
    noise = SharpTotalNoise.calibrated(Fraction(1, 2), 80)
    assert noise == SharpTotalNoise(Fraction(160), 60)
    assert noise.event(80) == KNorm(Fraction(160), 80)
    assert noise.event(80).pure() == Fraction(1, 2)
    assert canonical_json(noise) == '{"":"SharpTotal","dent":60,"scale":"160"}'


def test_a_dent_of_nothing_is_laplace_noise() -> None:
    scale = Fraction(17, 2)
    noise = SharpTotalNoise(scale, 0)
    assert noise.half_width(1, 0.95) == LaplaceNoise(scale).half_width(0.95)
    assert noise.variances[0] == pytest.approx(3 * LaplaceNoise(scale).moments.variance)


def test_cells_keep_their_places() -> None:
    noise = SharpTotalNoise(Fraction(1, 1000), 0)
    exact = np.arange(24).reshape(3, 2, 4)
    assert (noise.release(exact) == exact).all()  # a draw of this scale is 0 all but always


@pytest.mark.parametrize("dent", [-1, 5, 1.5, Fraction(1)])
def test_dents_that_are_not_whole_or_too_deep_are_refused(dent: Any) -> None:
    with pytest.raises(UsageError, match="SF-N118"):
        SharpTotalNoise(Fraction(2), dent)
