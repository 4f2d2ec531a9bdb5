"""What is known of a row before any is read: its features and its target, as bounded integers.

Every feature is centred between its bounds: a row holds an integer from −bound to bound, which stands for
middle + half · integer / bound. Learners think in integer / bound, from −1 to 1, wherever rows come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.arrays import Arrays
from sfumato.oracle.blocks import Column, Value
from sfumato.oracle.own_rows import ONE, Frame, Matrix, View, box

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "LABELS",
    "ONE",
    "Declared",
    "Feature",
    "Frame",
    "Given",
    "Labels",
    "View",
    "around",
    "box",
    "codes",
    "declare_items",
    "given",
    "given_listed",
    "listed_categories",
    "numbers_of",
]

LABELS = Column(1, "label")


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    value: Value
    bound: int
    middle: float
    half: float
    categories: tuple[Any, ...] = ()
    """The values that its integers from 0 on stand for, where it is listed."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The class of a row, as its place among the declared ones; outside of them, the row counts nowhere."""

    value: Value
    classes: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """The features and the target of every row, and how long its vector of features can be."""

    features: tuple[Feature, ...]
    target: Feature | Labels | None
    spans: Mapping[Column, tuple[int, int]]
    norm: int | None = None
    """The features' integers, with `one` where there is any, have at most this l2 norm."""
    one: Feature | None = None
    """What the same for all rows is scaled to, where rows were shortened together with it."""

    @property
    def middles(self) -> Floats:
        return np.array([feature.middle for feature in self.features])

    @property
    def halves(self) -> Floats:
        return np.array([feature.half for feature in self.features])

    @property
    def bounds(self) -> Floats:
        return np.array([float(feature.bound) for feature in self.features])


def declare_items(names: Sequence[Any], columns: Sequence[Column]) -> Declared:
    """Return features that say with 0 or 1 whether a transaction holds an item; there is no target."""
    features = tuple(
        Feature(str(name), column, 1, 0.0, 1.0) for name, column in zip(names, columns, strict=True)
    )
    return Declared(features, None, dict.fromkeys(columns, (0, 1)))


# ---- own arrays --------------------------------------------------------------------------------------------


def codes(y: Any, classes: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each label among the declared classes, and −1 where it is none of them.

    Total: what is missing, or of another kind than the others, is none of them and no error.
    """
    given, listed = np.asarray(y), np.asarray(classes)
    if given.dtype.kind == "O":
        return _looked_up(given, listed.tolist())
    if (given.dtype.kind in "US") != (listed.dtype.kind in "OUS"):
        given, listed = given.astype(str), listed.astype(str)
    order = np.argsort(listed, kind="stable")
    at = np.clip(np.searchsorted(listed[order], given), 0, len(listed) - 1)
    places = order[at]
    return np.where(listed[places] == given, places, -1).astype(np.int64)


def _looked_up(labels: NDArray[Any], classes: list[Any]) -> NDArray[np.int64]:
    """One by one; where a label is none of the classes as it is, it may be as it is written."""
    written = {str(each): place for place, each in enumerate(classes)}
    places: dict[Any, int] = {**written, **{each: place for place, each in enumerate(classes)}}

    def place(label: Any) -> int:
        try:
            return places.get(label, -1) if label in places else written.get(str(label), -1)
        except TypeError:  # what cannot be looked up is no class
            return -1

    return np.fromiter(map(place, labels.ravel()), dtype=np.int64, count=labels.size)


def numbers_of(y: Any) -> Floats:
    """Targets as doubles, missing where one is none: whether all are is not to be seen from an error."""
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([_number(each) for each in np.asarray(y).ravel()])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


@dataclass(frozen=True, slots=True)
class Given:
    """Own arrays, as integers within what was declared."""

    declared: Declared
    arrays: Arrays


def given(
    X: Floats,  # noqa: N803
    frame: Frame,
    *,
    labels: tuple[Any, Sequence[Any]] | None = None,
    numbers: tuple[Any, Any] | None = None,
) -> Given:
    """Rows of own arrays with their labels and classes, or with a target and its bounds."""
    names = [Column(0, f"x{place}") for place in range(X.shape[1])]
    matrix = Matrix(names, len(X), lambda rows, out: frame.write(X[rows], out))
    columns = {}
    spans = dict.fromkeys(names, (-ONE, ONE))
    target: Feature | Labels | None = None
    if labels is not None:
        columns[LABELS] = codes(*labels).astype(np.float64)
        spans[LABELS] = (-1, len(labels[1]) - 1)
        target = Labels(LABELS, tuple(labels[1]))
    elif numbers is not None:
        side = Column(1, "y")
        goal = Frame.of(1, numbers[1])
        columns[side] = goal.integers(np.asarray(numbers[0], dtype=np.float64).reshape(-1, 1))[:, 0]
        spans[side] = (-ONE, ONE)
        target = Feature("y", side, ONE, float(goal.middles[0]), float(goal.halves[0]))
    features = tuple(
        Feature(name.name, name, ONE, float(middle), float(half))
        for name, middle, half in zip(names, frame.middles, frame.halves, strict=True)
    )
    return Given(Declared(features, target, spans, frame.norm), Arrays(columns, spans, [matrix]))


def listed_categories(categories: Any, features: int) -> list[list[Any]]:
    """The values of each feature, from lists of them or from how many there are; of one number, of each."""
    if isinstance(categories, int):
        categories = [categories] * features
    try:
        found = [list(range(each)) if isinstance(each, int) else list(each) for each in categories]
    except TypeError:
        found = []
    if len(found) != features or not all(found):
        raise UsageError(
            "SF-E115",
            "Say which values each feature can have.",
            why="values that are collected from the data would give away who is alone with one",
            try_='categories=[["A", "B", "C"], 12]',
        )
    return found


def given_listed(X: Any, categories: Sequence[Sequence[Any]], labels: tuple[Any, Sequence[Any]]) -> Given:  # noqa: N803
    """Rows of own arrays whose features are listed, with their labels and classes."""
    names = [Column(0, f"x{place}") for place in range(len(categories))]
    columns = {
        name: codes(X[:, place], values).astype(np.float64)
        for place, (name, values) in enumerate(zip(names, categories, strict=True))
    }
    columns[LABELS] = codes(*labels).astype(np.float64)
    sizes = {name: (-1, len(values) - 1) for name, values in zip(names, categories, strict=True)}
    spans = {**sizes, LABELS: (-1, len(labels[1]) - 1)}
    features = tuple(
        Feature(name.name, name, max(1, len(values) - 1), 0.0, 1.0, tuple(values))
        for name, values in zip(names, categories, strict=True)
    )
    return Given(Declared(features, Labels(LABELS, tuple(labels[1])), spans), Arrays(columns, spans))


def around(declared: Declared, arrays: Arrays, view: View) -> Given:
    """The rows of own arrays as they look from there."""
    target, centre = declared.target, view.point(len(declared.features))
    names = [Column(2, f"x{place}") for place in range(len(centre) + bool(view.one))]
    reach = min(view.norm, 2 * ONE)
    spans = {**arrays.spans, **dict.fromkeys(names, (-reach, reach))}
    constant = Feature("one", names[0], reach, 0.0, reach / ONE) if view.one else None
    features = tuple(
        replace(
            each, value=name, bound=reach, middle=each.middle + each.half * at, half=each.half * reach / ONE
        )
        for each, name, at in zip(declared.features, names[bool(view.one) :], centre.tolist(), strict=True)
    )
    matrix, scale = _seen(declared, arrays, view, names)
    columns = {}
    if isinstance(target, Feature):
        matrix.lay()  # then all are multiplied
        column, ends = Column(2, "y"), max(1, round(view.target_reach * ONE))
        values = (arrays.column(target.value) / target.bound - view.target_centre) * scale  # type: ignore[arg-type]
        columns[column] = np.clip(np.rint(values * ONE), -ends, ends)
        spans[column] = (-ends, ends)
        middle = target.middle + target.half * view.target_centre
        target = Feature(target.name, column, ends, middle, target.half * ends / ONE)
    return Given(
        Declared(features, target, spans, view.norm, constant), arrays.beside(columns, spans, matrix)
    )


def _seen(declared: Declared, arrays: Arrays, view: View, names: Sequence[Column]) -> tuple[Matrix, Floats]:
    """Rows that are computed when they are asked for, and by what each was multiplied then."""
    before = arrays.matrix([each.value for each in declared.features if isinstance(each.value, Column)])
    bounds, scale, away = declared.bounds, np.empty(arrays.rows), view.away(len(declared.features))

    def write(rows: slice, out: Floats) -> None:
        before.write(rows, out[:, bool(view.one) :])
        scale[rows] = view.see(out, bounds, away)

    return Matrix(names, arrays.rows, write), scale
