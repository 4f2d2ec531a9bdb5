"""Principal components from noisy products (Analyze Gauss): of all rows at once where there are many, else of
rows clipped to a norm around a private mean.

Because : docs/proofs/learners.md#principal-components
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from sfumato.errors import UsageError
from sfumato.learn.base.estimator import PrivateEstimator
from sfumato.oracle.arrays.integer_rows import RowTransform
from sfumato.oracle.blocks import COUNT, SumBlock, share_of
from sfumato.oracle.moments import build_gram_block, build_sum_block, read_gram_matrix
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle, SumAnswer

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners.py. Privacy needs the three shares of the first scan to add up to at most 1,
# and nothing else of the numbers here.
_FIRST = Fraction(1, 4)
"""Share of the spend for the first scan."""
_ROWS, _SUMS, _PRODUCTS = Fraction(1, 12), Fraction(8, 12), Fraction(3, 12)
"""Shares of the first scan."""
_CLEAR = 0.02
"""Where noise is so small a share of the variance of a feature, one scan is enough."""
_CLIP_NORM = 0.3
"""Norm that rows are clipped to around the mean, in √d. Longer rows keep their direction."""


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Principal components: the directions in which rows vary most.

    Behind the curator one scan is enough where rows are many. Else products are taken around the private
    mean: rows that lie far from it are clipped to a norm, so directions are those of the bulk, and
    `explained_variance_` is that of the clipped rows, a lower bound.

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
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        features = len(oracle.declared.features)
        wanted = features if self.n_components is None else parse_whole(self.n_components, "n_components")
        if wanted > features:
            raise UsageError("SF-N101", "There are fewer features than components.", features=str(features))
        found = _ask_moments(oracle)
        values, vectors = np.linalg.eigh(found.covariance)
        order = np.argsort(values)[::-1][:wanted]
        total = float(np.maximum(values, 0).sum()) or 1.0
        self.n_components_ = wanted
        self.mean_ = found.mean
        self.components_ = _fix_signs(vectors[:, order].T)
        self.explained_variance_ = np.maximum(values[order], 0.0)
        self.explained_variance_ratio_ = self.explained_variance_ / total

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the coordinates of each row along the components."""
        found: Floats = (self._rows(X) - self.mean_) @ self.components_.T
        return found

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Return rows in the features' own units from coordinates along the components."""
        found: Floats = np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_
        return found

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Estimated mean and covariance, in the features' own units."""

    mean: Floats
    covariance: Floats


def _ask_moments(oracle: Oracle) -> _Moments:
    """Ask for the number of rows and their mean, and then for products around it.

    Where that takes a scan of its own, plain products are asked for in the first scan too, which is enough
    where rows are many.
    """
    declared = oracle.declared
    known = [SumBlock((COUNT,), 1, 1, _ROWS), build_sum_block(declared.features, declared.norm, _SUMS)]
    asked = _plain_products(oracle) if oracle.scans else []
    # What the products would have cost is left where they were not asked for.
    left = 1 - _FIRST * (_ROWS + _SUMS + _PRODUCTS * len(asked))
    # Noise that is too wide to be drawn is refused before anything is asked; how wide it is, is public.
    around = _centre(oracle, np.zeros(len(declared.features)))
    around.noise([_products(around.declared)], share_of(oracle.budget.main, left))
    counts, sums, *answers = oracle.sums([*known, *asked], share=_FIRST)
    rows = max(1.0, float(counts.values[0, 0]))
    mean = _estimate_mean(sums, rows, declared.bounds)
    found = _moments_at_once(declared, answers[0], mean, rows) if answers else None
    return found or _ask_around_mean(oracle, mean, rows, left)


def _moments_at_once(declared: Declared, products: SumAnswer, mean: Floats, rows: float) -> _Moments | None:
    """Return moments from plain products; None where noise is large beside the variance of a feature."""
    second, noise = read_gram_matrix(products, declared.features)
    covariance = second / rows - np.outer(mean, mean)
    size = len(mean)
    if 2 * noise * math.sqrt(size) / rows >= _CLEAR * float(np.trace(covariance)) / size:
        return None
    halves = declared.halves
    return _Moments(declared.middles + halves * mean, covariance * np.outer(halves, halves))


def _plain_products(oracle: Oracle) -> list[SumBlock]:
    """Return all products as they are; none where their noise is too wide to be drawn, which is public."""
    found = build_gram_block(oracle.declared.features, oracle.declared.norm, _PRODUCTS)
    return [found] if oracle.can_draw([found], share_of(oracle.budget.main, _FIRST)) else []


def _estimate_mean(sums: SumAnswer, rows: float, bounds: Floats) -> Floats:
    """Return the mean, in bounds, shrunk towards the middle as far as noise reaches (James and Stein)."""
    mean = sums.values[:, 0] / bounds / rows
    noise = sums.deviation / float(bounds.min()) / rows
    kept = max(0.0, 1 - len(mean) * noise**2 / max(float(mean @ mean), 1e-300))
    return np.clip(mean * kept, -1.0, 1.0)


def _ask_around_mean(oracle: Oracle, mean: Floats, rows: float, share: Fraction) -> _Moments:
    """Ask for products of rows that are clipped to a norm around the mean."""
    view = _centre(oracle, mean)
    declared = view.declared
    (products,) = view.sums([_products(declared)], share=share)
    second, _ = read_gram_matrix(products, declared.features)
    return _Moments(declared.middles, second * np.outer(declared.halves, declared.halves) / rows)


def _centre(oracle: Oracle, mean: Floats) -> Oracle:
    """Return the rows around a mean, clipped to a norm."""
    return oracle.transform_rows(RowTransform(_CLIP_NORM * math.sqrt(len(mean)), centre=tuple(mean.tolist())))


def _products(declared: Declared) -> SumBlock:
    return build_gram_block(declared.features, declared.norm, Fraction(1))


def _fix_signs(components: Floats) -> Floats:
    """Return the components with their largest entries positive, so that a sign says nothing."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    found: Floats = components * np.where(signs == 0, 1.0, signs)[:, None]
    return found
