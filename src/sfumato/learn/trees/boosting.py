"""Gradient boosting from noisy sums of gradients: splits are drawn without data, leaves are measured.

Because : docs/proofs/learners.md#boosting
"""

from __future__ import annotations

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
from sfumato.learn.trees.cells import clipped
from sfumato.learn.trees.drawn import cell, drawn, in_turn, kept
from sfumato.oracle.blocks import (
    COUNT,
    Add,
    Among,
    Block,
    Choose,
    Constant,
    Divide,
    Key,
    Lookup,
    Multiply,
    share_of,
)
from sfumato.oracle.declared import Feature, Labels
from sfumato.oracle.spread import spread
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.learn.trees.drawn import Part
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle
    from sfumato.oracle.spread import Spread
    from sfumato.viz import Chart

    Floats = NDArray[np.float64]

_START = Fraction(8, 100)
_SLOPES, _CURVES = Fraction(8, 10), Fraction(2, 10)
_UNIT = 2**10
"""Scores and gradients are kept in so many steps of one."""
_LIMIT = 8 * _UNIT
"""Scores are cut off at ± 8: odds of three thousand to one."""
_SHARP = 10_000.0
"""Trees there could be, were there no most of them, from which on a feature has sixteen cells."""
_COARSE = 16
_WIDEST = 2.0
_TOGETHER = 10
"""So many trees share one scan and are fitted to the same gradients."""


class Boosting:
    """What both estimators share: parts are drawn, their leaves measured, and the scores move on."""

    trees: Any
    depth: Any
    learning_rate: Any
    additive: Any
    random_state: Any

    parts_: list[dict[str, Any]]
    _signal: ClassVar[float] = 0.01
    """How much of a row is seen in the slope of a leaf, as a rule: it says how many trees there can be."""

    def _learn(self, oracle: Oracle) -> None:
        rng = check_random_state(self.random_state)
        known = spread(oracle, _START)
        plan = self._plan(oracle, known)
        scores: list[Value] = [Constant(each) for each in self._first(oracle)]
        found: list[dict[str, Any]] = []
        turns = in_turn(rng, len(known.mean)) if self.additive else None
        for _ in progress.rounds(plan.rounds, "boosting"):
            parts = [drawn(rng, known, plan.depth, turns) for _ in range(plan.together)]
            leaves = self._leaves(oracle, parts, scores, plan)
            found += [kept(each, leaf, oracle.declared) for each, leaf in zip(parts, leaves, strict=True)]
            oracle, scores = oracle.remember(_moved(oracle.declared, parts, leaves, scores))
        self.parts_ = found
        self.rounds_, self.depth_ = plan.rounds, plan.depth

    def _plan(self, oracle: Oracle, known: Spread) -> Plan:
        """How many trees, and how deep: as the noisy number of rows allows, unless it is said."""
        (noise,) = oracle.noise([Block((COUNT,), 1, 1)], share_of(oracle.budget.main, 1 - _START))
        share = known.rows / noise.deviation * self._signal
        room = share**2 if isinstance(oracle.budget.main, GaussianSpend) else 2 * share
        trees = max(4, min(200, int(room))) if self.trees is None else whole(self.trees, "trees")
        depth = _depth(trees, room, self.additive) if self.depth is None else whole(self.depth, "depth")
        if depth > 6:
            raise UsageError("SF-E114", "Trees are at most 6 levels deep.", try_="depth=4")
        together = min(trees, _TOGETHER)
        rounds = -(-trees // together)
        rate = 1.5 / together if self.learning_rate is None else float(self.learning_rate)
        return Plan(rounds, together, depth, rate, (1 - _START) / rounds)

    def _leaves(
        self, oracle: Oracle, parts: Sequence[Part], scores: Sequence[Value], plan: Plan
    ) -> list[Floats]:
        """The step of each leaf for each score: slopes over curvatures, held back as far as noise reaches."""
        slopes, curves = self._gradients(oracle.declared, scores)
        groupings = [[Key(each.value(oracle.declared), each.cells)] for each in parts]
        kinds = len(slopes)
        shares = [_SLOPES / kinds] * kinds + [_CURVES / kinds] * kinds
        answers = oracle.histograms(groupings, [*slopes, *curves], share=plan.share, shares=shares)
        return [
            np.column_stack([_step(each[k], each[kinds + k], plan.rate) for k in range(kinds)])
            for each in answers
        ]

    @abstractmethod
    def _first(self, oracle: Oracle) -> list[int]:
        """The scores before the first round."""

    @abstractmethod
    def _gradients(self, declared: Declared, scores: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Slopes and curvatures of the loss, in steps."""

    def _scores(self, rows: Floats) -> Floats:
        found = np.zeros((len(rows), self._width())) + self._start()
        for each in self.parts_:
            found += each["leaves"][cell(rows, each)]
        return found

    def shape(self, feature: int, score: int = 0) -> tuple[Floats, Floats]:
        """What one feature adds to a score, of an additive model: from each cut on, and below the first."""
        mine = [each for each in self.parts_ if each["additive"] and each["features"][0] == feature]
        if not mine:
            raise UsageError(
                "SF-E116", "This feature has no shape of its own.", try_="additive=True when it is fitted"
            )
        cuts = np.unique(np.concatenate([each["cuts"] for each in mine]))
        places = np.concatenate([[cuts[0] - 1.0], cuts])[:, None] * np.ones((1, feature + 1))
        found = sum(each["leaves"][cell(places, each), score] for each in mine)
        return cuts, np.asarray(found, dtype=np.float64)

    def plot(self, feature: int, score: int = 0) -> Chart:
        """The shape of one feature, as steps."""
        cuts, values = self.shape(feature, score)
        names = getattr(self, "feature_names_in_", None)
        name = f"feature {feature}" if names is None else str(names[feature])
        return viz.step_curve(cuts.tolist(), values.tolist(), x=name, y="what it adds to the score")

    def _width(self) -> int:
        return int(self.parts_[0]["leaves"].shape[1])

    def _start(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    together: int
    depth: int
    rate: float
    share: Fraction
    """Of the spend, for one round."""


def _depth(trees: int, room: float, additive: bool) -> int:
    """Cells of one feature lie side by side: more than eight only sharpen a shape that noise lets be seen."""
    if additive:
        return 4 if room >= _SHARP else 3 if trees >= 16 else 2
    return 4 if trees >= 50 else 3 if trees >= 16 else 2


def _step(slope: Any, curve: Any, rate: float) -> Floats:
    steps = slope.values[:, 0] / (np.maximum(curve.values[:, 0], 0.0) + slope.deviation)
    found: Floats = np.rint(np.clip(steps, -_WIDEST, _WIDEST) * rate * _UNIT) / _UNIT
    return found


def _moved(
    declared: Declared, parts: Sequence[Part], leaves: Sequence[Floats], scores: Sequence[Value]
) -> list[Value]:
    """Each score after the round, cut off at its limit."""
    cells = [each.value(declared) for each in parts]
    found = []
    for place, score in enumerate(scores):
        moved = score
        for where, leaf in zip(cells, leaves, strict=True):
            steps = np.rint(leaf[:, place] * _UNIT).astype(int)
            moved = Add(moved, Lookup(where, tuple(steps.tolist())))
        found.append(clipped(moved, _LIMIT))
    return found


# ---- the two estimators ------------------------------------------------------------------------------------


class GradientBoosting(Boosting, PrivateClassifier):
    """Trees with drawn splits and measured leaves, for declared classes; each class against the others.

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
        self.budget = budget

    def _first(self, oracle: Oracle) -> list[int]:
        return [0] * _scored(oracle.declared)

    def _gradients(self, declared: Declared, scores: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Of the logistic loss: whether it is the class less its chance, and chance times its opposite."""
        label = declared.target.value if isinstance(declared.target, Labels) else None
        if label is None:
            raise AssertionError(declared.target)
        chances = 1 / (1 + np.exp(-(np.arange(2 * _LIMIT // _COARSE + 1) * _COARSE - _LIMIT) / _UNIT))
        minus = tuple(np.rint(-chances * _UNIT).astype(int).tolist())
        curve = tuple(np.rint(chances * (1 - chances) * _UNIT).astype(int).tolist())
        slopes: list[Value] = []
        curves: list[Value] = []
        for place, score in enumerate(scores):
            at = Divide(Add(score, Constant(_LIMIT)), Constant(_COARSE))
            wanted = 1 if len(scores) == 1 else place
            truth = Choose(Among(label, (wanted,)), Constant(_UNIT), Constant(0))
            slopes.append(_known(label, declared, Add(truth, Lookup(at, minus))))
            curves.append(_known(label, declared, Lookup(at, curve)))
        return slopes, curves

    def _log_scores(self, rows: Floats) -> Floats:
        scores = self._scores(rows)
        if scores.shape[1] == 1:
            return np.column_stack([np.zeros(len(rows)), scores[:, 0]])
        found: Floats = -np.logaddexp(0.0, -scores)
        return found


def _known(label: Value, declared: Declared, value: Value) -> Value:
    """Nothing for a row whose label is not declared."""
    classes = len(declared.target.classes) if isinstance(declared.target, Labels) else 0
    return Choose(Among(label, tuple(range(classes))), value, Constant(0))


def _scored(declared: Declared) -> int:
    classes = len(declared.target.classes) if isinstance(declared.target, Labels) else 0
    return 1 if classes == 2 else classes


class GradientBoostingRegressor(Boosting, PrivateRegressor):
    """Trees with drawn splits and measured leaves, for a number; large residuals are cut off.

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
        self.budget = budget

    _signal = 0.003

    def _learn(self, oracle: Oracle) -> None:
        target = oracle.declared.target
        if not isinstance(target, Feature):
            raise AssertionError(target)
        self.target_ = np.array([target.middle, target.half])
        super()._learn(oracle)

    def _first(self, oracle: Oracle) -> list[int]:
        return [0]

    def _gradients(self, declared: Declared, scores: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Of half the square, less what is far off: the residual, and 1. A target's bound is one unit."""
        target = declared.target
        if not isinstance(target, Feature):
            raise AssertionError(target)
        scaled = Divide(
            Multiply(Add(target.value, Constant(target.bound)), Constant(_UNIT)), Constant(target.bound)
        )
        residual = Add(Add(scaled, Constant(-_UNIT)), Multiply(scores[0], Constant(-1)))
        return [clipped(residual, _UNIT // 4)], [Constant(_UNIT)]

    def predict(self, X: Any) -> Floats:  # noqa: N803
        scores = np.clip(self._scores(self._rows(X))[:, 0], -1.0, 1.0)
        found: Floats = self.target_[0] + self.target_[1] * scores
        return found
