"""How far apart two inputs of a mechanism are, in the norm that it is priced by, and what that costs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np

from sfumato.local.response import RandomizedResponse
from sfumato.noise.candidates import Choice
from sfumato.noise.gaussian import Gaussian
from sfumato.noise.quantiles import Quantile, Quantiles
from sfumato.noise.subsample import BlockMean, BlockMedian
from sfumato.noise.top_k import TopK
from sfumato.privacy.events import Event, group

_GRID = 2**20  # of an l2 norm that is no whole number; it is rounded up


@singledispatch
def distance(mechanism: Any, first: Any, second: Any) -> Fraction | int:
    """The l1 norm of the difference, by which everything is priced that says nothing else."""
    return sum(abs(step) for step in _steps(first, second))


@distance.register
def _(mechanism: Gaussian, first: Any, second: Any) -> Fraction | int:
    square = sum(step * step for step in _steps(first, second))
    return Fraction(math.isqrt(square * _GRID**2 - 1) + 1, _GRID) if square else 0


@distance.register(Quantile)
@distance.register(Quantiles)
def _(mechanism: Quantile | Quantiles, first: Any, second: Any) -> Fraction | int:
    """Rows that are in one of two histograms only."""
    rows: int = first.difference(second)
    return rows


@distance.register(RandomizedResponse)
@distance.register(BlockMean)
@distance.register(BlockMedian)
def _(mechanism: Any, first: Any, second: Any) -> Fraction | int:
    """People, or blocks, that are not the same."""
    return sum(step != 0 for step in _steps(first, second))


@distance.register(Choice)
@distance.register(TopK)
def _(mechanism: Choice | TopK, first: Any, second: Any) -> Fraction | int:
    """The most that a score moved by; of monotone scores also how far they moved apart."""
    steps = [0, *_steps(first, second)]
    return max(steps) - min(steps) if mechanism.monotone else max(map(abs, steps))


@singledispatch
def price(mechanism: Any, moved: Fraction | int) -> Event:
    """What a mechanism costs when its input moves this far."""
    event: Event = mechanism.event(moved)
    return event


@price.register(Choice)
@price.register(TopK)
def _(mechanism: Any, moved: Fraction | int) -> Event:
    return group(mechanism.event(), math.ceil(Fraction(moved) / mechanism.sensitivity))


def _steps(first: Any, second: Any) -> list[int]:
    """Every coordinate's difference, in Python integers, which do not wrap."""
    apart = np.asarray(first, dtype=object) - np.asarray(second, dtype=object)
    return [int(step) for step in np.ravel(apart)]
