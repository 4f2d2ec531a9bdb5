"""Chances e^(−gap / scale): bounds against high precision, and draws that fall into the doubt."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato.noise.sampling.bernoulli_exp import BITS, build_bernoulli_exp, gaps_below_best
from sfumato.noise.sampling.bits import draw_below, draw_below_each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SCALES = [
    Fraction(1, 1000), Fraction(1, 3), Fraction(2), Fraction(46), Fraction(47), Fraction(1000, 7),
    Fraction(48_000), Fraction(2**20 + 1, 3), Fraction(2**40),
]  # fmt: skip


@dataclass
class Script:
    """Gives out the words it was told, in order, and runs dry after them."""

    queue: list[int] = field(default_factory=list)

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count <= len(self.queue), "more bits were drawn than are needed"
        given, self.queue = self.queue[:count], self.queue[count:]
        return np.array(given, dtype=np.uint64)


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    with mp.workprec(400):
        yield


def truth(gap: int, scale: Fraction) -> mpf:
    return mp.exp(-mpf(gap) * scale.denominator / scale.numerator)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_bounds_hold_the_chance(scale: Fraction) -> None:
    table, reach = build_bernoulli_exp(scale), int(25 * scale) + 3
    rng = np.random.default_rng(1)
    gaps = [0, 1, 2, 1023, 1024, 1025, reach, 2**20, 2**62, 2**63, 2**64 - 1]
    gaps += [int(gap) for gap in rng.integers(0, reach, 400)]
    for gap, least in zip(gaps, table.lower_bounds(np.array(gaps, dtype=np.uint64)).tolist(), strict=True):
        assert least <= truth(gap, scale) * 2**BITS <= least + table.error
    assert table.lower_bounds(np.array([2**70, 0], dtype=object)).tolist() == [0, 2**BITS]


def test_gaps_do_not_wrap() -> None:
    ends = np.array([-(2**63), 2**63 - 1, 0])
    assert gaps_below_best(ends).tolist() == [2**64 - 1, 0, 2**63 - 1]
    assert gaps_below_best(np.array([2**100, -(2**100)], dtype=object)).tolist() == [0, 2**101]


def test_uniform_numbers_have_no_preference() -> None:
    """2^64 = 1 mod 3, so the last word is drawn again, and no other."""
    assert draw_below(3, Script([2**64 - 1, 2**64 - 2])) == 2
    assert draw_below(1, Script([12345])) == 0
    assert draw_below(2**64, Script([2**64 - 1])) == 2**64 - 1


@pytest.mark.parametrize("gap", [1, 3, 1025])
def test_a_coin_in_doubt_is_settled_by_further_bits(gap: int) -> None:
    """The number agrees with the chance in 31 bits, and is the chance itself but for its bit 95."""
    scale = Fraction(100)
    exact = int(mp.floor(truth(gap, scale) * mpf(2) ** (BITS + 64)))
    leading, rest = exact >> 64, exact % 2**64
    gaps = np.array([gap], dtype=np.uint64)
    for change, heads in ((-2, True), (2, False)):
        script = Script([leading << 1, rest + change])
        assert build_bernoulli_exp(scale).flip(gaps, script).tolist() == [heads]
        assert not script.queue


def test_a_coin_that_ties_in_95_bits_draws_more() -> None:
    scale, exact = Fraction(100), int(mp.floor(truth(3, Fraction(100)) * mpf(2) ** (BITS + 128)))
    gaps = np.array([3], dtype=np.uint64)
    for change, heads in ((-2, True), (2, False)):
        words = [exact >> 128 << 1, (exact >> 64) % 2**64, exact % 2**64 + change]
        script = Script(words)
        assert build_bernoulli_exp(scale).flip(gaps, script).tolist() == [heads]
        assert not script.queue


def test_most_coins_need_no_further_bits() -> None:
    gaps = np.arange(4, dtype=np.uint64)
    words = np.array([2**31 - 1, 0, 0, 2**31 - 1], dtype=np.uint32) << 1
    script = Script(words.view(np.uint64).tolist())
    assert build_bernoulli_exp(Fraction(2)).flip(gaps, script).tolist() == [True, True, True, False]


def test_a_point_above_its_column_is_thrown_again() -> None:
    """Two columns with the best in the second. The first throw lies on top of the first column."""
    gaps, table = np.array([1, 0], dtype=np.uint64), build_bernoulli_exp(Fraction(3))
    least = table.lower_bounds(gaps).tolist()
    top = least[0] + table.error - 1
    script = Script([top, 2**64 - 1, least[0] + table.error])
    assert table.pick(gaps, script) == 1
    assert not script.queue
    assert table.pick(gaps, Script([least[0] - 1])) == 0


def test_a_point_in_doubt_may_be_kept() -> None:
    gap, scale = 1, Fraction(3)
    table = build_bernoulli_exp(scale)
    exact = int(mp.floor(truth(gap, scale) * mpf(2) ** (BITS + 64)))
    height = exact >> 64
    assert height >= table.lower_bounds(np.array([gap], dtype=np.uint64))[0]
    assert table.pick(np.array([gap, 0], dtype=np.uint64), Script([height, exact % 2**64 - 2])) == 0


def test_far_candidates_are_told_apart_by_bits_without_end() -> None:
    """A column of chance e^(−10^6) is hit at its foot, and 2^−95 is still above it."""
    gaps, table = np.array([10**6, 0], dtype=np.uint64), build_bernoulli_exp(Fraction(1))
    script = Script([0, 2**63, table.error])
    assert table.pick(gaps, script) == 1


def test_a_long_place_stands_for_many_columns() -> None:
    """Lengths 2 and 3: a point tells the place, which of its columns, and the height in that."""
    gaps, table = np.array([1, 0], dtype=np.uint64), build_bernoulli_exp(Fraction(3))
    least = table.lower_bounds(gaps).tolist()
    walls = [height + table.error for height in least]
    lengths = np.array([[2, 3], [0, 3]], dtype=np.uint64)
    script = Script([walls[0] + least[0] - 1, 2 * walls[1] + least[1] - 1])
    places, offsets = table.pick_each(gaps, lengths, script)
    assert (places.tolist(), offsets.tolist()) == ([0, 1], [1, 2])


def test_only_a_row_above_its_column_is_thrown_again() -> None:
    gaps, table = np.array([1, 0], dtype=np.uint64), build_bernoulli_exp(Fraction(3))
    least = table.lower_bounds(gaps).tolist()
    top = least[0] + table.error - 1
    script = Script([top, 0, 2**64 - 1, least[0] + table.error])
    places, _ = table.pick_each(gaps, np.ones((2, 2), dtype=np.uint64), script)
    assert places.tolist() == [1, 0]
    assert not script.queue


def test_numbers_below_many_bounds_have_no_preference() -> None:
    """2^64 = 1 mod 3 and mod 5; of bounds that divide it no word is drawn again."""
    words = Script([2**64 - 1, 2**64 - 1, 2**64 - 2, 7])
    assert draw_below_each(np.array([3, 8, 5], dtype=np.uint64), words).tolist() == [1, 7, 4]
    assert not words.queue
