"""Noise for a total beside the two parts of a column that may be missing, with a sharper total.

A row adds W to one of three parts, or shares W among the first two. The parts have Laplace noise, except that
points whose parts cancel in the total are likelier: up to e^(2·dent / scale) times as likely, and no step of
one row makes a point likelier or less likely by more than before (docs/proofs/k-norm.md#a-sharper-total).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors.checked import require_field
from sfumato.noise.additive import parse_scale
from sfumato.noise.bodies.shaped import TabulatedNoise
from sfumato.noise.bodies.sharp_total_law import NARROW, tabulate_law
from sfumato.noise.laplace import draw_laplace
from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.bodies.sharp_total_law import SharpTotalLaw
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

    Floats = NDArray[np.float64]

_DENT = Fraction(3, 8)
"""Dent in scales: totals are 4.6 % sharper and all other sums 0.6 % less sharp (docs/decisions/0101). Privacy
does not depend on it."""
_COARSE = 16
"""Scale from which on one set of points says how large the noise is, at any scale."""
_DRAWN_SCALE = 2**12
_SEED = 243
"""The seed, of 300 tried, whose points are nearest to the law in averages: 4,096 of them are 1.6 % off at
most. They only say how far off an answer may be."""


@tagged("SharpTotal", "scale", "dent")
@dataclass(frozen=True, slots=True)
class SharpTotalNoise(TabulatedNoise):
    """Adds noise to a total t and two parts a, b of it; the last part, c = t − a − b, follows from them.

    P(z) ∝ e^(−g(z) / scale), where g is the largest of |a| + |b| + |c| − 2·dent, |a| + |b + c| − dent,
    |b| + |a + c| − dent and |t|.

    Privacy
    -------
    Protects : one unit that moves the cells by an l1 norm of (a, b, c) of at most `norm`, added up over
               cells.
    Costs    : KNorm(scale, norm), which is norm / scale in pure ε.
    Because  : docs/proofs/k-norm.md#a-sharper-total
    Assumes  : the input is an exact integer array; how long a draw takes is not observed.
    """

    scale: Fraction
    dent: int

    columns: ClassVar[tuple[int, ...]] = (2,)
    """It is noise for one column of two parts, as `SimplicesNoise` is for several."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", parse_scale(self.scale, "scale"))
        # A deeper dent would be as private, but most draws would be refused.
        fits = type(self.dent) is int and 0 <= self.dent <= 2 * self.scale
        require_field(fits, self, "dent", "a whole number from 0 to two scales")

    @classmethod
    def of_scale(cls, scale: Fraction) -> SharpTotalNoise:
        """Return the noise of this scale with the dent that serves totals best."""
        return cls(scale, round(_DENT * scale))

    @classmethod
    def calibrated(cls, epsilon: Fraction, norm: int) -> SharpTotalNoise:
        """Return the noise that makes cells of this sensitivity ε-private."""
        return cls.of_scale(norm / epsilon)

    @property
    def sums(self) -> int:
        """The total and two parts."""
        return 3

    @property
    def covariance(self) -> Floats:
        """The covariance of the noise of a cell."""
        law, stretch = self._law()
        return np.asarray(law.covariance * stretch**2)

    def norms(self, moves: IntArray) -> IntArray:
        """Return the l1 norm of the three parts of each column of moves."""
        total, first, second = moves.astype(object)
        return np.asarray(abs(first) + abs(second) + abs(total - first - second))

    def draw_points(self, count: int) -> Floats:
        """Return draws of the same law from a fixed seed, one column each. They protect no one."""
        if self.scale < _COARSE:
            return self._draw_seeded(count, _SEED)
        stretch = self.scale / _DRAWN_SCALE
        return np.rint(_draw_wide_points(round(self.dent / stretch), count) * float(stretch))

    def _marginal(self, place: int) -> tuple[Floats, float]:
        law, stretch = self._law()
        return (law.part if place else law.total), stretch

    def _law(self) -> tuple[SharpTotalLaw, float]:
        """Return the law at a scale of at most 64 steps, and how much wider this one is."""
        stretch = max(Fraction(1), self.scale / NARROW)
        return tabulate_law(self.scale / stretch, round(self.dent / stretch)), float(stretch)

    def _draw(self, count: int, source: BitSource) -> IntArray:
        found: list[Any] = []
        while count > 0:
            found.append(self._propose(8 + count * 8 // 5, source)[:, :count])
            count -= found[-1].shape[1]
        parts = np.concatenate(found, axis=1)
        return np.stack([parts.sum(axis=0), parts[0], parts[1]])

    def _propose(self, count: int, source: BitSource) -> Any:
        """Return those of so many draws of Laplace noise for all three parts that are kept, in their order.

        Two of three are kept at the usual dent.
        """
        parts: Any = draw_laplace(self.scale, 3 * count, source).reshape(3, count)
        missed = 2 * self.dent - find_discounts(parts, self.dent)
        return parts[:, build_bernoulli_exp(self.scale).flip(missed.astype(np.uint64), source)]


@lru_cache(maxsize=8)
def _draw_wide_points(dent: int, count: int) -> Floats:
    return SharpTotalNoise(Fraction(_DRAWN_SCALE), dent)._draw_seeded(count, _SEED)


def find_discounts(parts: Any, dent: int) -> Any:
    """Return by how much g is below the l1 norm at each point, from 0 to 2·dent."""
    first, second, last = parts
    total = parts.sum(axis=0)
    cancelled = abs(parts).sum(axis=0) - abs(total)
    # How far the last part opposes both others: the least of the three sizes, or 0 where it does not.
    ahead = np.minimum(np.minimum(first, second), -last)
    behind = -np.maximum(np.maximum(first, second), -last)
    opposed = np.maximum(np.maximum(ahead, behind), 0)
    return np.minimum(np.minimum(dent + 2 * opposed, 2 * dent), cancelled)
