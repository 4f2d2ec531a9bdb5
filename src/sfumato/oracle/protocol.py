"""What a learner may ask of rows it never sees: noisy sums and histograms, quantiles, and a choice of sums.

`Oracle` prices every question; its subclasses say where the exact integers come from: `ArrayOracle` for one's
own arrays, `TableOracle` for a table behind the curator, `HeldRowsOracle` for rows held in memory. A learner
that speaks to an oracle alone is as private as what it asked, and runs on every engine unchanged.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.selections import Ranked
from sfumato.curator.plan.spend import PureSpend
from sfumato.noise import QuantilesMechanism, TopK
from sfumato.oracle.blocks import Add, Block, Constant, Key, noisy, share_of, value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.noisy_sum import NoisySum
    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared, View
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.gradients import GradientQuestion
    from sfumato.oracle.row_kernels import RowKernel

ALL = Fraction(1)


@dataclass(frozen=True, slots=True)
class Answer:
    """The noisy sums of a block: one row a term, one column a cell."""

    values: NDArray[np.float64]
    deviation: float
    """Of the noise of each, which is public."""


class Oracle(ABC):
    """Sums over rows whose bounds are declared, out of one budget."""

    rows_per_unit: int = 1
    scans: bool = False
    """Whether another look at the rows takes a scan, so that more is asked at once than may be needed."""
    replaced: bool = False
    """Whether neighbours replace a unit instead of adding or removing one."""

    def __init__(self, declared: Declared, budget: FitBudget) -> None:
        self.declared = declared
        self.budget = budget

    def sums(
        self,
        blocks: Sequence[Block],
        keys: Sequence[Key] = (),
        share: Fraction = ALL,
        out_of: Spend | None = None,
    ) -> list[Answer]:
        """Each block's sums in every cell of the keys, from one scan, for this share of the budget.

        `out_of` names a part of the budget; without it, the main one pays.
        """
        spend = share_of(out_of or self.budget.main, share)
        found = self._sums(tuple(blocks), tuple(keys), spend)
        return list(map(_answer, found, self.noise(blocks, spend)))

    def histograms(
        self,
        groupings: Sequence[Sequence[Key]],
        terms: Sequence[Value],
        keys: Sequence[Key] = (),
        share: Fraction = ALL,
        shares: Sequence[Fraction] | None = None,
    ) -> list[list[Answer]]:
        """The same terms by each of these groupings, within the cells of `keys`: a row is once in each.

        One answer a term for each grouping; its rows are the cells of the grouping, its columns those of
        the keys. `shares` divides the spend among the terms; without it, all have the same.
        """
        spend = share_of(self.budget.main, share)
        parts = shares or [Fraction(1, len(terms))] * len(terms)
        blocks = tuple(self._repeated(*each, len(groupings)) for each in zip(terms, parts, strict=True))
        found = self._histograms(tuple(map(tuple, groupings)), blocks, tuple(keys), spend)
        noise = self.noise(blocks, spend)
        return [list(map(_answer, each, noise)) for each in found]

    def gradients(self, asked: GradientQuestion, share: Fraction = ALL) -> Answer:
        """The slopes of a loss at public weights, from one scan; the rows are to be shortened before."""
        spend = share_of(self.budget.main, share)
        (noise,) = self.noise([asked.block(self.declared)], spend)
        found = np.asarray(self._gradients(asked, noise, spend), dtype=np.float64)
        return Answer(found.reshape(asked.weights.shape), noise.deviation)

    def release_objective(self, kernel: RowKernel) -> NDArray[np.float64]:
        """Return what a kernel releases about rows behind the curator that were shortened, in its own steps.

        The kernel sees one figure for each feature of a unit's one row and, last, its class: −1 for none.
        """
        raise AssertionError("own arrays are seen as they are, so no kernel is charged for them")

    @abstractmethod
    def short(self, length: float) -> Oracle:
        """The same rows, none longer than this: in halves of their bounds, for every feature the same."""

    def around(self, view: View) -> Oracle:
        """The same rows from a public point of view; shortened where that can be done."""
        return self._around(view)

    @abstractmethod
    def remember(self, values: Sequence[Value]) -> tuple[Oracle, list[Value]]:
        """The same rows with these values as further columns, so that none is computed again."""

    def quantiles(
        self,
        values: Sequence[Value],
        shares: Sequence[Any],
        keys: Sequence[Key] = (),
        share: Fraction = ALL,
        out_of: Spend | None = None,
    ) -> list[NDArray[np.int64]]:
        """Of each value in every cell of the keys, from one scan: one row a share, one column a cell.

        By pure ε, of which every value has an equal part.
        """
        spend, moved = self._pure(out_of, share), self.rows_per_unit * (2 if self.replaced else 1)
        ends = [value_range(value, self.declared.spans) for value in values]
        mechanism = QuantilesMechanism(spend.epsilon / (len(values) * moved), tuple(shares))
        cells, size = math.prod(key.size for key in keys), 1 + max(high - low for low, high in ends)
        ranked = Ranked(len(values), cells, size, mechanism, moved)
        places = [Add(value, Constant(-low)) for value, (low, _) in zip(values, ends, strict=True)]
        found = self._quantiles(tuple(places), tuple(keys), ranked, spend)
        return [
            np.minimum(np.array(each, dtype=np.int64).reshape(-1, cells) + low, high)
            for each, (low, high) in zip(found, ends, strict=True)
        ]

    @abstractmethod
    def _quantiles(
        self, values: tuple[Value, ...], keys: tuple[Key, ...], ranked: Ranked, spend: Spend
    ) -> list[list[list[int]]]:
        """Of values that lie from 0 on."""

    def select(
        self, terms: Sequence[Value], k: int, share: Fraction = ALL, out_of: Spend | None = None
    ) -> list[int]:
        """The places of the k terms with the greatest sums, where a row adds 0 or 1 to each; by pure ε."""
        spend = self._pure(out_of, share)
        mechanism = TopK(spend.epsilon, k, self.rows_per_unit, monotone=not self.replaced)
        return self._select(tuple(terms), mechanism, spend)

    @abstractmethod
    def _select(self, terms: tuple[Value, ...], mechanism: TopK, spend: Spend) -> list[int]: ...

    def _pure(self, out_of: Spend | None, share: Fraction) -> PureSpend:
        """What choices are paid for with: beside Gaussian noise they are not one Gaussian mechanism."""
        spend = share_of(out_of or self.budget.main, share)
        if not isinstance(spend, PureSpend):
            raise AssertionError("choices are paid for by pure ε: `aside`, or `alone` in the place of `main`")
        return spend

    def noise(self, blocks: Sequence[Block], spend: Spend) -> list[NoisySum[int]]:
        """What would be added to these blocks; public."""
        return [noisy(block, spend, self.rows_per_unit, self.replaced) for block in blocks]

    def _repeated(self, term: Value, share: Fraction, times: int) -> Block:
        """One term that a row adds to once in each of so many groupings."""
        one = Block.within((term,), self.declared.spans, share)
        return replace(one, l1=times * one.l1, l2_squared=times * one.l2_squared)

    @abstractmethod
    def _sums(self, blocks: tuple[Block, ...], keys: tuple[Key, ...], spend: Spend) -> list[Any]:
        """The noisy integers of each block."""

    @abstractmethod
    def _histograms(
        self,
        groupings: tuple[tuple[Key, ...], ...],
        blocks: tuple[Block, ...],
        keys: tuple[Key, ...],
        spend: Spend,
    ) -> list[list[Any]]:
        """The noisy integers of each block's term for each grouping."""

    @abstractmethod
    def _gradients(self, asked: GradientQuestion, noise: NoisySum[int], spend: Spend) -> Any:
        """The noisy integers, features fastest."""

    @abstractmethod
    def _around(self, view: View) -> Oracle: ...


def _answer(values: Any, noise: NoisySum[int]) -> Answer:
    return Answer(np.asarray(values, dtype=np.float64), noise.deviation)
