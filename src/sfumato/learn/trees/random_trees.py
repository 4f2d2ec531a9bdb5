"""Trees whose splits are drawn by public coins: the leaf that a row is in depends on that row alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from sfumato.learn.cells import locate_bin, locate_orthant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.learn.trees.cut_places import CutPlaces
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared

    Floats = NDArray[np.float64]

# Where thresholds are drawn, in deviations. Chosen with benchmarks/learners.py; the coins are public and the
# places are private already, so privacy holds for any values.
_WIDEST, _TYPICAL = 1.8, 0.7


@dataclass(frozen=True, slots=True)
class RandomTree:
    """A tree that asks one question on every level: whether a feature reaches a threshold, in bounds."""

    features: tuple[int, ...]
    thresholds: tuple[float, ...]
    additive: bool
    """All thresholds split one feature, and leaves are the bins between them."""

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.thresholds) + 1 if self.additive else 2 ** len(self.thresholds)

    def locate_leaf(self, declared: Declared) -> Value:
        """Return the leaf that a row is in, for the oracle to group by."""
        if self.additive:
            feature = declared.features[self.features[0]]
            return locate_bin(feature.value, [round(at * feature.bound) for at in self.thresholds])
        return locate_orthant([declared.features[at] for at in self.features], self.thresholds)


def cycle_features(rng: Any, features: int) -> Iterator[int]:
    """Yield every feature before any comes again, in an order drawn by public coins."""
    while True:
        yield from rng.permutation(features).tolist()


def draw_tree(rng: Any, known: CutPlaces, depth: int) -> RandomTree:
    """Draw features and thresholds by public coins, where private places say that rows lie."""
    # A feature is split once at most, so that all leaves can hold rows.
    depth = min(depth, known.features)
    chosen = rng.choice(known.features, depth, replace=False)
    away = _TYPICAL * rng.normal(size=depth)
    cuts = [float(known.find_places(*each)) for each in zip(chosen.tolist(), away, strict=True)]
    return RandomTree(tuple(chosen.tolist()), tuple(cuts), False)


def split_feature(known: CutPlaces, feature: int, depth: int, even: bool) -> RandomTree:
    """Return a tree of one feature: of parts that hold about as many rows each, or of equal width."""
    parts = 2**depth
    away = ndtri(np.arange(1, parts) / parts) if even else np.linspace(-_WIDEST, _WIDEST, parts - 1)
    places = known.find_places(feature, away)
    return RandomTree((feature,), tuple(np.unique(places).tolist()), True)


# ---- trees as they are saved -------------------------------------------------------------------------------


def store_tree(tree: RandomTree, leaves: Floats, declared: Declared) -> dict[str, Any]:
    """Return what a prediction needs, in the features' own units; its names are those of saved models.

    Cuts lie half a step below a threshold, since rows were rounded to whole steps before they were compared.
    """
    wanted = tree.features * len(tree.thresholds) if tree.additive else tree.features
    named = [declared.features[at] for at in wanted]
    cuts = [
        feature.middle + feature.half * (round(at * feature.bound) - 0.5) / feature.bound
        for feature, at in zip(named, tree.thresholds, strict=True)
    ]
    return {
        "features": np.array(wanted),
        "cuts": np.array(cuts),
        "leaves": leaves,
        "additive": tree.additive,
        "middle": np.array([feature.middle for feature in named]),
    }


def find_leaves(rows: Floats, tree: dict[str, Any]) -> NDArray[np.int64]:
    """Return the leaf of each row; a missing feature counts as the middle of its bounds."""
    values = rows[:, tree["features"]]
    above = np.where(np.isnan(values), tree["middle"], values) >= tree["cuts"]
    weights = np.ones(above.shape[1], dtype=int) if tree["additive"] else 1 << np.arange(above.shape[1])
    found: NDArray[np.int64] = above @ weights
    return found
