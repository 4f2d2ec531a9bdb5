"""What a learner may ask of rows it never sees: noisy sums, histograms, quantiles and choices.

`Oracle` says what each costs; where the exact integers come from is said by `ArrayOracle`, for one's own
arrays, and by the session, for a table behind the curator. A learner that speaks to an oracle alone is as
private as what it asked, and runs on every engine unchanged.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.statistics import Block, Key, Noisy, noisy, part
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.spend import Spend
    from sfumato.curator.statistics import Value
    from sfumato.learn.arrays import Arrays
    from sfumato.learn.declared import Declared

ALL = Fraction(1)


@dataclass(frozen=True, slots=True)
class Answer:
    """The noisy sums of a block: one row a term, one column a cell."""

    values: NDArray[np.float64]
    deviation: float
    """Of the noise of each, which is public."""


class Oracle(ABC):
    """Sums over rows whose bounds are declared, out of one spend."""

    rows_per_unit: int = 1
    replaced: bool = False
    """Whether neighbours replace a unit instead of adding or removing one."""

    def __init__(self, declared: Declared, spend: Spend) -> None:
        self.declared = declared
        self.spend = spend

    def sums(self, blocks: Sequence[Block], keys: Sequence[Key] = (), share: Fraction = ALL) -> list[Answer]:
        """Each block's sums in every cell of the keys, for this share of the spend; from one scan."""
        spend = part(self.spend, share)
        found = self._sums(tuple(blocks), tuple(keys), spend)
        return list(map(self._answer, found, self._noise(blocks, spend)))

    def histograms(
        self,
        groupings: Sequence[Sequence[Key]],
        terms: Sequence[Value],
        keys: Sequence[Key] = (),
        share: Fraction = ALL,
    ) -> list[list[Answer]]:
        """The same terms by each of these groupings, within the cells of `keys`: a row is once in each.

        One answer a term for each grouping; its rows are the cells of the grouping, its columns those of
        the keys. Every term has the same share of the spend.
        """
        spend = part(self.spend, share)
        blocks = [self._repeated(term, len(groupings), Fraction(1, len(terms))) for term in terms]
        found = self._histograms(tuple(map(tuple, groupings)), tuple(blocks), tuple(keys), spend)
        noise = self._noise(blocks, spend)
        return [list(map(self._answer, each, noise)) for each in found]

    def _repeated(self, term: Value, times: int, share: Fraction) -> Block:
        """One term that a row adds to once in each of so many groupings."""
        one = Block.within((term,), self.declared.spans, share)
        return replace(one, l1=times * one.l1, l2_squared=times * one.l2_squared)

    def _noise(self, blocks: Sequence[Block], spend: Spend) -> list[Noisy]:
        return [noisy(block, spend, self.rows_per_unit, self.replaced) for block in blocks]

    def _answer(self, values: Any, noise: Noisy) -> Answer:
        return Answer(np.asarray(values, dtype=np.float64), noise.deviation)

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


class ArrayOracle(Oracle):
    """Over one's own arrays: exact integers by NumPy, exact noise."""

    def __init__(self, declared: Declared, spend: Spend, arrays: Arrays, rows_per_unit: int = 1) -> None:
        super().__init__(declared, spend)
        self._arrays = arrays
        self.rows_per_unit = whole(rows_per_unit, "rows_per_unit")

    def _sums(self, blocks: tuple[Block, ...], keys: tuple[Key, ...], spend: Spend) -> list[Any]:
        exact = self._arrays.sums(keys, [term for block in blocks for term in block.terms])
        found, at = [], 0
        for block, noise in zip(blocks, self._noise(blocks, spend), strict=True):
            found.append(noise.release(exact[at : at + len(block.terms)]))
            at += len(block.terms)
        return found

    def _histograms(
        self,
        groupings: tuple[tuple[Key, ...], ...],
        blocks: tuple[Block, ...],
        keys: tuple[Key, ...],
        spend: Spend,
    ) -> list[list[Any]]:
        """All cells of all groupings are one vector to the noise of a term."""
        terms = [block.terms[0] for block in blocks]
        exact = self._arrays.histograms([(*grouping, *keys) for grouping in groupings], terms)
        cells = int(np.prod([key.size for key in keys], dtype=np.int64))
        noise = self._noise(blocks, spend)
        long = [each.release(np.concatenate([one[at] for one in exact])) for at, each in enumerate(noise)]
        ends = np.cumsum([one.shape[1] for one in exact])[:-1]
        parts = [np.split(each, ends) for each in long]
        return [[each[at].reshape(-1, cells) for each in parts] for at in range(len(groupings))]
