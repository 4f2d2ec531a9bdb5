"""Estimators with a target: classes that are declared, or a number within declared bounds."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d

from sfumato.errors import UsageError
from sfumato.learn.base.estimator import PrivateEstimator, require_labels_of
from sfumato.oracle.arrays.features import check_classes, read_arrays, to_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.arrays.features import ArrayInput


def check_target(rows: Any, y: Any) -> NDArray[Any]:
    """Return a target for each row. Its values are not checked: an error that one row decides reveals it."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    found: NDArray[Any] = column_or_1d(y, warn=True)
    check_consistent_length(rows, found)
    return found


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Base class of classifiers. Rows whose label is not declared, or is missing, count nowhere."""

    classes: Any
    classes_: NDArray[Any]

    def _checked(self, X: Any, y: Any) -> tuple[NDArray[np.float64], Any]:  # noqa: N803
        return self._check_labels(self._check_rows(X), y)

    def _check_labels(self, rows: NDArray[Any], y: Any) -> tuple[NDArray[Any], Any]:
        """Return rows and their labels, of which one at least is a declared class if there are any."""
        self.classes_ = np.array(check_classes(self.classes))
        labels = check_target(rows, y)
        require_labels_of(labels, self.classes_.tolist())
        return rows, labels

    def _given(self, rows: NDArray[np.float64], target: Any) -> ArrayInput:
        return read_arrays(rows, self._frame(rows.shape[1]), labels=(target, self.classes_.tolist()))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class for each row."""
        scores = self._log_scores(self._rows(X))
        # Subtracting the highest score keeps the exponential in range.
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
        return found

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row."""
        best = self._log_scores(self._rows(X)).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    @abstractmethod
    def _log_scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of each class's probability, up to a constant for each row."""


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Base class of regressors. Targets are clipped to their bounds; a missing one counts as the middle."""

    target_bounds: Any

    def _checked(self, X: Any, y: Any) -> tuple[NDArray[np.float64], Any]:  # noqa: N803
        rows = self._check_rows(X)
        return rows, to_numbers(check_target(rows, y))

    def _given(self, rows: NDArray[np.float64], target: Any) -> ArrayInput:
        if self.target_bounds is None:
            raise UsageError(
                "SF-E101",
                "Declare the bounds of the target.",
                why="bounds measured on the data would reveal some of it",
                try_="target_bounds=(0, 100)",
            )
        return read_arrays(rows, self._frame(rows.shape[1]), numbers=(target, self.target_bounds))
