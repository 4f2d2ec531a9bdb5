"""Rectangles and wedges: their areas make up the normal law, and draws have it."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import draw_normals
from sfumato.noise.sampling.rectangles import (
    IN_WEDGE,
    WORD_BITS,
    RectangleLaw,
    WedgeLaw,
    _choose,
    _compare,
    draw_in_wedges,
    exp_minus_squares,
    lies_below,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

FALSE_ALARM = 1e-9


def density(x: mpmath.mpf) -> mpmath.mpf:
    return 2 * mpmath.npdf(x)


@pytest.mark.parametrize("bits", [64, 128])
def test_thresholds_enclose_areas_of_rectangles(bits: int) -> None:
    """The chance of a wedge is what all rectangles leave, and each has a width of 1/64."""
    with mpmath.workprec(400):
        heights = [density(mpmath.mpf(j + 1) / CELLS) / CELLS for j in range(1500)]
        below = [1 - mpmath.fsum(heights)]
        below += [below[0] + area for area in itertools.accumulate(heights)]
        found = RectangleLaw().bracket_cdf(range(-1, 700), bits)
        assert found[0] == -2
        for k, threshold in enumerate(found[1:]):
            assert threshold <= below[k] * 2**bits <= threshold + 2
        assert RectangleLaw().bracket_cdf(range(90, 91), bits)[0] <= below[90] * 2**bits


def test_thresholds_enclose_how_far_the_density_falls() -> None:
    with mpmath.workprec(300):
        found = WedgeLaw().bracket_cdf(range(-2, 650), 64)
        assert found[:3] == [-2] * 3
        for k, threshold in zip(range(1, 650), found[3:], strict=True):
            assert threshold <= (1 - mpmath.exp(-mpmath.mpf(k * k) / 8192)) * 2**64 <= threshold + 2


def test_exponentials_of_squares_do_not_depend_on_where_a_range_begins() -> None:
    one, other = exp_minus_squares(range(40), 128)[30], exp_minus_squares(range(30, 40), 128)[0]
    assert max(one.low, other.low) <= min(one.high, other.high)


@pytest.mark.parametrize("cell", [0, 1, 60, 590, 5000])
def test_an_edge_lies_where_the_density_does(cell: int) -> None:
    """Coins just below the edge are accepted and those just above are not, at any place."""
    with mpmath.workprec(200):
        top, bottom = (density(mpmath.mpf(cell + step) / CELLS) for step in (0, 1))
        for value in (0, 1, 2**62, 3 * 2**61 + 12345, 2**63 - 1):
            at = density((cell + mpmath.mpf(value) / 2**63) / CELLS)
            edge = int((at - bottom) / (top - bottom) * 2**60)
            for off, expected in ((-4096, True), (4096, False)):
                if 0 <= edge + off < 2**60:
                    place = UniformDraw(value, 63, OS)
                    assert lies_below(cell, place, UniformDraw(edge + off, 60, OS)) is expected


def test_doubles_decide_about_a_wedge_only_where_they_are_sure() -> None:
    """At 15 bits of a place, for whatever bits follow them, and coins near the edge among others."""
    rng = np.random.default_rng(4)
    cells = rng.integers(0, 600, 3000)
    leading = rng.integers(0, 2**15, 3000)
    words = leading << 48
    over, slopes = _compare(cells.astype(np.float64), words, np.zeros(3000, dtype=np.uint32))
    # The same places again, with coins at twice the doubt on either side of the edge.
    doubt = slopes * slopes / 8 + 2.0**-13
    for side in (-1, 1):
        coins = np.clip((-over + side * 1.01 * doubt) * 2.0**32, 0, 2**32 - 1).astype(np.uint32)
        again, _ = _compare(cells.astype(np.float64), words, coins)
        for i in np.flatnonzero(np.abs(again) > doubt)[:400].tolist():
            ends = (int(leading[i]) << 48, (int(leading[i]) + 1 << 48) - 1)
            coin = int(coins[i])
            for value, bits in itertools.product(ends, (coin << 32, (coin + 1 << 32) - 1)):
                exact = lies_below(int(cells[i]), UniformDraw(value, 63, OS), UniformDraw(bits, 64, OS))
                assert exact is bool(again[i] < 0)


def test_bits_that_decided_about_a_place_are_kept() -> None:
    """Coins at the edge take more bits than a short word has; those become the next bits of the number."""
    draws = draw_normals(4000, 15, OS)
    at = next(i for i in range(4000) if draws.words[i] < 0)
    value = (~int(draws.words[at]) << 64) + 77
    draws.places[at] = UniformDraw(value, 79, OS)
    first, more = (draws.floors(range(4000), each) for each in (0, 2))
    assert [each >> 128 for each in more] == first
    assert draws.floors(range(4000), 1)[at] == ~((int(draws.cells[at]) << 79) + value)
    assert draws.floors(range(4000), 2) == more


def test_doubtful_proposals_are_kept_with_their_places() -> None:
    cells = np.full(64, 100, dtype=np.int16)

    class AtTheEdge:
        """Coins that are about where the edge is at the middle of a cell."""

        def words(self, count: int) -> NDArray[np.uint64]:
            over, _ = _compare(np.array([100.0]), np.array([2**62]), np.zeros(1, dtype=np.uint32))
            coin = int(-over[0] * 2**32)
            return np.full(count, coin << 32 | coin, dtype=np.uint64)

    words = np.full(64, 2**62) + np.random.default_rng(1).integers(-(2**48), 2**48, 64)
    kept, places = _choose(cells, words, AtTheEdge())
    assert len(places) == 64
    assert 0 < kept.size < 64
    assert all(place.value == word for place, word in zip(places.values(), words.tolist(), strict=True))


def chi_square(seen: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    expected = seen.sum() * law
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), law.size - 1))


def halves(cells: NDArray[np.int64], words: NDArray[np.int64], bits: int) -> NDArray[np.float64]:
    return (cells + np.where(words < 0, ~words, words) * 2.0**-bits) / CELLS


def test_draws_in_wedges_have_the_law_of_what_rectangles_leave() -> None:
    """Pearson's statistic over four parts of each of 150 cells."""
    cells, words, _ = draw_in_wedges(60_000, OS)
    ends = np.arange(4 * 150 + 1) / (4 * CELLS)
    areas = np.diff([math.erf(x / math.sqrt(2)) for x in ends])
    floors = np.repeat(
        [math.sqrt(2 / math.pi) * math.exp(-(((j + 1) / CELLS) ** 2) / 2) for j in range(150)], 4
    )
    law = areas - floors / (4 * CELLS)
    total = float(1 + RectangleLaw().bracket_cdf(range(1), 64)[0]) / 2**64
    law = np.append(law, total - law.sum()) / total
    seen = np.bincount(
        np.minimum((halves(cells, words, WORD_BITS) * 4 * CELLS).astype(int), 600), minlength=601
    )
    assert chi_square(seen, law) > FALSE_ALARM
    assert abs((words < 0).mean() - 0.5) < 0.02


@pytest.mark.parametrize("bits", [15, 31, WORD_BITS])
def test_normal_draws_have_the_normal_law(bits: int) -> None:
    """Pearson's statistic over eighths of cells, and of signs."""
    draws = draw_normals(150_000, bits, OS)
    ends = np.arange(8 * 160 + 1) / (8 * CELLS)
    law = np.diff([math.erf(x / math.sqrt(2)) for x in ends])
    law = np.append(law, 1 - law.sum())
    found = halves(draws.cells.astype(np.int64), draws.words.astype(np.int64), bits)
    seen = np.bincount(np.minimum((found * 8 * CELLS).astype(int), law.size - 1), minlength=law.size)
    assert chi_square(seen, law) > FALSE_ALARM
    assert abs((draws.words < 0).mean() - 0.5) < 0.01
    assert not (draws.cells == IN_WEDGE).any()


def test_longer_numbers_have_uniform_bits() -> None:
    draws = draw_normals(2048, 15, OS)
    floors = draws.floors(range(2048), 1)
    seen = np.bincount([each >> 60 & 15 for each in floors], minlength=16)
    assert chi_square(seen, np.full(16, 1 / 16)) > FALSE_ALARM
