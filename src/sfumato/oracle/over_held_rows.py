"""The oracle over rows of a table that are held in memory, one a unit, as the integers an engine gives.

A learner asks of them what it would ask of the engine, and has the same whole numbers for an answer.

Because : docs/proofs/search.md#behind-the-curator
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.blocks import Column, Constant, Either
from sfumato.oracle.declared import LABELS, Declared, Feature, Labels
from sfumato.oracle.over_arrays import ArrayOracle
from sfumato.oracle.table_features import centre_features, clip_features
from sfumato.privacy.canonical import tagged, written_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.arrays.integer_rows import RowTransform
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.fit_budget import FitBudget

    Ints = NDArray[np.int64]

_TARGET = Column(1, "y")


def _write_coding(coding: IntegerCoding) -> dict[str, Any]:
    found = {"": "Stands", "bound": coding.bound, "middle": coding.middle, "half": coding.half}
    # Searches without indicators keep the hash that they always had.
    return {**found, "listed": coding.listed} | ({"group": coding.group} if coding.group else {})


@written_by(_write_coding)
@dataclass(frozen=True, slots=True)
class IntegerCoding:
    """What an integer stands for: middle + half · integer / bound, or one of so many listed values."""

    bound: int
    middle: Fraction
    half: Fraction
    listed: int = 0
    group: str = ""

    @classmethod
    def of(cls, feature: Feature) -> IntegerCoding:
        """Return the coding of a declared feature, in exact numbers, which can be hashed."""
        middle, half = Fraction(feature.middle), Fraction(feature.half)
        return cls(feature.bound, middle, half, len(feature.categories), feature.group)

    @property
    def value_range(self) -> tuple[int, int]:
        """The least and the greatest integer; −1 stands for a listed value that is missing."""
        return (-1, self.listed - 1) if self.listed else (-self.bound, self.bound)

    def to_feature(self, column: Column) -> Feature:
        """Return the feature that a column of such integers is; listed values go by their numbers."""
        values = tuple(range(self.listed))
        middle, half = float(self.middle), float(self.half)
        return Feature(column.name, column, self.bound, middle, half, values, self.group)

    def decode(self, integers: Ints) -> NDArray[Any]:
        """Return what the integers stand for, as `predict` takes it."""
        if self.listed:
            return integers
        return float(self.middle) + float(self.half) * (integers / self.bound)


@tagged("Layout", "features", "target")
@dataclass(frozen=True, slots=True)
class RowLayout:
    """What is public about the rows of a table: what their integers stand for."""

    features: tuple[IntegerCoding, ...]
    target: IntegerCoding | int
    """The coding of a number, or the number of classes."""

    @classmethod
    def of(cls, declared: Declared) -> RowLayout:
        """Return the layout of rows that `list_figures` reads."""
        target = declared.target
        if target is None:
            raise AssertionError("a search has a target")
        goal = len(target.classes) if isinstance(target, Labels) else IntegerCoding.of(target)
        return cls(tuple(map(IntegerCoding.of, declared.features)), goal)

    def decode_features(self, rows: Ints) -> NDArray[Any]:
        """Return the features of rows as `predict` takes them: one row a unit, one column a feature."""
        return np.column_stack([each.decode(rows[at]) for at, each in enumerate(self.features)])

    def declare(self) -> Declared:
        """Return what a learner may know of the rows; classes and listed values go by their numbers."""
        named = {Column(0, f"x{at}"): each for at, each in enumerate(self.features)}
        features = tuple(each.to_feature(column) for column, each in named.items())
        ranges = {column: each.value_range for column, each in named.items()}
        if isinstance(self.target, int):
            labels = Labels(LABELS, tuple(range(self.target)))
            return Declared(features, labels, {**ranges, LABELS: (-1, self.target - 1)})
        target = self.target.to_feature(_TARGET)
        return Declared(features, target, {**ranges, _TARGET: self.target.value_range})


def list_figures(declared: Declared) -> tuple[Value, ...]:
    """Return what is read of each unit's row: its features and, last, its target; −1 for a missing class."""
    goal = declared.target
    if goal is None:
        raise AssertionError("a search has a target")
    values = [_known(each.value, bool(each.categories)) for each in declared.features]
    return (*values, _known(goal.value, isinstance(goal, Labels)))


def _known(value: Value, listed: bool) -> Value:
    """Return a value that is never missing; missing numbers were put in the middle of their bounds before."""
    return Either(value, Constant(-1)) if listed else value


class HeldRowsOracle(ArrayOracle):
    """Answers from rows that are held in memory. They are clipped in integers, as engines clip them."""

    @classmethod
    def over(cls, declared: Declared, budget: FitBudget, rows: Ints) -> HeldRowsOracle:
        """Return an oracle over rows, one row a figure and one column a unit, that were paid for before."""
        # `list_figures` and `RowLayout.declare` list the columns in the same order.
        columns = dict(zip(declared.ranges, rows.astype(np.float64), strict=True))
        return cls(declared, budget, ArrayTable(columns, declared.ranges), lambda event: None)

    def transform_rows(self, transform: RowTransform) -> HeldRowsOracle:
        columns = _GrowingArrays(self._arrays)
        centred = centre_features(self.declared, transform)
        found = clip_features(columns, centred, transform.length, transform.target_reach)
        return self._over(found, columns.arrays)


class _GrowingArrays:
    """Arrays that columns are added to, one by one: intermediate results are not kept for all of them."""

    def __init__(self, arrays: ArrayTable) -> None:
        self.arrays = arrays

    def add_columns(self, values: Sequence[Value]) -> list[Column]:
        return [self._add_one(value) for value in values]

    def _add_one(self, value: Value) -> Column:
        self.arrays, (column,) = self.arrays.with_values([value])
        if not isinstance(column, Column):
            raise AssertionError(column)
        return column
