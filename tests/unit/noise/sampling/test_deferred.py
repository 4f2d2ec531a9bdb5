"""The first draws need no table, and single draws no arrays: the same bits give the same numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.noise.gaussian import draw_gaussian
from sfumato.noise.laplace import LARGE, SMALL, _sampler
from sfumato.noise.sampling.bits import draw_between_each
from sfumato.noise.sampling.deferred import DeferredTable
from sfumato.noise.sampling.gaussian_table import build_gaussian_table, gaussian_sampler
from sfumato.noise.sampling.gaussian_wide import WideGaussianSampler
from sfumato.noise.sampling.integers import add_noise, as_integers
from sfumato.noise.sampling.normal import NormalMagnitude, RoundedNormal, _guess_cell, magnitude_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Stream:
    """Words of a seeded generator, counted."""

    seed: int
    drawn: int = 0
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        self.drawn += count
        return self.rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)


def deferred(sigma: Fraction) -> DeferredTable:
    sampler = gaussian_sampler(sigma)
    return DeferredTable(sampler.law, sampler.guess, sampler.build, left=10**6)


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(30), Fraction(1000)], ids=str)
def test_numbers_without_a_table_are_those_of_the_table(sigma: Fraction) -> None:
    """The table reads more bits only within 2^−35 of a threshold, which these seeds do not meet."""
    for seed in range(12):
        one, other = Stream(seed), Stream(seed)
        without, table = deferred(sigma).draw(7, one), build_gaussian_table(sigma).draw(7, other)
        assert without.tolist() == table.tolist()
        assert one.drawn == other.drawn


def test_magnitudes_without_a_table_are_those_of_the_table() -> None:
    sampler = DeferredTable(NormalMagnitude(), _guess_cell, magnitude_table, left=10**6)
    drawn = sampler.draw(120, Stream(3))
    assert drawn.tolist() == magnitude_table().draw(120, Stream(3)).tolist()


def test_a_table_is_built_when_it_pays() -> None:
    built: list[int] = []

    def build() -> Any:
        built.append(1)
        return build_gaussian_table(Fraction(5))

    sampler = DeferredTable(RoundedNormal(Fraction(5)), lambda chance: 0, build, left=3)
    sampler.draw_one(Stream(1))
    sampler.draw(2, Stream(2))
    assert not built
    assert (
        sampler.draw(2, Stream(4)).tolist() == build_gaussian_table(Fraction(5)).draw(2, Stream(4)).tolist()
    )
    sampler.draw_one(Stream(1))
    assert built == [1]


@pytest.mark.parametrize("left", [0, 9], ids=["table", "without"])
def test_a_tie_and_the_far_tail_are_decided_by_more_bits(script: Any, left: int) -> None:
    sigma, law = Fraction(3), RoundedNormal(Fraction(3))
    sampler = DeferredTable(law, lambda chance: 0, lambda: build_gaussian_table(sigma), left)
    [exact] = law.bracket_cdf(range(2, 3), 128)
    assert sampler.draw(1, script.of(exact - 5, 128)).tolist() == [1]
    assert sampler.draw(1, script.of(exact + 5, 128)).tolist() == [2]
    [far] = law.bracket_cdf(range(40, 41), 192)
    assert sampler.draw(1, script.of(far + 5, 192)).tolist() == [40]


@pytest.mark.parametrize("layout", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(50), Fraction(10**9, 7)], ids=str)
def test_one_laplace_draw_is_what_arrays_give(scale: Fraction, layout: Any) -> None:
    sampler = _sampler(scale, layout)
    for seed in range(300):
        assert sampler.draw_one(Stream(seed)) == sampler.draw(1, Stream(seed))[0]


@pytest.mark.parametrize("sigma", [Fraction(1025), Fraction(2**40)], ids=str)
def test_one_wide_gaussian_draw_is_what_arrays_give(sigma: Fraction) -> None:
    """Where the weight decides, the exact comparison reads other bits than the quick one: few differ."""
    sampler = WideGaussianSampler(sigma)
    same = [sampler.draw_one(Stream(seed)) == sampler.draw(1, Stream(seed))[0] for seed in range(400)]
    assert np.mean(same) > 0.9


def test_single_sums_do_not_wrap_around() -> None:
    most = np.array([2**63 - 1])
    assert add_noise(most, np.array([1])).tolist() == [2**63]
    assert add_noise(most, np.array([-1])).dtype == np.int64
    assert as_integers([2**70, 1]).tolist() == [2**70, 1]
    assert draw_gaussian(Fraction(4), 1, Stream(1)).shape == (1,)


@pytest.mark.parametrize("width", [1, 3, 2**31 + 1, 2**32, 2**40])
def test_uniform_numbers_reach_both_ends_and_no_further(width: int) -> None:
    low, high = np.full(2000, -width // 2), np.full(2000, -width // 2 + width - 1)
    drawn = draw_between_each(low, high, Stream(9))
    assert (low <= drawn).all()
    assert (drawn <= high).all()
    if width == 3:
        assert np.bincount(drawn - low[0]).min() > 500


def test_uniform_numbers_of_half_words_are_unbiased() -> None:
    """A bound of 3·2^30 refuses a quarter of all words; each third of it must be as likely."""
    bound = 3 * 2**30
    drawn = draw_between_each(np.zeros(60_000, dtype=np.int64), np.full(60_000, bound - 1), Stream(10))
    thirds = np.bincount(drawn // 2**30, minlength=3)
    assert np.abs(thirds - 20_000).max() < 900


@pytest.mark.parametrize("high", [[2, 5], [2**40, 5], [2**70, 5]])
def test_rows_of_uniform_numbers_have_the_bounds_of_their_columns(high: list[int]) -> None:
    low, most = np.zeros(2, dtype=object if max(high) > 2**63 else np.int64), as_integers(high)
    drawn = draw_between_each(low, most, Stream(11), (3, 400))
    assert drawn.shape == (3, 400, 2)
    assert all(0 <= int(each) <= high[0] for each in drawn[..., 0].ravel())
    assert np.bincount(drawn[..., 1].ravel().astype(int), minlength=6).min() > 130
    assert max(int(each) for each in drawn[..., 0].ravel()) > high[0] * 0.99


def test_uniform_numbers_beyond_64_bits() -> None:
    low = np.array([-(2**70), 0], dtype=object)
    drawn = [draw_between_each(low, -low, Stream(seed)).tolist() for seed in range(40)]
    assert all(-(2**70) <= each[0] <= 2**70 and each[1] == 0 for each in drawn)
    assert max(each[0] for each in drawn) > 2**69
