"""Choosing among listed values, and statistics of blocks: questions whose answer is not a noisy sum."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.domains import Listed, Numbers, Periods, is_countable
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import LoweredValue, add_integer, coarsen_grid, require_number
from sfumato.curator.plan.aggregates import aggregate_range, compute_aggregate
from sfumato.curator.plan.caveats import describe_truncation
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.summands import Summand, list_summands
from sfumato.curator.plan.work import MOST_NUMBERS
from sfumato.curator.question.measurement import Aggregate, CovarianceOf, MeanOf, QuantileOf, VarianceOf
from sfumato.engines.program import (
    CellHistogram,
    CellHistograms,
    CellKey,
    CellSums,
    Counted,
    CountedUnits,
    Total,
)
from sfumato.engines.rows import Scan
from sfumato.engines.values import UnitBlock
from sfumato.errors import PolicyError
from sfumato.errors.checked import checked, require_field, require_positive
from sfumato.noise import BlockMedian, QuantilesMechanism, TopK
from sfumato.noise.histograms import Histograms
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Repeated
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.question.relation import Expression
    from sfumato.engines.program import HistogramCounts
    from sfumato.engines.values import Value
    from sfumato.privacy.events import Event


_FINEST = 20
"""Blocks are compared on a grid of about 2^20 places. Privacy does not depend on how fine it is."""
MOST_BLOCKS = 10_000
"""The largest number of blocks: a unit's block is drawn from 2^16 equally likely numbers."""

# ---- the most frequent values ------------------------------------------------------------------------------


@tagged("Top", "program", "mechanism")
@dataclass(frozen=True, slots=True)
@checked
class Top:
    """The places of the greatest sums: one sum in many cells, or many sums in one."""

    program: CellSums
    mechanism: TopK

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.mechanism.event()

    def release(self, exact: NDArray[Any]) -> list[int]:
        """Return the places that were chosen, the greatest first."""
        return self.mechanism.release(exact.reshape(-1))


def plan_choice(source: RowSource, terms: Sequence[Value], mechanism: TopK, spend: Spend) -> Plan[Top, None]:
    """Return the plan for the places of the greatest sums; the mechanism knows what a row adds at most."""
    program = CellSums(source.rows, source.where, (), tuple(map(Total, terms)))
    return Plan(
        source.table,
        spend,
        (Top(program, mechanism),),
        None,
        describe_truncation(source.table),
        reads=source.tables,
    )


def require_listed(source: RowSource, column: Expression) -> tuple[LoweredValue, Listed | Numbers | Periods]:
    """Return a column and its values, which must be known beforehand."""
    part = lower_expression(column, source.scope)
    domain = part.domain
    if not is_countable(domain):
        raise PolicyError(
            "SF-Q109",
            "These values are not listed.",
            try_="sf.one_of(…) when the table is registered, or FLOOR(age / 10)",
        )
    return part, domain


def plan_top(
    source: RowSource, column: Expression, k: int, by_units: bool, spend: Spend
) -> Plan[Top, Listed | Numbers | Periods]:
    """Return the plan for the k most frequent values. One unit moves a count by its rows, or by one."""
    part, domain = require_listed(source, column)
    key = CellKey(add_integer(part.value, -domain.low), domain.size)
    if k > domain.size:
        raise PolicyError("SF-Q158", "k is larger than the number of values.", values=str(domain.size))
    # Every choice draws noise for every value that is left.
    if k * domain.size > MOST_NUMBERS:
        raise PolicyError(
            "SF-Q158",
            "k is too large for so many values.",
            most=f"{MOST_NUMBERS // domain.size:,}",
            values=f"{domain.size:,}",
            try_="a smaller k, or coarser values",
        )
    program = CellSums(source.rows, source.where, (key,), (CountedUnits() if by_units else Counted(),))
    # Adding a unit only adds to counts, which halves the price; replacing one moves them both ways.
    monotone = source.table.neighbours is Neighbours.ADD_REMOVE
    mechanism = TopK(spend.choice(), k, 1 if by_units else source.max_rows, monotone)
    return Plan(
        source.table,
        spend,
        (Top(program, mechanism),),
        domain,
        describe_truncation(source.table),
        reads=source.tables,
    )


# ---- quantiles of several values ---------------------------------------------------------------------------


@tagged("Ranked", "values", "cells", "size", "mechanism", "rows")
@dataclass(frozen=True, slots=True)
@checked
class Ranked:
    """Quantiles of so many values, each in every cell: a choice for each value, one after the other.

    A unit has at most `rows` rows in all cells of one value together.
    """

    values: int
    cells: int
    size: int
    mechanism: QuantilesMechanism
    rows: int

    def __post_init__(self) -> None:
        require_positive(self, "values", "cells", "size", "rows")

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return Repeated(self.mechanism.event(self.rows), self.values)

    def release(self, exact: HistogramCounts) -> list[list[list[int]]]:
        """Return a table for each value: one row a share, one column a cell."""
        # The engine counts all values in one scan, with the value as the last part of the cell.
        cells, places, counts = exact.triplets()
        return [
            self._chosen(*(row[cells % self.values == at] for row in (cells // self.values, places, counts)))
            for at in range(self.values)
        ]

    def _chosen(self, cells: Any, places: Any, counts: Any) -> list[list[int]]:
        table = Histograms.from_triplets(cells, places, counts, groups=self.cells, cells=self.size)
        found: list[list[int]] = self.mechanism.release_groups(table, rows=self.rows).tolist()
        return found


@tagged("Ranks", "program", "ranked")
@dataclass(frozen=True, slots=True)
@checked
class Ranks:
    """Quantiles of several values of a table's rows, from one scan."""

    program: CellHistograms
    ranked: Ranked

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.ranked.event()

    def release(self, exact: HistogramCounts) -> list[list[list[int]]]:
        """Return a table for each value: one row a share, one column a cell."""
        return self.ranked.release(exact)


def plan_ranks(
    source: RowSource, keys: Sequence[CellKey], values: Sequence[Value], ranked: Ranked, spend: Spend
) -> Plan[Ranks, None]:
    """Return the plan for quantiles of values that lie from 0 on, read in one scan."""
    program = CellHistograms(source.rows, source.where, tuple(keys), tuple(values), ranked.size)
    return Plan(
        source.table,
        spend,
        (Ranks(program, ranked),),
        None,
        describe_truncation(source.table),
        reads=source.tables,
    )


# ---- blocks of units ---------------------------------------------------------------------------------------


@tagged("BlockQuantiles", "program", "mechanism", "share", "changed")
@dataclass(frozen=True, slots=True)
@checked
class BlockQuantiles:
    """The middle of a quantile of every block. A unit is in one block, whatever its rows."""

    program: CellHistogram
    mechanism: BlockMedian
    share: Fraction
    changed: int

    def __post_init__(self) -> None:
        require_field(0 < self.share < 1, self, "share", "between 0 and 1")
        require_positive(self, "changed")

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.mechanism.event(self.changed)

    def release(self, exact: HistogramCounts) -> int:
        """Return the place of the private median of the blocks' quantiles."""
        # A block without rows counts as the middle: how many blocks are empty must not show.
        middle = _middle(self.mechanism)
        cells, places, counts = exact.triplets()
        ends = np.searchsorted(cells, np.arange(self.mechanism.blocks + 1))
        outputs = [
            _quantile(places[start:stop], counts[start:stop], self.share, middle)
            for start, stop in itertools.pairwise(ends)
        ]
        return self.mechanism.release(outputs)


def _middle(mechanism: BlockMedian) -> int:
    """Return what a block counts as whose rows give no value."""
    return (mechanism.low + mechanism.high) // 2


def _quantile(places: NDArray[np.int64], counts: NDArray[np.int64], share: Fraction, middle: int) -> int:
    """Return the first place that at least this share of the rows lies at or below."""
    if not places.size:
        return middle
    upto = np.cumsum(counts)
    # In integers, so that every machine picks the same place.
    wanted = -(-share.numerator * int(upto[-1]) // share.denominator)
    return int(places[np.searchsorted(upto, max(wanted, 1))])


@tagged("BlockEstimates", "program", "mechanism", "aggregate", "of", "grid", "changed")
@dataclass(frozen=True, slots=True)
@checked
class BlockEstimates:
    """The middle of an average, variance or correlation of every block, on a grid between its public ends.

    Doubles do no harm here: a block's number may be any function of its rows.
    """

    program: CellSums
    mechanism: BlockMedian
    aggregate: MeanOf | VarianceOf | CovarianceOf
    of: tuple[Summand, ...]
    grid: Numbers
    changed: int

    def __post_init__(self) -> None:
        require_positive(self, "changed")

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.mechanism.event(self.changed)

    def release(self, exact: NDArray[Any]) -> int:
        """Return the place of the private median of the blocks' numbers."""
        parts = [np.asarray(sums, dtype=np.float64) for sums in exact]
        numbers = compute_aggregate(self.aggregate, self.of, parts)
        known = np.isfinite(numbers) & (parts[-1] >= 1)
        steps = np.floor(np.where(known, numbers, 0.0) / float(self.grid.step)) - self.grid.low
        places = np.clip(steps, 0, self.grid.size - 1).astype(np.int64)
        return self.mechanism.release(np.where(known, places, _middle(self.mechanism)).tolist())


def plan_subsample(
    source: RowSource, aggregate: Aggregate, blocks: int, spend: Spend
) -> Plan[BlockQuantiles | BlockEstimates, Numbers | Periods]:
    """Return the plan for a statistic of every block of units and the private median of those."""
    if not isinstance(aggregate, MeanOf | VarianceOf | CovarianceOf | QuantileOf):
        raise PolicyError(
            "SF-Q154",
            "subsample() takes an average, a variance, a correlation or a quantile.",
            try_='sf.median("cost"), sf.stddev("cost"), sf.correlation("age", "cost")',
        )
    if blocks > MOST_BLOCKS:
        raise PolicyError(
            "SF-Q154",
            f"subsample() makes at most {MOST_BLOCKS:,} blocks.",
            asked=f"{blocks:,}" if blocks < 10**12 else "far more",
            try_="blocks=100",
        )
    # A block is found by the unit of a stored row, which only the scan of one table has.
    if not isinstance(source.rows, Scan):
        raise PolicyError(
            "SF-Q154", "subsample() takes the rows of one table.", try_="a table without JOIN or units()"
        )
    key = CellKey(UnitBlock(source.rows.at, blocks), blocks)
    # Adding a unit changes one block; replacing one may change the block it left and the one it joins.
    changed = 1 if source.table.neighbours is Neighbours.ADD_REMOVE else 2
    step: BlockQuantiles | BlockEstimates
    domain: Numbers | Periods
    if isinstance(aggregate, QuantileOf):
        part, domain = _fit(lower_expression(aggregate.of, source.scope))
        value: Any = add_integer(part.value, -domain.low)
        program = CellHistogram(source.rows, source.where, (key,), value, domain.size)
        mechanism = BlockMedian(blocks, 0, domain.size - 1, spend.choice())
        step = BlockQuantiles(program, mechanism, aggregate.share, changed)
    else:
        of = list_summands(aggregate, source)
        domain = _grid(*aggregate_range(aggregate, of))
        sums = CellSums(source.rows, source.where, (key,), tuple(each.term for each in of))
        mechanism = BlockMedian(blocks, 0, domain.size - 1, spend.choice())
        step = BlockEstimates(sums, mechanism, aggregate, of, domain, changed)
    return Plan(source.table, spend, (step,), domain, describe_truncation(source.table), reads=source.tables)


def _fit(part: LoweredValue) -> tuple[LoweredValue, Numbers | Periods]:
    """Return the value on a grid of at most 2^20 places."""
    if isinstance(part.domain, Periods):
        return part, part.domain
    part, domain = require_number(part, "The argument of subsample()")
    part = coarsen_grid(part, domain, domain.size.bit_length() - _FINEST)
    return part, require_number(part, "The argument of subsample()")[1]


def _grid(low: float, high: float) -> Numbers:
    """Return a grid of about 2^20 places between two ends, a power of two apart."""
    step = Fraction(2) ** (math.frexp(high - low)[1] - _FINEST)
    return Numbers(math.floor(low / step), math.ceil(high / step), step, rounded=True)
