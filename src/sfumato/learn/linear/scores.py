"""Scores that are linear in features, and the class with the highest: what linear classifiers share.

Because : docs/proofs/convex.md
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.base.supervised import PrivateClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.descent import Found
    from sfumato.oracle.declared import Declared

    Floats = NDArray[np.float64]

_LENGTH = 0.25
"""Rows are cut to so much of the diagonal, and to 1 at least: where features spread, most are longer."""


class LinearClassifier(PrivateClassifier):
    """Rows are cut and shortened as those that it was learnt from; then weights say the rest."""

    coef_: Floats
    intercept_: Floats

    def _keep(self, found: Found, declared: Declared, short: Declared) -> None:
        """In the features' own measure; how rows are cut and shortened is kept beside."""
        units = short.halves / short.bounds * found.norm
        self.coef_ = found.weights[:, :-1] / units
        self.intercept_ = found.weights[:, -1] * found.constant - self.coef_ @ declared.middles
        self.middles_ = declared.middles
        self.halves_ = declared.halves
        self.units_ = units
        self.n_iter_ = found.steps

    # ---- what was learnt ----

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

    def whole_weights(self, short: Declared, one: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Weights of shortened whole features, and what is added, where `one` stands for a score of 1."""
        steps = short.halves / short.bounds
        origin = self.intercept_ + self.coef_ @ self.middles_
        return np.rint(self.coef_ * steps * one).astype(np.int64), np.rint(origin * one).astype(np.int64)

    def suits(self, short: Declared) -> bool:
        """Whether these rows are cut and shortened as those that it was learnt from."""
        norm = float(short.norm or 0)
        return self.units_.shape == short.halves.shape and np.allclose(
            self.units_, short.halves / short.bounds * norm
        )

    def _log_scores(self, rows: Floats) -> Floats:
        scores = self._scores(rows)
        return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


def length_of(declared: Declared) -> float:
    """How long rows may be, in halves of their bounds; public."""
    return 1.0 if declared.norm is not None else max(1.0, _LENGTH * math.sqrt(len(declared.features)))
