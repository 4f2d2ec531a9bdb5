"""Naive Bayes from noisy counts, or sums and sums of squares, of each class; one scan.

Because : docs/proofs/learners.md
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.learn.base.supervised import PrivateClassifier
from sfumato.oracle.arrays.coded_rows import EncodedRows
from sfumato.oracle.arrays.features import check_categories, encode_labels, read_listed_arrays
from sfumato.oracle.blocks import COUNT, Add, CellKey, Constant, Multiply, SumBlock
from sfumato.oracle.declared import require_labels
from sfumato.oracle.moments import build_sum_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.arrays.features import ArrayInput
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_COUNTS, _SUMS, _SQUARES = Fraction(1, 10), Fraction(6, 10), Fraction(3, 10)
"""Shares of the spend. Chosen with benchmarks/learners.py; privacy needs them to add up to at most 1."""


class GaussianNB(PrivateClassifier):
    """Naive Bayes with normal features: a mean and a variance for each class and feature.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#naive-bayes
    Assumes  : the bounds and the classes are public.
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
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.classes = classes
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        declared = oracle.declared
        counts, sums, squares = oracle.sums(_blocks(declared), [_by_class(declared)])
        rows = np.maximum(counts.values[0], 1.0)
        unit = declared.bounds[:, None]
        means = np.clip(sums.values / unit / rows, -1.0, 1.0)
        # Half the largest square was taken off every row; in bounds that is 0.5.
        second = squares.values / unit**2 / rows + 0.5
        variances = _shrink_variances(second - means**2, rows, squares.deviation / unit[:, 0] ** 2)
        halves = declared.halves
        self.theta_ = means.T * halves + declared.middles
        self.var_ = variances.T * halves**2
        self.class_count_ = rows
        self.class_prior_ = rows / rows.sum()

    def _log_scores(self, rows: Floats) -> Floats:
        rows = np.where(np.isnan(rows), self.theta_.mean(axis=0), rows)
        prior = np.log(self.class_prior_) - np.log(2 * math.pi * self.var_).sum(axis=1) / 2
        inverse = 1 / self.var_
        squares = rows**2 @ inverse.T - 2 * rows @ (self.theta_ * inverse).T
        found: Floats = prior - (squares + (self.theta_**2 * inverse).sum(axis=1)) / 2
        return found


def _by_class(declared: Declared) -> CellKey:
    target = require_labels(declared)
    return CellKey(target.value, len(target.classes))


def _blocks(declared: Declared) -> list[SumBlock]:
    """Return counts, sums, and squares less half their largest value, which halves what a row adds."""
    centred = [
        Add(Multiply(feature.value, feature.value), Constant(-(feature.bound**2 // 2)))
        for feature in declared.features
    ]
    return [
        SumBlock((COUNT,), 1, 1, _COUNTS),
        build_sum_block(declared.features, declared.norm, _SUMS),
        SumBlock.within(centred, declared.ranges, _SQUARES),
    ]


def _shrink_variances(variances: Floats, rows: Floats, noise: Floats) -> Floats:
    """Shrink each class's variance towards that of all classes together, as far as noise reaches.

    They are clipped to between what noise alone could have made and the largest that bounds allow.
    """
    error = (noise[:, None] / rows) ** 2
    pooled = (variances * rows).sum(axis=1, keepdims=True) / rows.sum()
    between = np.maximum(
        ((variances - pooled) ** 2).mean(axis=1, keepdims=True) - error.mean(axis=1, keepdims=True), 0
    )
    own = between / (between + error + 1e-12)
    # A variance below its own noise would make a class far too sure of itself.
    floor = np.maximum(1e-4, np.sqrt(error))
    found: Floats = np.clip(own * variances + (1 - own) * pooled, floor, 1.0)
    return found


# ---- listed features ---------------------------------------------------------------------------------------


class CategoricalNB(PrivateClassifier):
    """Naive Bayes with listed features: a probability of each value for each class.

    On own arrays `categories` lists the values of each feature, or says how many there are, from 0 on; one
    number is for every feature.
    Behind the curator they are those that the steward listed. What is not listed counts nowhere.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#naive-bayes
    Assumes  : the categories and the classes are public.
    """

    listed = True

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        categories: Any = None,
        classes: Any = None,
        alpha: Any = 1.0,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.categories = categories
        self.classes = classes
        self.alpha = alpha
        self.verbose = verbose
        self.budget = budget

    def _given(self, rows: Any, target: Any) -> ArrayInput:
        self.categories_ = check_categories(self.categories, self._names(rows.shape[1]))
        return read_listed_arrays(rows, self.categories_, labels=(target, self.classes_.tolist()))

    def begin_fit(self, features: Sequence[str], declared: Declared) -> None:
        super().begin_fit(features, declared)
        self.categories_ = [list(each.categories) for each in declared.features]

    def _learn(self, oracle: Oracle) -> None:
        declared = oracle.declared
        groupings = [[CellKey(each.value, len(each.categories))] for each in declared.features]
        found = [each[0].values for each in oracle.histograms(groupings, [COUNT], [_by_class(declared)])]
        # Every histogram counts the same rows by class, so their mean has the least noise.
        rows = np.maximum(np.mean([each.sum(axis=0) for each in found], axis=0), 1.0)
        smooth = float(self.alpha)
        self.class_count_ = rows
        self.class_prior_ = rows / rows.sum()
        self.feature_prob_ = []
        for each in found:
            smoothed = np.maximum(each, 0.0) + smooth
            self.feature_prob_.append(smoothed / smoothed.sum(axis=0))

    def _log_scores(self, rows: Any) -> Floats:
        scores = np.tile(np.log(self.class_prior_), (len(rows), 1))
        for place, (values, shares) in enumerate(zip(self.categories_, self.feature_prob_, strict=True)):
            at = encode_labels(rows[:, place], values)
            # A value that is not listed says nothing of the class.
            scores += np.where(at[:, None] >= 0, np.log(shares)[np.maximum(at, 0)], 0.0)
        return scores

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
        return self._check_labels(self._check_rows(X, dtype=None), y)

    def _rows(self, X: Any) -> Any:  # noqa: N803
        check_is_fitted(self)
        if isinstance(X, EncodedRows):
            return np.asarray(X)
        return validate_data(self, X, dtype=None, ensure_all_finite=False, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags
