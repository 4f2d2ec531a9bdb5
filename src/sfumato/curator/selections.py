"""Choosing among listed values, and statistics of blocks: questions whose answer is not a noisy sum."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.domains import Listed, Numbers, Periods, countable
from sfumato.curator.expressions import expression
from sfumato.curator.lowered import Lowered, coarser, number, shifted
from sfumato.curator.measurement import Mean, Quantile
from sfumato.curator.priced import Priced, truncation
from sfumato.engines.program import Counted, Key, Present, Program, Tally, Total, Units
from sfumato.engines.rows import Scan, Sizes
from sfumato.engines.values import Block
from sfumato.errors import PolicyError
from sfumato.noise import BlockMedian, TopK
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.curator.lowering import Source
    from sfumato.curator.relation import Expression
    from sfumato.curator.spend import Spend
    from sfumato.privacy.events import Event


# ---- the most frequent values ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Top:
    """The places of the values that most rows, or most units, have."""

    program: Program
    mechanism: TopK

    def event(self) -> Event:
        return self.mechanism.event()

    def release(self, exact: NDArray[Any]) -> list[int]:
        return self.mechanism.release(exact[0])


def listed(source: Source, column: Expression) -> tuple[Lowered, Listed | Numbers | Periods]:
    """A column whose values are known beforehand."""
    part = expression(column, source.scope)
    domain = part.domain
    if not countable(domain):
        raise PolicyError(
            "SF-Q109",
            "These values are not listed.",
            try_="sf.one_of(…) when the table is registered, or FLOOR(age / 10)",
        )
    return part, domain


def top(source: Source, column: Expression, k: int, by_units: bool, spend: Spend) -> Priced:
    """The k most frequent values of a column. One unit moves a count by its rows, or by one."""
    part, domain = listed(source, column)
    key = Key(shifted(part.value, -domain.low), domain.size)
    if k > domain.size:
        raise PolicyError("SF-Q153", "There are fewer values than places.", values=str(domain.size))
    program = Program(source.rows, source.where, (key,), (Units() if by_units else Counted(),))
    monotone = source.table.neighbours is Neighbours.ADD_REMOVE
    mechanism = TopK(spend.choice(), k, 1 if by_units else source.max_rows, monotone)
    return Priced(source.table, spend, (Top(program, mechanism),), truncation(source.table))


# ---- blocks of units ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blocked:
    """The middle of a statistic of every block. A unit is in one block, whatever its rows."""

    program: Tally | Program
    mechanism: BlockMedian
    share: Fraction | None
    """Of a quantile; none for an average."""
    changed: int

    def event(self) -> Event:
        return self.mechanism.event(self.changed)

    def release(self, exact: NDArray[Any]) -> int:
        outputs = self._averages(exact) if self.share is None else self._quantiles(exact, self.share)
        return self.mechanism.release(outputs)

    def _averages(self, exact: NDArray[Any]) -> list[int]:
        """Rounded down to a step; a block without rows counts as the middle."""
        sums, rows = exact
        middle = (self.mechanism.low + self.mechanism.high) // 2
        return [int(total) // int(n) if n else middle for total, n in zip(sums, rows, strict=True)]

    def _quantiles(self, exact: NDArray[np.int64], share: Fraction) -> list[int]:
        middle = (self.mechanism.low + self.mechanism.high) // 2
        ends = np.searchsorted(exact[0], np.arange(self.mechanism.blocks + 1))
        return [
            _quantile(exact[1, start:stop], exact[2, start:stop], share, middle)
            for start, stop in itertools.pairwise(ends)
        ]


def _quantile(places: NDArray[np.int64], counts: NDArray[np.int64], share: Fraction, middle: int) -> int:
    """The first place that at least this share of the rows lies at or below."""
    if not places.size:
        return middle
    upto = np.cumsum(counts)
    wanted = -(-share.numerator * int(upto[-1]) // share.denominator)
    return int(places[np.searchsorted(upto, max(wanted, 1))])


def subsample(source: Source, aggregate: Any, blocks: int, spend: Spend) -> tuple[Priced, Numbers | Periods]:
    """A statistic that a sample estimates well: of every block of units, then the private median of those."""
    if not isinstance(aggregate, Mean | Quantile):
        raise PolicyError(
            "SF-Q154", "Blocks are asked for an average or a quantile.", try_='sf.median("cost")'
        )
    if not isinstance(source.rows, Scan | Sizes):
        raise PolicyError(
            "SF-Q154", "Blocks are made of the rows of one table.", try_="a table without a JOIN"
        )
    part, domain = _fit(expression(aggregate.of, source.scope))
    key = Key(Block(source.rows.at, blocks), blocks)
    value: Any = shifted(part.value, -domain.low)
    mechanism = BlockMedian(blocks, 0, domain.size - 1, spend.choice())
    changed = 1 if source.table.neighbours is Neighbours.ADD_REMOVE else 2
    program: Tally | Program
    if isinstance(aggregate, Mean):
        program = Program(source.rows, source.where, (key,), (Total(value), Present(part.value)))
        step = Blocked(program, mechanism, None, changed)
    else:
        program = Tally(source.rows, source.where, (key,), value, domain.size)
        step = Blocked(program, mechanism, aggregate.share, changed)
    return Priced(source.table, spend, (step,), truncation(source.table)), domain


def _fit(part: Lowered) -> tuple[Lowered, Numbers | Periods]:
    """On a grid of at most 2^20 places."""
    if isinstance(part.domain, Periods):
        return part, part.domain
    part, domain = number(part, "What blocks are asked for")
    part = coarser(part, domain, domain.size.bit_length() - 20)
    return part, number(part, "What blocks are asked for")[1]
