"""Wishart differences: leading bits decide only what all bits would, and the law of the whole."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import PLACE, PLACE_BITS, accept_places, draw_normals
from sfumato.noise.sampling.wishart import WishartSampler

if TYPE_CHECKING:
    from sfumato.noise.sampling.normal_draws import NormalDraws

SCALES = [Fraction(1, 1000), Fraction(7, 3), Fraction(2**39, 7), Fraction(2**46, 3), Fraction(2**60, 3)]

MANY = PLACE_BITS + 6 * 64


def draws_of(sampler: WishartSampler, count: int) -> NormalDraws:
    return draw_normals(count * sampler.size * sampler.width, OS)


def compute_entries(sampler: WishartSampler, draws: NormalDraws, bits: int) -> Any:
    """Return the matrices before they are rounded, from so many bits, as fractions."""
    starts = range(0, len(draws.heads), sampler.width)
    numbers = [draws.floor_magnitudes(range(start, start + sampler.width), bits) for start in starts]
    magnitudes = np.array(numbers, dtype=object).ravel() * Fraction(1, CELLS << bits)
    rows = np.where(draws.negative, -magnitudes, magnitudes).reshape(-1, sampler.size, sampler.width)
    one, other = rows[..., : sampler.size + 1], rows[..., sampler.size + 1 :]
    whole = one @ one.swapaxes(1, 2) - other @ other.swapaxes(1, 2)
    return sampler.scale / 2 * whole[:, *np.triu_indices(sampler.size)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_leading_bits_decide_only_what_all_bits_would(size: int, scale: Fraction) -> None:
    sampler = WishartSampler(size, scale)
    draws = draws_of(sampler, 30)
    found, clear = sampler._round_all(draws)
    truth = compute_entries(sampler, draws, MANY)
    off = np.abs(found - truth)
    assert (off[clear] <= Fraction(1, 2)).all()
    assert clear.mean() > 0.95 or scale > 2**40
    settled = sampler._settle_all(draws, found, clear)
    assert (np.abs(settled - truth) <= Fraction(1, 2)).all()


@pytest.mark.parametrize("scale", SCALES[1:-1], ids=str)
def test_a_rounded_entry_is_clear_only_where_all_within_the_slack_agree(scale: Fraction) -> None:
    rng, bits = np.random.default_rng(6), 39
    entries, slack = rng.integers(-(2**57), 2**57, 3000), rng.integers(1, 40, 3000)
    # Half of them lie next to a number that is rounded either way.
    unit = scale / (2 * CELLS**2 * 2**bits)
    edges = [math.floor((math.floor(each * unit) + Fraction(1, 2)) / unit) for each in entries[::2].tolist()]
    entries[::2] = np.array(edges) + rng.integers(-60, 60, 1500)
    found, clear = WishartSampler(3, scale)._round(entries, slack, bits)
    for entry, doubt, value, sure in zip(
        entries.tolist(), slack.tolist(), found.tolist(), clear, strict=True
    ):
        ends = [abs((entry + off) * unit - value) for off in (-doubt, doubt)]
        assert not sure or max(ends) <= Fraction(1, 2)
    assert clear[1::2].mean() > 0.2
    assert not clear[::2].all()


def test_settled_entries_are_those_that_leading_bits_give() -> None:
    sampler = WishartSampler(6, Fraction(2**30))
    draws = draws_of(sampler, 12)
    found, clear = sampler._round_all(draws)
    settled = sampler._settle_all(draws, found, np.zeros_like(clear))
    assert (found[clear] == settled[clear]).all()
    assert clear.all()


@pytest.mark.parametrize("size", [1, 3, 16])
def test_entries_are_off_by_less_than_their_slack(size: int) -> None:
    """What is left out moves an entry by less than the slack, also where all of it points one way."""
    sampler = WishartSampler(size, Fraction(1))
    drawn = draws_of(sampler, 2)
    draws = replace(drawn, negative=np.zeros_like(drawn.negative), longer={})
    shape = -1, sampler.size, sampler.width
    heads, negative = draws.heads.reshape(shape), draws.negative.reshape(shape)
    coarse, rest = sampler._multiply(heads, negative)
    step = Fraction(1, 4**sampler.fine_bits)
    found = [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(coarse.flat, rest.flat, strict=True)]
    bits = 2 * sampler.fine_bits + 12
    slack = sampler._slack(heads, bits).ravel().tolist()
    # Places go on with ones in one of the two matrices, and with zeros in the other.
    farther = np.arange(sampler.width) > size
    for added in (farther, ~farther):
        moved = replace(draws, heads=(heads + added).ravel(), places={}, longer={})
        truth = compute_entries(sampler, moved, PLACE_BITS).ravel() * 2 * CELLS**2
        for known, exact, doubt in zip(found, truth, slack, strict=True):
            assert abs(known * step - exact) <= Fraction(doubt, 2**bits)


def test_a_cell_beyond_the_quick_way_is_computed_exactly() -> None:
    sampler = WishartSampler(2, Fraction(5))
    draws = draws_of(sampler, 2)
    heads = draws.heads.copy()
    heads[0] = 1100 << PLACE_BITS | 12345
    far = replace(draws, heads=heads, longer={})
    found, clear = sampler._round_all(far)
    assert not clear.any()
    settled = sampler._settle_all(far, found, clear)
    assert (np.abs(settled - compute_entries(sampler, far, MANY)) <= Fraction(1, 2)).all()


def test_parts_that_cancel_out_do_not_wrap_around() -> None:
    """Two numbers that are next to each other, in upper halves that are one apart: their squares differ by
    little, and the upper halves' by much."""
    sampler = WishartSampler(1, Fraction(2**30))
    draws = draws_of(sampler, 1)
    low_bits = PLACE_BITS - sampler.fine_bits
    edge = 51 * 2**sampler.fine_bits << low_bits
    close = replace(draws, heads=np.array([edge - 1, 7, edge, 7]))
    found, clear = sampler._round_all(close)
    assert clear.all()
    assert (np.abs(found - compute_entries(sampler, close, MANY)) <= Fraction(1, 2)).all()


def test_far_entries_are_python_integers() -> None:
    drawn = WishartSampler(2, Fraction(2**79)).draw(50, OS)
    assert drawn.dtype == object
    assert drawn.shape == (3, 50)
    assert max(abs(int(each)) for each in drawn.ravel()) > 2**63


def test_more_bits_of_a_draw_begin_with_those_known() -> None:
    draws = draw_normals(3000, OS)
    draws.places[7] = UniformDraw((int(draws.heads[7]) & PLACE) << 64 | 5, PLACE_BITS + 64, OS)
    first, more = (draws.floor_magnitudes(range(3000), PLACE_BITS + extra) for extra in (0, 192))
    assert first == draws.heads.tolist()
    assert [each >> 192 for each in more] == first
    assert more[7] >> 128 & 2**64 - 1 == 5
    assert draws.floor_magnitudes(range(3000), PLACE_BITS + 192) == more


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
