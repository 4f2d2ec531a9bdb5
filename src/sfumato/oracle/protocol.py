"""What a learner may ask of rows it never sees: noisy sums and histograms, quantiles, and a choice of sums.

`Oracle` prices every question; its subclasses say where the exact integers come from: `ArrayOracle` for one's
own arrays, `TableOracle` for a table behind the curator. A learner
that speaks to an oracle alone is as private as what it asked, and runs on every engine unchanged.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.selections import Ranked
from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import UsageError
from sfumato.noise import QuantilesMechanism, TopK
from sfumato.oracle.arrays.integer_rows import RowTransform
from sfumato.oracle.blocks import Add, CellKey, Constant, SumBlock, calibrate_noise, share_of, value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.noisy_sum import NoisyBlock
    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared, Feature
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.gradients import GradientQuestion
    from sfumato.oracle.row_kernels import RowKernel

ALL = Fraction(1)


@dataclass(frozen=True, slots=True)
class SumAnswer:
    """The noisy sums of a block: one row a term, one column a cell."""

    values: NDArray[np.float64]
    deviation: float
    """The standard deviation of the noise of each sum, which is public."""


class Oracle(ABC):
    """Answers questions about rows whose bounds are declared, out of the budget of one fit."""

    rows_per_unit: int = 1
    """The largest number of rows of one unit, which every price counts."""
    scans: bool = False
    """Whether every question scans a table, so that it pays to ask for more at once than may be needed."""
    replaced: bool = False
    """Whether neighbouring tables replace a unit instead of adding or removing one."""

    def __init__(self, declared: Declared, budget: FitBudget) -> None:
        self.declared = declared
        self.budget = budget

    def sums(
        self,
        blocks: Sequence[SumBlock],
        keys: Sequence[CellKey] = (),
        share: Fraction = ALL,
        out_of: Spend | None = None,
    ) -> list[SumAnswer]:
        """Return each block's sums in every cell of the keys, from one scan, for this share of the budget.

        `out_of` names the part of the budget that pays; without it, the main part does.
        """
        spend = share_of(out_of or self.budget.main, share)
        return list(map(_answer, self._sums(tuple(blocks), tuple(keys), spend), self.noise(blocks, spend)))

    def histograms(
        self,
        groupings: Sequence[Sequence[CellKey]],
        terms: Sequence[Value],
        keys: Sequence[CellKey] = (),
        share: Fraction = ALL,
        shares: Sequence[Fraction] | None = None,
    ) -> list[list[SumAnswer]]:
        """Return each term summed by each of these groupings, within the cells of `keys`.

        There is one answer a term for each grouping; its rows are the cells of the grouping, its columns
        those of the keys. A row is in one cell of each grouping, so a price counts it once for each.
        `shares` divides the spend among the terms; without it, all have the same.
        """
        spend = share_of(self.budget.main, share)
        parts = shares or [Fraction(1, len(terms))] * len(terms)
        blocks = tuple(self._repeated(*each, len(groupings)) for each in zip(terms, parts, strict=True))
        found = self._histograms(tuple(map(tuple, groupings)), blocks, tuple(keys), spend)
        noise = self.noise(blocks, spend)
        return [list(map(_answer, each, noise)) for each in found]

    def gradients(self, asked: GradientQuestion, share: Fraction = ALL) -> SumAnswer:
        """Return the gradient of a loss at public weights, from one scan over rows that were clipped."""
        spend = share_of(self.budget.main, share)
        (noise,) = self.noise([asked.build_block(self.declared)], spend)
        found = np.asarray(self._gradients(asked, noise, spend), dtype=np.float64)
        return SumAnswer(found.reshape(asked.weights.shape), noise.deviation)

    def release_objective(self, kernel: RowKernel) -> NDArray[np.float64]:
        """Return what a kernel releases about clipped rows behind the curator, in its own steps.

        The kernel sees one figure for each feature of a unit's one row and, last, its class: −1 for none.
        """
        raise AssertionError("own arrays are seen as they are, so no kernel is charged for them")

    def clip_rows(self, length: float) -> Oracle:
        """Return an oracle over the same rows, clipped to this l2 norm: in halves of the features' bounds."""
        return self.transform_rows(RowTransform(length))

    @abstractmethod
    def transform_rows(self, transform: RowTransform) -> Oracle:
        """Return an oracle over the same rows, centred at a public point and clipped in norm."""

    @abstractmethod
    def with_columns(self, values: Sequence[Value]) -> tuple[Oracle, list[Value]]:
        """Return an oracle whose rows have these values as further columns, and those columns.

        Later questions refer to the columns, so that no value is computed twice in one of them.
        """

    def with_features(self, features: Sequence[Feature]) -> Oracle:
        """Return an oracle over the same rows with these features in the place of the declared ones."""
        found = copy(self)
        found.declared = replace(self.declared, features=tuple(features), norm=None)
        return found

    def with_budget(self, budget: FitBudget) -> Oracle:
        """Return an oracle over the same rows that pays out of this budget: a part of what is left."""
        found = copy(self)
        found.budget = budget
        return found

    def quantiles(
        self,
        values: Sequence[Value],
        shares: Sequence[Any],
        keys: Sequence[CellKey] = (),
        share: Fraction = ALL,
        out_of: Spend | None = None,
    ) -> list[NDArray[np.int64]]:
        """Return quantiles of each value in every cell of the keys: one row a share, one column a cell.

        They come from one scan and cost pure ε, of which every value has an equal part.
        """
        # Each of a unit's rows moves the rank of a value by 1; replacing a unit moves it twice.
        spend, moved = self._pure(out_of, share), self.rows_per_unit * (2 if self.replaced else 1)
        ends = [value_range(value, self.declared.ranges) for value in values]
        mechanism = QuantilesMechanism(spend.epsilon / (len(values) * moved), tuple(shares))
        cells, size = math.prod(key.size for key in keys), 1 + max(high - low for low, high in ends)
        ranked = Ranked(len(values), cells, size, mechanism, moved)
        # Quantiles are chosen among integers from 0 on, as many as the widest value has.
        places = [Add(value, Constant(-low)) for value, (low, _) in zip(values, ends, strict=True)]
        found = self._quantiles(tuple(places), tuple(keys), ranked, spend)
        return [
            np.minimum(np.array(each, dtype=np.int64).reshape(-1, cells) + low, high)
            for each, (low, high) in zip(found, ends, strict=True)
        ]

    @abstractmethod
    def _quantiles(
        self, values: tuple[Value, ...], keys: tuple[CellKey, ...], ranked: Ranked, spend: Spend
    ) -> list[list[list[int]]]:
        """Return quantiles of values that lie from 0 on."""

    def select(
        self, terms: Sequence[Value], k: int, share: Fraction = ALL, out_of: Spend | None = None
    ) -> list[int]:
        """Return the places of the k terms with about the greatest sums; a row adds 0 or 1 to each.

        It costs pure ε.
        """
        spend = self._pure(out_of, share)
        # Sums that only grow with a unit more allow half the noise.
        mechanism = TopK(spend.epsilon, k, self.rows_per_unit, monotone=not self.replaced)
        return self._select(tuple(terms), mechanism, spend)

    @abstractmethod
    def _select(self, terms: tuple[Value, ...], mechanism: TopK, spend: Spend) -> list[int]: ...

    def _pure(self, out_of: Spend | None, share: Fraction) -> PureSpend:
        """Return what pays for a choice: choices and Gaussian noise together are no Gaussian mechanism."""
        spend = share_of(out_of or self.budget.main, share)
        if not isinstance(spend, PureSpend):
            raise AssertionError("choices are paid for by pure ε: `aside`, or `alone` in the place of `main`")
        return spend

    def noise(self, blocks: Sequence[SumBlock], spend: Spend) -> list[NoisyBlock]:
        """Return the noise that would be added to these blocks, which is public."""
        return [calibrate_noise(block, spend, self.rows_per_unit, self.replaced) for block in blocks]

    def can_draw(self, blocks: Sequence[SumBlock], spend: Spend) -> bool:
        """Return whether noise for these blocks is narrow enough to be drawn exactly, which is public."""
        try:
            self.noise(blocks, spend)
        except UsageError:
            return False
        return True

    def _repeated(self, term: Value, share: Fraction, times: int) -> SumBlock:
        """Return a block of one term that a row adds to once in each of so many groupings."""
        one = SumBlock.within((term,), self.declared.ranges, share)
        # A row adds the same term to one cell of each grouping: norms of copies side by side.
        moves = tuple((distance, times * sums) for distance, sums in one.moves)
        return replace(one, l1=times * one.l1, l2_squared=times * one.l2_squared, moves=moves)

    @abstractmethod
    def _sums(
        self,
        blocks: tuple[SumBlock, ...],
        keys: tuple[CellKey, ...],
        spend: Spend,
    ) -> list[Any]:
        """Return the noisy integers of each block."""

    @abstractmethod
    def _histograms(
        self,
        groupings: tuple[tuple[CellKey, ...], ...],
        blocks: tuple[SumBlock, ...],
        keys: tuple[CellKey, ...],
        spend: Spend,
    ) -> list[list[Any]]:
        """Return the noisy integers of each block's term for each grouping."""

    @abstractmethod
    def _gradients(self, asked: GradientQuestion, noise: NoisyBlock, spend: Spend) -> Any:
        """Return the noisy integers of a gradient, the features fastest."""


def _answer(values: Any, noise: NoisyBlock) -> SumAnswer:
    return SumAnswer(np.asarray(values, dtype=np.float64), noise.deviation)
