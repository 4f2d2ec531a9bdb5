"""Matrices of noise: leading bits decide what all bits would, and what they leave open is settled."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import kstest

from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import draw_normals
from sfumato.noise.sampling.wishart import WishartSampler

if TYPE_CHECKING:
    from sfumato.noise.sampling.normal_draws import NormalDraws

SCALES = [Fraction(1, 1000), Fraction(7, 3), Fraction(2**39, 7), Fraction(2**52, 3), Fraction(2**60)]
BITS = 304
"""Bits of a place in what tests take for the truth."""


def compute_entries(sampler: WishartSampler, draws: NormalDraws) -> Any:
    """Return the matrices before they are rounded, from very many bits, as fractions."""
    rows = draws.longer_floors(range(draws.cells.size), BITS)
    numbers = np.array(rows, dtype=object).reshape(-1, sampler.size, sampler.length)
    p, q = numbers[..., : sampler.size + 1], numbers[..., sampler.size + 1 :]
    whole = p @ q.swapaxes(1, 2) + q @ p.swapaxes(1, 2)
    return (whole * (sampler.scale / (2 * CELLS**2 * 4**BITS)))[:, *np.triu_indices(sampler.size)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("size", [2, 5])
def test_entries_are_those_that_all_bits_give(size: int, scale: Fraction) -> None:
    sampler = WishartSampler(size, scale)
    draws = draw_normals(20 * sampler.numbers, OS)
    found = sampler.round_all(draws)
    assert (np.abs(found - compute_entries(sampler, draws)) <= Fraction(1, 2)).all()


def test_leading_bits_decide_nearly_all_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    settle, settled = WishartSampler._settle, []

    def count(self: WishartSampler, *given: Any) -> int:
        settled.append(given)
        return settle(self, *given)

    monkeypatch.setattr(WishartSampler, "_settle", count)
    WishartSampler(30, Fraction(2**26)).draw(10, OS)
    assert len(settled) < 10


def test_a_cell_far_out_is_computed_exactly() -> None:
    sampler = WishartSampler(2, Fraction(5))
    draws = draw_normals(2 * sampler.numbers, OS)
    cells = draws.cells.astype(object)
    cells[0] = 70_000
    far = replace(draws, cells=cells)
    found = sampler.round_all(far)
    assert (np.abs(found - compute_entries(sampler, far)) <= Fraction(1, 2)).all()


def test_blocks_and_what_is_left_of_them_are_all_drawn() -> None:
    """More matrices than fit a block, the last block being smaller; each has the spread of the law."""
    drawn = WishartSampler(40, Fraction(1000)).draw(23, OS)
    assert drawn.shape == (820, 23)
    assert drawn.std(axis=0) == pytest.approx(1000 * math.sqrt(41 / 2 * 41 / 40), rel=0.25)
    assert len({tuple(column) for column in drawn.T.tolist()}) == 23


def test_far_entries_are_python_integers() -> None:
    drawn = WishartSampler(2, Fraction(2**79)).draw(50, OS)
    assert drawn.dtype == object
    assert drawn.shape == (3, 50)
    assert max(abs(int(each)) for each in drawn.ravel()) > 2**63


def test_more_bits_of_a_number_go_on_with_those_that_are_known() -> None:
    draws = draw_normals(200, OS)
    first = draws.floors().tolist()
    for bits in (112, 176):
        longer = draws.longer_floors(range(200), bits)
        assert [each >> bits - 48 for each in longer] == first


@pytest.mark.parametrize("beyond", [False, True])
def test_numbers_have_the_normal_law(beyond: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Kolmogorov's test, which accuses the true law once in 10⁹; also where cells are drawn exactly."""
    count = 300 if beyond else 50_000
    if beyond:
        from sfumato.noise.sampling import normal_draws

        sampler = normal_draws.magnitude_sampler()

        class Wide:
            def draw(self, count: int, source: Any) -> Any:
                return sampler.draw(count, source).astype(object)

        monkeypatch.setattr(normal_draws, "magnitude_sampler", Wide)
    found = np.array(draw_normals(count, OS).longer_floors(range(count), 64), dtype=float) / 2.0**70
    assert kstest(found, "norm").pvalue > 1e-9
    assert abs(np.mean(found < 0) - 0.5) < 6 / (2 * math.sqrt(count))
