"""Sums of a pool's marginals put together by least squares and made whole, for one answer or many draws.

Because : docs/proofs/workloads.md#whole-numbers
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.together.rounding import sum_to
from sfumato.curator.plan.together.design import count_cells, list_subsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.answers.noise_law import Floats
    from sfumato.curator.answers.together.rounding import AskedRoundings
    from sfumato.curator.plan.together.design import Marginal
    from sfumato.curator.plan.together.pool import Pool, StrategyItem


class WholeSums:
    """What the measured rows of a pool say of every asked sum; the last axis of each table has the draws.

    `rows` has for each item of the strategy its coordinates: one row a cell, one column a draw.
    """

    def __init__(
        self,
        pool: Pool,
        items: Sequence[StrategyItem],
        gains: Sequence[Floats],
        roundings: AskedRoundings,
        rows: Sequence[Sequence[Floats]],
    ) -> None:
        self._pool, self._roundings = pool, roundings
        self._measured = list(zip(items, gains, rows, strict=True))
        self._rounded: dict[int, dict[Marginal, Floats]] = {}

    def find(self, at: int, keys: Marginal) -> Floats:
        """Return a sum in every cell of a marginal, in whole steps."""
        if at not in self._rounded:
            self._rounded[at] = self._round(at)
        home = self._roundings.find_home(at, keys).keys
        return sum_to(self._rounded[at][home], home, keys)

    def _round(self, at: int) -> dict[Marginal, Floats]:
        """Return a sum in whole steps by the largest marginals, so that sums of shown numbers are shown."""
        found: dict[Marginal, Floats] = {}
        for each in self._roundings.by_sum[at]:
            fixed = sum_to(found[each.after], each.after, each.fixed) if each.fixed else None
            found[each.keys] = each.round(self._estimate(at, each.keys), fixed)
        return found

    def _estimate(self, at: int, keys: Marginal) -> Floats:
        """Return a sum in every cell of a marginal: all residuals of it, each spread over its cells."""
        found: Any = 0.0
        for part in list_subsets(keys):
            rest = count_cells(self._pool.sizes, set(keys) - set(part))
            shape = [self._pool.sizes[key] if key in part else 1 for key in keys]
            residual = np.tensordot(self._pool.rows_of_sums[at], self._residuals[part], axes=1)
            found = found + residual.reshape(*shape, -1) / rest
        return np.asarray(found * self._pool.bounds[at])

    @cached_property
    def _residuals(self) -> dict[Marginal, Floats]:
        """Every base sum in every residual, the sums on the first axis."""
        found = {}
        for place, part in enumerate(self._roundings.residuals):
            sizes = [self._pool.sizes[key] for key in part]
            total: Any = np.zeros((len(self._pool.base), *sizes, 1))
            for item, gains, rows in self._measured:
                if set(part) <= set(item.keys):
                    tables = (row.reshape(*(self._pool.sizes[key] for key in item.keys), -1) for row in rows)
                    summed = np.stack([_residual(table, item.keys, part) for table in tables])
                    total = total + np.tensordot(gains[place], summed, axes=1)
            found[part] = total
        return found


def _residual(table: Floats, has: Marginal, part: Marginal) -> Floats:
    """Return a marginal's sums by some of its keys, less their means over each key."""
    found = sum_to(table, has, part)
    for axis in range(len(part)):
        found = found - found.mean(axis=axis, keepdims=True)
    return found
