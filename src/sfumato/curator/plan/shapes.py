"""Sums that one row moves together, in coordinates of which a row adds no more than one width in all.

A row that has the number x adds x − low to one coordinate and high − x to another, a row that has none adds
the width to a third. However far the bounds are apart, all of them together move by the width and not by a
width each, so each has the noise that one of them would have alone.

Because : docs/proofs/shaped-noise.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.summands import ROWS, Summand, is_sum_over_rows, list_summands, order_summands
from sfumato.curator.question.measurement import (
    CovarianceOf,
    MeanOf,
    SummedAggregate,
    SumOf,
    VarianceOf,
)
from sfumato.engines.program import Counted, Present
from sfumato.errors.checked import checked, require_field
from sfumato.noise import SimplicesNoise
from sfumato.noise.bodies.shaped import MOST_SUMS
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.noise.sampling.integers import IntArray

LinearForm = tuple[Fraction, ...]
"""The weights of a sum of coordinates."""

_FINE = 256
"""Columns of different widths are put on one; less than one part in so many of it is lost where that can be.
Privacy does not depend on it."""
_WIDE = 2**20
"""A scale from which on the covariance of noise has the same shape as at any larger one."""
_ROUNDED = 2**20
_WIDEST = 2**26
"""Width up to which that is tried, so that noise can still be drawn at a small ε."""


@tagged("Coordinate", "weights", "divisor")
@dataclass(frozen=True, slots=True)
@checked
class Coordinate:
    """A sum of sums with whole weights, which the divisor divides in every row."""

    weights: tuple[int, ...]
    divisor: int = 1

    def __post_init__(self) -> None:
        require_field(self.divisor >= 1, self, "divisor", "1 or more")

    def of(self, sums: IntArray) -> IntArray:
        """Return the coordinate in every cell, from the exact sums: one row a sum, one column a cell."""
        # In Python's own integers: a width times a number of rows need not fit 64 bits.
        parts = (w * row.astype(object) for w, row in zip(self.weights, sums, strict=True) if w)
        return np.asarray(sum(parts) // self.divisor, dtype=object)


@tagged("Shape", "sums", "coordinates", "width", "columns")
@dataclass(frozen=True, slots=True)
@checked
class Shape:
    """Coordinates that no row makes smaller, and to which one row adds at most `width` in all.

    With `columns`, the first coordinate is the total and the others are parts of it, so many for each column:
    a row adds the width to the total at most, and at most that to the parts of each column.
    """

    sums: tuple[Summand, ...]
    """The exact sums that coordinates are computed from, each once."""
    coordinates: tuple[Coordinate, ...]
    width: int
    columns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        fits = all(len(each.weights) == len(self.sums) for each in self.coordinates)
        require_field(fits, self, "coordinates", "a weight for each of the sums")
        require_field(self.width >= 1, self, "width", "1 or more")
        parts = not self.columns or len(self.coordinates) == 1 + sum(self.columns)
        require_field(parts, self, "columns", "the parts of each column beside a total")

    def compute(self, sums: IntArray) -> IntArray:
        """Return the exact coordinates: one row a coordinate, one column a cell."""
        return np.stack([each.of(sums) for each in self.coordinates]).astype(object)


@dataclass(frozen=True, slots=True)
@checked
class ShapedSums:
    """A shape for the sums of a question, and how each of them follows from its coordinates."""

    shape: Shape
    measured: tuple[Summand, ...]
    """The sums of the question that the shape measures."""
    forms: tuple[LinearForm, ...]
    """What each of them is in terms of the coordinates."""

    def __post_init__(self) -> None:
        fits = len(self.forms) == len(self.measured)
        fits &= all(len(form) == len(self.shape.coordinates) for form in self.forms)
        require_field(fits, self, "forms", "a weight for each sum and coordinate")

    @property
    def estimates(self) -> dict[Summand, LinearForm]:
        """What each sum is in terms of the coordinates."""
        return dict(zip(self.measured, self.forms, strict=True))

    def weigh(self, weights: Mapping[Summand, Fraction]) -> Fraction:
        """Return the harm of the noise of all coordinates, where each weight is that of one sum alone."""
        forms = np.array(self.forms, dtype=np.float64).reshape(len(self.forms), -1)
        spreads = np.einsum("ij,jk,ik->i", forms, self._covariance, forms).tolist()
        harms = zip(self.measured, spreads, strict=True)
        total = sum(float(weights[each]) * v * (self.shape.width / each.bound) ** 2 for each, v in harms)
        # Rounded, so that it is the same on every machine.
        return Fraction(round(total * _ROUNDED), _ROUNDED)

    @property
    def _covariance(self) -> NDArray[np.float64]:
        """The covariance of the coordinates' noise, in units of the variance of integer Laplace noise."""
        if not self.shape.columns:
            return np.eye(len(self.shape.coordinates))
        return SimplicesNoise(self.shape.columns, Fraction(_WIDE)).covariance / (2 * _WIDE**2)


# ---- finding a shape ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
@checked
class _Column:
    """A sum that, with `shift` for each row counted by `rows`, lies between 0 and `width` in every row."""

    summand: Summand
    shift: int
    width: int
    rows: Summand
    divisor: int = 1
    """What divides the shifted number in every row."""


def find_shape(
    summands_of: Mapping[SummedAggregate, tuple[Summand, ...]], source: RowSource
) -> ShapedSums | None:
    """Return a shape for the sums over rows that a question needs; None where it would not help.

    Numbers of different units or values are no sums over rows, and no shape has them.
    """
    every = {each for parts in summands_of.values() for each in parts}
    asked = order_summands(each for each in every if is_sum_over_rows(each))
    if not 2 <= len(asked) <= MOST_SUMS:
        return None
    found = _Finder(source, asked)
    for aggregate, parts in summands_of.items():
        found.add(aggregate, parts)
    shaped = found.build()
    return None if shaped is None or len(shaped.shape.coordinates) > MOST_SUMS else shaped


class _Finder:
    """Collects the columns of a question."""

    def __init__(self, source: RowSource, asked: Sequence[Summand]) -> None:
        self._source, self._asked = source, asked
        self._columns: dict[Summand, _Column] = {}
        self._totals: dict[Summand, SumOf] = {}
        self._counts = {each for each in asked if isinstance(each.term, Counted | Present)}

    def add(self, aggregate: SummedAggregate, parts: tuple[Summand, ...]) -> None:
        match aggregate:
            case SumOf():
                self._totals[parts[0]] = aggregate
            case MeanOf(of):
                self._add_deviations(of, parts[0], parts[1])
            case VarianceOf(of):
                self._add_deviations(of, parts[1], parts[2])
                self._add_product(parts[0], parts[2])
            case CovarianceOf():
                self._add_deviations(aggregate.of, parts[1], parts[-1])
                self._add_deviations(aggregate.other, parts[2], parts[-1])
                for each in (parts[0], *parts[3:-1]):
                    self._add_product(each, parts[-1])

    def _add_deviations(self, of: object, deviations: Summand, rows: Summand) -> None:
        # Deviations in half steps are odd in every row, and so is their bound: both together are even.
        (total,) = list_summands(SumOf(of), self._source)  # type: ignore[arg-type]
        halves = int(total.step / deviations.step)
        width = 2 * deviations.bound // halves
        self._columns[deviations] = _Column(deviations, deviations.bound, width, rows, halves)

    def _add_product(self, product: Summand, rows: Summand) -> None:
        shift = product.bound if product.signed else 0
        self._columns[product] = _Column(product, shift, product.bound + shift, rows)

    def build(self) -> ShapedSums | None:
        """Return the shape of all columns together."""
        derived: dict[Summand, tuple[Fraction, Summand, Fraction, Summand]] = {}
        for total, aggregate in self._totals.items():
            self._add_total(total, aggregate, derived)
        # In canonical order: a kept answer is read by whoever asks for the same sums, in any order.
        counts = {*self._counts, *(each.rows for each in self._columns.values())}
        groups: dict[Summand, list[_Column]] = {each: [] for each in order_summands(counts)}
        for summand in order_summands(self._columns):
            groups[self._columns[summand].rows].append(self._columns[summand])
        return _Builder(groups, derived, self._asked).build()

    def _add_total(
        self,
        total: Summand,
        aggregate: SumOf,
        derived: dict[Summand, tuple[Fraction, Summand, Fraction, Summand]],
    ) -> None:
        deviations, rows = list_summands(MeanOf(aggregate.of), self._source)
        halves = int(total.step / deviations.step)
        centre = Fraction(deviations.centre, halves)
        if deviations in self._columns:
            derived[total] = (Fraction(1, halves), deviations, centre, rows)
            return
        low = math.floor(Fraction(deviations.centre - deviations.bound, halves))
        high = math.ceil(Fraction(deviations.centre + deviations.bound, halves))
        if rows not in self._counts:
            # A missing number adds nothing, as 0 does.
            low, high, rows = min(low, 0), max(high, 0), ROWS
        self._columns[total] = _Column(total, -low, high - low, rows)


class _Builder:
    """Puts columns onto one width, and says what each sum is in terms of the coordinates."""

    def __init__(
        self,
        groups: Mapping[Summand, list[_Column]],
        derived: Mapping[Summand, tuple[Fraction, Summand, Fraction, Summand]],
        asked: Sequence[Summand],
    ) -> None:
        self._derived, self._asked = derived, asked
        # Rows that no sum counts need no coordinate: where all numbers are missing together, nobody asks.
        self._base = next(iter(groups)) if len(groups) == 1 else ROWS
        self._groups = groups
        read = [self._base, *groups, *(each.summand for columns in groups.values() for each in columns)]
        self._sums = tuple(dict.fromkeys(read))
        widths = [each.width for columns in groups.values() for each in columns]
        self._width = _common_width(widths)

    def build(self) -> ShapedSums | None:
        columns, rows = self._list_columns()
        if not columns:
            return None
        total = self._coordinate({self._base: self._width})
        parts = [part for column in columns for part in column]
        alone = len(columns) == 1
        if alone:
            rest = self._coordinate({self._base: self._width}, parts)
            # Without a count of all rows nobody asks how many add to neither part.
            coordinates = [*parts, rest] if self._base in self._asked or len(parts) == 1 else parts
        else:
            coordinates = [total, *parts]
        shape = Shape(
            self._sums,
            tuple(coordinates),
            self._width,
            () if alone else tuple(len(column) for column in columns),
        )
        return ShapedSums(shape, tuple(self._asked), self._estimates(coordinates, rows))

    def _list_columns(self) -> tuple[list[list[Coordinate]], dict[Summand, tuple[Coordinate, ...]]]:
        """Return the parts of each column, and the parts that count the rows of each group."""
        found: list[list[Coordinate]] = []
        counts: dict[Summand, tuple[Coordinate, ...]] = {}
        for rows, columns in self._groups.items():
            parts = [self._part(column) for column in columns]
            if rows == self._base:
                found += [[part] for part in parts]
                continue
            own = self._coordinate({rows: self._width})
            if not parts:
                counts[rows] = (own,)
                found.append([own])
                continue
            rest = self._coordinate({rows: self._width}, parts[:1])
            counts[rows] = (parts[0], rest)
            found += [[parts[0], rest], *([part] for part in parts[1:])]
        return found, counts

    def _part(self, column: _Column) -> Coordinate:
        times = self._width // column.width
        weights = {column.summand: times}
        weights[column.rows] = weights.get(column.rows, 0) + times * column.shift
        return self._coordinate(weights, divisor=column.divisor)

    def _coordinate(
        self, weights: Mapping[Summand, int], less: Sequence[Coordinate] = (), divisor: int = 1
    ) -> Coordinate:
        """Return a sum of sums, less other coordinates."""
        common = math.lcm(divisor, *(each.divisor for each in less))
        found = [weights.get(each, 0) * (common // divisor) for each in self._sums]
        for each in less:
            found = [w - part * (common // each.divisor) for w, part in zip(found, each.weights, strict=True)]
        return Coordinate(tuple(found), common)

    def _estimates(
        self, coordinates: Sequence[Coordinate], counts: Mapping[Summand, tuple[Coordinate, ...]]
    ) -> tuple[LinearForm, ...]:
        places = {each: at for at, each in enumerate(coordinates)}
        size = len(coordinates)

        def add(*terms: tuple[Fraction, LinearForm]) -> LinearForm:
            return tuple(sum((w * form[at] for w, form in terms), start=Fraction(0)) for at in range(size))

        def unit(each: Coordinate) -> LinearForm:
            return tuple(Fraction(at == places[each]) for at in range(size))

        known: dict[Summand, LinearForm] = {}
        share = Fraction(1, self._width)
        whole = [unit(coordinates[0])] if self._is_total(coordinates[0]) else [unit(c) for c in coordinates]
        known[self._base] = add(*((share, each) for each in whole))
        for rows, parts in counts.items():
            known[rows] = add(*((share, unit(each)) for each in parts))
        for columns in self._groups.values():
            for column in columns:
                times = Fraction(column.divisor, self._width // column.width)
                part = unit(self._part(column))
                known[column.summand] = add((times, part), (Fraction(-column.shift), known[column.rows]))
        for total, (times, deviations, centre, rows) in self._derived.items():
            known[total] = add((times, known[deviations]), (centre, known[rows]))
        return tuple(known[each] for each in self._asked)

    def _is_total(self, coordinate: Coordinate) -> bool:
        return coordinate == self._coordinate({self._base: self._width})


def _common_width(widths: Iterable[int]) -> int:
    """Return a width of which each of these, times a whole number, leaves almost nothing over."""
    own = sorted(set(widths)) or [1]
    widest = own[-1]
    best, least = widest, Fraction(1)
    for times in range(1, max(2, min(_FINE, _WIDEST // widest) + 1)):
        width = widest * times
        lost = max(Fraction(width % each, width) for each in own)
        if lost < least:
            best, least = width, lost
        if least <= Fraction(1, _FINE):
            break
    return best
