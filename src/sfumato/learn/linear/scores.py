"""Scores that are linear in the features, and the class with the highest: what linear classifiers share.

Because : docs/proofs/convex.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.base.supervised import PrivateClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.descent import LearnedWeights
    from sfumato.oracle.declared import Declared

    Floats = NDArray[np.float64]

_CLIP_SHARE = 0.25
"""Rows are clipped to this share of the diagonal of their bounds, and to no less than half a bound: most rows
are longer where features spread. Chosen with benchmarks/learners.py; privacy holds for any value."""


class LinearClassifier(PrivateClassifier):
    """Clips the rows it predicts for as those that it was learnt from, and scores them by weights.

    `clip_rows(X) @ coef_.T + intercept_` is `decision_function(X)` for all rows. For rows within the bounds
    that are no longer than the norm of the fit it is `X @ coef_.T + intercept_`: clipping leaves those as
    they are.
    """

    coef_: Floats
    intercept_: Floats

    def _keep(
        self, found: LearnedWeights, declared: Declared, clipped: Declared, missing: Floats | None = None
    ) -> None:
        """Store the weights in the features' own units, and beside them how rows are clipped.

        `missing` is what a missing number counts as, where that is not the middle of the bounds.
        """
        if missing is not None:
            self.missing_at_ = missing
        units = clipped.halves / clipped.bounds * found.norm
        self.coef_ = found.weights[:, :-1] / units
        self.intercept_ = found.weights[:, -1] * found.constant - self.coef_ @ declared.middles
        self.middles_ = declared.middles
        self.halves_ = declared.halves
        self.units_ = units
        self.n_iter_ = found.steps

    # ---- what was learnt ----

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return the score of each row, or of each row and class where there are more than two.

        Rows are clipped first, as those were that the model was learnt from: see `clip_rows`.
        """
        scores = self._scores(self._rows(X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def clip_rows(self, X: Any) -> Floats:  # noqa: N803
        """Return rows as the model sees them, in the units of the features: clipped to bounds and norm.

        `clip_rows(X) @ coef_.T + intercept_` is what `decision_function` returns.
        """
        found: Floats = self.middles_ + self._clip(self._rows(X))
        return found

    def _scores(self, rows: Floats) -> Floats:
        """Return scores of rows clipped to the bounds and to the norm that rows were learnt with."""
        origin = self.intercept_ + self.coef_ @ self.middles_
        found: Floats = self._clip(rows) @ self.coef_.T + origin
        return found

    def _clip(self, rows: Floats) -> Floats:
        """Return how far rows lie from the middles, clipped to bounds and norm."""
        # A missing number counts as the middle of its bounds, in predictions as in fits.
        known = np.where(np.isnan(rows), getattr(self, "missing_at_", self.middles_), rows)
        centred = np.clip(known - self.middles_, -self.halves_, self.halves_)
        norms = np.linalg.norm(centred / self.units_, axis=1, keepdims=True)
        found: Floats = centred / np.maximum(norms, 1.0)
        return found

    def _log_scores(self, rows: Floats) -> Floats:
        scores = self._scores(rows)
        return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


def choose_row_norm(declared: Declared) -> float:
    """Return the norm that rows are clipped to, in halves of their bounds; public."""
    return 1.0 if declared.norm is not None else max(1.0, _CLIP_SHARE * declared.diagonal)
