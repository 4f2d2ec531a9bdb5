"""Noise of a matrix: its law, that bits decide what more bits would, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from sfumato.errors import UsageError
from sfumato.noise import MatrixNoise

FALSE_ALARM = 1e-9
"""Chance of a failure without cause; draws are seeded, so it never depends on luck."""


class Seeded:
    """Words for noise that only this test sees."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(3)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._rng.integers(0, 2**64, count, dtype=np.uint64)


def _drawn(noise: MatrixNoise, count: int) -> NDArray[np.float64]:
    zeros = np.zeros((noise.sums, count), dtype=np.int64)
    return noise.release(zeros, source=Seeded()).astype(np.float64)


def test_one_entry_is_laplace_noise_rounded() -> None:
    """Two squares of normal numbers are an exponential one, and the difference of two of those is Laplace."""
    scale, count = 3.0, 20_000
    drawn = _drawn(MatrixNoise(1, Fraction(3)), count)[0]
    inner = np.arange(-9, 10)
    ends = inner + 0.5
    below = np.where(ends < 0, np.exp(ends / scale) / 2, 1 - np.exp(-ends / scale) / 2)
    law = np.diff(np.concatenate([[0.0], below, [1.0]]))
    seen = np.bincount(np.clip(drawn, -9, 10).astype(int) + 9, minlength=20)
    statistic = float(((seen - count * law) ** 2 / (count * law)).sum())
    assert chi2.sf(statistic, len(law) - 1) > FALSE_ALARM


def test_one_entry_is_the_rounded_law_by_enumeration() -> None:
    """P(noise = k) of every geometric number and sign, against the integral of the Laplace density."""
    scale, r = 3, math.exp(-1 / 6)
    found = dict.fromkeys(range(-60, 61), 0.0)
    for halves in range(2000):
        for sign in (-1, 1):
            found[max(-60, min(60, sign * ((halves + 1) // 2)))] += (1 - r) * r**halves / 2
    for k in range(-59, 60):
        ends = [math.copysign(-math.expm1(-abs(x) / scale) / 2, x) for x in (k - 0.5, k + 0.5)]
        assert found[k] == pytest.approx(ends[1] - ends[0], rel=1e-9)


@pytest.mark.parametrize("scale", [Fraction(2**56), Fraction(2**79)])
@pytest.mark.parametrize("count", [1, 300])
def test_one_wide_entry_does_not_wrap_around(scale: Fraction, count: int) -> None:
    drawn = MatrixNoise(1, scale).release(np.zeros((1, count), dtype=np.int64), source=Seeded())
    sizes = [abs(int(each)) / float(scale) for each in drawn.ravel()]
    assert max(sizes) < 40
    if count > 1:
        assert sum(sizes) / count == pytest.approx(1, rel=0.25)
        assert 100 < sum(each < 0 for each in drawn.ravel().tolist()) < 200


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(2**24)])
def test_entries_of_a_pair_have_their_joint_law(scale: Fraction) -> None:
    """Pearson's statistic of the signs and sizes of three entries, against normal numbers in doubles."""
    count = 20_000
    rng = np.random.default_rng(8)
    g = rng.standard_normal((200_000, 2, 2, 3))
    wishart = np.einsum("nvik,nvjk->nvij", g, g)
    plain = np.rint(float(scale) / 2 * (wishart[:, 0] - wishart[:, 1]))[:, [0, 0, 1], [0, 1, 1]].T
    cut = float(scale)

    def sort(drawn: NDArray[np.float64]) -> NDArray[np.int64]:
        kinds = [np.searchsorted([-cut, -cut / 4, cut / 4, cut], each) for each in drawn]
        return np.bincount(kinds[0] * 25 + kinds[1] * 5 + kinds[2], minlength=125)

    seen, law = sort(_drawn(MatrixNoise(2, scale), count)), sort(plain)
    held = (seen + law) > 20
    ratio = math.sqrt(law.sum() / seen.sum())
    statistic = float(((seen[held] * ratio - law[held] / ratio) ** 2 / (seen[held] + law[held])).sum())
    assert chi2.sf(statistic, int(held.sum()) - 1) > FALSE_ALARM


@pytest.mark.parametrize(("size", "place"), [(2, 0), (2, 1), (4, 5)])
def test_entries_have_the_law_of_gamma_differences(size: int, place: int) -> None:
    """Pearson's statistic of |noise| in steps of a few, against the stated law."""
    noise, count = MatrixNoise(size, Fraction(7)), 20_000
    ends = np.arange(0, 40, 4)
    below = np.array([noise.coverage(place, int(t)) for t in ends])
    law = np.diff(np.concatenate([[0.0], below, [1.0]]))
    seen = np.bincount(np.searchsorted(ends, np.abs(_drawn(noise, count)[place])), minlength=len(law))
    statistic = float(((seen - count * law) ** 2 / (count * law)).sum())
    assert chi2.sf(statistic, len(law) - 1) > FALSE_ALARM


def test_entries_are_spread_as_stated_and_uncorrelated() -> None:
    noise, count = MatrixNoise(3, Fraction(10**6)), 8_000
    drawn = _drawn(noise, count)
    rows, columns = np.triu_indices(3)
    expected = noise.deviation * np.where(rows == columns, np.sqrt(2), 1)
    assert drawn.std(axis=1) == pytest.approx(expected, rel=0.05)
    errors = [noise.expected_error(place) for place in range(6)]
    assert np.abs(drawn).mean(axis=1) == pytest.approx(errors, rel=0.05)
    assert np.abs(drawn.mean(axis=1)).max() < 6 * expected.max() / np.sqrt(count)
    # Diagonals have no covariance either: each matrix is a sum of independent vectors' products.
    assert np.abs(np.corrcoef(drawn) - np.eye(6)).max() < 0.07


@pytest.mark.parametrize(("size", "place"), [(1, 0), (2, 0), (2, 1), (5, 1), (26, 1)])
def test_half_widths_hold_as_often_as_they_say(size: int, place: int) -> None:
    noise, count = MatrixNoise(size, Fraction(1000)), 4000 if size < 9 else 300
    held = np.abs(_drawn(noise, count)[place]) <= noise.half_width(place, 0.9)
    assert abs(held.mean() - 0.9) < 5 * np.sqrt(0.09 / count)


def test_what_it_costs_and_where_the_price_is_reached() -> None:
    noise = MatrixNoise.calibrated(Fraction(1, 2), 25, 2)
    assert noise.event(25).pure() == Fraction(1, 2)
    one, other = [9, 12, 16], [0, 0, 0]  # (3, 4) times itself
    assert noise.input_distance(one, other) == 25
    # A row that is replaced adds one trace and takes another.
    assert noise.input_distance([9, 0, 0], [0, 0, 16]) == 25


def test_wide_numbers_and_cells_keep_their_shape() -> None:
    exact = np.full((3, 2, 2), 2**70, dtype=object)
    found = MatrixNoise(2, Fraction(5)).release(exact)
    assert found.shape == (3, 2, 2)
    assert abs(int(found[0, 0, 0]) - 2**70) < 10**4


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("SF-N201", lambda: MatrixNoise(2001, Fraction(1))),
        ("SF-N201", lambda: MatrixNoise(2, Fraction(2**81))),
        ("SF-N201", lambda: MatrixNoise(2, Fraction(1, 2000))),
        ("SF-N203", lambda: MatrixNoise(2, Fraction(1)).release([1, 2])),
        ("SF-N203", lambda: MatrixNoise(1, Fraction(1)).release(3)),
        ("SF-N202", lambda: MatrixNoise(1, Fraction(1)).release([0.5])),
    ],
)
def test_refusals(code: str, made: object) -> None:
    with pytest.raises(UsageError, match=code):
        made()  # type: ignore[operator]
