"""The Laplace mechanism as a value: its price, its error, its arithmetic."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import chi2

from sfumato.errors import UsageError
from sfumato.noise import LaplaceNoise
from sfumato.noise.laplace import LARGE, SMALL, TableSizes, _sampler, draw_geometric
from sfumato.noise.sampling.bits import OS
from sfumato.privacy.events import DiscreteLaplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALES = [
    Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(10), Fraction(64), Fraction(65),
    Fraction(1000), Fraction(2**20 + 1, 3), Fraction(2**34), Fraction(2**40), Fraction(2**52),
]  # fmt: skip


@dataclass
class Constant:
    """The same word for ever."""

    word: int

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, self.word, dtype=np.uint64)


def rate(scale: Fraction) -> mpf:
    return mpf(scale.denominator) / scale.numerator


@pytest.mark.parametrize("layout", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("scale", SCALES[1:])
def test_digits_put_together_have_the_laplace_law(scale: Fraction, layout: TableSizes) -> None:
    """P(sign, quotient) · P(digit) · P(digit) … is the probability of the integer they make."""
    sampler = _sampler(scale, layout)
    widths = [table.law.size for table in sampler.digits]
    for x in (0, 1, 5, int(scale), int(3 * scale) + 7, -1, -2, -int(scale) - 1):
        geometric, places = (x if x >= 0 else -1 - x), []
        for size in reversed(widths):
            geometric, place = divmod(geometric, size)
            places.insert(0, place)
        leading = geometric if x >= 0 else -1 - geometric
        found = Fraction(1)
        tables = [sampler.quotient, *sampler.digits]
        for table, k in zip(tables, [leading, *places], strict=True):
            low, high = (max(threshold, 0) for threshold in table.law.bracket_cdf(range(k, k + 2), 3500))
            found *= Fraction(high - low, 2**3500)
        with mp.workprec(4000):
            r = mp.exp(-rate(scale))
            expected = (1 - r) / (1 + r) * r ** abs(x)
            assert abs(mpf(found.numerator) / found.denominator / expected - 1) < mpf(2) ** -200


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(9, 2), Fraction(300)], ids=str)
@pytest.mark.parametrize("count", [9000, 40_000])
def test_geometric_numbers_have_their_law(scale: Fraction, count: int) -> None:
    """Pearson's statistic over twelve steps of equal width, with few draws and with many."""
    drawn = draw_geometric(scale, count, OS)
    step = max(1, int(scale / 3))
    seen = np.bincount(np.minimum(drawn // step, 12), minlength=13)
    ends = np.exp(-step * np.arange(13) / float(scale))
    expected = count * np.append(ends[:-1] - ends[1:], ends[-1])
    common = expected > 5
    statistic = float(((seen - expected) ** 2 / expected)[common].sum())
    assert statistic < chi2.isf(1e-9, common.sum())
    assert seen[~common].sum() <= 40
    assert drawn.min() == 0


def test_calibration_is_exact() -> None:
    assert LaplaceNoise.calibrated(Fraction(1, 10), 3) == LaplaceNoise(Fraction(30))
    assert LaplaceNoise.calibrated(Fraction(7, 3), 1).event(1).pure() == Fraction(7, 3)
    assert LaplaceNoise(Fraction(30)).event(l1=3) == DiscreteLaplace(Fraction(30), 3)


def test_a_scale_is_read_as_typed() -> None:
    assert LaplaceNoise(0.1) == LaplaceNoise(Fraction(1, 10))  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", SCALES)
def test_expected_error_is_the_mean_of_the_noise(scale: Fraction) -> None:
    with mp.workprec(200):
        r = mp.exp(-rate(scale))
        assert LaplaceNoise(scale).expected_error() == pytest.approx(float(2 * r / (1 - r**2)), rel=1e-9)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("confidence", [0, 0.5, 0.9, 0.95, 0.99, 1 - 1e-12])
def test_half_width_is_the_smallest_that_suffices(scale: Fraction, confidence: float) -> None:
    with mp.workprec(4000):
        r, wanted = mp.exp(-rate(scale)), mpf(repr(confidence))
        t = LaplaceNoise(scale).half_width(confidence)
        assert 1 - 2 * r ** (t + 1) / (1 + r) >= wanted
        assert t == 0 or 1 - 2 * r**t / (1 + r) < wanted


def test_half_width_where_doubles_cannot_tell() -> None:
    """The confidence of t = 3 itself, rounded up and down in its fiftieth digit."""
    with mp.workprec(400):
        r = mp.exp(-1)
        share = Fraction(int(mp.floor((1 - 2 * r**4 / (1 + r)) * 10**50)), 10**50)
    assert LaplaceNoise(Fraction(1)).half_width(share) == 3
    assert LaplaceNoise(Fraction(1)).half_width(share + Fraction(1, 10**50)) == 4


@pytest.mark.parametrize("confidence", [1, -0.1, 95, float("nan"), "0.95", True])
def test_a_confidence_is_below_one(confidence: object) -> None:
    with pytest.raises(UsageError) as refused:
        LaplaceNoise(Fraction(1)).half_width(confidence)  # type: ignore[arg-type]
    assert refused.value.code in {"SF-N104", "SF-N105", "SF-N101"}


@pytest.mark.parametrize("scale", [Fraction(1, 1001), Fraction(2**52 + 1), Fraction(0), Fraction(-1)])
def test_absurd_scales_are_refused(scale: Fraction) -> None:
    with pytest.raises(UsageError):
        LaplaceNoise(scale)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,), (4, 0)])
def test_the_shape_is_kept(shape: tuple[int, ...]) -> None:
    for scale in (Fraction(2), Fraction(10**6)):
        noisy = LaplaceNoise(scale).release(np.zeros(shape, dtype=np.int64))
        assert isinstance(noisy, np.ndarray)
        assert (noisy.shape, noisy.dtype) == (shape, np.int64)


def test_the_input_is_left_alone() -> None:
    exact = np.arange(1000)
    LaplaceNoise(Fraction(100)).release(exact)
    assert exact.tolist() == list(range(1000))


@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63)])
def test_sums_never_wrap(edge: int) -> None:
    """Of 200 draws some take either side, except with probability 2^−199."""
    noisy = LaplaceNoise(Fraction(1000)).release(np.full(200, edge))
    assert noisy.dtype == object
    assert all(abs(value - edge) < 10**6 for value in noisy.tolist())
    assert min(noisy) < edge < max(noisy)


def test_wide_integers_stay_wide() -> None:
    exact = np.array([2**100, -(2**90), 0], dtype=object)
    noisy = LaplaceNoise(Fraction(1)).release(exact)
    assert all(type(value) is int for value in noisy)
    assert all(abs(a - b) < 1000 for a, b in zip(exact, noisy, strict=True))


@pytest.mark.parametrize("scale", [Fraction(10), Fraction(2**20)])
def test_a_tail_is_added_as_python_integers(scale: Fraction) -> None:
    """127 zero bits and a one: far below anything in the table."""
    ends = LaplaceNoise(scale).release(np.zeros(3, dtype=np.int64), source=_Tail())
    assert ends.dtype == object
    first, *rest = ends.tolist()
    assert -90 * scale < first < -80 * scale
    assert all(-44 * scale < value for value in rest)


class _Tail:
    """The end of the tail for the first draw of three, and the middle for everything else."""

    def __init__(self) -> None:
        self.asked = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self.asked += 1
        leads = {1: 2**31 | 2**47, 2: 0, 3: 1}
        return np.full(count, leads.get(self.asked, 0x8000_8000_8000_8000), dtype=np.uint64)


def test_known_bits_give_known_noise() -> None:
    """The middle of [0, 1) is the median."""
    middle = Constant(0x8000_8000_8000_8000)
    assert LaplaceNoise(Fraction(4)).release(np.arange(6), source=middle).tolist() == list(range(6))


def test_two_releases_differ() -> None:
    """They agree in all of 100 values with probability below 1e-100."""
    mechanism, exact = LaplaceNoise(Fraction(1000)), np.zeros(100, dtype=np.int64)
    releases = [tuple(mechanism.release(exact)) for _ in range(3)]
    assert all(a != b for a, b in pairwise(releases))


def test_eight_threads_at_once_never_repeat_each_other() -> None:
    """On a scale whose tables none finds ready. Two of 800 draws agree with probability below 1e-6."""
    mechanism, exact = LaplaceNoise(Fraction(2**40 - 3)), np.zeros(100, dtype=np.int64)
    with ThreadPoolExecutor(8) as pool:
        drawn = np.concatenate(list(pool.map(mechanism.release, [exact] * 8)))
    assert len(np.unique(drawn)) == 800


def test_a_mechanism_is_a_plain_value() -> None:
    mechanism = LaplaceNoise(Fraction(3, 2))
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert len({mechanism, LaplaceNoise(Fraction(3, 2))}) == 1


def test_tables_are_made_once() -> None:
    assert _sampler(Fraction(77), SMALL) is _sampler(Fraction(77), SMALL)
