"""The oracle over rows of a table that are held in memory, one a unit, as the integers an engine gives.

A learner asks of them what it would ask of the engine, and has the same whole numbers for an answer.

Because : docs/proofs/search.md#behind-the-curator
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.oracle.arrays import Arrays
from sfumato.oracle.blocks import Column, Constant, Either
from sfumato.oracle.declared import LABELS, Declared, Feature, Labels
from sfumato.oracle.over_arrays import ArrayOracle
from sfumato.oracle.table_features import moved, shorter
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import View
    from sfumato.oracle.fit_budget import FitBudget

    Ints = NDArray[np.int64]

_TARGET = Column(1, "y")


@tagged("Stands", "bound", "middle", "half", "listed")
@dataclass(frozen=True, slots=True)
class IntegerCoding:
    """What an integer stands for: middle + half · integer / bound, or one of so many listed values."""

    bound: int
    middle: Fraction
    half: Fraction
    listed: int = 0

    @classmethod
    def of(cls, feature: Feature) -> IntegerCoding:
        middle, half = Fraction(feature.middle), Fraction(feature.half)
        return cls(feature.bound, middle, half, len(feature.categories))

    @property
    def span(self) -> tuple[int, int]:
        return (-1, self.listed - 1) if self.listed else (-self.bound, self.bound)

    def feature(self, column: Column) -> Feature:
        values = tuple(range(self.listed))
        return Feature(column.name, column, self.bound, float(self.middle), float(self.half), values)

    def read(self, integers: Ints) -> Any:
        """As a prediction takes it."""
        if self.listed:
            return integers
        return float(self.middle) + float(self.half) * (integers / self.bound)


@tagged("Layout", "features", "target")
@dataclass(frozen=True, slots=True)
class RowLayout:
    """What is public of a row: what its integers stand for, and of a class how many classes there are."""

    features: tuple[IntegerCoding, ...]
    target: IntegerCoding | int

    @classmethod
    def of(cls, declared: Declared) -> RowLayout:
        target = declared.target
        if target is None:
            raise AssertionError("a search has a target")
        goal = len(target.classes) if isinstance(target, Labels) else IntegerCoding.of(target)
        return cls(tuple(map(IntegerCoding.of, declared.features)), goal)

    def read(self, rows: Ints) -> Any:
        """One row a unit, as a prediction takes it."""
        return np.column_stack([each.read(rows[at]) for at, each in enumerate(self.features)])

    def declared(self) -> Declared:
        """The same as columns; classes and listed values go by their numbers."""
        named = {Column(0, f"x{at}"): each for at, each in enumerate(self.features)}
        features = tuple(each.feature(column) for column, each in named.items())
        spans = {column: each.span for column, each in named.items()}
        if isinstance(self.target, int):
            labels = Labels(LABELS, tuple(range(self.target)))
            return Declared(features, labels, {**spans, LABELS: (-1, self.target - 1)})
        return Declared(features, self.target.feature(_TARGET), {**spans, _TARGET: self.target.span})


def list_figures(declared: Declared) -> tuple[Value, ...]:
    """Return what is read of each unit's row: its features and, last, its target; −1 for a missing class."""
    goal = declared.target
    if goal is None:
        raise AssertionError("a search has a target")
    values = [_known(each.value, bool(each.categories)) for each in declared.features]
    return (*values, _known(goal.value, isinstance(goal, Labels)))


def _known(value: Value, listed: bool) -> Value:
    """Numbers that are missing were put in the middle already."""
    return Either(value, Constant(-1)) if listed else value


# ---- learning ----------------------------------------------------------------------------------------------


class HeldRowsOracle(ArrayOracle):
    """Over rows that are held. They are shortened in whole numbers, as engines shorten them."""

    @classmethod
    def over(cls, declared: Declared, budget: FitBudget, rows: Ints) -> HeldRowsOracle:
        """One row a figure, one column a unit. All was paid for before."""
        columns = dict(zip(declared.spans, rows.astype(np.float64), strict=True))
        return cls(declared, budget, Arrays(columns, declared.spans), lambda event: None)

    def _around(self, view: View) -> HeldRowsOracle:
        layers = _Columns(self._arrays)
        found = shorter(layers, moved(self.declared, view), view.length, view.target_reach)
        return self._over(found, layers.arrays)


class _Columns:
    """Arrays that grow columns; one by one, so that what is on the way is not kept for all of them."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def add(self, values: Sequence[Value]) -> list[Column]:
        return [self._added(value) for value in values]

    def _added(self, value: Value) -> Column:
        self.arrays, (column,) = self.arrays.with_values([value])
        if not isinstance(column, Column):
            raise AssertionError(column)
        return column
