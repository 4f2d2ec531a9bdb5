"""Marginals in whole numbers that still agree: docs/proofs/workloads.md#whole-numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.together.design import count_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.plan.together.design import Floats, Marginal, WorkloadDesign

_TIES = 6
"""Decimals that sums are rounded to before they become whole, so that equal sums become the same number."""


@dataclass(frozen=True, slots=True)
class MarginalRounding:
    """How one marginal is rounded: its keys in an order, after one whose sums over common keys are fixed."""

    keys: Marginal
    order: tuple[int, ...]
    """The keys again, the fixed ones first: cells of coarser groups are then side by side."""
    fixed: Marginal = ()
    """Keys by which an earlier marginal was rounded."""
    after: Marginal = ()
    """The keys of that marginal."""

    def round(self, table: Floats, fixed: Floats | None) -> Floats:
        """Return whole numbers near to a table, which add up to those that are fixed already.

        The last axis has independent draws of the table.
        """
        axes = [*(self.keys.index(key) for key in self.order), len(self.keys)]
        turned = np.transpose(table, axes)
        groups = turned.reshape(math.prod(turned.shape[: len(self.fixed)]), -1, turned.shape[-1])
        if fixed is not None:
            places = [*(self.fixed.index(key) for key in self.order[: len(self.fixed)]), len(self.fixed)]
            wanted = np.transpose(fixed, places).reshape(-1, 1, turned.shape[-1])
            groups = groups + (wanted - groups.sum(axis=1, keepdims=True)) / groups.shape[1]
        # Rounding what was added up so far moves no sum far; rounding each cell would let errors add up.
        upto = np.rint(np.round(np.cumsum(groups, axis=1), _TIES))
        whole = np.diff(upto, axis=1, prepend=0.0).reshape(turned.shape)
        return np.asarray(np.transpose(whole, np.argsort(axes)))

    def count_runs(self, keys: Marginal, sizes: Sequence[int]) -> int:
        """Return how many runs of cells side by side one cell of a coarser marginal is the sum of."""
        last = max((self.order.index(key) for key in keys), default=-1)
        return count_cells(sizes, set(self.order[: last + 1]) - set(keys))


class AskedRoundings:
    """How the marginals that each sum is asked for at are rounded, one after the other."""

    def __init__(self, design: WorkloadDesign) -> None:
        asked: dict[int, list[Marginal]] = {}
        for each in design.asked:
            asked.setdefault(each.at, []).append(each.keys)
        self.residuals = design.residuals
        self.by_sum = {at: order_roundings(list(dict.fromkeys(keys))) for at, keys in asked.items()}

    def find_home(self, at: int, keys: Marginal) -> MarginalRounding:
        """Return the rounding of the marginal that a coarser one is summed from."""
        return next(each for each in self.by_sum[at] if set(keys) <= set(each.keys))


def sum_to(table: Floats, has: Marginal, keep: Marginal) -> Floats:
    """Return the sums over the keys that are not kept."""
    rest = tuple(axis for axis, key in enumerate(has) if key not in keep)
    return np.asarray(table.sum(axis=rest) if rest else table)


def order_roundings(asked: Sequence[Marginal]) -> list[MarginalRounding]:
    """Return how marginals are rounded, those alone that no other one contains.

    Each next one has its keys in common with one earlier marginal, where there is such an order; then all of
    them agree. Where there is none, those that cannot agree do up to rounding.
    """
    shared = {key: sum(key in keys for keys in asked) for keys in asked for key in keys}
    largest = [keys for keys in asked if not any(set(keys) < set(other) for other in asked)]
    found: list[MarginalRounding] = []
    while largest:
        keys, fixed, after = _find_next(largest, [each.keys for each in found])
        largest.remove(keys)
        order = sorted(keys, key=lambda key: (key not in fixed, -shared[key], key))
        found.append(MarginalRounding(keys, tuple(order), fixed, after))
    return found


def _find_next(
    largest: Sequence[Marginal], rounded: Sequence[Marginal]
) -> tuple[Marginal, Marginal, Marginal]:
    """Return a marginal, the keys by which it is fixed already, and the marginal that fixes them."""
    known = {key for keys in rounded for key in keys}
    for keys in largest:
        common = known & set(keys)
        for other in rounded:
            if common and common <= set(other):
                return keys, tuple(sorted(common)), other
    alone = [keys for keys in largest if not known & set(keys)] or largest
    return alone[0], (), ()
