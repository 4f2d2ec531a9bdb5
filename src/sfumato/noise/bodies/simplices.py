"""Noise for a total beside the sums of several columns, where a row adds to all of them at once.

A row adds the same W to the total, and to the parts of each column at least 0 each and at most W together.
What is missing to W is the last part of the column, which is not released but follows from the others. So
what rows do is a product of simplices, and what neighbours differ by its symmetric hull
(docs/proofs/k-norm.md#simplices).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.additive import parse_scale
from sfumato.noise.bodies.radius import RadiusSampler, expand_binomials
from sfumato.noise.bodies.shaped import ShapedNoise, require_few
from sfumato.noise.laplace import draw_laplace
from sfumato.noise.sampling.bits import draw_between_each
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

    Floats = NDArray[np.float64]

_GRID = 1200
"""About how many radii along each axis the law of one sum is added up over. Wider laws are stretched. It is
only used to say how large the noise is."""
_TRIES = 256
"""Least number of proposals at once, so that few pairs seldom take a second round (benchmarks/noise.py).
Privacy does not depend on it."""


@tagged("Simplices", "columns", "scale")
@dataclass(frozen=True, slots=True)
class SimplicesNoise(ShapedNoise):
    """Adds noise with the shape of a product of simplices: a total, then the parts of each column.

    A column has one part where its values are never missing, and two where they may be. With the last part
    that the others and the total imply, N(z) is the largest l1 norm of the parts of a column.

    Privacy
    -------
    Protects : one unit that moves the cells by a norm of at most `norm`, added up over cells.
    Costs    : KNorm(scale, norm), which is norm / scale in pure ε.
    Because  : docs/proofs/k-norm.md#simplices
    Assumes  : the input is an exact integer array; how long a draw takes is not observed.
    """

    columns: tuple[int, ...]
    """The number of parts of each column that are released: 1 or 2."""
    scale: Fraction

    def __post_init__(self) -> None:
        if not all(parts in (1, 2) for parts in self.columns):
            raise UsageError(
                "SF-N203",
                "A column has one part, or two where its values may be missing.",
                got=str(self.columns),
            )
        object.__setattr__(self, "columns", tuple(map(int, self.columns)))
        require_few(self.sums)
        object.__setattr__(self, "scale", parse_scale(self.scale, "scale"))

    @classmethod
    def calibrated(cls, epsilon: Fraction, norm: int, columns: tuple[int, ...]) -> SimplicesNoise:
        """Return the noise that makes cells of this sensitivity ε-private."""
        return cls(columns, norm / epsilon)

    @property
    def sums(self) -> int:
        """The number of sums in a cell: the total and all parts."""
        return 1 + sum(self.columns)

    @property
    def covariance(self) -> Floats:
        """The covariance of the noise of a cell."""
        moments = _moments(self.columns, self.scale)
        shares = np.concatenate([[1.0], *(np.full(parts, 1 / (parts + 1)) for parts in self.columns)])
        # The mean of each part, given the total, is an equal share of it.
        found = moments.total * np.outer(shares, shares)
        for parts, first in zip(self.columns, _first_parts(self.columns), strict=True):
            own = moments.single if parts == 1 else moments.double
            found[first, first] = own
            if parts == 2:
                found[first + 1, first + 1] = own
                # A + B + C is the total, and all three have the same law.
                shared = (moments.total - 3 * own) / 6
                found[first, first + 1] = found[first + 1, first] = shared
        return found

    def norms(self, moves: IntArray) -> IntArray:
        """Return N of each column of moves."""
        whole = moves.astype(object)
        found = abs(whole[0])
        for parts, first in zip(self.columns, _first_parts(self.columns), strict=True):
            own = whole[first : first + parts]
            found = np.maximum(found, abs(own).sum(axis=0) + abs(whole[0] - own.sum(axis=0)))
        return np.asarray(found)

    def coverage(self, place: int, t: int) -> float:
        """Return P(|z| ≤ t) for the sum at one place."""
        steps, stretch = self._marginal(place)
        if stretch == 1:
            return float(steps[min(t, len(steps) - 1)])
        # Between whole numbers the law of the narrower noise is spread evenly.
        return float(np.interp((t + 0.5) / stretch, np.arange(len(steps) + 1) - 0.5, np.append(0, steps)))

    def expected_error(self, place: int = 0) -> float:
        """Return the mean of |z| for the sum at one place."""
        steps, stretch = self._marginal(place)
        return float((1 - steps).sum()) * stretch

    def _marginal(self, place: int) -> tuple[Floats, float]:
        """Return P(|z| ≤ t) for t from 0 on, and the factor by which the noise is wider than that."""
        laws, stretch = _marginals(self.columns, self.scale)
        owner = [0, *(parts for parts in self.columns for _ in range(parts))][place]
        return laws[owner], stretch

    def _draw(self, count: int, source: BitSource) -> IntArray:
        if len(self.columns) < 2:
            return self._draw_column(count, source)
        # Positive parts of p and negative ones of q in all: p + q has the law of a radius, and
        # p − q is the total. Given both, columns are independent, and all their points equally likely.
        high, low = _sampler(self.columns, self.scale).draw(count, source)
        places = _list_places(self.columns)
        found: Any = np.empty((self.sums, count), dtype=high.dtype)
        found[0] = high - low
        if places.alone.size:
            found[places.alone] = draw_between_each(-low, high, source, places.alone.shape)
        if places.first.size:
            found[places.first], found[places.second] = _draw_pairs(places.first.size, high, low, source)
        return np.asarray(found)

    def _draw_column(self, count: int, source: BitSource) -> IntArray:
        """Return draws for one column or none, whose parts are independent Laplace noise."""
        # The part that is not released stands first, and then the total of all of them in its place.
        parts: Any = draw_laplace(self.scale, self.sums * count, source).reshape(self.sums, count)
        return np.concatenate([parts.sum(axis=0, keepdims=True), parts[1:]])


def _draw_pairs(pairs: int, high: Any, low: Any, source: BitSource) -> tuple[Any, Any]:
    """Return the first and the second parts of pairs, such that the last ones, too, lie from −low to high."""
    one, other, fits = _propose_pairs(pairs, high, low, source)
    left = np.flatnonzero(~fits)
    while left.size:
        cells = left % len(high)
        one[left], other[left], fits = _propose_pairs(1, high.take(cells), low.take(cells), source)
        left = left[~fits]
    return one.reshape(pairs, -1), other.reshape(pairs, -1)


def _propose_pairs(pairs: int, high: Any, low: Any, source: BitSource) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Return the first and the second parts of so many pairs a cell, and which of the pairs fit."""
    size = pairs * len(high)
    # Few pairs are proposed several times at once, and the first proposal that fits is taken.
    tries = 1 + _TRIES // size
    one, other = draw_between_each(-low, high, source, (2, tries, pairs))
    # The last part lies below −low where the others exceed high together, and the other way round. At least
    # half of all proposals fit.
    sums = one + other
    fits = (sums <= high) & (sums >= -low)
    if tries == 1:
        return one.reshape(size), other.reshape(size), fits.reshape(size)
    taken = fits.reshape(tries, size).argmax(axis=0) * size + np.arange(size)
    return one.take(taken), other.take(taken), fits.take(taken)


class _Places(NamedTuple):
    """Where the parts of columns stand in a cell."""

    alone: NDArray[np.intp]
    """Parts of columns that have one."""
    first: NDArray[np.intp]
    """First parts of columns that have two."""
    second: NDArray[np.intp]


@lru_cache(maxsize=64)
def _list_places(columns: tuple[int, ...]) -> _Places:
    """Return where the parts of these columns stand."""
    firsts, parts = np.array(_first_parts(columns), dtype=np.intp), np.array(columns)
    return _Places(firsts[parts == 1], firsts[parts == 2], firsts[parts == 2] + 1)


def _first_parts(columns: tuple[int, ...]) -> list[int]:
    """Return the place of the first part of each column."""
    return [1 + sum(columns[:at]) for at in range(len(columns))]


def _points(p: Any, q: Any) -> Any:
    """Return how many points a column of two parts has: A, B and C from −q to p that add up to p − q."""
    return (p + q + 1) * (p + q + 2) // 2 + p * q


def _grid(size: int) -> tuple[Any, Any]:
    """Return the pairs of whole numbers below `size`, as Python integers."""
    axis = np.array(range(size), dtype=object)
    return axis[:, None], axis[None, :]


@lru_cache(maxsize=64)
def _sampler(columns: tuple[int, ...], scale: Fraction) -> RadiusSampler:
    p, q = _grid(sum(columns) + 1)
    single, double = columns.count(1), columns.count(2)
    return RadiusSampler.build(scale, (p + q + 1) ** single * _points(p, q) ** double)


@dataclass(frozen=True, slots=True)
class _SecondMoments:
    """E z² of the total, and of a part of a column that has one or two."""

    total: float
    single: float
    double: float


@lru_cache(maxsize=64)
def _moments(columns: tuple[int, ...], scale: Fraction) -> _SecondMoments:
    """Return the exact moments, up to float rounding: sums of polynomials times a geometric law."""
    p, q = _grid(sum(columns) + 3)
    single, double = columns.count(1), columns.count(2)
    points = (p + q + 1) ** single * _points(p, q) ** double
    total = (p - q) ** 2 * points
    # A single part is uniform from −q to p: 12·E a² = 3·(p − q)² + (p + q)·(p + q + 2).
    alone = (3 * (p - q) ** 2 + (p + q) * (p + q + 2)) * points
    squares = (_weighted_squares(p, p + q) + _weighted_squares(q, p + q)) * (p + q + 1) ** single
    paired = squares * _points(p, q) ** max(double - 1, 0)
    whole, moved, one, two = (_sum_over_radii(each, scale) for each in (points, total, alone, paired))
    return _SecondMoments(moved / whole, one / whole / 12, two / whole)


def _weighted_squares(p: Any, radius: Any) -> Any:
    """Return Σ a²·(radius + 1 − a) over a from 1 to p: of a pair's points, radius + 1 − |a| have A = a."""
    squares, cubes = p * (p + 1) * (2 * p + 1) // 6, (p * (p + 1) // 2) ** 2
    return (radius + 1) * squares - cubes


def _sum_over_radii(values: Any, scale: Fraction) -> float:
    """Return Σ F(p, q)·u^(p + q) in a unit that depends on the shape of `values` and the scale alone."""
    # Σ C(p, i)·u^p = θ^i / (1 − u) with θ = u / (1 − u). A common factor keeps large powers from overflowing.
    rate, top = 1 / float(scale), len(values) - 1
    odds = math.exp(-rate) / -math.expm1(-rate)
    unit = math.factorial(top) << top
    power = top if odds > 1 else 0
    terms = expand_binomials(values).items()
    return math.fsum(times / unit * odds ** (sum(orders) - power) for orders, times in terms)


@lru_cache(maxsize=16)
def _marginals(columns: tuple[int, ...], scale: Fraction) -> tuple[dict[int, Floats], float]:
    """Return P(|z| ≤ t) for t from 0 on, of the total (0) and of a part of a column of one or two."""
    degree, single, double = sum(columns) + 2, columns.count(1), columns.count(2)
    reach = degree + 9 * math.sqrt(degree) + 40
    narrow = min(float(scale), max(8.0, _GRID / reach))
    axis = np.arange(math.ceil(narrow * reach) + 2, dtype=np.float64)
    p, q = axis[:, None], axis[None, :]
    radius = p + q
    points = (radius + 1) * (radius + 2) / 2 + p * q
    logs = single * np.log1p(radius) + double * np.log(points) - radius / narrow
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    total = np.array([np.trace(weights, offset) for offset in range(len(axis))])
    laws = {0: _add_both_sides(total)}
    if single:
        laws[1] = _add_both_sides(_from(weights / (radius + 1)))
    if double:
        each = weights / points
        laws[2] = _add_both_sides(_from(each * (radius + 1)) - axis * _from(each))
    return laws, float(scale) / narrow


def _from(weights: Floats) -> Floats:
    """Return for each a the sum over all p ≥ a and all q."""
    found: Floats = np.cumsum(weights.sum(axis=1)[::-1])[::-1]
    return found


def _add_both_sides(masses: Floats) -> Floats:
    """Return P(|z| ≤ t) from the probabilities of 0, 1, 2, … of a symmetric law."""
    found: Floats = np.minimum(np.cumsum(np.append(masses[0], 2 * masses[1:])), 1.0)
    return found
