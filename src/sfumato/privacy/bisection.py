"""Bisection that keeps the safe end: the number returned was checked to satisfy the condition."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

PRECISION = 1e-12
"""Relative width at which bisection stops. A coarser one gives up tightness, never validity."""
_FARTHEST = 2.0**100


def find_smallest(
    holds: Callable[[float], bool], low: float, step: float, precision: float = PRECISION
) -> float:
    """Return nearly the smallest number above `low` for which `holds`, if it holds from some number on."""
    high = low + step
    while not holds(high):
        low, high = high, high + 2 * (high - low)
        if high > _FARTHEST:
            raise UsageError("SF-N312", "No amount of noise or ε meets this requirement.")
    return _bisect(holds, low, high, precision)


def find_largest(
    holds: Callable[[float], bool], low: float, step: float, precision: float = PRECISION
) -> float:
    """Return nearly the largest number above `low` for which `holds`, if it holds up to some number."""
    high = low + step
    while holds(high):
        low, high = high, high + 2 * (high - low)
        if high > _FARTHEST:
            return high
    return _bisect(holds, high, low, precision)


def _bisect(holds: Callable[[float], bool], bad: float, good: float, precision: float) -> float:
    while abs(good - bad) > precision * max(abs(good), abs(bad), math.ulp(1.0)):
        middle = (bad + good) / 2
        if middle in (bad, good):
            break
        bad, good = (bad, middle) if holds(middle) else (middle, good)
    return good
