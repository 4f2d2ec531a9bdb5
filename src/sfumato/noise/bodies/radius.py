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

_SHORT = 64
"""Columns from which on rows are added up one by one, which NumPy does sooner (benchmarks/noise.py)."""

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
    """One row a radius, one column a term."""
    table: InversionTable | None
    """Draws the place of a term; None where there is only one."""
    last: NDArray[np.int64]
    """Which geometric number is the last one of each radius; the first radius takes the first ones."""

    @classmethod
    def build(cls, scale: Fraction, values: NDArray[np.object_]) -> RadiusSampler:
        """Return the sampler of radii in proportion to a polynomial times e^(−their sum / scale).

        `values` holds the polynomial at 0, 1, 2, … along each axis, as `expand_binomials` takes it.
        """
        terms = expand_binomials(values)
        if min(terms.values()) < 0:
            raise AssertionError("the polynomial has a negative coefficient")
        orders = np.array(list(zip(*terms, strict=True)), dtype=np.int64)
        choice = TermChoice(1 / scale, tuple(terms.values()), tuple(orders.sum(axis=0).tolist()))
        several = range(1, len(terms))
        table = InversionTable.build(choice, several) if several else None
        return cls(scale, orders, table, np.cumsum(orders + 1, axis=0) - 1)

    @property
    def rows(self) -> int:
        """The most geometric numbers that a draw takes."""
        return int(self.last.max()) + 1

    def draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws: one row a radius."""
        rows = self.rows
        places: Any = np.zeros(count, dtype=np.int64)
        if self.table is not None:
            places = self.table.draw(count, source)
        sums: Any = draw_geometric(self.scale, rows * count, source).reshape(rows, count)
        _add_up(sums)
        # The first radius takes the sum of the first orders + 1 numbers, the second of those that follow.
        last = self.last.take(places, axis=1)
        taken: Any = sums.ravel().take(last * count + np.arange(count))
        taken[1:] -= taken[:-1].copy()
        taken += self.orders.take(places, axis=1)
        return np.asarray(taken)


def _add_up(rows: Any) -> None:
    """Add to each row all rows before it."""
    if rows.shape[1] < _SHORT:
        np.add.accumulate(rows, axis=0, out=rows)
        return
    for row in range(1, len(rows)):
        rows[row] += rows[row - 1]
