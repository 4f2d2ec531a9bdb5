"""Hierarchical histograms: sums over a tree of cells, and the best linear estimates from noisy sums.

Level 0 holds the cells themselves, padded with cells that are known to be empty; a node of the next level is
the sum of `branching` neighbours. There is no root: the top level has at most `branching` nodes
(docs/proofs/ranges.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.noise.histograms import widen_if_needed

if TYPE_CHECKING:
    from sfumato.noise.sampling.integers import IntArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """The part of a range below a node: `slope` times the node's value, plus a rest of this variance."""

    slope: float
    rest: float


@dataclass(frozen=True, slots=True)
class SumTree:
    """The shape of the tree, and the weights of its best estimates for noise of variance 1."""

    cells: int
    branching: int
    weight: tuple[Floats, ...]
    """Weight of each node's own noisy sum in the estimate from it and all nodes below, level by level. It is
    also the variance of that estimate: 1 for cells, 0 for nodes that hold only padding."""

    upto: tuple[Floats, ...]
    """Sums of these weights over all nodes before each node, level by level."""

    @property
    def height(self) -> int:
        """Number of levels, and so the number of sums that each row is in."""
        return len(self.weight)

    def sum_levels(self, counts: IntArray) -> list[IntArray]:
        """Return the exact sums of every level, without the nodes that hold only padding."""
        levels: list[IntArray] = [widen_if_needed(counts)]
        for place in range(self.height - 1):
            levels.append(self._filled(levels[-1], place).reshape(-1, self.branching).sum(axis=1))
        return levels

    def estimate_cells(self, noisy: list[IntArray]) -> Floats:
        """Return the best linear unbiased estimates of the cells."""
        # Upwards each node is combined with its children; downwards the difference that is left is divided
        # among the children by their variances.
        joined = [self._filled(noisy[0], 0).astype(np.float64)]
        for place in range(1, self.height):
            own = self._filled(noisy[place], place).astype(np.float64)
            joined.append(
                own * self.weight[place] + (1 - self.weight[place]) * self._up(joined[-1], place - 1)
            )
        final = joined[-1]
        for place in reversed(range(self.height - 1)):
            left_over = final - self._up(joined[place], place)
            final = joined[place] + self._part(place) * self._down(left_over, place)
        return final[: self.cells]

    def range_weights(self, start: int, stop: int) -> list[Floats]:
        """Return the weight of every noisy sum in the estimate of a range, level by level.

        This is the transpose of `estimate_cells`. Padding has no noise and so no weight.
        """
        wanted = [np.zeros(len(self.weight[0]))]
        wanted[0][start:stop] = 1
        for place in range(self.height - 1):
            wanted.append(self._up(wanted[place] * self._part(place), place))
        total = wanted[-1]
        found = [self.weight[-1] * total]
        for place in reversed(range(self.height - 1)):
            passed = (1 - self.weight[place + 1]) * total - wanted[place + 1]
            total = wanted[place] + self._down(passed, place)
            found.append(self.weight[place] * total)
        return [np.where(own > 0, each, 0.0) for own, each in zip(self.weight, reversed(found), strict=True)]

    def range_variance(self, start: int, stop: int) -> float:
        """Return the variance of the estimate of a range, which is the sum of its squared weights.

        Only the nodes at the two ends of the range are visited: given its parent's value, a node's estimate
        is known up to its part of the group's variance. So the part of a range below a node is a multiple of
        the node's value and a rest that is independent of it.
        """
        inside, ends = (start, stop), dict[int, RangeEnd]()
        for place in range(self.height - 1):
            inside, ends = self._climb(place, inside, ends)
        rests = sum(end.slope**2 * self.weight[-1][node] + end.rest for node, end in ends.items())
        return self._mass(self.height - 1, *inside) + float(rests)

    def _climb(
        self, place: int, inside: tuple[int, int], ends: dict[int, RangeEnd]
    ) -> tuple[tuple[int, int], dict[int, RangeEnd]]:
        """Return the nodes of the next level that lie wholly inside the range, and those at its ends."""
        start, stop = inside
        first, last = -(-start // self.branching), stop // self.branching
        touched = {node // self.branching for node in ends}
        if start < stop:
            touched |= {node // self.branching for node in inside if node % self.branching}
        groups = {group: self._end(place, group, inside, ends) for group in touched}
        return (first, max(first, last)), groups

    def _end(self, place: int, group: int, inside: tuple[int, int], ends: dict[int, RangeEnd]) -> RangeEnd:
        begin, end = group * self.branching, (group + 1) * self.branching
        whole = self._mass(place, begin, end)
        linear = square = self._mass(place, max(begin, inside[0]), min(end, inside[1]))
        rest = 0.0
        for node in ends.keys() & set(range(begin, end)):
            weight = float(self.weight[place][node])
            linear += ends[node].slope * weight
            square += ends[node].slope ** 2 * weight
            rest += ends[node].rest
        return RangeEnd(linear / whole, rest + square - linear**2 / whole)

    def _mass(self, place: int, start: int, stop: int) -> float:
        return float(self.upto[place][stop] - self.upto[place][start]) if start < stop else 0.0

    def _part(self, place: int) -> Floats:
        """Return each node's part of the variance of its group."""
        whole = self._down(self._up(self.weight[place], place), place)
        return np.divide(self.weight[place], whole, out=np.zeros_like(whole), where=whole > 0)

    def _up(self, values: Floats, place: int) -> Floats:
        """Return the sums of all groups of a level, as values of the next level."""
        sums = values.reshape(-1, self.branching).sum(axis=1)
        return np.pad(sums, (0, len(self.weight[place + 1]) - len(sums)))

    def _down(self, values: Floats, place: int) -> Floats:
        """Return the values of the level above, repeated for each child."""
        return np.repeat(values[: len(self.weight[place]) // self.branching], self.branching)

    def _filled(self, level: IntArray, place: int) -> IntArray:
        return np.concatenate([level, np.zeros(len(self.weight[place]) - level.size, dtype=level.dtype)])


@lru_cache(maxsize=32)
def build_tree(cells: int, branching: int) -> SumTree:
    """Return the tree over so many cells, built once; with a branching of at least as many it is flat."""
    held = cells
    weight = [_pad(np.ones(held), branching)]
    while held > branching:
        held = -(-held // branching)
        below = weight[-1].reshape(-1, branching).sum(axis=1)
        weight.append(_pad(below / (below + 1), branching))
    return SumTree(cells, branching, tuple(weight), tuple(np.cumsum(np.pad(each, (1, 0))) for each in weight))


def _pad(level: Floats, branching: int) -> Floats:
    """Return a level filled up to whole groups; the top level has no groups and stays as it is."""
    return level if len(level) <= branching else np.pad(level, (0, -len(level) % branching))
