"""How far noise reaches at risks so small that a table or a set of draws does not tell them.

A law whose logarithm is concave, as that of noise here is, has a tail that falls ever faster: a line through
the logarithms of two risks that are known lies above all smaller ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

FEW_DRAWS = 32
"""Draws beyond an end from which on they tell where it is. With fewer, the tail is continued."""
_FACTOR = 8.0
"""By how much the two risks differ that a tail is continued from."""


def continue_tail(find: Callable[[float], Any], risk: float, least: float, step: int = 0) -> Any:
    """Return how far noise reaches at a risk, where `find` tells it for risks of `least` and more.

    Whole numbers are known up to a `step`, which is added to how far the two lie apart.
    """
    if risk >= least:
        return find(risk)
    near, far = np.asarray(find(_FACTOR * least)), np.asarray(find(least))
    beyond = (math.log(least) - math.log(max(risk, math.ulp(0.0)))) / math.log(_FACTOR)
    # What has no end at a risk has none at a smaller one.
    apart = np.subtract(far, near, out=np.zeros(far.shape), where=np.isfinite(near) & np.isfinite(far))
    return far + (apart + step) * beyond
