"""The lemmas about costs in Gaussian DP that a computer has verified: docs/proofs/gaussian-filter.md."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.two_point_pairs import Pairs
from sfumato.privacy import gaussian_costs
from sfumato.privacy.gaussian_costs import RESERVES

CELL = 0.004
"""Relative width of the cells in ε, and width of those in t, as a part of ε."""


def cover_choices(reserve: float, factor: float, every: int) -> NDArray[np.bool_]:
    """Which cells of (ε, t) hold, if choices are charged as coins of `factor`·ε/2.

    All pairs of a cell have their losses between those of one wider pair, which dominates them.
    """
    root = math.sqrt(reserve)
    lowest = gaussian_costs._NARROWEST * root
    highest = min(gaussian_costs._WIDEST * root, gaussian_costs._LARGEST_RANGE)
    cells = math.ceil(math.log(highest / lowest) / math.log1p(CELL))
    low = lowest * (1 + CELL) ** np.arange(0, cells, every)
    high, parts = low * (1 + CELL), np.linspace(0.5, 1, round(0.5 / CELL) + 1)
    charged = np.array([gaussian_costs.estimate_coin(factor * float(each) / 2, reserve) for each in low])
    below, above = np.outer(high, parts[:-1] - 1).ravel(), np.outer(high, parts[1:]).ravel()
    total = np.repeat(reserve + charged, len(parts) - 1)
    return Pairs(below, above, np.full(below.size, reserve), total).are_dominated()


@pytest.mark.parametrize("reserve", RESERVES[::3])
def test_some_choices_cost_no_more_than_a_wider_coin(reserve: float) -> None:
    assert cover_choices(reserve, gaussian_costs._WIDER, 60).all()
    # A coin that is narrower than the choice is caught.
    assert not cover_choices(reserve, 0.98, 60).all()


@pytest.mark.slow
@pytest.mark.parametrize("reserve", RESERVES)
def test_all_choices_cost_no_more_than_a_wider_coin(reserve: float) -> None:
    assert cover_choices(reserve, gaussian_costs._WIDER, 1).all()


def find_unevenness(reserve: float, cell: float) -> float:
    """By how much c/y² can be above c/x² for y ≤ x, at most: c rises, so ends of cells bound it inside."""
    root = math.sqrt(reserve)
    low, high = gaussian_costs._FLAT * root, gaussian_costs._RISING * root
    steps = math.ceil(math.log(high / low) / math.log1p(cell))
    ends = [low * (1 + cell) ** step for step in range(steps + 1)]
    costs = [gaussian_costs.estimate_coin(end, reserve) for end in ends]
    most, worst = 1 / (1 - gaussian_costs._FLAT**2), 0.0
    for place in range(steps):
        most = max(most, costs[place + 1] / ends[place] ** 2)
        worst = max(worst, most / (costs[place] / ends[place + 1] ** 2))
    return worst


@pytest.mark.parametrize("reserve", RESERVES[::4])
def test_a_coin_costs_more_of_its_square_the_larger_it_is(reserve: float) -> None:
    assert find_unevenness(reserve, 0.0045) < 1.02  # coarse, so that the width of the cells shows


@pytest.mark.slow
@pytest.mark.parametrize("reserve", RESERVES)
def test_the_ratio_of_many_coins_is_that_of_the_largest(reserve: float) -> None:
    assert find_unevenness(reserve, 0.0004) < gaussian_costs._UNEVEN - 1e-4
