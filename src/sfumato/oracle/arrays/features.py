"""Features and targets of one's own arrays, as integers within what was declared.

Everything here is total: a label that is none of the classes, or a number that is missing, is encoded and
never an error, because an error that one row decides would give that row away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.columns import ListedColumn
from sfumato.errors import UsageError
from sfumato.oracle.arrays.integer_matrix import IntegerMatrix
from sfumato.oracle.arrays.integer_rows import ONE, ArrayBounds
from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.blocks import Column
from sfumato.oracle.declared import LABELS, Declared, Feature, Labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.arrays.integer_rows import RowTransform

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ArrayInput:
    """Own arrays as integers, and what was declared of them."""

    declared: Declared
    arrays: ArrayTable


# ---- labels and targets ------------------------------------------------------------------------------------


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Return the declared classes in order, of which there are at least two."""
    if classes is None:
        raise UsageError(
            "SF-E101",
            "Declare the classes before labels are read.",
            why="the labels that occur would reveal a row that is the only one with its label",
            try_="classes=[0, 1]",
        )
    listed = np.unique(np.asarray(classes))
    if len(listed) < 2 or listed.ndim != 1:
        raise UsageError("SF-E101", "A classifier needs at least two classes.", try_="classes=[0, 1]")
    return tuple(listed.tolist())


def encode_labels(y: Any, classes: Sequence[Any]) -> NDArray[np.int64]:
    """Return the place of each label among the declared classes, and −1 where it is none of them."""
    given, listed = np.asarray(y), np.asarray(classes)
    if given.dtype.kind == "O":
        return _look_up(given, listed.tolist())
    # Numbers that are written as texts on one side only are compared as texts.
    if (given.dtype.kind in "US") != (listed.dtype.kind in "OUS"):
        given, listed = given.astype(str), listed.astype(str)
    order = np.argsort(listed, kind="stable")
    at = np.clip(np.searchsorted(listed[order], given), 0, len(listed) - 1)
    places = order[at]
    return np.where(listed[places] == given, places, -1).astype(np.int64)


def _look_up(labels: NDArray[Any], classes: list[Any]) -> NDArray[np.int64]:
    """Return the place of each label, one by one; a label may also be a class by how it is written."""
    written = {str(each): place for place, each in enumerate(classes)}
    # A class as it is comes before one that is only written alike.
    places: dict[Any, int] = {**written, **{each: place for place, each in enumerate(classes)}}

    def place(label: Any) -> int:
        try:
            return places.get(label, -1) if label in places else written.get(str(label), -1)
        except TypeError:  # what cannot be hashed is no class
            return -1

    return np.fromiter(map(place, labels.ravel()), dtype=np.int64, count=labels.size)


def to_numbers(y: Any) -> Floats:
    """Return values as doubles, NaN where one is no number."""
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.asarray(y)
        return np.array([_to_number(each) for each in found.ravel()], dtype=np.float64).reshape(found.shape)


def _to_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def check_categories(categories: Any, names: Sequence[Any]) -> list[list[Any]]:
    """Return the values of each feature, from lists of them or from how many there are.

    A single number stands for that many values of every feature. A dictionary has them by the names of
    columns.
    """
    features = len(names)
    if isinstance(categories, Integral):
        categories = [categories] * features
    if isinstance(categories, Mapping):
        categories = [categories.get(name) for name in names]
    try:
        found = [_list_values(each) for each in categories]
    except TypeError:
        found = []
    if len(found) != features or not all(found):
        raise UsageError(
            "SF-E101",
            "Declare which values each feature can have.",
            why="values collected from the data would reveal anyone who is the only one with a value",
            try_='categories=[["A", "B", "C"], 12]',
        )
    return found


def _list_values(given: Any) -> list[Any]:
    if isinstance(given, Integral):
        return list(range(int(given)))
    if isinstance(given, ListedColumn):
        return list(given.domain.show_values())
    return list(given)


# ---- arrays ------------------------------------------------------------------------------------------------


def read_arrays(
    X: Floats,  # noqa: N803
    bounds: ArrayBounds,
    *,
    labels: tuple[Any, Sequence[Any]] | None = None,
    numbers: tuple[Any, Any] | None = None,
) -> ArrayInput:
    """Return rows as integers: with labels and the declared classes, or with a target and its bounds."""
    names = [Column(0, f"x{place}") for place in range(X.shape[1])]
    groups = bounds.groups or ("",) * len(names)
    matrix = IntegerMatrix(names, len(X), lambda rows, out: bounds.write_integers(X[rows], out))
    columns = {}
    ranges = dict.fromkeys(names, (-ONE, ONE))
    target: Feature | Labels | None = None
    if labels is not None:
        columns[LABELS] = encode_labels(*labels).astype(np.float64)
        ranges[LABELS] = (-1, len(labels[1]) - 1)
        target = Labels(LABELS, tuple(labels[1]))
    elif numbers is not None:
        side = Column(1, "y")
        goal = ArrayBounds.of(1, numbers[1])
        columns[side] = goal.to_integers(np.asarray(numbers[0], dtype=np.float64).reshape(-1, 1))[:, 0]
        ranges[side] = (-ONE, ONE)
        target = Feature("y", side, ONE, float(goal.middles[0]), float(goal.halves[0]))
    features = tuple(
        Feature(name.name, name, ONE, float(middle), float(half), group=group)
        for name, middle, half, group in zip(names, bounds.middles, bounds.halves, groups, strict=True)
    )
    return ArrayInput(Declared(features, target, ranges, bounds.norm), ArrayTable(columns, ranges, [matrix]))


def read_listed_arrays(
    X: Any,  # noqa: N803
    categories: Sequence[Sequence[Any]],
    labels: tuple[Any, Sequence[Any]],
) -> ArrayInput:
    """Return rows whose features are places in lists of values, with their labels and classes."""
    names = [Column(0, f"x{place}") for place in range(len(categories))]
    columns = {
        name: encode_labels(X[:, place], values).astype(np.float64)
        for place, (name, values) in enumerate(zip(names, categories, strict=True))
    }
    columns[LABELS] = encode_labels(*labels).astype(np.float64)
    sizes = {name: (-1, len(values) - 1) for name, values in zip(names, categories, strict=True)}
    ranges = {**sizes, LABELS: (-1, len(labels[1]) - 1)}
    features = tuple(
        Feature(name.name, name, max(1, len(values) - 1), 0.0, 1.0, tuple(values))
        for name, values in zip(names, categories, strict=True)
    )
    return ArrayInput(
        Declared(features, Labels(LABELS, tuple(labels[1])), ranges), ArrayTable(columns, ranges)
    )


# ---- centred and clipped rows ------------------------------------------------------------------------------


def transform_arrays(declared: Declared, arrays: ArrayTable, transform: RowTransform) -> ArrayInput:
    """Return the rows centred at a public point and clipped in norm."""
    target, centre = declared.target, transform.centre_of(len(declared.features))
    names = [Column(2, f"x{place}") for place in range(len(centre) + bool(transform.one))]
    # A row within its bounds is at most two halves away from a centre within them.
    reach = min(transform.norm, 2 * ONE)
    ranges = {**arrays.ranges, **dict.fromkeys(names, (-reach, reach))}
    constant = Feature("one", names[0], reach, 0.0, reach / ONE) if transform.one else None
    features = tuple(
        replace(
            each,
            value=name,
            bound=reach,
            middle=each.middle + each.half * at,
            half=each.half * reach / ONE,
            # Indicators that are measured from elsewhere are no longer 0 where they do not hold.
            group="" if at else each.group,
        )
        for each, name, at in zip(
            declared.features, names[bool(transform.one) :], centre.tolist(), strict=True
        )
    )
    matrix, scale = _transformed_matrix(declared, arrays, transform, names)
    columns = {}
    if isinstance(target, Feature):
        matrix.lay_columns()  # only then is the factor of every row known, which its target shares
        column, ends = Column(2, "y"), max(1, round(transform.target_reach * ONE))
        values = (arrays.column(target.value) / target.bound - transform.target_centre) * scale  # type: ignore[arg-type]
        columns[column] = np.clip(np.rint(values * ONE), -ends, ends)
        ranges[column] = (-ends, ends)
        middle = target.middle + target.half * transform.target_centre
        target = Feature(target.name, column, ends, middle, target.half * ends / ONE)
    return ArrayInput(
        Declared(features, target, ranges, transform.norm, constant), arrays.beside(columns, ranges, matrix)
    )


def _transformed_matrix(
    declared: Declared, arrays: ArrayTable, transform: RowTransform, names: Sequence[Column]
) -> tuple[IntegerMatrix, Floats]:
    """Return rows that are transformed when they are asked for, and by what each was multiplied then."""
    before = arrays.matrix([each.value for each in declared.features if isinstance(each.value, Column)])
    bounds, scale = declared.bounds, np.empty(arrays.rows)
    centres = transform.repeat_centre(len(declared.features))

    def write(rows: slice, out: Floats) -> None:
        before.write(rows, out[:, bool(transform.one) :])
        scale[rows] = transform.apply(out, bounds, centres)

    return IntegerMatrix(names, arrays.rows, write), scale
