"""How a spend is shared by what can be measured: the least noise at one price, and nothing worse than alone.

Because : docs/proofs/workloads.md#the-strategy
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.spend import PureSpend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.together.design import Floats, WorkloadDesign

GRAINS = 2**16
"""Shares of a spend are multiples of one over this."""


def choose_shares(design: WorkloadDesign, start: Floats, spend: Spend) -> Floats:
    """Return the shares with the least weighted variance at one price; the start where nothing is better.

    Shares of pure ε add up, and so do shares of 1/multiplier² of Gaussian noise.
    """
    pure = isinstance(spend, PureSpend)
    weights = np.array([each.weight for each in design.asked])

    def harm(shares: Floats) -> float:
        return float(weights @ design.variances(shares**2 if pure else shares))

    found = _list_candidates(design, start, pure)
    better = [each for each in found if design.is_no_worse(each**2 if pure else each)]
    return min([start, *better], key=harm)


def _list_candidates(design: WorkloadDesign, start: Floats, pure: bool) -> Iterator[Floats]:
    """Yield shares that may be better than those to begin with."""
    for begin in _list_starts(design, start):
        by_squares = design.optimise(begin, squares=False)
        if by_squares is not None:
            yield np.sqrt(by_squares) / np.sqrt(by_squares).sum() if pure else by_squares
        found = design.optimise(begin, squares=True) if pure else None
        if found is not None:
            yield found


def _list_starts(design: WorkloadDesign, start: Floats) -> Iterator[Floats]:
    """Yield shares to begin with: all that can be measured, and mostly the finest."""
    can_be = np.array([0.0 if each.free else 1.0 for each in design.measurable])
    even = can_be / can_be.sum()
    yield 0.5 * start + 0.5 * even
    finest = max(len(each.keys) for each in design.measurable)
    last = can_be * np.array([float(len(each.keys) == finest) for each in design.measurable])
    if last.any():
        yield 0.1 * even + 0.9 * last / last.sum()


def round_shares(shares: Floats) -> list[int]:
    """Return shares in whole grains, which add up to all of them at most."""
    return [int(each * GRAINS) for each in shares.tolist()]
