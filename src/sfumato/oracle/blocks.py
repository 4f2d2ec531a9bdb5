"""What learners ask for: many sums over rows at once, with noise for what one unit moves in all of them.

A learner composes integers of a row from the closed list below; engines compute them, and so does NumPy over
one's own arrays. How far a row can move a sum follows from declared bounds by `value_range`, never from data.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.priced import Plan, describe_truncation
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.engines.program import CellKey, CellSums, Counted, HistogramCounts, Total
from sfumato.engines.rows import Bounded
from sfumato.engines.value_ranges import ValueRanges, value_range
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Every,
    Greatest,
    Least,
    Less,
    Lookup,
    Missing,
    Multiply,
    Not,
    Predicate,
    Same,
    Some,
    Value,
)
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.noise.scales import SMALLEST
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Event, Sequential
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.plan.spend import Spend
    from sfumato.noise.additive import Noise

    Spans = Mapping[Column, tuple[int, int]]

__all__ = [
    "COUNT",
    "Add",
    "Among",
    "AtLeast",
    "AtMost",
    "CellKey",
    "Choose",
    "Column",
    "Constant",
    "Divide",
    "Either",
    "Every",
    "Greatest",
    "HistogramCounts",
    "Least",
    "Less",
    "Lookup",
    "Missing",
    "Multiply",
    "Not",
    "Predicate",
    "Same",
    "Some",
    "SumBlock",
    "Value",
    "build_step",
    "limit_rows",
    "price_blocks",
    "price_histograms",
    "share_of",
    "split_histograms",
    "value_range",
]

COUNT = Constant(1)
"""What a row adds to the number of rows."""


# ---- sums that share one noise -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SumBlock:
    """Terms that share one noise. In all of them together a row adds at most `l1`, and `l2_squared`."""

    terms: tuple[Value, ...]
    l1: int
    l2_squared: int
    share: Fraction = Fraction(1)
    """Of the spend; the shares of a question's blocks add to at most 1."""
    out_of: Spend | None = None
    """What it is paid for with, where that is not the spend of the question."""

    @classmethod
    def within(cls, terms: Sequence[Value], spans: Spans, share: Fraction = Fraction(1)) -> SumBlock:
        """Bounded by the reach of each term on its own."""
        ranges = ValueRanges(spans)
        reach = [ranges.reach(term) for term in terms]
        return cls(tuple(terms), sum(reach), sum(each * each for each in reach), share)


@tagged("Joint", "program", "blocks")
@dataclass(frozen=True, slots=True)
class SumStep:
    """Noisy sums over listed cells, block by block, from one scan."""

    program: CellSums
    blocks: tuple[NoisySum[int], ...]

    def event(self) -> Event:
        return Sequential(tuple(block.event() for block in self.blocks))

    def release(self, exact: NDArray[Any]) -> list[list[int]]:
        """One row a term, one column a cell."""
        noisy: list[list[int]] = []
        for block in self.blocks:
            rows = exact[len(noisy) : len(noisy) + block.of]
            noisy += block.release(rows).tolist()
        return noisy


def share_of(spend: Spend, share: Fraction) -> Spend:
    """A share of a spend. Shares of 1 in all cost the whole: ε adds up, and so do squares of 1/multiplier."""
    if isinstance(spend, PureSpend):
        return PureSpend(spend.epsilon * share, spend.delta, spend.words)
    return GaussianSpend(root_up(spend.multiplier**2 / share), spend.words)


def calibrate_noise(block: SumBlock, spend: Spend, rows: int, replaced: bool) -> NoisySum[int]:
    """A unit of so many rows moves a block by all of them; replacing it takes one away and adds another."""
    times = rows * (2 if replaced else 1)
    sensitivity = SumSensitivity(block.l1 * times, block.l2_squared * times**2)
    share = share_of(block.out_of or spend, block.share)
    noise: Noise
    if isinstance(share, PureSpend):
        noise = LaplaceNoise(max(SMALLEST, sensitivity.l1 / share.epsilon))
    else:
        noise = GaussianNoise(max(SMALLEST, root_up(sensitivity.l2_squared * share.multiplier**2)))
    return NoisySum(len(block.terms), sensitivity, noise)


# ---- about a table -----------------------------------------------------------------------------------------


def limit_rows(source: RowSource, rows_per_unit: int) -> tuple[RowSource, int]:
    """The same rows, of which one unit has at most so many, and how many that is."""
    if rows_per_unit >= source.max_rows:
        return source, source.max_rows
    bounded = Bounded(source.rows, source.where, (), 1, rows_per_unit)
    return replace(source, rows=bounded, where=Every(), max_rows=rows_per_unit), rows_per_unit


def build_step(
    source: RowSource, keys: Sequence[CellKey], blocks: Sequence[SumBlock], spend: Spend
) -> SumStep:
    replaced = source.table.neighbours is Neighbours.REPLACE_ONE
    terms = tuple(Counted() if term is COUNT else Total(term) for block in blocks for term in block.terms)
    program = CellSums(source.rows, source.where, tuple(keys), terms)
    return SumStep(
        program, tuple(calibrate_noise(block, spend, source.max_rows, replaced) for block in blocks)
    )


def price_blocks(
    source: RowSource, keys: Sequence[CellKey], blocks: Sequence[SumBlock], spend: Spend
) -> Plan[SumStep, None]:
    """Sums of blocks in every cell, to be charged and then read in one scan."""
    if math.fsum(float(block.share) for block in blocks if block.out_of is None) > 1 + 2**-40:
        raise AssertionError("the shares of blocks add to more than 1")
    bias = (
        *describe_truncation(source.table),
        "Numbers outside their declared bounds count as the nearer bound",
    )
    return Plan(source.table, spend, (build_step(source, keys, blocks, spend),), None, bias)


def price_histograms(
    source: RowSource,
    groupings: Sequence[Sequence[CellKey]],
    keys: Sequence[CellKey],
    blocks: Sequence[SumBlock],
    spend: Spend,
) -> Plan[SumStep, None]:
    """Each block's one term by several groupings at once: a sum for each of their cells, all in one scan."""
    if len(groupings) == 1:
        return price_blocks(source, (*groupings[0], *keys), blocks, spend)
    cells = [cell for grouping in groupings for cell in _cells(grouping)]
    wide = [
        replace(block, terms=tuple(Choose(cell, block.terms[0], Constant(0)) for cell in cells))
        for block in blocks
    ]
    return price_blocks(source, keys, wide, spend)


def _cells(grouping: Sequence[CellKey]) -> list[Every]:
    """A condition for each cell, the last key fastest."""
    found: list[tuple[Predicate, ...]] = [()]
    for key in grouping:
        found = [(*before, Among(key.value, (place,))) for before in found for place in range(key.size)]
    return [Every(parts) for parts in found]


def split_histograms(
    answer: Sequence[Sequence[int]],
    groupings: Sequence[Sequence[CellKey]],
    keys: Sequence[CellKey],
    blocks: int,
) -> list[list[Any]]:
    """What `tabled` answers, as an array for each block of each grouping: its cells by those of the keys."""
    import numpy as np

    within = math.prod(key.size for key in keys)
    sizes = [math.prod(key.size for key in grouping) for grouping in groupings]
    whole = np.array(answer, dtype=object).reshape(blocks, sum(sizes), within)
    ends = np.cumsum(sizes)[:-1]
    return [list(each) for each in zip(*(np.split(block, ends) for block in whole), strict=True)]
