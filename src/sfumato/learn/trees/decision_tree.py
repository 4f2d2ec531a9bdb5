"""A decision tree in the manner of ID3: every level is one scan of noisy counts, from which gains follow.

Because : docs/proofs/learners.md#decision-tree
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.learn.base.supervised import PrivateClassifier
from sfumato.learn.cells import locate_bin
from sfumato.learn.first_look import CHECK_SHARE, beats_commonest, has_own_arrays
from sfumato.oracle.blocks import COUNT, AtLeast, CellKey, Choose, Constant, SumBlock, share_of
from sfumato.oracle.declared import require_labels
from sfumato.oracle.feature_spread import measure_spread
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.feature_spread import FeatureSpread
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners.py; privacy depends on none of these.
_SPREAD_SHARE = Fraction(8, 100)
"""Share of the spend for where rows lie; the levels have the rest, in equal parts."""
_BINS = 12
_DEEPEST = 10
_GOOD_GAIN = 0.045
"""Nats a row that a good first split gains; there are only as many levels as let such a gain be seen."""
_BEST_GAIN = 0.4
"""Nats a row that hardly any split gains: if noise would hide it, rows are only counted by class."""


@dataclass(slots=True)
class TreeNode:
    """A leaf until it is split; children are named by their places among all nodes."""

    counts: Floats
    """Noisy numbers of rows by class, and as many as noise may have made in its parent's proportions."""
    feature: int = -1
    cut: int = 0
    below: int = -1
    above: int = -1


class DecisionTree(PrivateClassifier):
    """Splits by the information gain that noisy counts of classes show, level by level.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#decision-tree
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
        max_depth: Any = 5,
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.classes = classes
        self.max_depth = max_depth
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        depth = parse_whole(self.max_depth, "max_depth")
        if depth > _DEEPEST:
            raise UsageError("SF-N101", f"Trees are at most {_DEEPEST} levels deep.", try_="max_depth=5")
        known = measure_spread(oracle, _SPREAD_SHARE)
        cuts = _place_cuts(oracle.declared, known)
        # Behind the curator a tree that was paid for before asks the same questions again, and no more.
        checks = has_own_arrays(oracle)
        left = 1 - _SPREAD_SHARE - (CHECK_SHARE if checks else 0)
        depth, seen = _choose_depth(oracle, depth, known.rows)
        nodes = [TreeNode(np.ones(len(self.classes_)))]
        if checks and not seen:
            nodes[0].counts = _count_classes(oracle, left)
            self._keep(nodes, oracle.declared)
            return
        leaves = [0]
        for _ in range(depth):
            if not leaves:
                break
            counts, noise = _count_rows(oracle, nodes, leaves, cuts, left / depth)
            leaves = _split_leaves(nodes, leaves, counts, noise, cuts)
        if checks and not beats_commonest(oracle, _guess_class(oracle.declared, nodes, 0), nodes[0].counts):
            nodes = [TreeNode(nodes[0].counts)]
        self._keep(nodes, oracle.declared)

    def _keep(self, nodes: list[TreeNode], declared: Declared) -> None:
        """Store the tree in the features' own units; cuts lie half a step lower, as rows were rounded."""
        features = declared.features
        self.feature_ = np.array([node.feature for node in nodes])
        self.threshold_ = np.array(
            [
                features[node.feature].middle
                + features[node.feature].half * (node.cut - 0.5) / features[node.feature].bound
                for node in nodes
            ]
        )
        self.children_ = np.array([[node.below, node.above] for node in nodes])
        # One row of each class is added (Laplace smoothing), so that no probability is 0.
        shares = np.array([np.maximum(node.counts, 0.0) + 1.0 for node in nodes])
        self.value_ = shares / shares.sum(axis=1, keepdims=True)
        self.middles_ = declared.middles

    def _log_scores(self, rows: Floats) -> Floats:
        rows = np.where(np.isnan(rows), self.middles_, rows)
        at = np.zeros(len(rows), dtype=int)
        for _ in range(_DEEPEST):
            inner = self.feature_[at] >= 0
            side = rows[np.arange(len(rows)), np.maximum(self.feature_[at], 0)] >= self.threshold_[at]
            at = np.where(inner, self.children_[at, side.astype(int)], at)
        found: Floats = np.log(self.value_[at])
        return found


def _choose_depth(oracle: Oracle, most: int, rows: float) -> tuple[int, bool]:
    """Return how many levels there can be so that a good first split stands out of the noise, if any does.

    Each level has an equal share of the spend. The choice is by released numbers alone.
    """
    features = len(oracle.declared.features)
    counted = SumBlock((COUNT,), features, features)
    for depth in range(most, 0, -1):
        (noise,) = oracle.noise([counted], share_of(oracle.budget.main, (1 - _SPREAD_SHARE) / depth))
        needed = _gain_needed(noise.deviation, np.array([rows]))
        if needed <= _GOOD_GAIN * rows or depth == 1:
            return depth, needed <= _BEST_GAIN * rows
    raise AssertionError(most)


def _count_classes(oracle: Oracle, share: Fraction) -> Floats:
    """Count rows by class: all that is asked where noise would hide even one split."""
    target = require_labels(oracle.declared)
    key = CellKey(target.value, len(target.classes))
    (answer,) = oracle.sums([SumBlock((COUNT,), 1, 1)], [key], share=share)
    found: Floats = answer.values[0]
    return found


def _guess_class(declared: Declared, nodes: list[TreeNode], at: int) -> Value:
    """Return the place of the class that the tree gives to a row."""
    node = nodes[at]
    if node.feature < 0:
        return Constant(int(node.counts.argmax()))
    below, above = (_guess_class(declared, nodes, each) for each in (node.below, node.above))
    return Choose(AtLeast(declared.features[node.feature].value, node.cut), above, below)


def _place_cuts(declared: Declared, known: FeatureSpread) -> list[list[int]]:
    """Return where each feature may be split: evenly over where its rows lie."""
    found = []
    for place, feature in enumerate(declared.features):
        wide = known.cut_mean[place] + known.cut_deviation[place] * np.linspace(-1.8, 1.8, _BINS - 1)
        found.append(np.unique(np.rint(np.clip(wide, -1, 1) * feature.bound).astype(int)).tolist())
    return found


def _locate_leaf(declared: Declared, nodes: list[TreeNode], at: int, order: dict[int, int]) -> Value:
    """Return the place among the leaves of the one that a row is in; −1 for one that is not asked about."""
    node = nodes[at]
    if node.feature < 0:
        return Constant(order.get(at, -1))
    below, above = (_locate_leaf(declared, nodes, each, order) for each in (node.below, node.above))
    return Choose(AtLeast(declared.features[node.feature].value, node.cut), above, below)


def _count_rows(
    oracle: Oracle, nodes: list[TreeNode], leaves: list[int], cuts: list[list[int]], share: Fraction
) -> tuple[list[Floats], float]:
    """Count rows by bin, leaf and class, for each feature; return the deviation of the noise too."""
    declared, target = oracle.declared, require_labels(oracle.declared)
    order = {at: place for place, at in enumerate(leaves)}
    oracle, (leaf,) = oracle.with_columns([_locate_leaf(declared, nodes, 0, order)])
    classes = len(target.classes)
    keys = [CellKey(leaf, len(leaves)), CellKey(target.value, classes)]
    groupings = [
        [CellKey(locate_bin(feature.value, cut), len(cut) + 1)]
        for feature, cut in zip(declared.features, cuts, strict=True)
    ]
    found = oracle.histograms(groupings, [COUNT], keys, share=share)
    return [each[0].values.reshape(-1, len(leaves), classes) for each in found], found[0][0].deviation


def _split_leaves(
    nodes: list[TreeNode], leaves: list[int], counts: list[Floats], noise: float, cuts: list[list[int]]
) -> list[int]:
    """Split every leaf whose best gain is beyond what noise makes, and return the new leaves."""
    fresh = []
    for place, at in enumerate(leaves):
        # Negative counts have no entropy.
        tables = [np.maximum(each[:, place, :], 0.0) for each in counts]
        # The histogram of every feature counts the same rows, so their mean has the least noise.
        measured = np.mean([each[:, place, :].sum(axis=0) for each in counts], axis=0)
        rows_noise = noise * math.sqrt(np.mean([len(each) for each in counts]) / len(counts))
        nodes[at].counts = _shrink_counts(measured, nodes[at].counts, rows_noise)
        gains = [_gains(table) for table in tables]
        feature = int(np.argmax([gain.max(initial=-math.inf) for gain in gains]))
        cut = int(gains[feature].argmax()) if len(gains[feature]) else -1
        if cut < 0 or gains[feature][cut] < _gain_needed(noise, measured):
            continue
        nodes[at].feature, nodes[at].cut = feature, cuts[feature][cut]
        table = counts[feature][:, place, :]
        for name, half in (("below", table[: cut + 1]), ("above", table[cut + 1 :])):
            setattr(nodes[at], name, len(nodes))
            fresh.append(len(nodes))
            half_noise = noise * math.sqrt(len(half))
            nodes.append(TreeNode(_shrink_counts(half.sum(axis=0), nodes[at].counts, half_noise)))
    return fresh


def _shrink_counts(counts: Floats, parent: Floats, noise: float) -> Floats:
    """Return counts with as many rows as noise may have made added in the parent's proportions."""
    found: Floats = np.maximum(counts, 0.0) + 2 * noise * parent / max(float(parent.sum()), 1e-300)
    return found


def _gain_needed(noise: float, counts: Floats) -> float:
    """Return more than the best of many cuts gains by noise alone, which is about its variance a row."""
    return 2 * noise + 4 * _BINS * noise**2 / max(1.0, float(counts.sum()))


def _gains(table: Floats) -> Floats:
    """Return the information gain of each cut between two bins: nats of all rows together."""
    below = np.cumsum(table, axis=0)[:-1]
    above = table.sum(axis=0) - below
    found: Floats = _total_entropy(table.sum(axis=0)[None, :]) - _total_entropy(below) - _total_entropy(above)
    return found


def _total_entropy(counts: Floats) -> Floats:
    """Return the number of rows times the entropy of their classes."""
    total = counts.sum(axis=1, keepdims=True)
    shares = np.where(counts > 0, counts / np.maximum(total, 1e-300), 1.0)
    found: Floats = -(counts * np.log(shares)).sum(axis=1)
    return found
