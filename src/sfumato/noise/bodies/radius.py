"""Radii drawn exactly: whole numbers with probabilities in proportion to a polynomial times a geometric law.

With binomial coefficients, the polynomial is Σ c·C(r, i), or Σ c·C(p, i)·C(q, j) for two radii, and no c is
negative. A number with a probability in proportion to C(r, i)·u^r is i plus the sum of i + 1 independent
geometric numbers. So one term is drawn, then its geometric numbers (docs/proofs/k-norm.md#radii).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.laplace import draw_geometric
from sfumato.noise.sampling.enclosure import Enclosure, bracket, exp_minus, geometric_sequence
from sfumato.noise.sampling.inversion import InversionTable

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

Orders = tuple[int, ...]
"""The lower indices of the binomial coefficients of a term, one for each radius."""


def expand_binomials(values: NDArray[np.object_]) -> dict[Orders, int]:
    """Return the terms of a polynomial whose values at 0, 1, 2, … along each axis are given, exactly."""
    # A coefficient is a repeated difference at 0 (Newton's formula). There are as many values along an axis
    # as the degree and one more.
    for axis in range(values.ndim):
        values = np.moveaxis(values, axis, 0)
        found = []
        while len(values):
            found.append(values[0])
            values = np.diff(values, axis=0)
        values = np.moveaxis(np.stack(found), 0, axis)
    return {orders: int(values[orders]) for orders in np.ndindex(values.shape) if values[orders]}


@dataclass(frozen=True, slots=True)
class TermChoice:
    """The law of a term's place in the list: in proportion to c·u^n·(1 − u)^(top − n), where u = e^−rate."""

    rate: Fraction
    coefficients: tuple[int, ...]
    degrees: tuple[int, ...]
    """The sum n of the orders of each term."""

    def bracket_cdf(self, ks: range, bits: int) -> list[int]:
        """Return thresholds as `IntegerLaw.bracket_cdf` states."""
        inner = _bracket_terms(self, bits)
        return [-2 if k <= 0 else inner[k - 1] if k <= len(inner) else 2**bits for k in ks]

    def cumulate(self, bits: int) -> list[Enclosure]:
        """Return enclosures of the probabilities of all terms before each but the first."""
        top, one, ratio = max(self.degrees), Enclosure.enclose(1, bits), exp_minus(self.rate, bits)
        powers, rest = (
            geometric_sequence(one, base, top + 1) for base in (ratio, Enclosure.enclose(1, bits) - ratio)
        )
        weights = [powers[degree] * rest[top - degree] for degree in range(top + 1)]
        terms = (
            Enclosure(times * weights[degree].low, times * weights[degree].high, bits)
            for times, degree in zip(self.coefficients, self.degrees, strict=True)
        )
        *sums, total = accumulate(terms)
        return [part / total for part in sums]


@lru_cache(maxsize=64)
def _bracket_terms(choice: TermChoice, bits: int) -> list[int]:
    return bracket(choice.cumulate, bits)


@dataclass(frozen=True, slots=True, eq=False)
class RadiusSampler:
    """Draws one radius, or two at once."""

    scale: Fraction
    orders: NDArray[np.int64]
    """One row a term, one column a radius."""
    table: InversionTable | None
    """Draws the place of a term; None where there is only one."""

    @classmethod
    def build(cls, scale: Fraction, values: NDArray[np.object_]) -> RadiusSampler:
        """Return the sampler of radii in proportion to a polynomial times e^(−their sum / scale).

        `values` holds the polynomial at 0, 1, 2, … along each axis, as `expand_binomials` takes it.
        """
        terms = expand_binomials(values)
        if min(terms.values()) < 0:
            raise AssertionError("the polynomial has a negative coefficient")
        orders = np.array(list(terms), dtype=np.int64)
        choice = TermChoice(1 / scale, tuple(terms.values()), tuple(orders.sum(axis=1).tolist()))
        several = range(1, len(terms))
        return cls(scale, orders, InversionTable.build(choice, several) if several else None)

    @property
    def rows(self) -> int:
        """The most geometric numbers that a draw takes."""
        degree: int = self.orders.sum(axis=1).max()
        return int(degree) + int(self.orders.shape[1])

    def draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws: one row a radius."""
        places: Any = np.zeros(count, dtype=np.int64)
        if self.table is not None:
            places = self.table.draw(count, source).astype(np.int64)
        orders, each = self.orders[places].T, np.arange(count)
        drawn = draw_geometric(self.scale, self.rows * count, source).reshape(self.rows, count)
        # The first radius takes the sum of the first orders + 1 numbers, the second of those that follow.
        sums: Any = np.cumsum(drawn, axis=0)
        ends = np.cumsum(orders + 1, axis=0) - 1
        taken: Any = sums[ends, each]
        taken[1:] -= taken[:-1].copy()
        return np.asarray(taken + orders)
