"""The oracle over one's own arrays: exact integers by NumPy, exact noise.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.oracle.arrays.features import transform_arrays
from sfumato.oracle.gradients import FeatureMatrix, read_plain_rows
from sfumato.oracle.protocol import Oracle
from sfumato.privacy.events import Sequential

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.noisy_sum import NoisyBlock
    from sfumato.curator.plan.selections import Ranked
    from sfumato.curator.plan.spend import Spend
    from sfumato.noise import TopK
    from sfumato.oracle.arrays.integer_rows import RowTransform
    from sfumato.oracle.arrays.table import ArrayTable
    from sfumato.oracle.blocks import CellKey, SumBlock, Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.gradients import GradientQuestion
    from sfumato.privacy.events import Event

    Pay = Callable[[Event], None]


class ArrayOracle(Oracle):
    """Answers from one's own arrays. `pay` is called with the price of a question before rows are read."""

    def __init__(self, declared: Declared, budget: FitBudget, arrays: ArrayTable, pay: Pay) -> None:
        super().__init__(declared, budget)
        self._arrays = arrays
        self._pay = pay
        self._matrix: FeatureMatrix | None = None

    def read_rows(self, event: Event) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the rows themselves and their classes, for mechanisms that prove a price of their own."""
        self._pay(event)
        return read_plain_rows(self.declared, self._arrays)

    def transform_rows(self, transform: RowTransform) -> ArrayOracle:
        found = transform_arrays(self.declared, self._arrays, transform)
        return self._over(found.declared, found.arrays)

    def with_columns(self, values: Sequence[Value]) -> tuple[ArrayOracle, list[Value]]:
        arrays, columns = self._arrays.with_values(values)
        return self._over(replace(self.declared, ranges=arrays.ranges), arrays), columns

    def _over(self, declared: Declared, arrays: ArrayTable) -> Self:
        """Return an oracle with the same budget over other columns of the same rows."""
        return type(self)(declared, self.budget, arrays, self._pay)

    def _sums(
        self,
        blocks: tuple[SumBlock, ...],
        keys: tuple[CellKey, ...],
        spend: Spend,
    ) -> list[Any]:
        noise = self._paid(blocks, spend)
        exact = self._arrays.sums(keys, [term for block in blocks for term in block.terms])
        ends = np.cumsum([each.of for each in noise])[:-1]
        parts = zip(noise, np.split(exact, ends), strict=True)
        return [each.release(sums) for each, sums in parts]

    def _histograms(
        self,
        groupings: tuple[tuple[CellKey, ...], ...],
        blocks: tuple[SumBlock, ...],
        keys: tuple[CellKey, ...],
        spend: Spend,
    ) -> list[list[Any]]:
        # All cells of all groupings are one vector to the noise of a term.
        noise = self._paid(blocks, spend)
        terms = [block.terms[0] for block in blocks]
        exact = self._arrays.histograms([(*grouping, *keys) for grouping in groupings], terms)
        cells = int(np.prod([key.size for key in keys], dtype=np.int64))
        long = [each.release(np.concatenate([one[at] for one in exact])) for at, each in enumerate(noise)]
        ends = np.cumsum([one.shape[1] for one in exact])[:-1]
        parts = [np.split(each, ends) for each in long]
        return [[each[at].reshape(-1, cells) for each in parts] for at in range(len(groupings))]

    def _gradients(self, asked: GradientQuestion, noise: NoisyBlock, spend: Spend) -> Any:
        self._pay(noise.event())
        if self._matrix is None or not self._matrix.suits(asked):
            self._matrix = FeatureMatrix.of(self.declared, self._arrays, asked)
        return noise.release(asked.sum_rows(self._matrix))

    def _quantiles(
        self, values: tuple[Value, ...], keys: tuple[CellKey, ...], ranked: Ranked, spend: Spend
    ) -> list[list[list[int]]]:
        self._pay(ranked.event())
        return ranked.release(self._arrays.tally(keys, values, ranked.size))

    def _select(self, terms: tuple[Value, ...], mechanism: TopK, spend: Spend) -> list[int]:
        self._pay(mechanism.event())
        return mechanism.release(self._arrays.sums((), terms)[:, 0])

    def _paid(self, blocks: tuple[SumBlock, ...], spend: Spend) -> list[NoisyBlock]:
        """Pay for blocks before anything is summed, and return their noise."""
        noise = self.noise(blocks, spend)
        self._pay(Sequential(tuple(each.event() for each in noise)))
        return noise
