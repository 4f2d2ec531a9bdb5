"""Wishart differences: leading bits decide only what all bits would, and far entries stay exact."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import draw_normals
from sfumato.noise.sampling.rectangles import WORD_BITS
from sfumato.noise.sampling.wishart import WishartSampler, _multiply, _round, _Space, wishart_sampler

if TYPE_CHECKING:
    from sfumato.noise.sampling.normal_draws import NormalDraws

SCALES = [Fraction(1, 1000), Fraction(7, 3), Fraction(2**20, 3), Fraction(2**39, 7), Fraction(2**52, 3)]
BITS = [15, 31, WORD_BITS]

MORE = 4
"""Words beyond the first of every number, in what tests take for the truth."""


def draws_of(sampler: WishartSampler, count: int) -> NormalDraws:
    return draw_normals(count * sampler.numbers, sampler.place_bits, OS)


def round_all(sampler: WishartSampler, draws: NormalDraws) -> tuple[Any, Any]:
    """Return rounded entries, and which of them leading bits decide, also where these are all."""
    found, clear = sampler.round_all(draws, _Space.allocate(sampler, draws.cells.size // sampler.numbers))
    return found, np.ones_like(found, dtype=bool) if clear is None else clear


def compute_entries(sampler: WishartSampler, draws: NormalDraws, more: int = MORE) -> Any:
    """Return the matrices before they are rounded, from so many more words, as fractions."""
    length = 2 * sampler.width
    starts = range(0, draws.cells.size, length)
    rows = [draws.floors(range(start, start + length), more) for start in starts]
    bits = draws.bits + 64 * more
    numbers = np.array(rows, dtype=object).reshape(-1, sampler.size, length)
    p, q = numbers[..., : sampler.width], numbers[..., sampler.width :]
    whole = p @ q.swapaxes(1, 2) + q @ p.swapaxes(1, 2)
    return (whole * (sampler.scale / (2 * CELLS**2 * 4**bits)))[:, *np.triu_indices(sampler.size)]


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_leading_bits_decide_only_what_all_bits_would(size: int, scale: Fraction, bits: int) -> None:
    sampler = WishartSampler.build(size, scale, bits)
    draws = draws_of(sampler, 30)
    found, clear = round_all(sampler, draws)
    truth = compute_entries(sampler, draws)
    assert (np.abs(found - truth)[clear] <= Fraction(1, 2)).all()
    # As many are open as their doubt says, and no more.
    assert clear.mean() > 0.95 or scale * (size + 1) > 2.0 ** (bits - 7) or scale > 2**50
    settled = sampler.settle_all(draws, found, clear)
    assert (np.abs(settled - truth) <= Fraction(1, 2)).all()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("size", [1, 3, 16])
def test_what_is_left_out_moves_an_entry_by_less_than_its_doubt(size: int, bits: int) -> None:
    """Also where all of it points one way, and for entries that lie next to a half."""
    # At these scales about a quarter of the entries is open.
    scale = Fraction(2**52) if bits == WORD_BITS else Fraction(2 ** (bits + 3), size + 1)
    sampler = WishartSampler.build(size, scale, bits)
    drawn = draws_of(sampler, 4 if size > 3 else 100)
    positive = np.where(drawn.words < 0, ~drawn.words, drawn.words)
    draws = replace(drawn, words=positive, places={}, longer={})
    found, clear = round_all(sampler, draws)
    assert clear.mean() > 0.4
    assert not clear.all() or bits == WORD_BITS
    # A place goes on with zeros or with ones: floors are the one end, and a step above them the other.
    length, step = 2 * sampler.width, sampler.scale / (2 * CELLS**2 * 4**bits)
    rows = [draws.floors(range(at, at + length), 0) for at in range(0, draws.cells.size, length)]
    for added in (0, 1):
        numbers = np.array(rows, dtype=object).reshape(-1, size, length) + added
        p, q = numbers[..., : sampler.width], numbers[..., sampler.width :]
        whole = (p @ q.swapaxes(1, 2) + q @ p.swapaxes(1, 2))[:, *np.triu_indices(size)]
        assert (np.abs(whole * step - found)[clear] <= Fraction(1, 2)).all()


def test_a_value_is_sure_only_if_all_within_its_doubt_are_rounded_alike() -> None:
    values = np.array([0.41, -0.41, 2.61, 2.59, 7.0])
    found, clear = _round(values, 0.1, np.empty(5))
    assert found.tolist() == [0, 0, 3, 3, 7]
    assert clear is not None
    assert clear.tolist() == [False, False, True, False, True]
    assert _round(np.array([1.2]), 0.1, np.empty(1))[1] is None


def test_products_of_whole_numbers_are_put_together_from_two_parts() -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(-(2**53), 2**53, 500)
    for factor in (Fraction(1, 7), Fraction(2**30, 3), Fraction(509, 510)):
        few = numbers >> 24 if factor > 512 else numbers
        whole, fraction = _multiply(few.astype(np.float64), factor)
        for number, one, other in zip(few.tolist(), whole.tolist(), fraction.tolist(), strict=True):
            assert abs(number * factor - one - Fraction(other)) < Fraction(1, 2**22)


@pytest.mark.parametrize("bits", BITS)
def test_settled_entries_are_those_that_leading_bits_give(bits: int) -> None:
    sampler = WishartSampler.build(6, Fraction(3), bits)
    draws = draws_of(sampler, 12)
    found, clear = round_all(sampler, draws)
    settled = sampler.settle_all(draws, found, np.zeros_like(clear))
    assert (found[clear] == settled[clear]).all()
    assert clear.mean() > 0.9


@pytest.mark.parametrize("bits", BITS)
def test_a_cell_beyond_doubles_is_computed_exactly(bits: int) -> None:
    sampler = WishartSampler.build(2, Fraction(5), bits)
    draws = draws_of(sampler, 2)
    cells = draws.cells.astype(object)
    cells[0] = 70_000
    far = replace(draws, cells=cells)
    found, clear = round_all(sampler, far)
    assert not clear.any()
    settled = sampler.settle_all(far, found, clear)
    assert (np.abs(settled - compute_entries(sampler, far)) <= Fraction(1, 2)).all()


def test_parts_that_cancel_out_do_not_wrap_around() -> None:
    """p is next to the edge of an upper half, and q likewise with the other sign."""
    sampler = WishartSampler.build(1, Fraction(2**40), WORD_BITS)
    draws = draws_of(sampler, 1)
    edge = 2 ** (WORD_BITS - sampler.known_bits) * 12
    close = replace(
        draws,
        cells=np.array([511, 511, 511, 511], np.int16),
        words=np.array([edge, edge, edge - 1, -edge]),
        places={},
    )
    found, clear = round_all(sampler, close)
    assert clear.all()
    assert (np.abs(found - compute_entries(sampler, close)) <= Fraction(1, 2)).all()


def test_blocks_and_what_is_left_of_them_are_all_drawn() -> None:
    """More matrices than fit a block, the last block being smaller; each has the spread of the law."""
    sampler = wishart_sampler(40, Fraction(1000))
    drawn = sampler.draw(23, OS)
    assert drawn.shape == (820, 23)
    assert drawn.std(axis=0) == pytest.approx(1000 * math.sqrt(41 / 2 * 41 / 40), rel=0.25)
    assert len({tuple(column) for column in drawn.T.tolist()}) == 23


@pytest.mark.parametrize(("scale", "bits"), [(1, 15), (1000, 31), (2**30, 63)])
def test_words_are_as_long_as_a_scale_needs(scale: int, bits: int) -> None:
    assert wishart_sampler(12, Fraction(scale)).place_bits == bits


def test_far_entries_are_python_integers() -> None:
    drawn = wishart_sampler(2, Fraction(2**79)).draw(50, OS)
    assert drawn.dtype == object
    assert drawn.shape == (3, 50)
    assert max(abs(int(each)) for each in drawn.ravel()) > 2**63
