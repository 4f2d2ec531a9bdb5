"""Gradient boosting from noisy sums of gradients and Hessians: splits are random, leaves are measured.

Because : docs/proofs/learners.md#boosting
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from sfumato import viz
from sfumato.curator.plan.spend import GaussianSpend
from sfumato.errors import UsageError
from sfumato.learn.base import progress
from sfumato.learn.base.supervised import PrivateClassifier, PrivateRegressor
from sfumato.learn.cells import clip_value
from sfumato.learn.convex.losses import sigmoid
from sfumato.learn.target_range import (
    TargetMean,
    TargetRange,
    build_mean_block,
    locate_target,
    read_mean,
    share_for_mean,
)
from sfumato.learn.trees.random_trees import cycle_features, draw_tree, find_leaves, store_tree
from sfumato.oracle.blocks import (
    COUNT,
    Add,
    Among,
    CellKey,
    Choose,
    Constant,
    Divide,
    Lookup,
    Multiply,
    SumBlock,
    share_of,
)
from sfumato.oracle.declared import Feature, require_labels
from sfumato.oracle.feature_spread import measure_spread
from sfumato.privacy.exact import parse_exact, parse_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.learn.trees.random_trees import RandomTree
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.feature_spread import FeatureSpread
    from sfumato.oracle.protocol import Oracle, SumAnswer
    from sfumato.viz import Chart

    Floats = NDArray[np.float64]

# All chosen with benchmarks/learners.py. Privacy needs the two shares of a round to add up to at most 1; it
# depends on nothing else here, as every sum is priced by its own bound.
_SPREAD_SHARE = Fraction(8, 100)
"""Share of the spend for where rows lie; the rounds have the rest."""
_START_SHARE = Fraction(4, 100)
"""Share for the counts of classes, from whose odds rows start."""
_FIRST_SHARE = Fraction(2, 100)
"""Share for a first mean and number of rows; where those are too few, the rest is for the mean alone."""
_LOOK_SHARE = Fraction(3, 100)
"""Share for each histogram that finds where numbers lie."""
_GRADIENT_SHARE, _HESSIAN_SHARE = Fraction(8, 10), Fraction(2, 10)
"""Shares of a round. Gradients decide the sign of a leaf, Hessians only the size of its step."""
_UNIT = 2**10
"""The whole number that stands for a score, a gradient or a Hessian of 1."""
_LIMIT = 8 * _UNIT
"""Scores are clipped to ±8: odds of three thousand to one."""
_COARSE = 16
"""Width of a cell of the sigmoid's table, in whole numbers of a score."""
_MANY_TREES = 10_000.0
"""Number of trees that the signal would allow, from which on a feature has sixteen leaves."""
_TREES_PER_ROUND = 10
"""Trees that share one scan and are fitted to the same gradients."""
_CLIP, _CLIP_AT_ZERO = 2, 4
"""Residuals are clipped to one part in so many of the range of targets, or of their bounds."""
_MOST_FOR_MEAN = Fraction(1, 2)
"""Where the mean of the targets needs more of what is left, it has all of it, and there are no trees."""
_DEEPEST = 6
_FEWEST = 4
"""Where fewer trees are asked for, only their leaves are measured: nothing is bought to start from."""
_SMALLEST_LEAF = 0.25
"""A leaf counts as at least this share of what an even leaf holds."""


class Boosting:
    """What both estimators share: trees are drawn, their leaves are measured, and scores move by a step."""

    trees: Any
    depth: Any
    learning_rate: Any
    additive: Any
    random_state: Any

    parts_: list[dict[str, Any]]
    """The trees, as saved models name them."""
    _largest_step: ClassVar[float] = 2.0
    """Bound of the step of a leaf."""
    _curvature: ClassVar[float] = 0.25
    """Hessian of a row, about."""
    _signal: ClassVar[float] = 0.01
    """Typical share of the rows that the gradient of a leaf stands for; decides how many trees there are."""

    def _learn(self, oracle: Oracle) -> None:
        rng = check_random_state(self.random_state)
        self._check_parameters()
        start = self._begin(oracle)
        self.start_ = np.array(start.scores) / _UNIT
        self.parts_, self.rounds_, self.depth_ = [], 0, 0
        if not start.left:
            return
        known = measure_spread(oracle, _SPREAD_SHARE)
        plan = self._plan(oracle, start, known)
        scores: list[Value] = [Constant(each) for each in start.scores]
        found: list[dict[str, Any]] = []
        turns = cycle_features(rng, len(known.mean)) if self.additive else None
        for _ in progress.show_rounds(plan.rounds, "boosting"):
            trees = [draw_tree(rng, known, plan.depth, turns) for _ in range(plan.trees_per_round)]
            leaves = self._measure_leaves(oracle, trees, scores, plan)
            found += [
                store_tree(each, leaf, oracle.declared) for each, leaf in zip(trees, leaves, strict=True)
            ]
            oracle, scores = oracle.with_columns(_move_scores(oracle.declared, trees, leaves, scores))
        self.parts_ = found
        self.rounds_, self.depth_ = plan.rounds, plan.depth

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit can have, before anything is asked."""
        if self.trees is not None:
            parse_whole(self.trees, "trees")
        if self.depth is not None and parse_whole(self.depth, "depth") > _DEEPEST:
            raise UsageError("SF-E114", f"Trees are at most {_DEEPEST} levels deep.", try_="depth=4")
        if self.learning_rate is not None:
            parse_exact(self.learning_rate, "learning_rate")

    @property
    def _starts_at_zero(self) -> bool:
        """Whether so few trees were asked for that nothing is bought to start them from."""
        return self.trees is not None and parse_whole(self.trees, "trees") < _FEWEST

    def _begin(self, oracle: Oracle) -> BoostingStart:
        """Return what all rows start from."""
        if self._starts_at_zero:
            return BoostingStart((0,) * self._outputs(oracle.declared), 1 - _SPREAD_SHARE, None)
        return self._measure_start(oracle, 1 - _SPREAD_SHARE)

    def _plan(self, oracle: Oracle, start: BoostingStart, known: FeatureSpread) -> BoostingPlan:
        """Choose how many trees, and how deep: as the noisy number of rows allows, unless they were given."""
        rows = known.rows if start.rows is None else start.rows
        (noise,) = oracle.noise([SumBlock((COUNT,), 1, 1)], share_of(oracle.budget.main, start.left))
        # How many trees the signal allows: noise grows with the root of their number, or for Laplace with it.
        share = rows / noise.deviation * self._signal
        room = share**2 if isinstance(oracle.budget.main, GaussianSpend) else 2 * share
        trees = max(4, min(200, int(room))) if self.trees is None else parse_whole(self.trees, "trees")
        depth = (
            _choose_depth(trees, room, self.additive)
            if self.depth is None
            else parse_whole(self.depth, "depth")
        )
        trees_per_round = min(trees, _TREES_PER_ROUND)
        rounds = -(-trees // trees_per_round)
        # Trees of one round are fitted to the same gradients, so together they step once, a little further.
        rate = 1.5 / trees_per_round if self.learning_rate is None else float(self.learning_rate)
        return BoostingPlan(
            rounds,
            trees_per_round,
            depth,
            rate,
            start.left / rounds,
            rows,
            self._curvature,
            self._largest_step,
        )

    def _measure_leaves(
        self, oracle: Oracle, trees: Sequence[RandomTree], scores: Sequence[Value], plan: BoostingPlan
    ) -> list[Floats]:
        """Return a Newton step of each leaf for each score, of all trees of a round in one scan."""
        gradients, hessians = self._derivatives(oracle.declared, scores)
        groupings = [[CellKey(each.locate_leaf(oracle.declared), each.leaves)] for each in trees]
        outputs = len(gradients)
        shares = [_GRADIENT_SHARE / outputs] * outputs + [_HESSIAN_SHARE / outputs] * outputs
        answers = oracle.histograms(groupings, [*gradients, *hessians], share=plan.share, shares=shares)
        # One column a score; leaves of all trees of the round below each other.
        steps = np.column_stack(
            [
                _newton_steps(
                    [each[k] for each in answers],
                    [each[outputs + k] for each in answers],
                    plan,
                )
                for k in range(outputs)
            ]
        )
        return np.split(steps, np.cumsum([each.leaves for each in trees])[:-1])

    @abstractmethod
    def _measure_start(self, oracle: Oracle, left: Fraction) -> BoostingStart:
        """Buy what all rows start from."""

    @abstractmethod
    def _outputs(self, declared: Declared) -> int:
        """Return the number of scores of a row."""

    @abstractmethod
    def _derivatives(self, declared: Declared, scores: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Return negative gradients and Hessians of a row's loss by each score, in whole numbers."""

    def _scores(self, rows: Floats) -> Floats:
        # Models of earlier versions have no start: their rows start from 0.
        start = getattr(self, "start_", None)
        outputs = len(start) if start is not None else int(self.parts_[0]["leaves"].shape[1])
        found = np.zeros((len(rows), outputs)) + (0.0 if start is None else start)
        for each in self.parts_:
            found += each["leaves"][find_leaves(rows, each)]
        return found

    def shape(self, feature: int, score: int = 0) -> tuple[Floats, Floats]:
        """Return the cuts of one feature and what it adds to a score below, between and above them.

        Only additive models have such a shape.
        """
        mine = [each for each in self.parts_ if each["additive"] and each["features"][0] == feature]
        if not mine:
            raise UsageError(
                "SF-E116", "This feature has no shape of its own.", try_="additive=True when it is fitted"
            )
        cuts = np.unique(np.concatenate([each["cuts"] for each in mine]))
        # One point below the first cut, and one at each cut, where the next bin begins.
        places = np.concatenate([[cuts[0] - 1.0], cuts])[:, None] * np.ones((1, feature + 1))
        found = sum(each["leaves"][find_leaves(places, each), score] for each in mine)
        return cuts, np.asarray(found, dtype=np.float64)

    def plot(self, feature: int, score: int = 0) -> Chart:
        """Return a chart of what one feature adds to a score."""
        cuts, values = self.shape(feature, score)
        names = getattr(self, "feature_names_in_", None)
        name = f"feature {feature}" if names is None else str(names[feature])
        return viz.step_curve(cuts.tolist(), values.tolist(), x=name, y="what it adds to the score")


@dataclass(frozen=True, slots=True)
class BoostingStart:
    """What is known of the target before the first tree."""

    scores: tuple[int, ...]
    """The scores of every row, in whole numbers."""
    left: Fraction
    """Share of the spend that is left for trees: 0 where rows are too few for any."""
    rows: float | None
    """Noisy number of rows, where it was bought."""


@dataclass(frozen=True, slots=True)
class BoostingPlan:
    """How many rounds of how many trees there are, and what one round may cost. All of it is public."""

    rounds: int
    trees_per_round: int
    depth: int
    rate: float
    share: Fraction
    """Share of the spend for one round."""
    rows: float
    """Noisy number of rows."""
    curvature: float
    largest_step: float


def _choose_depth(trees: int, room: float, additive: bool) -> int:
    """Return a depth: more than eight leaves of one feature only sharpen a shape that noise lets be seen."""
    if additive:
        return 4 if room >= _MANY_TREES else 3 if trees >= 16 else 2
    return 4 if trees >= 50 else 3 if trees >= 16 else 2


def _newton_steps(
    gradients: Sequence[SumAnswer], hessians: Sequence[SumAnswer], plan: BoostingPlan
) -> Floats:
    """Return the step of each leaf of a round: gradient over Hessian, both shrunk by the noise they have.

    A noisy Hessian is shrunk towards that of an even leaf, and is never far below it, so that no step is
    made large by noise alone. Steps are shrunk towards 0 by how much of their square is noise (James and
    Stein): where all of it is, scores stay where they are.
    """
    gradient = np.concatenate([each.values[:, 0] for each in gradients]) / _UNIT
    noise = gradients[0].deviation / _UNIT
    even = np.concatenate(
        [np.full(len(each.values), plan.curvature * plan.rows / len(each.values)) for each in hessians]
    )
    unsure = (hessians[0].deviation / _UNIT) ** 2
    measured = np.concatenate([each.values[:, 0] for each in hessians]) / _UNIT
    hessian = (measured * even**2 + even * unsure) / (even**2 + unsure)
    # Some leaves hold nearly all rows: what was surely measured counts where it is more, since a step that is
    # too short is made up for by the next, and one that is too long is not.
    surely = measured - math.sqrt(unsure)
    hessian = np.maximum(np.maximum(hessian, surely), _SMALLEST_LEAF * even) + 1e-9
    steps, variance = gradient / hessian, (noise / hessian) ** 2
    # One deviation of what noise alone makes of this mean is taken off, so that noise is not taken for more.
    excess = (steps**2 / variance - 1).sum() - math.sqrt(2 * len(steps))
    true = max(0.0, float(excess / (1 / variance).sum()))
    steps = np.clip(steps * true / (true + variance), -plan.largest_step, plan.largest_step)
    # Rounded to whole numbers, so that scores of the next round are the same integers on every engine. Scores
    # are clipped to their limit anyway, so a step across all of it is the largest that matters.
    moved = np.clip(steps * plan.rate * _UNIT, -2 * _LIMIT, 2 * _LIMIT)
    found: Floats = np.rint(np.nan_to_num(moved)) / _UNIT
    return found


def _move_scores(
    declared: Declared, trees: Sequence[RandomTree], leaves: Sequence[Floats], scores: Sequence[Value]
) -> list[Value]:
    """Return each score after the round, clipped to its limit."""
    cells = [each.locate_leaf(declared) for each in trees]
    found = []
    for place, score in enumerate(scores):
        moved = score
        for where, leaf in zip(cells, leaves, strict=True):
            steps = np.rint(leaf[:, place] * _UNIT).astype(int)
            moved = Add(moved, Lookup(where, tuple(steps.tolist())))
        found.append(clip_value(moved, _LIMIT))
    return found


# ---- the two estimators ------------------------------------------------------------------------------------


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

    def _measure_start(self, oracle: Oracle, left: Fraction) -> BoostingStart:
        """Count rows by class, and start from the odds of each: without trees the commonest class wins."""
        target = require_labels(oracle.declared)
        classes = len(target.classes)
        key = CellKey(target.value, classes)
        (answer,) = oracle.sums([SumBlock((COUNT,), 1, 1)], [key], share=_START_SHARE)
        # As many rows as noise may have made are added to each class, which shrinks odds to even ones.
        counts = np.maximum(answer.values[0], 0.0) + max(1.0, answer.deviation)
        odds = np.log(counts / (counts.sum() - counts)) * _UNIT
        wanted = odds[1:] if classes == 2 else odds
        scores = np.rint(np.clip(wanted, -_LIMIT // 2, _LIMIT // 2)).astype(int)
        return BoostingStart(tuple(scores.tolist()), left - _START_SHARE, float(counts.sum()))

    def _derivatives(self, declared: Declared, scores: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Return y − p and p·(1 − p) of the logistic loss, p the sigmoid of a score, from public tables."""
        label = require_labels(declared).value
        p = sigmoid((np.arange(2 * _LIMIT // _COARSE + 1) * _COARSE - _LIMIT) / _UNIT)
        minus_p = tuple(np.rint(-p * _UNIT).astype(int).tolist())
        second = tuple(np.rint(p * (1 - p) * _UNIT).astype(int).tolist())
        gradients: list[Value] = []
        hessians: list[Value] = []
        for place, score in enumerate(scores):
            at = Divide(Add(score, Constant(_LIMIT)), Constant(_COARSE))
            wanted = 1 if len(scores) == 1 else place
            truth = Choose(Among(label, (wanted,)), Constant(_UNIT), Constant(0))
            gradients.append(_if_classed(declared, Add(truth, Lookup(at, minus_p))))
            hessians.append(_if_classed(declared, Lookup(at, second)))
        return gradients, hessians

    def _log_scores(self, rows: Floats) -> Floats:
        scores = self._scores(rows)
        if scores.shape[1] == 1:
            return np.column_stack([np.zeros(len(rows)), scores[:, 0]])
        found: Floats = -np.logaddexp(0.0, -scores)
        return found


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
        return BoostingStart((round(found.shrunk * _UNIT),), left, found.rows)

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
        scaled = self._range.scale(_number(declared), _UNIT)
        residual = Add(scaled, Multiply(scores[0], Constant(-1)))
        part = _CLIP_AT_ZERO if self._starts_at_zero else _CLIP
        return [clip_value(residual, _UNIT // part)], [Constant(_UNIT)]

    def predict(self, X: Any) -> Floats:  # noqa: N803
        scores = np.clip(self._scores(self._rows(X))[:, 0], -1.0, 1.0)
        found: Floats = self.target_[0] + self.target_[1] * scores
        return found


def _number(declared: Declared) -> Feature:
    """Return the target as a number; only regressors ask for it."""
    if not isinstance(declared.target, Feature):
        raise AssertionError(declared.target)
    return declared.target
