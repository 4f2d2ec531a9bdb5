"""The quick thresholds of moderate σ: never off by more than they say, never trusted when that matters."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato.noise.sampling.gaussian_table import build_gaussian_table

if TYPE_CHECKING:
    from tests.unit.noise.conftest import Script

SIGMAS = [
    Fraction(1, 1000), Fraction(1, 20), Fraction(3, 50), Fraction(1, 2), Fraction(1), Fraction(7, 3),
    Fraction(10), Fraction(2**60 + 1, 2**55), Fraction(64), Fraction(999, 10), Fraction(1024),
]  # fmt: skip


def below(sigma: Fraction, k: int) -> mpf:
    return mp.erfc(-(mpf(2 * k - 1) / 2) * sigma.denominator / sigma.numerator / mp.sqrt(2)) / 2


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_thresholds_are_within_their_doubt(sigma: Fraction) -> None:
    """And well within: less than five eighths of it, but for those put down as 0 or as the last."""
    table = build_gaussian_table(sigma)
    every = max(1, len(table.thresholds) // 1500)
    with mp.workprec(200):
        for i, threshold in list(enumerate(table.thresholds.tolist()))[::every]:
            truth = below(sigma, table.first + 1 + i) * 2**64
            assert threshold <= truth <= threshold + table.error
            off = abs(truth - threshold - table.error / 2) / (table.error / 2)
            assert off < 0.625 or threshold == 0 or i == len(table.thresholds) - 1


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_the_table_holds_all_but_the_furthest_tails(sigma: Fraction) -> None:
    table = build_gaussian_table(sigma)
    first, last = table.first + 1, table.first + len(table.thresholds)
    with mp.workprec(200):
        assert below(sigma, first) < mpf(2) ** -64
        assert 1 - below(sigma, last) < mpf(2) ** -64
    assert first == 1 - last


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(7, 3), Fraction(64), Fraction(1000)], ids=str)
@pytest.mark.parametrize("offset", [3, 2**20, 2**150])
def test_what_lies_within_the_doubt_is_settled_exactly(
    sigma: Fraction, offset: int, script: type[Script]
) -> None:
    """On either side of a threshold, from 2^−42 to 2^−190 away from it."""
    table = build_gaussian_table(sigma)
    for k in (0, 1, int(sigma), -int(2 * sigma)):
        with mp.workprec(400):
            tie = int(mp.floor(below(sigma, k) * mpf(2) ** 192))
        assert table.draw(1, script.of(tie + offset, 192)).tolist() == [k]
        assert table.draw(1, script.of(tie - offset, 192)).tolist() == [k - 1]


@pytest.mark.parametrize("side", [-1, 1])
def test_tails_go_on(side: int, script: type[Script]) -> None:
    sigma, k = Fraction(10), side * 120
    table = build_gaussian_table(sigma)
    with mp.workprec(600):
        tie = int(mp.floor(below(sigma, k) * mpf(2) ** 320))
    drawn = [table.draw(1, script.of(tie + step, 320)) for step in (3, -3)]
    assert [array.tolist() for array in drawn] == [[k], [k - 1]]
    assert all(array.dtype == object for array in drawn)


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_few_leading_words_are_undecided(sigma: Fraction) -> None:
    assert np.count_nonzero(build_gaussian_table(sigma).cells < 0) < 0.1 * 2**16
