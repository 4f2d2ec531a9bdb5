"""What is known of a row before any is read: its features and its target, as bounded integers.

Every feature is centred between its bounds: a row holds an integer from −bound to bound, which stands for
middle + half · integer / bound. Learners think in integer / bound, from −1 to 1, wherever rows come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.statistics import Column, Value
from sfumato.errors import UsageError
from sfumato.learn.arrays import Arrays
from sfumato.privacy.exact import positive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ONE = 2**12
"""The grid has about so many steps from the middle of a feature's bounds to either end: fine beside any
noise, and so coarse that the noise of squares stays within what is drawn exactly."""


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    value: Value
    bound: int
    middle: float
    half: float


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
    """The features' integers, all of one bound, have at most this l2 norm."""

    @property
    def middles(self) -> Floats:
        return np.array([feature.middle for feature in self.features])

    @property
    def halves(self) -> Floats:
        return np.array([feature.half for feature in self.features])

    @property
    def bounds(self) -> Floats:
        return np.array([float(feature.bound) for feature in self.features])

    @property
    def radius_squared(self) -> Fraction:
        """The largest squared length of a row, each feature measured in its bound."""
        if self.norm is None:
            return Fraction(len(self.features))
        return min(Fraction(self.norm, self.features[0].bound) ** 2, Fraction(len(self.features)))

    def scaled(self, X: Any) -> Floats:  # noqa: N803
        """Rows from outside, in the same measure: clipped to the bounds, missing as the middle."""
        return _unit(np.asarray(X, dtype=np.float64), self.middles, self.halves)


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
    def of(cls, features: int, bounds: Any, row_norm: Any, clip: float | None) -> Frame:
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
        return cls((lows + highs) / 2, halves, clip)

    def integers(self, X: Floats) -> NDArray[np.int64]:  # noqa: N803
        """One row a feature, rounded to the nearest step, which makes no row longer than it may be."""
        unit = _unit(X, self.middles, self.halves)
        if self.norm is None or self.norm**2 >= unit.shape[1] * ONE**2:
            return np.ascontiguousarray(np.rint(unit.T * ONE).astype(np.int64))
        lengths = np.sqrt(np.einsum("ij,ij->i", unit, unit))
        longest = max(0.0, self.norm - math.sqrt(unit.shape[1]) / 2)
        scale = np.minimum(ONE, longest / np.maximum(lengths, 1e-300))
        return _within(np.ascontiguousarray(np.rint(unit.T * scale).astype(np.int64)), self.norm)

    @property
    def norm(self) -> int | None:
        return None if self.clip is None else math.floor(self.clip * ONE)


def _unit(X: Floats, middles: Floats, halves: Floats) -> Floats:  # noqa: N803
    """Missing counts as the middle, and what is outside as the nearer bound."""
    unit = (np.nan_to_num(X, nan=math.inf, posinf=1e308, neginf=-1e308) - middles) / halves
    unit = np.where(np.isnan(X), 0.0, unit)
    return np.clip(unit, -1.0, 1.0)


def _within(found: NDArray[np.int64], norm: int) -> NDArray[np.int64]:
    """No row longer than the norm in exact integers, whatever the doubles before it did."""
    found[:, np.einsum("ij,ij->j", found, found) > norm * norm] = 0
    return found


def codes(y: Any, classes: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each label among the declared classes, and −1 where it is none of them."""
    given, listed = np.asarray(y), np.asarray(classes)
    if (given.dtype.kind in "OUS") != (listed.dtype.kind in "OUS"):
        given, listed = given.astype(str), listed.astype(str)
    order = np.argsort(listed, kind="stable")
    at = np.clip(np.searchsorted(listed[order], given), 0, len(listed) - 1)
    places = order[at]
    return np.where(listed[places] == given, places, -1).astype(np.int64)


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
    side = Column(1, "y")
    if labels is not None:
        columns[side] = codes(*labels)
        spans[side] = (-1, len(labels[1]) - 1)
        target = Labels(side, tuple(labels[1]))
    elif numbers is not None:
        goal = Frame.of(1, numbers[1], None, None)
        columns[side] = goal.integers(np.asarray(numbers[0], dtype=np.float64).reshape(-1, 1))[0]
        spans[side] = (-ONE, ONE)
        target = Feature("y", side, ONE, float(goal.middles[0]), float(goal.halves[0]))
    features = tuple(
        Feature(name.name, name, ONE, float(middle), float(half))
        for name, middle, half in zip(names, frame.middles, frame.halves, strict=True)
    )
    return Given(Declared(features, target, spans, frame.norm), Arrays(columns, spans))
