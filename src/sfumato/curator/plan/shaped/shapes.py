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
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.curator.plan.summands import ROWS, Summand
from sfumato.errors.checked import checked, require_field
from sfumato.noise import SimplicesNoise
from sfumato.noise.bodies.shaped import MOST_SUMS
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.row_columns import GroupedColumns, SummedColumn
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
    a row adds the width to the total at most, and at most that to the parts of each column. The coordinates
    of one column alone have independent noise.
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
        return _compute(self.coordinates, sums)


@tagged("GaussianShape", "sums", "coordinates", "width")
@dataclass(frozen=True, slots=True)
@checked
class GaussianShape:
    """Coordinates that one row moves by at most `width` in all, in the l2 norm."""

    sums: tuple[Summand, ...]
    """The exact sums that coordinates are computed from, each once."""
    coordinates: tuple[Coordinate, ...]
    width: int

    columns: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        fits = all(len(each.weights) == len(self.sums) for each in self.coordinates)
        require_field(fits, self, "coordinates", "a weight for each of the sums")
        require_field(self.width >= 1, self, "width", "1 or more")

    @property
    def weights(self) -> tuple[tuple[int, ...], ...]:
        """The weights of all sums in each coordinate."""
        return tuple(each.weights for each in self.coordinates)

    def compute(self, sums: IntArray) -> IntArray:
        """Return the exact coordinates: one row a coordinate, one column a cell."""
        return _compute(self.coordinates, sums)


def _compute(coordinates: tuple[Coordinate, ...], sums: IntArray) -> IntArray:
    return np.stack([each.of(sums) for each in coordinates]).astype(object)


@dataclass(frozen=True, slots=True)
@checked
class ShapedSums:
    """A shape for the sums of a question, and how each of them follows from its coordinates."""

    shape: Shape | GaussianShape
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
        spreads = np.einsum("ij,jk,ik->i", forms, self.covariance, forms).tolist()
        harms = zip(self.measured, spreads, strict=True)
        total = sum(float(weights[each]) * v * (self.shape.width / each.bound) ** 2 for each, v in harms)
        # Rounded, so that it is the same on every machine.
        return Fraction(round(total * _ROUNDED), _ROUNDED)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The covariance of the coordinates' noise, in units of the variance of independent noise."""
        if not self.shape.columns:
            return np.eye(len(self.shape.coordinates))
        return SimplicesNoise(self.shape.columns, Fraction(_WIDE)).covariance / (2 * _WIDE**2)


# ---- finding a shape ---------------------------------------------------------------------------------------


def find_shape(columns: GroupedColumns) -> ShapedSums | None:
    """Return a shape for the sums of these columns; None where it would not help."""
    shaped = _Builder(columns).build()
    return None if shaped is None or len(shaped.shape.coordinates) > MOST_SUMS else shaped


class _Builder:
    """Puts columns onto one width, and says what each sum is in terms of the coordinates."""

    def __init__(self, columns: GroupedColumns) -> None:
        self._derived, self._asked = columns.derived, columns.asked
        groups = columns.groups
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

    def _part(self, column: SummedColumn) -> Coordinate:
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
        for total, how in self._derived.items():
            known[total] = add((how.times, known[how.deviations]), (how.centre, known[how.rows]))
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
