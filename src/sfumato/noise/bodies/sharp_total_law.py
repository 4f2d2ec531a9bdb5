"""How large noise with a sharper total is: its law is Laplace noise, and more of it on nested sets of points.

With u = e^(−1 / scale), the weight of a point is u^(l1 − d) for a discount d from 0 to 2·dent, and
u^−d = 1 + Σ (u^−i − u^(1 − i)) over i from 1 to d. So weights are added up over the sets d ≥ i, in which
sums of geometric series are closed (docs/proofs/k-norm.md#a-sharper-total). In doubles: nothing here is
private or protects anyone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.bodies.shaped import add_both_sides

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NARROW = 64
"""Scale from which on the law has the same shape as that of any larger one, to within 1e-4."""
_REACH = 45
"""Scales beyond which nothing of the law is left in doubles."""


@dataclass(frozen=True, slots=True, eq=False)
class SharpTotalLaw:
    """P(|z| ≤ t) for t from 0 on, of the total and of each of the two parts, and their covariance."""

    total: Floats
    part: Floats
    covariance: Floats


@lru_cache(maxsize=64)
def tabulate_law(scale: Fraction, dent: int) -> SharpTotalLaw:
    """Return the law of noise of this scale and dent."""
    sets = _NestedSets(math.exp(-1 / float(scale)), dent, math.ceil(_REACH * float(scale)) + 2)
    totals, parts = sets.weigh_totals(), sets.weigh_parts()
    whole = _add_up(totals.sum(axis=0), 0)
    totals, parts = totals / whole, parts / whole
    total, part = (_add_up(each.sum(axis=0), 2) for each in (totals, parts))
    # In the sets up to the dent all three parts have the same law, and t² is 3·a² + 6·a·b on average.
    beside = (_add_up(totals[1], 2) - 3 * _add_up(parts[1], 2)) / 6
    same, other = (beside + each / whole for each in sets.multiply_parts())
    shared = part + same + other
    return SharpTotalLaw(
        add_both_sides(totals.sum(axis=0)),
        add_both_sides(parts.sum(axis=0)),
        np.array([[total, shared, shared], [shared, part, same], [shared, same, part]]),
    )


def _add_up(weights: Floats, power: int) -> float:
    """Return Σ z^power · weight over all z, from the weights of 0, 1, 2, …"""
    sizes = np.arange(len(weights), dtype=np.float64) ** power
    return float(2 * (sizes @ weights) - (weights[0] if power == 0 else 0.0))


class _NestedSets:
    """The sets of points with a discount of at least i, and what they add to the weight of each number.

    P and M are the sums of positive and of negative parts. The discount is i or more where P and M are at
    least ⌈i / 2⌉ and, for an i above the dent, the last part opposes both others, and all three have a size
    of at least ⌈(i − dent) / 2⌉. The sets up to the dent are `even`: all parts have the same law in them.
    """

    def __init__(self, ratio: float, dent: int, size: int) -> None:
        self.u, self.size = ratio, size
        self.at = np.arange(size, dtype=np.float64)
        i = np.arange(1, 2 * dent + 1, dtype=np.float64)[:, None]
        # u^−i − u^(1 − i), which no cancelling makes imprecise.
        gains = ratio**-i * (1 - ratio)
        least = np.ceil(i / 2)
        self.even, self.even_gains = least[:dent], gains[:dent]
        self.pointed, self.pointed_gains = least[dent:], gains[dent:]
        self.opposed = np.ceil((i[dent:] - dent) / 2)

    def weigh_totals(self) -> Floats:
        """Return the weights of each total from 0 on: in all points, in the even sets, in the others."""
        u, n, v = self.u, self.at, self.u**2

        # With j the lesser of P and M, 3·(n + 2j) points have the total n, and (n + 1)(n + 2)/2 for j = 0.
        def paired(least: Floats) -> Floats:
            return 3 * u**n * (n * _geometric(v, least, 0) + 2 * _geometric(v, least, 1))

        def lone(extra: Floats) -> Floats:
            first = np.maximum(self.pointed, -extra)
            return u**n * (_geometric(v, first, 1) + extra * _geometric(v, first, 0))

        alone = lone(n + 1 - 2 * self.opposed) + lone(1 - 2 * self.opposed + 0 * n)
        every = (n + 1) * (n + 2) / 2 * u**n + paired(np.ones((1, 1)))[0]
        sets = (self.even_gains * paired(self.even), self.pointed_gains * alone)
        return np.stack([every, *(each.sum(axis=0) for each in sets)])

    def weigh_parts(self) -> Floats:
        """Return the weights of each first part from 0 on, likewise."""
        u, a, least = self.u, self.at, self.even
        # One of the others is negative, or both are; for the first part 0 they have opposite signs.
        one = 2 * _geometric(u, least, 0) * _geometric(u, np.maximum(0, least - a), 0)
        both = np.where(a >= least, _geometric(u, least, 1) - _geometric(u, least, 0), 0.0)
        every = u**a * ((1 + u) / (1 - u)) ** 2
        sets = (self.even_gains * u**a * (one + both), self._weigh_pointed(0, 0))
        return np.stack([every, *(each.sum(axis=0) for each in sets)])

    def multiply_parts(self) -> tuple[float, float]:
        """Return Σ a·b and Σ a·c, weighted, over the sets in which the last part opposes both others."""
        same, other = (
            2 * float((self.at * self._weigh_pointed(*powers)).sum()) for powers in ((1, 0), (0, 1))
        )
        return same, -other

    def _weigh_pointed(self, second: int, last: int) -> Floats:
        """Return for each set and each a > 0 the weighted sum of b^second · |c|^last where c < 0 < b."""
        u, a = self.u, self.at
        others = _geometric(u, np.maximum(self.opposed, self.pointed - a), second)
        weights = u**a * others * _geometric(u, self.pointed, last)
        return np.where(a >= self.opposed, self.pointed_gains * weights, 0.0)


def _geometric(ratio: float, first: Floats, power: int) -> Floats:
    """Return Σ j^power · ratio^j over all j from `first` on, for a power of 0 or 1."""
    tail = ratio**first / (1 - ratio)
    return np.asarray(tail if power == 0 else tail * (first + ratio / (1 - ratio)))
