"""What is known of a row before any is read: its features and its target, as bounded integers.

Every feature is centred between its bounds: a row holds an integer from −bound to bound, which stands for
middle + half · integer / bound. Learners think in integer / bound, from −1 to 1, wherever rows come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.statistics import Column, Value
from sfumato.errors import UsageError
from sfumato.learn.arrays import Arrays, stacked
from sfumato.privacy.exact import positive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ONE = 2**12
"""The grid has about so many steps from the middle of a feature's bounds to either end: fine beside any
noise, and so coarse that the noise of squares stays within what is drawn exactly."""

LABELS = Column(1, "label")

_NEAR = 2**12
"""So many rows are brought within bounds at a time, so that they stay near."""


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


# ---- own arrays --------------------------------------------------------------------------------------------


def box(bounds: Any, features: int) -> tuple[Floats, Floats]:
    """The lows and highs of all features, from a pair of numbers or of lists."""
    try:
        low, high = bounds
        lows, highs = (np.broadcast_to(np.asarray(end, dtype=np.float64), (features,)) for end in (low, high))
    except (TypeError, ValueError):
        raise _bad_bounds() from None
    if not (np.isfinite(lows).all() and np.isfinite(highs).all() and (lows < highs).all()):
        raise _bad_bounds()
    return lows, highs


def _bad_bounds() -> UsageError:
    return UsageError(
        "SF-E102",
        "bounds are two finite numbers, low below high, or two lists with one for each feature.",
        try_="bounds=(-1, 1), or bounds=([0, 0], [110, 5000])",
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """How the rows of own arrays are brought within what was declared."""

    middles: Floats
    halves: Floats
    clip: float | None
    """The longest row, in halves; longer ones are shortened."""

    @classmethod
    def of(cls, features: int, bounds: Any, row_norm: Any = None) -> Frame:
        if bounds is None and row_norm is None:
            raise UsageError(
                "SF-E101",
                "Say what rows can be before they are read.",
                why="bounds that are measured on the data would give it away",
                try_="bounds=(-1, 1), or row_norm=1.0",
            )
        if bounds is None:
            norm = float(positive(row_norm, "row_norm"))
            return cls(np.zeros(features), np.full(features, norm), 1.0)
        lows, highs = box(bounds, features)
        halves = (highs - lows) / 2
        return cls((lows + highs) / 2, halves, None)

    def integers(self, X: Floats) -> Floats:  # noqa: N803
        """One row a feature, rounded to the nearest step, which makes no row longer than it may be."""
        if self.norm is not None:
            return shortened(_unit(X, self.middles, self.halves), self.norm)[0]
        return _unit(X, self.middles, self.halves, ONE)

    @property
    def norm(self) -> int | None:
        return None if self.clip is None else math.floor(self.clip * ONE)


def _unit(X: Floats, middles: Floats, halves: Floats, steps: int | None = None) -> Floats:  # noqa: N803
    """One row a feature, in bounds, or in so many steps to either, as whole numbers.

    Missing counts as the middle, and what is outside as the nearer bound.
    """
    one = float(steps or 1)
    scales, shifts = one / halves, one * middles / halves
    unit = np.empty((X.shape[1], len(X)))
    for at in range(0, len(X), _NEAR):
        with np.errstate(over="ignore"):
            part = X[at : at + _NEAR] * scales
        part -= shifts
        np.clip(part, -one, one, out=part)
        if np.isnan(part.sum()):
            part[np.isnan(part)] = 0.0
        if steps:
            np.rint(part, out=part)
        unit[:, at : at + _NEAR] = part.T
    return unit


def shortened(unit: Floats, norm: int) -> tuple[Floats, Floats]:
    """Columns as whole numbers no longer than the norm, where they lie, and what each was multiplied by."""
    scale = np.empty(unit.shape[1])
    for at in range(0, len(scale), _NEAR):
        scale[at : at + _NEAR] = _shortened(unit[:, at : at + _NEAR], norm)
    return unit, scale


def _shortened(unit: Floats, norm: int) -> Floats:
    """The same of a few columns.

    Room is left for rounding, by half a step in each entry, and for what doubles do before that: of d entries
    a computed length is off by less than (d + 4)·2⁻⁵² of itself, far below the 2⁻²⁰ that is left for it.
    """
    longest = max(0.0, norm * (1 - 2.0**-20) - math.sqrt(len(unit)) / 2)
    lengths = np.sqrt(np.einsum("ij,ij->j", unit, unit))
    scale: Floats = np.minimum(ONE, longest / np.maximum(lengths, 1e-300))
    unit *= scale
    np.rint(unit, out=unit)
    return scale / ONE


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
    found = frame.integers(X)
    names = [Column(0, f"x{place}") for place in range(len(found))]
    columns = dict(zip(names, found, strict=True))
    spans = dict.fromkeys(names, (-ONE, ONE))
    target: Feature | Labels | None = None
    if labels is not None:
        columns[LABELS] = codes(*labels).astype(np.float64)
        spans[LABELS] = (-1, len(labels[1]) - 1)
        target = Labels(LABELS, tuple(labels[1]))
    elif numbers is not None:
        side = Column(1, "y")
        goal = Frame.of(1, numbers[1])
        columns[side] = goal.integers(np.asarray(numbers[0], dtype=np.float64).reshape(-1, 1))[0]
        spans[side] = (-ONE, ONE)
        target = Feature("y", side, ONE, float(goal.middles[0]), float(goal.halves[0]))
    features = tuple(
        Feature(name.name, name, ONE, float(middle), float(half))
        for name, middle, half in zip(names, frame.middles, frame.halves, strict=True)
    )
    return Given(Declared(features, target, spans, frame.norm), Arrays(columns, spans))


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


@dataclass(frozen=True, slots=True)
class View:
    """Rows measured from a public point, and shortened. Everything is in bounds, from −1 to 1.

    `one` stands for what is the same in all rows. A row (one, features) that is longer than `length` is
    multiplied by what makes it as long, and its target with it, which changes the row's weight in a
    regression and not what it says. Targets beyond `target_reach` are cut off there.
    """

    length: float
    centre: tuple[float, ...] | None = None
    one: float = 0.0
    target_centre: float = 0.0
    target_reach: float = 1.0

    def point(self, features: int) -> Floats:
        if self.centre is None:
            return np.zeros(features)
        found: Floats = np.clip(np.array(self.centre), -1.0, 1.0)
        return found


def around(declared: Declared, arrays: Arrays, view: View) -> Given:
    """The rows of own arrays as they look from there."""
    centre = view.point(len(declared.features))
    norm = max(1, math.floor(view.length * ONE))
    found, scale = _around(declared.features, arrays, centre, view.one, norm)
    names = [Column(2, f"x{place}") for place in range(len(found))]
    reach = min(norm, 2 * ONE)
    columns, spans = dict(zip(names, found, strict=True)), dict.fromkeys(names, (-reach, reach))
    constant = Feature("one", names[0], reach, 0.0, reach / ONE) if view.one else None
    features = tuple(
        replace(
            each, value=name, bound=reach, middle=each.middle + each.half * at, half=each.half * reach / ONE
        )
        for each, name, at in zip(declared.features, names[bool(view.one) :], centre.tolist(), strict=True)
    )
    target = declared.target
    if isinstance(target, Feature):
        column, ends = Column(2, "y"), max(1, round(view.target_reach * ONE))
        values = (arrays.column(target.value) / target.bound - view.target_centre) * scale  # type: ignore[arg-type]
        columns[column] = np.clip(np.rint(values * ONE), -ends, ends)
        spans[column] = (-ends, ends)
        middle = target.middle + target.half * view.target_centre
        target = Feature(target.name, column, ends, middle, target.half * ends / ONE)
    whole_spans = {**arrays.spans, **spans}
    return Given(Declared(features, target, whole_spans, norm, constant), arrays.beside(columns, whole_spans))


def _around(
    features: Sequence[Feature], arrays: Arrays, centre: Floats, one: float, norm: int
) -> tuple[Floats, Floats]:
    """As `shortened`, from a point, with `one` in a row above where there is any. Features are columns."""
    columns = stacked([arrays.column(each.value) for each in features if isinstance(each.value, Column)])
    steps, above = np.array([[1 / each.bound] for each in features]), bool(one)
    found, scale = np.empty((len(columns) + above, arrays.rows)), np.empty(arrays.rows)
    for at in range(0, arrays.rows, _NEAR):
        part = found[:, at : at + _NEAR]
        part[0] = one
        np.multiply(columns[:, at : at + _NEAR], steps, out=part[above:])
        part[above:] -= centre[:, None]
        scale[at : at + _NEAR] = _shortened(part, norm)
    return found, scale
