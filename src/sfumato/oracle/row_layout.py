"""What the integers stand for that an engine gives of each unit's row, for programs that decode them.

Because : docs/proofs/evaluation.md#evaluation
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.oracle.blocks import Constant, Either
from sfumato.oracle.declared import Declared, Feature, Labels
from sfumato.privacy.canonical import tagged, written_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value

    Ints = NDArray[np.int64]


def _write_coding(coding: IntegerCoding) -> dict[str, Any]:
    found = {"": "Stands", "bound": coding.bound, "middle": coding.middle, "half": coding.half}
    # Codings without indicators keep the hash that they always had.
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
            raise AssertionError("rows have a target")
        goal = len(target.classes) if isinstance(target, Labels) else IntegerCoding.of(target)
        return cls(tuple(map(IntegerCoding.of, declared.features)), goal)

    def decode_features(self, rows: Ints) -> NDArray[Any]:
        """Return the features of rows as `predict` takes them: one row a unit, one column a feature."""
        return np.column_stack([each.decode(rows[at]) for at, each in enumerate(self.features)])


def list_figures(declared: Declared) -> tuple[Value, ...]:
    """Return what is read of each unit's row: its features and, last, its target; −1 for a missing class."""
    goal = declared.target
    if goal is None:
        raise AssertionError("rows have a target")
    values = [_known(each.value, bool(each.categories)) for each in declared.features]
    return (*values, _known(goal.value, isinstance(goal, Labels)))


def _known(value: Value, listed: bool) -> Value:
    """Return a value that is never missing; missing numbers were put in the middle of their bounds before."""
    return Either(value, Constant(-1)) if listed else value
