"""What is known of a row before any is read: its features and its target, as bounded integers.

Every feature is centred between its bounds: a row holds an integer from −bound to bound, which stands for
middle + half · integer / bound. Learners think in integer / bound, from −1 to 1, wherever rows come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.oracle.blocks import Column, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.coded_columns import CodedColumn

    Floats = NDArray[np.float64]

LABELS = Column(1, "label")
"""The column of class codes in own arrays."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of every row: the integer it is computed as, and what that integer stands for."""

    name: str
    value: Value
    bound: int
    middle: float
    half: float
    categories: tuple[Any, ...] = ()
    """The values that its integers from 0 on stand for, where it is listed."""
    group: str = ""
    """For an indicator, whose integer is 0 or its bound: the column that it belongs to. In every row at most
    one indicator of a group is not 0, on which sensitivities depend."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The class of a row, as its place among the declared ones; a row of any other class counts nowhere."""

    value: Value
    classes: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """The features and the target of every row, and how long its vector of features can be."""

    features: tuple[Feature, ...]
    target: Feature | Labels | None
    ranges: Mapping[Column, tuple[int, int]]
    """The least and the greatest integer in each column that values are computed from."""
    norm: int | None = None
    """The largest l2 norm of the features' integers, with `one` where there is one."""
    one: Feature | None = None
    """The constant feature, where rows were clipped together with one."""
    columns: tuple[CodedColumn, ...] = ()
    """How the columns of a row became features, where a row has columns that are not features as they are."""

    @property
    def diagonal(self) -> float:
        """The largest l2 norm of a row within its bounds, in halves: of indicators of a group one counts."""
        numbers = sum(not each.group for each in self.features)
        return math.sqrt(numbers + len({each.group for each in self.features if each.group}))

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """Which features are 0 or 1."""
        return np.array([bool(feature.group) for feature in self.features])

    @property
    def middles(self) -> Floats:
        """The middle of each feature's bounds."""
        return np.array([feature.middle for feature in self.features])

    @property
    def halves(self) -> Floats:
        """Half the width of each feature's bounds."""
        return np.array([feature.half for feature in self.features])

    @property
    def bounds(self) -> Floats:
        """The largest integer of each feature, as a double."""
        return np.array([float(feature.bound) for feature in self.features])


def require_labels(declared: Declared) -> Labels:
    """Return the target as class labels; only classifiers ask for it."""
    if not isinstance(declared.target, Labels):
        raise AssertionError(declared.target)
    return declared.target


def declare_items(names: Sequence[Any], columns: Sequence[Column]) -> Declared:
    """Return features that say with 0 or 1 whether a transaction holds an item; there is no target."""
    features = tuple(
        Feature(str(name), column, 1, 0.0, 1.0) for name, column in zip(names, columns, strict=True)
    )
    return Declared(features, None, dict.fromkeys(columns, (0, 1)))
