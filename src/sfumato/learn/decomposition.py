"""Principal components from noisy products (Analyze Gauss): of all rows at once where there are many, else of
rows of bounded length around a private mean.

Because : docs/proofs/learners.md#principal-components
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import TransformerMixin

from sfumato.errors import UsageError
from sfumato.learn.base.estimator import PrivateEstimator
from sfumato.oracle.blocks import COUNT, SumBlock, share_of
from sfumato.oracle.integer_rows import RowTransform
from sfumato.oracle.moments import build_gram_block, build_sum_block, read_gram_matrix
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle, SumAnswer

    Floats = NDArray[np.float64]

_FIRST = Fraction(1, 4)
_ROWS, _SUMS, _PRODUCTS = Fraction(1, 12), Fraction(8, 12), Fraction(3, 12)
"""Of the first scan's share."""
_CLEAR = 0.02
"""Where noise is so small a share of the variance of a feature, one scan is enough."""
_LENGTH = 0.3
"""Of √d: how long rows may be, from the mean. A public choice: longer rows keep their direction."""


class PCA(TransformerMixin, PrivateEstimator):
    """The directions in which rows vary most.

    Behind the curator one scan says all where rows are many. Else products are taken around the private mean:
    rows that lie far from it count with their direction and a bounded length, so directions are those of the
    bulk, and `explained_variance_` is that of the shortened rows, from below.

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
        found = _learnt(oracle)
        values, vectors = np.linalg.eigh(found.covariance)
        order = np.argsort(values)[::-1][:wanted]
        total = float(np.maximum(values, 0).sum()) or 1.0
        self.n_components_ = wanted
        self.mean_ = found.mean
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


@dataclass(frozen=True, slots=True)
class _Moments:
    """What is known of the mean and the covariance, in the features' own measure."""

    mean: Floats
    covariance: Floats


def _learnt(oracle: Oracle) -> _Moments:
    """From the number of rows and their mean, and then products around it.

    Where that takes a scan of its own, products are asked for at once too: enough where rows are many. Not
    where their noise would be too wide to be drawn, which is public.
    """
    declared = oracle.declared
    known = [SumBlock((COUNT,), 1, 1, _ROWS), build_sum_block(declared.features, declared.norm, _SUMS)]
    asked = _products(oracle) if oracle.scans else []
    counts, sums, *answers = oracle.sums([*known, *asked], share=_FIRST)
    rows = max(1.0, float(counts.values[0, 0]))
    centre = _centre(sums, rows, declared.bounds)
    found = _at_once(declared, answers[0], centre, rows) if answers else None
    left = 1 - _FIRST * (_ROWS + _SUMS + _PRODUCTS * len(answers))
    return found or _around(oracle, centre, rows, left)


def _at_once(declared: Declared, products: SumAnswer, centre: Floats, rows: float) -> _Moments | None:
    """From products as they are; None where noise is more than little beside the variance of a feature."""
    squares, noise = read_gram_matrix(products, declared.features)
    spread = squares / rows - np.outer(centre, centre)
    size = len(centre)
    if 2 * noise * math.sqrt(size) / rows >= _CLEAR * float(np.trace(spread)) / size:
        return None
    halves = declared.halves
    return _Moments(declared.middles + halves * centre, spread * np.outer(halves, halves))


def _products(oracle: Oracle) -> list[SumBlock]:
    """All products as they are; none where their noise is too wide to be drawn."""
    found = build_gram_block(oracle.declared.features, oracle.declared.norm, _PRODUCTS)
    try:
        oracle.noise([found], share_of(oracle.budget.main, _FIRST))
    except UsageError:
        return []
    return [found]


def _centre(sums: SumAnswer, rows: float, bounds: Floats) -> Floats:
    """The mean, in bounds, drawn to the middle as far as noise reaches."""
    mean = sums.values[:, 0] / bounds / rows
    noise = sums.deviation / float(bounds.min()) / rows
    kept = max(0.0, 1 - len(mean) * noise**2 / max(float(mean @ mean), 1e-300))
    return np.clip(mean * kept, -1.0, 1.0)


def _around(oracle: Oracle, centre: Floats, rows: float, share: Fraction) -> _Moments:
    """Products of rows that are shortened towards the mean."""
    view = oracle.transform_rows(
        RowTransform(_LENGTH * math.sqrt(len(centre)), centre=tuple(centre.tolist()))
    )
    declared = view.declared
    (products,) = view.sums([build_gram_block(declared.features, declared.norm, Fraction(1))], share=share)
    squares, _ = read_gram_matrix(products, declared.features)
    return _Moments(declared.middles, squares * np.outer(declared.halves, declared.halves) / rows)


def _signed(components: Floats) -> Floats:
    """The largest entry of each is positive, so that a sign says nothing."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    found: Floats = components * np.where(signs == 0, 1.0, signs)[:, None]
    return found
