"""Naive Bayes from noisy counts, or sums and sums of squares, of each class; one scan.

Because : docs/proofs/learners.md
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.curator.lower.computed import sum_values
from sfumato.learn.base.supervised import PrivateClassifier
from sfumato.learn.first_look import look_first, measure_score_lead, wants_look
from sfumato.oracle.arrays.coded_rows import EncodedRows
from sfumato.oracle.arrays.features import check_categories, encode_labels, read_listed_arrays
from sfumato.oracle.blocks import COUNT, Add, CellKey, Constant, Divide, Multiply, SumBlock
from sfumato.oracle.declared import require_labels
from sfumato.oracle.moments import build_sum_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.learn.first_look import FirstLook
    from sfumato.oracle.arrays.features import ArrayInput
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_COUNTS, _SUMS, _SQUARES = Fraction(1, 10), Fraction(6, 10), Fraction(3, 10)
"""Shares of the spend. Chosen with benchmarks/learners.py; privacy needs them to add up to at most 1."""
_LEAST_SPREAD = 0.1
"""A class spreads at least this much of what all classes do together, in variances: one that never has a
value would otherwise be ruled out by a single row that has it."""
_ONE_NAT, _FINE = 2**8, 2**20
"""The whole numbers that stand for a nat, and for one of its parts."""


class GaussianNB(PrivateClassifier):
    """Naive Bayes with normal features: a mean and a variance for each class and feature.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#naive-bayes
    Assumes  : the bounds and the classes are public.
    """

    class_prior_: Floats

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        classes: Any = None,
        scaling: Any = "auto",
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
        self.scaling = scaling
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        if wants_look(oracle, self.scaling):
            self.learn_after(oracle, look_first(oracle))
        else:
            self._learn_moments(oracle, Fraction(1))

    def learn_after(self, oracle: Oracle, look: FirstLook) -> float:
        """Learn with what a first look left; return, with noise, how many rows it leads by."""
        self._learn_moments(look.oracle, look.for_fit)
        lead = measure_score_lead(look.oracle, self._integer_scores(look.oracle.declared), look)
        if lead <= 0:
            # All classes get the same features, so that the prior decides.
            self.theta_[:], self.var_[:] = self.class_prior_ @ self.theta_, self.class_prior_ @ self.var_
            self.class_prior_ = look.counts / look.counts.sum()
        return lead

    def _learn_moments(self, oracle: Oracle, share: Fraction) -> None:
        """Ask for counts, sums and squares by class, for this share, and keep means and variances."""
        declared = oracle.declared
        counts, sums, squares = oracle.sums(_blocks(declared), [_by_class(declared)], share=share)
        # As many rows as noise may have made are added, so that no class is nearly empty by chance.
        rows = np.maximum(counts.values[0], max(1.0, counts.deviation))
        unit = declared.bounds[:, None]
        means = np.clip(sums.values / unit / rows, -1.0, 1.0)
        # Half the largest square was taken off every row; in bounds that is 0.5.
        second = squares.values / unit**2 / rows + 0.5
        variances = _shrink_variances(second - means**2, rows, squares.deviation / unit[:, 0] ** 2)
        means, unsure = _shrink_means(means, rows, sums.deviation / unit[:, 0])
        halves = declared.halves
        self.theta_ = means.T * halves + declared.middles
        # That a mean is not known exactly widens what its class is thought to be.
        self.var_ = (
            np.maximum(
                variances + unsure, _LEAST_SPREAD * (variances * rows).sum(axis=1, keepdims=True) / rows.sum()
            ).T
            * halves**2
        )
        self.class_count_ = rows
        self.class_prior_ = rows / rows.sum()
        self.low_, self.high_ = declared.middles - halves, declared.middles + halves

    def _integer_scores(self, declared: Declared) -> list[Value]:
        """Return about the same scores in whole numbers, for rows of integers."""
        steps, inverse = declared.halves / declared.bounds, 1 / self.var_
        away = (declared.middles - self.theta_) * steps * inverse
        second, first = -(steps**2) * inverse / 2, -away
        origin = ((declared.middles - self.theta_) ** 2 * inverse).sum(axis=1) / 2
        constant = np.log(self.class_prior_) - np.log(self.var_).sum(axis=1) / 2 - origin
        # A step of a square is worth more than a step of a feature, so all are put on one scale.
        return [
            sum_values(
                [
                    Constant(round(start * _ONE_NAT)),
                    *(
                        Divide(
                            Multiply(
                                each.value,
                                Add(Multiply(each.value, Constant(round(square))), Constant(round(line))),
                            ),
                            Constant(_FINE),
                        )
                        for each, square, line in zip(declared.features, squares, lines, strict=True)
                    ),
                ]
            )
            for start, squares, lines in zip(
                constant.tolist(),
                (second * _ONE_NAT * _FINE).tolist(),
                (first * _ONE_NAT * _FINE).tolist(),
                strict=True,
            )
        ]

    def _log_scores(self, rows: Floats) -> Floats:
        rows = np.where(np.isnan(rows), self.theta_.mean(axis=0), rows)
        if hasattr(self, "low_"):
            # What lies outside of the bounds that were learnt within was clipped there, too.
            rows = np.clip(rows, self.low_, self.high_)
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


def _shrink_means(means: Floats, rows: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Shrink each class's mean towards that of all classes, as far as noise reaches.

    Also return how unsure the means still are, as a variance.
    """
    error = (noise[:, None] / rows) ** 2
    pooled = (means * rows).sum(axis=1, keepdims=True) / rows.sum()
    # Small classes have means of mostly noise, so classes count by how sure they are. Two classes alone
    # hardly tell signal from noise, so a feature counts for at least what all features show together.
    weights = 1 / (error + 1e-12)
    excess = weights * ((means - pooled) ** 2 - error)
    single = excess.sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    between = np.maximum(np.maximum(single, excess.sum() / weights.sum()), 0.0)
    own = between / (between + error + 1e-12)
    return own * means + (1 - own) * pooled, own * error


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
