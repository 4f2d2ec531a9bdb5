"""Rounds of boosted trees: splits are random, leaves are measured, and scores move by a step.

Because : docs/proofs/learners.md#boosting
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from sfumato import viz
from sfumato.curator.plan.spend import GaussianSpend
from sfumato.errors import UsageError
from sfumato.learn.cells import clip_value
from sfumato.learn.trees.cut_places import MomentPlaces, locate_features
from sfumato.learn.trees.random_trees import cycle_features, draw_tree, find_leaves, split_feature, store_tree
from sfumato.oracle.blocks import COUNT, Add, CellKey, Constant, Lookup, SumBlock, share_of
from sfumato.oracle.feature_spread import measure_spread
from sfumato.privacy.exact import parse_exact, parse_whole
from sfumato.viz import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.learn.trees.cut_places import CutPlaces
    from sfumato.learn.trees.random_trees import RandomTree
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle, SumAnswer
    from sfumato.viz import Chart

    Floats = NDArray[np.float64]

# All chosen with benchmarks/learners.py. Privacy needs the two shares of a round to add up to at most 1; it
# depends on nothing else here, as every sum is priced by its own bound.
SPREAD_SHARE = Fraction(8, 100)
"""Share of the spend for where rows lie; the rounds have the rest."""
_GRADIENT_SHARE, _HESSIAN_SHARE = Fraction(8, 10), Fraction(2, 10)
"""Shares of a round. Gradients decide the sign of a leaf, Hessians only the size of its step."""
UNIT = 2**10
"""The whole number that stands for a score, a gradient or a Hessian of 1."""
LIMIT = 8 * UNIT
"""Scores are clipped to ±8: odds of three thousand to one."""
_MANY_TREES = 10_000.0
"""Number of trees that the signal would allow, from which on a feature has sixteen leaves."""
_TREES_PER_ROUND = 10
"""Trees that share one scan and are fitted to the same gradients."""
_DEEPEST = 6
# The rest was chosen with benchmarks/learners_unseen.py, on its development tables.
_DEPTHS = (40.0, 60.0, 1000.0)
"""Rows in deviations of a leaf's noise from which on one feature is split into four, eight, sixteen parts."""
_ONE_PASS, _MOST_PASSES = 150.0, 4
"""Rows in those deviations for each time that every feature has its turn, and how often at most."""
_MOST_ROUNDS = 40
"""Rounds of one pass at most; each is a scan."""
_FOR_BOTH, _FOR_BOTH_PURE = 200.0, 2000.0
"""Rows in those deviations from which on trees of several features follow; Laplace noise grows faster."""
_ADDITIVE_SHARE = Fraction(3, 20)
"""Share of what is left for the trees of one feature, where others follow."""
_AFTER_ROUND = 5
"""Trees of several features that share one scan."""
_EVEN = 0.3
"""How far the parts of one feature are from even, about, before they are measured."""
_SHORTER = 0.7
"""Step of a feature that has several turns, or that others follow."""
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
    _least_clear: ClassVar[float] = 8.0
    """Rows in deviations of a leaf's noise that a tree must have to be worth measuring."""
    _signal: ClassVar[float] = 0.01
    """Typical share of the rows that the gradient of a leaf stands for; decides how many trees there are."""

    def _learn(self, oracle: Oracle) -> None:
        self._check_parameters()
        self._learn_trees(oracle, self._begin(oracle))

    def _learn_trees(self, oracle: Oracle, start: BoostingStart) -> tuple[Oracle, list[Value]]:
        """Learn all trees; return the rows with their scores, and those scores."""
        rng = check_random_state(self.random_state)
        self.start_ = np.array(start.scores) / UNIT
        self.parts_, self.rounds_, self.depth_ = [], 0, 0
        scores: list[Value] = [Constant(each) for each in start.scores]
        if not start.left:
            return oracle, scores
        known, rows, start = self._locate_features(oracle, start)
        stages = self._plan(oracle, start, known.features, rows)
        for stage in stages:
            oracle, scores = self._boost(oracle, scores, known, stage, rng)
        self.rounds_ = sum(stage.rounds for stage in stages)
        self.depth_ = max((stage.depth for stage in stages), default=0)
        return oracle, scores

    def _locate_features(
        self, oracle: Oracle, start: BoostingStart
    ) -> tuple[CutPlaces, float, BoostingStart]:
        """Return where features are worth splitting, the number of rows, and what is left."""
        if self._plans_itself and start.rows is not None:
            found, spent = locate_features(oracle, start.rows, SPREAD_SHARE)
            if found is not None:
                return found, start.rows, replace(start, left=start.left - spent)
        known = measure_spread(oracle, SPREAD_SHARE)
        return MomentPlaces(known), known.rows if start.rows is None else start.rows, start

    def _boost(
        self, oracle: Oracle, scores: list[Value], known: CutPlaces, stage: BoostingStage, rng: Any
    ) -> tuple[Oracle, list[Value]]:
        """Add the trees of a stage; return the rows with their scores, and those scores."""
        turns = cycle_features(rng, known.features)
        for _ in progress.show_rounds(stage.rounds, "boosting"):
            trees = [
                split_feature(known, next(turns), stage.depth, self._plans_itself)
                if stage.additive
                else draw_tree(rng, known, stage.depth)
                for _ in range(stage.trees_per_round)
            ]
            leaves = self._measure_leaves(oracle, trees, scores, stage)
            self.parts_ += [
                store_tree(each, leaf, oracle.declared) for each, leaf in zip(trees, leaves, strict=True)
            ]
            oracle, scores = oracle.with_columns(_move_scores(oracle.declared, trees, leaves, scores))
        return oracle, scores

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit can have, before anything is asked."""
        if self.trees is not None:
            parse_whole(self.trees, "trees")
        if self.depth is not None and parse_whole(self.depth, "depth") > _DEEPEST:
            raise UsageError("SF-N101", f"Trees are at most {_DEEPEST} levels deep.", try_="depth=4")
        if self.learning_rate is not None:
            parse_exact(self.learning_rate, "learning_rate")

    @property
    def _starts_at_zero(self) -> bool:
        """Whether so few trees were asked for that nothing is bought to start them from."""
        return self.trees is not None and parse_whole(self.trees, "trees") < _FEWEST

    def _begin(self, oracle: Oracle) -> BoostingStart:
        """Return what all rows start from."""
        if self._starts_at_zero:
            return BoostingStart((0,) * self._outputs(oracle.declared), 1 - SPREAD_SHARE, None)
        return self._measure_start(oracle, 1 - SPREAD_SHARE)

    @property
    def _plans_itself(self) -> bool:
        """Whether trees are as the noisy number of rows allows, because none were asked for."""
        return self.trees is None and self.depth is None and self.learning_rate is None

    def _plan(self, oracle: Oracle, start: BoostingStart, features: int, rows: float) -> list[BoostingStage]:
        """Choose how many trees, and how deep: as the noisy number of rows allows, unless they were given."""
        (noise,) = oracle.noise([SumBlock((COUNT,), 1, 1)], share_of(oracle.budget.main, start.left))
        clear = rows / noise.deviation
        gaussian = isinstance(oracle.budget.main, GaussianSpend)
        # How many trees the signal allows: noise grows with the root of their number, or for Laplace with it.
        room = (clear * self._signal) ** 2 if gaussian else 2 * clear * self._signal
        trees = max(4, min(200, int(room))) if self.trees is None else parse_whole(self.trees, "trees")
        if not self._plans_itself:
            return [self._plan_given(trees, room, start.left, rows)]
        # One turn each, for as many features as have leaves that stand out of the noise; the rest has none.
        power, clear = (0.5 if gaussian else 1.0), clear / len(start.scores)
        turns = min(features, int((clear / self._least_clear) ** (1 / power)))
        if not turns:
            return []
        clear /= turns**power
        if self.additive or clear < (_FOR_BOTH if gaussian else _FOR_BOTH_PURE):
            return [self._plan_turns(turns, clear, start.left, rows)]
        first = self._plan_turns(turns, clear, start.left * _ADDITIVE_SHARE, rows, followed=True)
        rounds = -(-trees // _AFTER_ROUND)
        share = start.left * (1 - _ADDITIVE_SHARE) / rounds
        return [
            first,
            replace(
                first,
                rounds=rounds,
                trees_per_round=_AFTER_ROUND,
                depth=_choose_depth(trees, room, False),
                rate=1.5 / _AFTER_ROUND,
                share=share,
                additive=False,
            ),
        ]

    def _plan_turns(
        self, turns: int, clear: float, left: Fraction, rows: float, followed: bool = False
    ) -> BoostingStage:
        """Return the stage in which features have their turns, one after the other.

        Each is fitted to what those before it left, so a whole step is never too long.
        """
        passes = max(1, min(_MOST_PASSES, int(clear / _ONE_PASS))) if self.additive else 1
        trees_per_round = -(-turns // _MOST_ROUNDS)
        rounds = -(-turns * passes // trees_per_round)
        depth = 1 + sum(clear >= least for least in _DEPTHS)
        rate = _SHORTER if followed or passes > 1 else 1.0
        return BoostingStage(
            rounds,
            trees_per_round,
            depth,
            rate / trees_per_round,
            left / rounds,
            True,
            rows,
            self._curvature,
            self._largest_step,
        )

    def _plan_given(self, trees: int, room: float, left: Fraction, rows: float) -> BoostingStage:
        """Return the one stage of so many trees, or of trees that were asked for."""
        depth = (
            _choose_depth(trees, room, self.additive)
            if self.depth is None
            else parse_whole(self.depth, "depth")
        )
        trees_per_round = min(trees, _TREES_PER_ROUND)
        rounds = -(-trees // trees_per_round)
        # Trees of one round are fitted to the same gradients, so together they step once, a little further.
        rate = 1.5 / trees_per_round if self.learning_rate is None else float(self.learning_rate)
        return BoostingStage(
            rounds,
            trees_per_round,
            depth,
            rate,
            left / rounds,
            bool(self.additive),
            rows,
            self._curvature,
            self._largest_step,
        )

    def _measure_leaves(
        self, oracle: Oracle, trees: Sequence[RandomTree], scores: Sequence[Value], plan: BoostingStage
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
                "SF-E138", "This feature has no shape of its own.", try_="additive=True when it is fitted"
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
class BoostingStage:
    """So many rounds of so many trees of a kind, and what one round may cost. All of it is public."""

    rounds: int
    trees_per_round: int
    depth: int
    rate: float
    share: Fraction
    """Share of the spend for one round."""
    additive: bool
    """Every tree splits one feature, whose turn it is."""
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
    gradients: Sequence[SumAnswer], hessians: Sequence[SumAnswer], plan: BoostingStage
) -> Floats:
    """Return the step of each leaf of a round: gradient over Hessian, both shrunk by the noise they have.

    A noisy Hessian is shrunk towards that of an even leaf, and is never far below it, so that no step is
    made large by noise alone. Steps are shrunk towards 0 by how much of their square is noise (James and
    Stein): where all of it is, scores stay where they are.
    """
    gradient = np.concatenate([each.values[:, 0] for each in gradients]) / UNIT
    noise = gradients[0].deviation / UNIT
    even = np.concatenate(
        [np.full(len(each.values), plan.curvature * plan.rows / len(each.values)) for each in hessians]
    )
    unsure = (hessians[0].deviation / UNIT) ** 2
    measured = np.concatenate([each.values[:, 0] for each in hessians]) / UNIT
    usual = (_EVEN if plan.additive else 1.0) * even
    hessian = (measured * usual**2 + even * unsure) / (usual**2 + unsure)
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
    moved = np.clip(steps * plan.rate * UNIT, -2 * LIMIT, 2 * LIMIT)
    found: Floats = np.rint(np.nan_to_num(moved)) / UNIT
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
            steps = np.rint(leaf[:, place] * UNIT).astype(int)
            moved = Add(moved, Lookup(where, tuple(steps.tolist())))
        found.append(clip_value(moved, LIMIT))
    return found
