"""Linear classifiers: logistic regression, support vectors with a rounded hinge, and any convex loss of margins.

Because : docs/proofs/convex.md
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.descent import Descent
from sfumato.learn.losses import LOGISTIC, huber, named
from sfumato.learn.residuals import Grid, Margins, Softmax
from sfumato.learn.supervised import PrivateClassifier
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.declared import Declared
    from sfumato.learn.descent import Found
    from sfumato.learn.losses import Loss
    from sfumato.learn.oracle import Oracle
    from sfumato.learn.residuals import Residual

    Floats = NDArray[np.float64]

_LENGTH = 0.25
"""Rows are cut to so much of the diagonal, and to 1 at least: where features spread, most of them are longer."""
_PULL = 0.32
"""A row pulls at most so much where there are two classes; √2 times as much in all where there are more."""


class LinearClassifier(PrivateClassifier):
    """Scores that are linear in features, and the class with the highest."""

    coef_: Floats
    intercept_: Floats
    penalty: Any
    rows: Any
    steps: Any

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _residual(self, one: int) -> Residual:
        classes = len(self.classes_)
        clip = _PULL if classes == 2 else _PULL * math.sqrt(2)
        return Margins(self._loss(), Grid(one), clip, classes)

    def _learn(self, oracle: Oracle) -> None:
        declared = oracle.declared
        given = None if self.rows is None else float(positive(self.rows, "rows"))
        steps = None if self.steps is None else whole(self.steps, "steps")
        length = 1.0 if declared.norm is not None else max(1.0, _LENGTH * math.sqrt(len(declared.features)))
        short = oracle.short(length)
        found = Descent(self._residual, float(self.penalty or 0), given, steps).run(short)
        self._keep(found, declared, short.declared)

    def _keep(self, found: Found, declared: Declared, short: Declared) -> None:
        """In the features' own measure; how rows are cut and shortened is kept beside."""
        units = short.halves / short.bounds * found.norm
        self.coef_ = found.weights[:, :-1] / units
        self.intercept_ = found.weights[:, -1] * found.constant - self.coef_ @ declared.middles
        self.middles_ = declared.middles
        self.halves_ = declared.halves
        self.units_ = units
        self.n_iter_ = found.steps

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        scores = self._scores(self._rows(X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _scores(self, rows: Floats) -> Floats:
        """Of rows as they would have been learnt from: within bounds, and no longer than any of those."""
        centred = np.where(np.isnan(rows), 0.0, np.clip(rows - self.middles_, -self.halves_, self.halves_))
        lengths = np.linalg.norm(centred / self.units_, axis=1, keepdims=True)
        origin = self.intercept_ + self.coef_ @ self.middles_
        found: Floats = centred @ self.coef_.T / np.maximum(lengths, 1.0) + origin
        return found

    def _log_scores(self, rows: Floats) -> Floats:
        scores = self._scores(rows)
        return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


class LogisticRegression(LinearClassifier):
    """Logistic regression of two classes, and of more by their joint chances.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/convex.md
    Assumes  : the bounds and the classes are public, and the number of rows where it is declared.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        classes: Any = None,
        penalty: Any = None,
        rows: Any = None,
        steps: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.classes = classes
        self.penalty = penalty
        self.rows = rows
        self.steps = steps
        self.budget = budget

    def _loss(self) -> Loss:
        return LOGISTIC

    def _residual(self, one: int) -> Residual:
        if len(self.classes_) == 2:
            return super()._residual(one)
        return Softmax(Grid(one), _PULL * math.sqrt(2), len(self.classes_))
