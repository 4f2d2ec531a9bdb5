"""Blocks of sums that share one noise, scaled to what one unit can change in all of them together.

A learner composes the integers of a row from the closed list of values below; engines compute them, and so
does NumPy over one's own arrays. How far a row can change a sum follows from declared bounds by
`value_range`, never from data.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.curator.plan.noisy_sum import NoisyBlock, NoisyMatrix, NoisySum
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.engines.program import CellKey, HistogramCounts
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
from sfumato.noise import GaussianNoise, LaplaceNoise, MatrixNoise
from sfumato.noise.additive import SMALLEST
from sfumato.privacy.events import Moves, list_moves, scale_moves
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.curator.plan.spend import Spend
    from sfumato.noise.additive import Noise

    Ranges = Mapping[Column, tuple[int, int]]

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
    "calibrate_noise",
    "share_of",
    "value_range",
]

COUNT = Constant(1)
"""What a row adds to the number of rows."""


@dataclass(frozen=True, slots=True)
class SumBlock:
    """Terms that share one noise. A row adds to all of them together a vector of bounded norm."""

    terms: tuple[Value, ...]
    l1: int
    """The largest l1 norm of what a row adds. Privacy depends on it."""
    l2_squared: int
    """The largest squared l2 norm of what a row adds. Privacy depends on it."""
    share: Fraction = Fraction(1)
    """Share of the question's spend; the shares of its blocks add up to at most 1."""
    out_of: Spend | None = None
    """What pays for the block, where that is not the spend of the question."""
    moves: Moves = ()
    """How far a row moves single sums at worst; one sum by the l1 norm if empty. Privacy depends on it."""
    trace: int = 0
    """The largest trace of v·vᵀ, where a row adds its upper triangle; else 0. Privacy depends on it."""

    @property
    def vector_size(self) -> int:
        """The number of entries of v, where a row adds the upper triangle of v·vᵀ."""
        return (math.isqrt(8 * len(self.terms) + 1) - 1) // 2

    @classmethod
    def within(cls, terms: Sequence[Value], ranges: Ranges, share: Fraction = Fraction(1)) -> SumBlock:
        """Return a block whose sensitivity follows from the range of each term on its own."""
        known = ValueRanges(ranges)
        reach = [known.reach(term) for term in terms]
        squares = sum(each * each for each in reach)
        return cls(tuple(terms), sum(reach), squares, share, moves=list_moves(reach))


def share_of(spend: Spend, share: Fraction) -> Spend:
    """Return a share of a spend; shares that add up to 1 cost the whole.

    Pure ε adds up, and so do the squares of 1/multiplier of Gaussian noise.
    """
    if isinstance(spend, PureSpend):
        return PureSpend(spend.epsilon * share, spend.delta, spend.words)
    return GaussianSpend(root_up(spend.multiplier**2 / share), spend.words)


def calibrate_noise(block: SumBlock, spend: Spend, rows: int, replaced: bool) -> NoisyBlock:
    """Return the noise of a block, scaled to what a unit of so many rows can change.

    A unit changes the sums by all its rows; replacing it takes those away and adds others.
    """
    # Terms are deep and their noise depends on their number alone, so they are no part of what is looked up.
    norms = _Norms(len(block.terms), block.l1, block.l2_squared, block.moves, block.trace, block.vector_size)
    times = rows * (2 if replaced else 1)
    return _calibrate_norms(norms, block.out_of or spend, block.share, times)


@dataclass(frozen=True, slots=True)
class _Norms:
    """What the noise of a block depends on, besides what pays for it; the fields are those of `SumBlock`."""

    terms: int
    l1: int
    l2_squared: int
    moves: Moves
    trace: int
    vector_size: int


@lru_cache(maxsize=512)
def _calibrate_norms(norms: _Norms, spend: Spend, part: Fraction, times: int) -> NoisyBlock:
    """Return the noise of sums that a unit changes by this many times these norms."""
    # Norms grow by this factor, so the squared norm grows by its square.
    moves = scale_moves(norms.moves, times)
    sensitivity = SumSensitivity(norms.l1 * times, norms.l2_squared * times**2, moves)
    share = share_of(spend, part)
    noise: Noise
    if isinstance(share, PureSpend) and norms.trace:
        trace = norms.trace * times
        return NoisyMatrix(
            norms.terms, trace, MatrixNoise.calibrated(share.epsilon, trace, norms.vector_size)
        )
    if isinstance(share, PureSpend):
        # Below the smallest scale noise would be 0 all but always; more noise than is due is safe.
        noise = LaplaceNoise(max(SMALLEST, sensitivity.l1 / share.epsilon))
    else:
        noise = GaussianNoise(max(SMALLEST, root_up(sensitivity.l2_squared * share.multiplier**2)))
    return NoisySum(norms.terms, sensitivity, noise)
