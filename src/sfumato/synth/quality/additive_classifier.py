"""A plain classifier that is trained on synthetic rows alone: ridge regression on what each column shows.

It needs no library, and on tables it is a sum of whole numbers that are looked up by cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_RIDGE = 1e-3
"""Weight of the penalty, as a share of the mean square of a feature. Privacy does not depend on it."""
_ONE_EACH = 64
"""Columns of so many cells have a weight for each; others one for the cell's place and one for its square."""
_AT_ONCE = 2**20
"""Scores that are in memory at once, so that it does not grow with rows times classes."""
_GRID = 2**20
"""Weights on tables are whole numbers of this part of 1."""


@dataclass(frozen=True, slots=True)
class CellClassifier:
    """Predicts the cell of one column by what the cells of the others add to each class."""

    target: int
    weights: tuple[Ints, ...]
    """For each column, what each of its cells adds to each class; nothing for the target's own."""

    def predict(self, rows: Sequence[Ints]) -> Ints:
        """Return the cell of the target that is predicted for each row."""
        found = np.empty(len(rows[0]), dtype=np.int64)
        at_once = max(1, _AT_ONCE // self.weights[0].shape[1])
        for start in range(0, len(found), at_once):
            some = slice(start, start + at_once)
            scores = sum(weights[cells[some]] for weights, cells in zip(self.weights, rows, strict=True))
            found[some] = np.argmax(scores, axis=1)
        return found


@dataclass(frozen=True, slots=True)
class LinearClassifierOfRows:
    """Predicts the class of rows of numbers."""

    weights: Floats

    def predict(self, rows: Floats) -> Ints:
        """Return the place of the class that is predicted for each row; what is no number counts as 0."""
        scores = np.nan_to_num(rows) @ self.weights[:-1] + self.weights[-1]
        found: Ints = np.argmax(scores, axis=1).astype(np.int64)
        return found


def train_on_cells(rows: Sequence[Ints], sizes: Sequence[int], target: int) -> CellClassifier:
    """Return a classifier of one column, trained on rows of cells."""
    tables = [_describe_cells(size) if at != target else np.zeros((size, 0)) for at, size in enumerate(sizes)]
    features = np.concatenate([table[cells] for table, cells in zip(tables, rows, strict=True)], axis=1)
    found = _solve_ridge(features, rows[target], sizes[target])
    ends = np.cumsum([table.shape[1] for table in tables])
    parts = np.split(found[:-1], ends[:-1])
    weights = [
        np.rint(_GRID * (table @ part)).astype(np.int64) for table, part in zip(tables, parts, strict=True)
    ]
    weights[target] = weights[target] + np.rint(_GRID * found[-1]).astype(np.int64)
    return CellClassifier(target, tuple(weights))


def train_on_rows(rows: Floats, labels: Ints, classes: int) -> LinearClassifierOfRows:
    """Return a classifier of rows of numbers."""
    return LinearClassifierOfRows(_solve_ridge(rows, labels, classes))


def _describe_cells(size: int) -> Floats:
    if size <= _ONE_EACH:
        return np.eye(size)
    place = np.linspace(-1, 1, size)
    return np.stack([place, place**2], axis=1)


def _with_constant(rows: Floats) -> Floats:
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)


def _solve_ridge(rows: Floats, labels: Ints, classes: int) -> Floats:
    """Return a column of weights for each class, the last row for what does not depend on the features."""
    features, goals = _with_constant(rows), np.eye(classes)[labels]
    square = features.T @ features
    penalty = _RIDGE * max(float(np.trace(square)) / len(square), 1e-12)
    found = np.linalg.solve(square + penalty * np.eye(len(square)), features.T @ goals)
    return found.astype(np.float64)
