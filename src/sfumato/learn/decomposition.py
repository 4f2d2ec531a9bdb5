"""Principal components from one noisy matrix of products (Analyze Gauss), of rows of bounded length.

Because : docs/proofs/learners.md#principal-components
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import TransformerMixin

from sfumato.curator.statistics import COUNT, Block
from sfumato.errors import UsageError
from sfumato.learn.declared import View
from sfumato.learn.estimator import Private
from sfumato.learn.moments import gram, matrix, plain
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.oracle import Oracle

    Floats = NDArray[np.float64]

_MEAN, _PRODUCTS = Fraction(1, 5), Fraction(4, 5)
_ROWS = Fraction(1, 10)
"""Of the mean's share, for the number of rows."""
_LENGTH = 0.3
"""Of √d: how long rows may be, from the mean. A public choice: longer rows keep their direction."""


class PCA(TransformerMixin, Private):
    """The directions in which rows vary most.

    Rows that lie far from the mean count with their direction and a bounded length, so directions are those
    of the bulk; `explained_variance_` is that of the shortened rows, from below.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#principal-components
    Assumes  : the bounds are public.
    """

    def __init__(
        self,
        n_components: Any = None,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        budget: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        features = len(oracle.declared.features)
        wanted = features if self.n_components is None else whole(self.n_components, "n_components")
        if wanted > features:
            raise UsageError("SF-E113", "There are fewer features than components.", features=str(features))
        centre, rows = _centre(oracle)
        view = oracle.around(View(_LENGTH * math.sqrt(features), centre=tuple(centre.tolist())))
        declared = view.declared
        (products,) = view.sums([gram(declared.features, declared.norm, Fraction(1))], share=_PRODUCTS)
        squares, _ = matrix(products, declared.features)
        halves = declared.halves
        covariance = squares * np.outer(halves, halves) / rows
        values, vectors = np.linalg.eigh(covariance)
        order = np.argsort(values)[::-1][:wanted]
        total = float(np.maximum(values, 0).sum()) or 1.0
        self.n_components_ = wanted
        self.mean_ = declared.middles
        self.components_ = _signed(vectors[:, order].T)
        self.explained_variance_ = np.maximum(values[order], 0.0)
        self.explained_variance_ratio_ = self.explained_variance_ / total

    def transform(self, X: Any) -> Floats:  # noqa: N803
        found: Floats = (self._rows(X) - self.mean_) @ self.components_.T
        return found

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        found: Floats = np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_
        return found

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)


def _centre(oracle: Oracle) -> tuple[Floats, float]:
    """The mean, in bounds, drawn to the middle as far as noise reaches; and how many."""
    declared = oracle.declared
    features = declared.features
    counted = Block((COUNT,), 1, 1, _ROWS)
    counts, sums = oracle.sums([counted, plain(features, declared.norm, 1 - _ROWS)], share=_MEAN)
    rows = max(1.0, float(counts.values[0, 0]))
    mean = sums.values[:, 0] / declared.bounds / rows
    noise = sums.deviation / float(declared.bounds.min()) / rows
    kept = max(0.0, 1 - len(features) * noise**2 / max(float(mean @ mean), 1e-300))
    return np.clip(mean * kept, -1.0, 1.0), rows


def _signed(components: Floats) -> Floats:
    """The largest entry of each is positive, so that a sign says nothing."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    found: Floats = components * np.where(signs == 0, 1.0, signs)[:, None]
    return found
