"""Large σ: the quick integer tests against exact arithmetic, and the exact paths with forced bits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import chi2

from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.gaussian_wide import (
    WideGaussianSampler,
    draw_in_cell,
    multiply_high,
    round_magnitude,
)
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import CELLS, REACH, magnitude_sampler
from sfumato.noise.sampling.places import PLACE, PLACE_BITS, accept_places, accepts_place, approximate_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tests.unit.noise.conftest import Script

SIGMAS = [Fraction(n) for n in (1025, Fraction(10**6, 7), 2**20, 2**34, 2**40 - 1, 2**40, 2**42)]
PLACES = 2**48


def weight(cell: int, place: Fraction) -> mpf:
    z = place * (2 * cell + place) / (2 * CELLS**2)
    return mp.exp(-mpf(z.numerator) / z.denominator)


def candidates(sigma: Fraction, cell: int, place: int) -> set[int]:
    """The whole numbers nearest to σ · |Z| for |Z| from the beginning to just before the end of a place."""
    start, end = (sigma * (cell + Fraction(place + i, PLACES)) / CELLS + Fraction(1, 2) for i in (0, 1))
    return {math.floor(start), math.ceil(end) - 1}


def positions(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(2)
    words = rng.integers(-(2**63), 2**63, count)
    words[:6] = [0, -1, 2**48 - 1, 2**63 - 1, -(2**63), 1]
    return rng.integers(0, REACH, count), words


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_a_value_called_clear_is_the_nearest_for_all_bits_to_come(sigma: Fraction) -> None:
    cells, words = positions(3000)
    values, clear = WideGaussianSampler(sigma)._nearest(cells, words)
    assert clear.mean() > 0.99
    for cell, word, value, sure in zip(*(a.tolist() for a in (cells, words, values, clear)), strict=True):
        assert not sure or {abs(value)} == candidates(sigma, cell, word % PLACES)
        assert value == 0 or (value < 0) == (word < 0)


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_a_product_falls_short_by_less_than_its_doubt(sigma: Fraction) -> None:
    """Around a half, where it matters: what is called clear is right, and soon all is clear again."""
    for cell in (0, 1, 77, 591):
        edge = math.floor(sigma * (cell + Fraction(1, 3)) / CELLS) + Fraction(1, 2)
        middle = math.floor((edge * CELLS / sigma - cell) * PLACES)
        near = range(max(middle - 40, 0), middle + 40)
        values, clear = WideGaussianSampler(sigma)._nearest(np.full(len(near), cell), np.array(near))
        for place, value, sure in zip(near, values.tolist(), clear, strict=True):
            assert not sure or {value} == candidates(sigma, cell, place)
        assert clear[-1]
        assert not clear.all()


def test_high_halves_of_products_fall_short_by_less_than_two() -> None:
    rng = np.random.default_rng(3)
    numbers = np.append(rng.integers(-(2**58), 2**58, 2000), [2**58 - 1, 1 - 2**58, 0, 1, -1])
    for factor in (0, 1, 2**29 - 1, 2**29, 2**57 + 12345, 2**58 - 1, 2**58):
        found = multiply_high(numbers, factor).tolist()
        for number, product in zip(numbers.tolist(), found, strict=True):
            assert product <= Fraction(number * factor, 2**58) < product + 2


def test_weights_are_within_their_doubt() -> None:
    """At the ends of every cell and between: well within, less than five eighths."""
    cells = np.repeat(np.arange(REACH), 9)
    places = np.tile(np.linspace(0, PLACES - 1, 9).astype(np.int64), REACH)
    found = approximate_weights(cells, places)
    with mp.workprec(100):
        truth = [
            [weight(cell, Fraction(place + end, PLACES)) * 2**31 for end in (0, 1)]
            for cell, place in zip(cells.tolist(), places.tolist(), strict=True)
        ]
        off = [abs(end - int(w)) for w, ends in zip(found, truth, strict=True) for end in ends]
    assert max(off) < 0.625 * 2**16


def test_the_least_weight_is_below_all_weights() -> None:
    with mp.workprec(100):
        for cell in range(REACH):
            assert (32764 - 8 * cell) / mpf(2) ** 15 <= weight(cell, Fraction(1))


@pytest.mark.parametrize("cell", [0, 3, 100, 591])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_coin_at_its_weight_is_weighed_exactly(cell: int, side: int, script: type[Script]) -> None:
    """The coin agrees with e^−z in its first 31 bits, so that the quick test cannot tell."""
    place = PLACES // 3
    with mp.workprec(300):
        tie = int(mp.floor(weight(cell, Fraction(place, PLACES)) * mpf(2) ** 95))
    coin = tie + side * 2**50  # what the place does not tell moves the weight by less than 2^−47
    first, second, third = coin >> 80, coin >> 64 & 0xFFFF, coin % 2**64
    queue = [first << 48 | place, second << 48, 0, third, *[0] * 6]
    source = script(queue)
    value = WideGaussianSampler(Fraction(2**20))._draw_in(np.array([cell]), source)[0]
    settled = round_magnitude(Fraction(2**20), cell, UniformDraw(place, 48, script([0] * 4)))
    assert (value == settled) == (side < 0)
    assert len(source.queue) < 8, "the exact path has not run"


def test_a_coin_far_above_its_weight_is_drawn_again(script: type[Script]) -> None:
    """First word: coin of all ones, so refused. Second: coin zero and place one half, so taken."""
    refused, taken = 0x7FFF << 48 | 2**47, 2**47
    source = script([refused, 0xFFFF << 48, taken])
    value = WideGaussianSampler(Fraction(2**20))._draw_in(np.array([500]), source)[0]
    assert value == 2**20 * 1001 // 128
    assert source.queue == []


def test_a_value_between_two_is_rounded_exactly(script: type[Script]) -> None:
    """σ = 2^40 and all 48 bits of the place: the next 64 bits decide."""
    sigma, cell = Fraction(2**40 - 1, 3), 10
    edge = math.floor(sigma * (cell + Fraction(1, 3)) / CELLS) + Fraction(1, 2)
    exact = (edge * CELLS / sigma - cell) * 2**112
    for step, expected in ((-2, math.floor(edge)), (2, math.ceil(edge))):
        place = math.floor(exact) + step
        for sign in (0, 1):
            source = script([sign << 63 | place >> 64, place % 2**64])
            value = WideGaussianSampler(sigma)._draw_in(np.array([cell]), source)[0]
            assert value == (-expected if sign else expected)
            assert source.queue == []


def test_beyond_the_cells_everything_is_exact(script: type[Script]) -> None:
    """A tail of 2^−88 in the first of two draws: then both are drawn one by one, as Python integers."""
    cells = [0x8000_FFFF, 2**64 - 1, 2**64 - 2**40]
    place_coin_sign = [2**63, 2**40, 1]
    magnitude_sampler().draw(100, OS)  # from then on there is a table, which reads these bits
    source = script([*cells, *place_coin_sign, *place_coin_sign])
    drawn = WideGaussianSampler(Fraction(2**20)).draw(2, source)
    assert source.queue == []
    assert drawn.dtype == object
    assert -12 < drawn[0] / 2**20 < -10
    assert -0.7 < drawn[1] / 2**20 < -0.6, "the median of |Z| is 0.674"


@pytest.mark.parametrize("cell", [0, 5, 200, 700])
def test_one_draw_in_a_cell_stays_in_it(cell: int) -> None:
    for _ in range(20):
        assert cell * 2**24 <= abs(draw_in_cell(cell, Fraction(2**30), OS)) <= (cell + 1) * 2**24


@pytest.mark.parametrize("cell", [0, 64, 900])
def test_acceptance_is_exact(cell: int, script: type[Script]) -> None:
    place = 2**47 + 12345
    with mp.workprec(600):
        tie = int(mp.floor(weight(cell, Fraction(place, PLACES)) * mpf(2) ** 176))
    for side in (-1, 1):
        coin = UniformDraw(tie >> 128, 48, script([(tie >> 64) % 2**64 + side * 2**30, 0, 0, 0]))
        found = accepts_place(cell, UniformDraw(place, 48, script([0, 0, 0, 0])), coin)
        assert found == (side < 0)


@pytest.mark.parametrize("cell", [0, 60, 590])
def test_places_in_a_cell_have_the_normal_law(cell: int) -> None:
    """Pearson's statistic over sixteen parts of a cell; in the last one their chances differ by a seventh."""
    count, parts = 40_000, 16
    words, _ = accept_places(np.full(count, cell), OS.words(count).view(np.int64), OS)
    seen = np.bincount((words & PLACE) >> PLACE_BITS - 4, minlength=parts)
    ends = np.array([math.erfc((cell + k / parts) / CELLS / math.sqrt(2)) for k in range(parts + 1)])
    expected = count * (ends[:-1] - ends[1:]) / (ends[0] - ends[-1])
    assert float(((seen - expected) ** 2 / expected).sum()) < chi2.isf(1e-9, parts - 1)
    assert abs((words < 0).mean() - 0.5) < 0.02
