"""Trees whose splits are drawn by public coins: which cell a row is in depends on that row alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.trees.cells import bins, corner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.feature_spread import FeatureSpread

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """A tree whose levels ask one thing each: which features, from where on, and in bounds."""

    features: tuple[int, ...]
    thresholds: tuple[float, ...]
    additive: bool
    """All thresholds belong to one feature, and cells are what lies between them."""

    @property
    def cells(self) -> int:
        return len(self.thresholds) + 1 if self.additive else 2 ** len(self.thresholds)

    def value(self, declared: Declared) -> Value:
        if self.additive:
            feature = declared.features[self.features[0]]
            return bins(feature.value, [round(at * feature.bound) for at in self.thresholds])
        return corner([declared.features[at] for at in self.features], self.thresholds)


def in_turn(rng: Any, features: int) -> Iterator[int]:
    """Every feature before any comes again, by public coins."""
    while True:
        yield from rng.permutation(features).tolist()


def drawn(rng: Any, known: FeatureSpread, depth: int, turns: Iterator[int] | None) -> Part:
    """Features and thresholds by public coins, where the private spread says that rows lie.

    With `turns` a part has the one feature whose turn it is.
    """
    if turns is not None:
        at = next(turns)
        places = known.mean[at] + known.deviation[at] * np.linspace(-1.8, 1.8, 2**depth - 1)
        return Part((at,), tuple(np.unique(np.clip(places, -1, 1)).tolist()), True)
    depth = min(depth, len(known.mean))
    chosen = rng.choice(len(known.mean), depth, replace=False)
    places = known.mean[chosen] + 0.7 * known.deviation[chosen] * rng.normal(size=depth)
    return Part(tuple(chosen.tolist()), tuple(np.clip(places, -1, 1).tolist()), False)


def kept(each: Part, leaves: Floats, declared: Declared) -> dict[str, Any]:
    """What a prediction needs, in the features' own measure; cuts half a step lower, as rows are rounded."""
    wanted = each.features * len(each.thresholds) if each.additive else each.features
    named = [declared.features[at] for at in wanted]
    cuts = [
        feature.middle + feature.half * (round(at * feature.bound) - 0.5) / feature.bound
        for feature, at in zip(named, each.thresholds, strict=True)
    ]
    return {
        "features": np.array(wanted),
        "cuts": np.array(cuts),
        "leaves": leaves,
        "additive": each.additive,
        "middle": np.array([feature.middle for feature in named]),
    }


def cell(rows: Floats, each: dict[str, Any]) -> NDArray[np.int64]:
    values = rows[:, each["features"]]
    above = np.where(np.isnan(values), each["middle"], values) >= each["cuts"]
    weights = np.ones(above.shape[1], dtype=int) if each["additive"] else 1 << np.arange(above.shape[1])
    found: NDArray[np.int64] = above @ weights
    return found
