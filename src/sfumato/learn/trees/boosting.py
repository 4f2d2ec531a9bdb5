"""Gradient boosting of classes and of numbers, from noisy sums of gradients and Hessians.

Because : docs/proofs/learners.md#boosting
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.base.supervised import PrivateClassifier, PrivateRegressor
from sfumato.learn.cells import clip_value
from sfumato.learn.convex.losses import sigmoid
from sfumato.learn.first_look import look_first, measure_score_lead
from sfumato.learn.target_range import (
    TargetMean,
    TargetRange,
    build_mean_block,
    locate_target,
    read_mean,
    share_for_mean,
)
from sfumato.learn.trees.boosting_rounds import LIMIT, SPREAD_SHARE, UNIT, Boosting, BoostingStart
from sfumato.oracle.blocks import (
    Add,
    Among,
    Choose,
    Constant,
    Divide,
    Lookup,
    Multiply,
    value_range,
)
from sfumato.oracle.declared import Feature, require_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.learn.first_look import FirstLook
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# All chosen with benchmarks/learners.py; privacy depends on none, as shares are taken off what rounds have.
_FIRST_SHARE = Fraction(2, 100)
"""Share for a first mean and number of rows; where those are too few, the rest is for the mean alone."""
_LOOK_SHARE = Fraction(3, 100)
"""Share for each histogram that finds where numbers lie."""
_COARSE = 16
"""Width of a cell of the sigmoid's table, in whole numbers of a score."""
_CLIP, _CLIP_AT_ZERO = 2, 4
"""Residuals are clipped to one part in so many of the range of targets, or of their bounds."""
_MOST_FOR_MEAN = Fraction(1, 2)
"""Where the mean of the targets needs more of what is left, it has all of it, and there are no trees."""


class GradientBoosting(Boosting, PrivateClassifier):
    """Gradient boosting for declared classes, each against the others: random splits and measured leaves.

    `additive=True` gives one feature to each tree, so that `shape` shows what each feature does.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#boosting
    Assumes  : the bounds and the classes are public.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        classes: Any = None,
        trees: Any = None,
        depth: Any = None,
        learning_rate: Any = None,
        additive: Any = False,
        random_state: Any = 0,
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.classes = classes
        self.trees = trees
        self.depth = depth
        self.learning_rate = learning_rate
        self.additive = additive
        self.random_state = random_state
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _outputs(self, declared: Declared) -> int:
        classes = len(require_labels(declared).classes)
        return 1 if classes == 2 else classes

    def _learn(self, oracle: Oracle) -> None:
        if not self._plans_itself:
            super()._learn(oracle)
            return
        self._check_parameters()
        self.learn_after(oracle, look_first(oracle, tighten=False))

    def learn_after(self, oracle: Oracle, look: FirstLook) -> float:
        """Learn with what a first look left; return, with noise, how many rows it leads by.

        Where trees do not lead, all rows stay where they start.
        """
        start = BoostingStart(_start_scores(look.counts), look.for_fit - SPREAD_SHARE, look.rows)
        scored, scores = self._learn_trees(oracle, start)
        lead = measure_score_lead(scored, scores, look) if self.parts_ else 0.0
        self.parts_ = self.parts_ if lead > 0 else []
        return lead

    def _measure_start(self, oracle: Oracle, left: Fraction) -> BoostingStart:
        """Count rows by class, and start from the odds of each: without trees the commonest class wins."""
        look = look_first(oracle, tighten=False)
        return BoostingStart(_start_scores(look.counts), left - (1 - look.left), float(look.counts.sum()))

    def _derivatives(self, declared: Declared, scores: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Return y − p and p·(1 − p) of the logistic loss, p the sigmoid of a score, from public tables."""
        label = require_labels(declared).value
        gradients: list[Value] = []
        hessians: list[Value] = []
        for place, score in enumerate(scores):
            # A table of what this score can be so far: the tighter it is, the less a gradient can be. Trees
            # that were asked for have that of all scores, so that they are found again if paid for before.
            low, high = value_range(score, declared.ranges) if self._plans_itself else (-LIMIT, LIMIT)
            p = sigmoid((np.arange((high - low) // _COARSE + 1) * _COARSE + low) / UNIT)
            minus_p = tuple(np.rint(-p * UNIT).astype(int).tolist())
            second = tuple(np.rint(p * (1 - p) * UNIT).astype(int).tolist())
            at = Divide(Add(score, Constant(-low)), Constant(_COARSE))
            wanted = 1 if len(scores) == 1 else place
            truth = Choose(Among(label, (wanted,)), Constant(UNIT), Constant(0))
            gradients.append(_if_classed(declared, Add(truth, Lookup(at, minus_p))))
            hessians.append(_if_classed(declared, Lookup(at, second)))
        return gradients, hessians

    def _log_scores(self, rows: Floats) -> Floats:
        scores = self._scores(rows)
        if scores.shape[1] == 1:
            return np.column_stack([np.zeros(len(rows)), scores[:, 0]])
        found: Floats = -np.logaddexp(0.0, -scores)
        return found


def _start_scores(counts: Floats) -> tuple[int, ...]:
    """Return the odds of each class as whole numbers, from noisy counts; one score for two classes."""
    odds = np.log(counts / (counts.sum() - counts)) * UNIT
    wanted = odds[1:] if len(counts) == 2 else odds
    return tuple(np.rint(np.clip(wanted, -LIMIT // 2, LIMIT // 2)).astype(int).tolist())


def _if_classed(declared: Declared, value: Value) -> Value:
    """Return the value, and 0 for a row whose label is not declared."""
    target = require_labels(declared)
    return Choose(Among(target.value, tuple(range(len(target.classes)))), value, Constant(0))


class GradientBoostingRegressor(Boosting, PrivateRegressor):
    """Gradient boosting for a number: random splits and measured leaves; large residuals are clipped.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#boosting
    Assumes  : the bounds of features and target are public.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        target_bounds: Any = None,
        trees: Any = None,
        depth: Any = None,
        learning_rate: Any = None,
        additive: Any = False,
        random_state: Any = 0,
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.trees = trees
        self.depth = depth
        self.learning_rate = learning_rate
        self.additive = additive
        self.random_state = random_state
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    _signal = 0.012
    _curvature = 1.0
    _least_clear = 25.0
    # No mean of residuals is larger than what they are clipped to.
    _largest_step = 1 / _CLIP
    _range: TargetRange

    def _learn(self, oracle: Oracle) -> None:
        self._range = TargetRange(0, _number(oracle.declared).bound)
        super()._learn(oracle)
        target = _number(oracle.declared)
        step = target.half / target.bound
        self.target_ = np.array([target.middle + self._range.centre * step, self._range.reach * step])
        del self._range

    def _measure_start(self, oracle: Oracle, left: Fraction) -> BoostingStart:
        """Find where targets lie, and their mean there, for as much of the spend as that needs."""
        target = _number(oracle.declared)
        (answer,) = oracle.sums([build_mean_block(target, self._range)], share=_FIRST_SHARE)
        first = read_mean(answer, self._range)
        left -= _FIRST_SHARE
        if share_for_mean(oracle, target, first.rows) > left * _MOST_FOR_MEAN:
            # All that is left buys the mean once more, by pure ε, which is better at single numbers.
            (answer,) = oracle.sums([build_mean_block(target, self._range, oracle.budget.alone)])
            return self._start_at(read_mean(answer, self._range), Fraction(0))
        self._range, spent = locate_target(oracle, target, first.rows, _LOOK_SHARE)
        share = share_for_mean(oracle, target, first.rows)
        if self._range == TargetRange(0, target.bound) and share <= _FIRST_SHARE:
            # The first mean is as good as is needed: the same question would have the same answer.
            return self._start_at(first, left - spent)
        (answer,) = oracle.sums([build_mean_block(target, self._range)], share=share)
        return self._start_at(read_mean(answer, self._range), left - spent - share)

    def _start_at(self, found: TargetMean, left: Fraction) -> BoostingStart:
        return BoostingStart((round(found.shrunk * UNIT),), left, found.rows)

    @property
    def first(self) -> Fraction:  # type: ignore[override]
        """Share of the spend after which it is decided whether pure ε pays for the rest."""
        return Fraction(0) if self._starts_at_zero else _FIRST_SHARE

    def _outputs(self, declared: Declared) -> int:
        return 1

    def _derivatives(self, declared: Declared, scores: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Return the residual, clipped, and 1: the derivatives of the Huber loss near 0.

        Targets are scaled so that the end of their range is 1.
        """
        scaled = self._range.scale(_number(declared), UNIT)
        residual = Add(scaled, Multiply(scores[0], Constant(-1)))
        part = _CLIP_AT_ZERO if self._starts_at_zero else _CLIP
        return [clip_value(residual, UNIT // part)], [Constant(UNIT)]

    def predict(self, X: Any) -> Floats:  # noqa: N803
        scores = np.clip(self._scores(self._rows(X))[:, 0], -1.0, 1.0)
        found: Floats = self.target_[0] + self.target_[1] * scores
        return found


def _number(declared: Declared) -> Feature:
    """Return the target as a number; only regressors ask for it."""
    if not isinstance(declared.target, Feature):
        raise AssertionError(declared.target)
    return declared.target
