"""Labelled rows of one's own as they are declared: their shape, bounds and classes, checked before a charge.

These errors are told to whoever holds the rows, before anything is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.arrays.features import check_classes, encode_labels
from sfumato.oracle.arrays.integer_rows import ArrayBounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.catalog.domains import Numbers

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Rows with the place of each label among the classes."""

    rows: NDArray[Any]
    """One row each, flat."""
    labels: Ints
    shape: tuple[int, ...]
    bounds: ArrayBounds
    classes: tuple[Any, ...]
    dtype: np.dtype[Any]
    """The type of the numbers, which samples have too."""

    @classmethod
    def of(cls, X: Any, y: Any, bounds: Any, classes: Any) -> LabelledRows:  # noqa: N803
        """Read rows and labels as they were declared, or refuse what cannot be learnt from."""
        listed = check_classes(classes)
        rows = _read_numbers(X)
        declared = ArrayBounds.of(math.prod(rows.shape[1:]), bounds)
        found = read_classes(y, len(rows), listed)
        return cls(rows.reshape(len(rows), -1), found, rows.shape[1:], declared, listed, rows.dtype)

    @property
    def numbers(self) -> int:
        """The numbers of a row."""
        return int(self.rows.shape[1])

    def sample_form(self) -> SampleForm:
        """Return how samples look."""
        bounds = self.bounds
        return SampleForm(self.shape, bounds.middles, bounds.halves, np.array(self.classes), self.dtype)

    def read_integers(self, at: slice) -> Floats:
        """Return some rows as whole numbers within ±ONE."""
        return self.bounds.to_integers(self.rows[at].astype(np.float64, copy=False))


@dataclass(frozen=True, slots=True)
class SampleForm:
    """How samples look: their shape, their numbers within the bounds, and their labels."""

    shape: tuple[int, ...]
    middles: Floats
    halves: Floats
    classes: NDArray[Any]
    dtype: np.dtype[Any]
    grids: tuple[Numbers, ...] = ()
    """The bounds and the grid of each number in the catalog, where there is one: samples lie on it."""

    def find_label(self, label: Any, rows: int) -> Ints:
        """Return the place of one class, so many times."""
        return np.full(rows, find_class(label, self.classes))

    def write_drawn(
        self, rows: Floats, places: Sequence[Ints], labels: Ints
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return rows from −1 to 1 as numbers within the bounds, and the classes of labels."""
        found = rows * self.halves + self.middles
        if self.grids:
            low, high, step = np.array([(each.low, each.high, each.step) for each in self.grids], float).T
            found = np.clip(np.rint(found / step), low, high) * step
        else:
            found = np.clip(found, self.middles - self.halves, self.middles + self.halves)
        if self.dtype.kind in "iu":
            found = np.rint(found)
        return found.astype(self.dtype).reshape(len(rows), *self.shape), self.classes[labels]


def find_class(label: Any, classes: NDArray[Any]) -> int:
    """Return the place of a label among the classes, or refuse one that has none."""
    (found,) = encode_labels([label], classes.tolist())
    if found < 0:
        raise UsageError("SF-E213", "This label is none of the declared classes.", got=str(label))
    return int(found)


def _read_numbers(X: Any) -> NDArray[Any]:  # noqa: N803
    try:
        rows = np.asarray(X)
        rows = rows if rows.dtype.kind in "iuf" else rows.astype(np.float64)
    except (TypeError, ValueError):
        rows = np.zeros(0)
    if rows.ndim < 2 or not math.prod(rows.shape[1:]):
        raise UsageError(
            "SF-E176",
            "Rows must be an array of numbers: (rows, numbers), or images as (rows, height, width).",
            try_="X of shape (60000, 28, 28)",
        )
    check_numbers(rows, len(rows))
    return rows


def check_numbers(values: NDArray[Any], rows: int) -> None:
    """Refuse to learn from no rows, and from numbers that are missing or infinite."""
    if not rows:
        raise UsageError("SF-E176", "There are no rows to learn from.", try_="an array with rows")
    if values.dtype.kind == "f" and not bool(np.isfinite(values).all()):
        raise UsageError(
            "SF-N105",
            "Some rows hold numbers that are missing or infinite.",
            try_="np.nan_to_num(X), or only the rows that are complete",
        )


def read_classes(y: Any, rows: int, classes: tuple[Any, ...]) -> Ints:
    """Return the place of each label among the classes, or refuse labels that have none."""
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise UsageError(
            "SF-E176", "There must be one label for each row.", got=f"labels of shape {labels.shape}"
        )
    found = encode_labels(labels, classes)
    if (found < 0).any():
        raise UsageError(
            "SF-E213",
            "Some labels are none of the declared classes.",
            try_="classes that list every label, or the rows of those that are listed",
        )
    return found
