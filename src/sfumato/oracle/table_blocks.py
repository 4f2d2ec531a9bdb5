"""Blocks of sums over a table behind the curator: the program an engine runs, and what is charged for it.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.caveats import clamped, describe_truncation
from sfumato.curator.plan.priced import Plan
from sfumato.engines.program import CellSums, Counted, Total
from sfumato.engines.rows import Bounded
from sfumato.oracle.blocks import COUNT, Among, Choose, Constant, Every, calibrate_noise
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Event, Sequential
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.plan.noisy_sum import NoisyBlock
    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.blocks import CellKey, Predicate, SumBlock


@tagged("Joint", "program", "blocks")
@dataclass(frozen=True, slots=True)
class SumStep:
    """One step of a charge: a scan that sums blocks over listed cells, and the noise of each block."""

    program: CellSums
    blocks: tuple[NoisyBlock, ...]

    def event(self) -> Event:
        """Return the price of all blocks together."""
        return Sequential(tuple(block.event() for block in self.blocks))

    def release(self, exact: NDArray[Any]) -> list[list[int]]:
        """Return the noisy sums, one row a term and one column a cell."""
        noisy: list[list[int]] = []
        for block in self.blocks:
            rows = exact[len(noisy) : len(noisy) + block.of]
            noisy += block.release(rows).tolist()
        return noisy


def limit_rows(source: RowSource, rows_per_unit: int) -> tuple[RowSource, int]:
    """Return the rows with at most so many of each unit, and how many that is."""
    if rows_per_unit >= source.max_rows:
        return source, source.max_rows
    bounded = Bounded(source.rows, source.where, (), 1, rows_per_unit)
    return replace(source, rows=bounded, where=Every(), max_rows=rows_per_unit), rows_per_unit


def _build_step(
    source: RowSource, keys: Sequence[CellKey], blocks: Sequence[SumBlock], spend: Spend
) -> SumStep:
    replaced = source.table.neighbours is Neighbours.REPLACE_ONE
    terms = tuple(Counted() if term is COUNT else Total(term) for block in blocks for term in block.terms)
    program = CellSums(source.rows, source.where, tuple(keys), terms)
    return SumStep(
        program, tuple(calibrate_noise(block, spend, source.max_rows, replaced) for block in blocks)
    )


def price_blocks(
    source: RowSource,
    keys: Sequence[CellKey],
    blocks: Sequence[SumBlock],
    spend: Spend,
) -> Plan[SumStep, None]:
    """Return what is charged for the sums of blocks in every cell of the keys, from one scan."""
    # Shares are exact fractions; their sum as doubles leaves room for rounding alone.
    if math.fsum(float(block.share) for block in blocks if block.out_of is None) > 1 + 2**-40:
        raise AssertionError("the shares of blocks add to more than 1")
    bias = (
        *describe_truncation(*source.tables),
        clamped("Numbers"),
    )
    step = _build_step(source, keys, blocks, spend)
    return Plan(source.table, spend, (step,), None, bias, reads=source.tables)


def price_histograms(
    source: RowSource,
    groupings: Sequence[Sequence[CellKey]],
    keys: Sequence[CellKey],
    blocks: Sequence[SumBlock],
    spend: Spend,
) -> Plan[SumStep, None]:
    """Return what is charged for each block's one term, summed in the cells of several groupings.

    One scan computes them all, so several groupings are asked for as one sum for each of their cells.
    """
    if len(groupings) == 1:
        return price_blocks(source, (*groupings[0], *keys), blocks, spend)
    # A row outside a cell adds 0 to its sum, so the block keeps its sensitivity.
    cells = [cell for grouping in groupings for cell in _cells(grouping)]
    wide = [
        replace(block, terms=tuple(Choose(cell, block.terms[0], Constant(0)) for cell in cells))
        for block in blocks
    ]
    return price_blocks(source, keys, wide, spend)


def _cells(grouping: Sequence[CellKey]) -> list[Every]:
    """Return a condition for each cell, the last key fastest."""
    found: list[tuple[Predicate, ...]] = [()]
    for key in grouping:
        found = [(*before, Among(key.value, (place,))) for before in found for place in range(key.size)]
    return [Every(parts) for parts in found]


def split_histograms(
    answer: Sequence[Sequence[int]],
    groupings: Sequence[Sequence[CellKey]],
    keys: Sequence[CellKey],
    blocks: int,
) -> list[list[NDArray[Any]]]:
    """Return the answer to `price_histograms` as an array for each block of each grouping.

    Its rows are the cells of the grouping, its columns those of the keys.
    """
    within = math.prod(key.size for key in keys)
    sizes = [math.prod(key.size for key in grouping) for grouping in groupings]
    whole = np.array(answer, dtype=object).reshape(blocks, sum(sizes), within)
    ends = np.cumsum(sizes)[:-1]
    return [list(each) for each in zip(*(np.split(block, ends) for block in whole), strict=True)]
