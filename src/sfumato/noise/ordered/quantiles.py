"""Quantiles of a histogram over a public grid, by the exponential mechanism (docs/proofs/quantiles.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.histograms import parse_single_histogram
from sfumato.noise.ordered.choice_order import order_choices
from sfumato.noise.ordered.divided import DividedCells, count_pieces
from sfumato.noise.ordered.ranks import CellRanges, RankTarget, choose_cells
from sfumato.noise.sampling.bits import OS
from sfumato.noise.selection import expected_shortfall, likely_shortfall, require_scale
from sfumato.privacy import events
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import parse_confidence, parse_exact, parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.noise.histograms import Histograms
    from sfumato.noise.ordered.choice_order import ChoiceOrder
    from sfumato.noise.ordered.divided import RankedCells
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number

Span = tuple[Fraction, Fraction]

FINEST = 2**27
"""Largest common denominator of shares, such as that of 1 %, 2 %, … and of 1 − 2^−20."""


@dataclass(frozen=True, slots=True)
class QuantileMechanism:
    """Chooses a cell such that about the given share of all rows lies below it.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : Exponential(rows · epsilon).
    Because  : docs/proofs/quantiles.md
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.

    How far the cell lies from the true quantile, in the unit of the data, depends on the rows between them:
    `Surroundings` counts those. `rank_error` bounds how many rows that is, and `share_interval` which shares.
    """

    epsilon: Fraction
    share: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "share", _shares([self.share])[0])
        require_scale(self.scale)

    @property
    def scale(self) -> Fraction:
        """How much the score must fall for a cell to become e times less likely."""
        # One row changes the distance, counted in 1/denominator rows, by the larger part of the share at
        # most.
        return 2 * max(self.share.numerator, self.share.denominator - self.share.numerator) / self.epsilon

    @property
    def target(self) -> RankTarget:
        """Rank that is wanted, and the scale of the choice."""
        return RankTarget(self.share, self.scale)

    def event(self, rows: int = 1) -> events.Exponential:
        """Return the price where a unit has at most so many rows in the histogram."""
        return events.Exponential(self.epsilon * rows)

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> int:
        """Return the index of the chosen cell, from a row of counts or from `Histograms.from_sparse`.

        `rows`, as priced, is for auditors only.
        """
        return int(self.release_groups(parse_single_histogram(counts), rows=rows, source=source)[0])

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: BitSource = OS
    ) -> NDArray[np.int64]:
        """Return the chosen cell of every group. A unit has at most `rows` rows in all of them together."""
        return observed(self, table, rows, lambda: self.choose(table, source))

    def choose(self, table: Histograms, source: BitSource) -> NDArray[np.int64]:
        """Return the chosen cell of every group, without telling auditors."""
        table = table.widen(self.share.denominator)
        return choose_cells(table, CellRanges.cover(table), self.target, source) % table.cells

    def expected_error(self, cells: int) -> float:
        """Return a bound on how many rows the chosen cell, of so many cells, is off on average."""
        return expected_shortfall(self.scale, cells) / self.share.denominator

    def rank_error(self, cells: int, confidence: Number) -> Fraction:
        """Return a bound, at this confidence, on how many rows the chosen cell is off."""
        return Fraction(likely_shortfall(self.scale, cells, confidence), self.share.denominator)

    def share_interval(self, cells: int, rows: int, confidence: Number) -> Span:
        """Return the shares that, with this confidence, hold the share whose quantile the chosen cell is."""
        return _around(self.share, self.rank_error(cells, confidence), rows)


@tagged("End", "epsilon", "beyond", "highest")
@dataclass(frozen=True, slots=True)
class ExtremeMechanism:
    """Chooses a cell near the lowest or the highest row: one that about `beyond` rows lie beyond.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : Exponential(rows · epsilon).
    Because  : docs/proofs/quantiles.md
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.

    Without rows beyond it, every empty cell outside would score as high as the end itself. So many rows are
    left beyond that those cells together are unlikely.
    """

    epsilon: Fraction
    beyond: int
    highest: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "beyond", parse_whole(self.beyond, "beyond"))
        require_scale(self.scale)

    @classmethod
    def calibrated(cls, epsilon: Number, cells: int, *, highest: bool = False) -> ExtremeMechanism:
        """Return the mechanism nearest to the end for which cells outside have probability 1/20 at most."""
        per_row = parse_positive(epsilon, "epsilon")
        return cls(
            per_row, math.ceil(2 * math.log(20 * parse_whole(cells, "cells")) / float(per_row)), highest
        )

    @property
    def scale(self) -> Fraction:
        """How much the score must fall for a cell to become e times less likely."""
        return 2 / self.epsilon

    @property
    def target(self) -> RankTarget:
        """Rank that is wanted, and the scale of the choice."""
        offset = -self.beyond if self.highest else self.beyond
        return RankTarget(Fraction(int(self.highest)), self.scale, offset)

    def event(self, rows: int = 1) -> events.Exponential:
        """Return the price where a unit has at most so many rows in the histogram."""
        return events.Exponential(self.epsilon * rows)

    def event_by_cell(self, moves: events.Moves) -> events.Event:
        """Return the price where a unit has at most so many rows in each of several groups."""
        return events.price_choices(self.epsilon, moves)

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> int:
        """Return the index of the chosen cell; counts are given as to `QuantileMechanism.release`."""
        return int(self.release_groups(parse_single_histogram(counts), rows=rows, source=source)[0])

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: BitSource = OS
    ) -> NDArray[np.int64]:
        """Return the chosen cell of every group. A unit has at most `rows` rows in all of them together."""
        return observed(
            self,
            table,
            rows,
            lambda: choose_cells(table, CellRanges.cover(table), self.target, source) % table.cells,
        )

    def expected_error(self, cells: int) -> float:
        """Return a bound on the mean number of rows between the chosen cell and the end."""
        return self.beyond + expected_shortfall(self.scale, cells)

    def rank_error(self, cells: int, confidence: Number) -> int:
        """Return a bound, at this confidence, on the number of rows between the chosen cell and the end."""
        return self.beyond + likely_shortfall(self.scale, cells, confidence)


@tagged("Quantiles", "epsilon", "shares")
@dataclass(frozen=True, slots=True)
class QuantilesMechanism:
    """Chooses several quantiles at once: some first, then those between them among the rows there.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : Exponential(rows · epsilon / levels), `levels` times: at most once for each share.
    Because  : docs/proofs/quantiles.md
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.

    Which are first, and how many levels that takes, follows from the shares (`order_choices`). The answers
    ascend. Errors are in rows, as for `QuantileMechanism`, and add up from the first choices to the last.
    They grow with `crowd`, the most rows that a cell holds, as a cell that was chosen is cut at a place that
    is right up to a piece of its rows (`DividedCells`). That number is itself private, so a plan has to
    assume one.
    """

    epsilon: Fraction
    shares: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "shares", _shares(self.shares))
        for steps in (1, self._finest):  # no share of a span is coarser than 1/2 or finer than this
            require_scale(steps * self._scale)

    @property
    def levels(self) -> int:
        """Number of choices that each row takes part in at most."""
        return self._order.levels

    @property
    def _order(self) -> ChoiceOrder:
        """Which shares are chosen first, and which among the rows between those."""
        return order_choices(self.shares)

    def event(self, rows: int = 1) -> events.Repeated:
        """Return the price where a unit has at most so many rows in the histogram."""
        return self.event_by_cell(((rows, 1),))

    def event_by_cell(self, moves: events.Moves) -> events.Repeated:
        """Return the price where a unit has at most so many rows in each of several groups."""
        return events.Repeated(events.price_choices(self.epsilon / self.levels, moves), self.levels)

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> tuple[int, ...]:
        """Return the chosen cell of each share; counts are given as to `QuantileMechanism.release`."""
        found = self.release_groups(parse_single_histogram(counts), rows=rows, source=source)
        return tuple(found[:, 0].tolist())

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: BitSource = OS
    ) -> NDArray[np.int64]:
        """Return, for every share, a row with the chosen cell of each group."""
        return observed(self, table, rows, lambda: self._choose(table.widen(self._finest), source))

    def expected_error(self, cells: int, crowd: int = 1) -> float:
        """Return a bound on how many rows each answer is off on average."""
        # Places that are chosen at once are put in order, so each may have the largest of their errors.
        if self._order.depth == 1:
            return expected_shortfall(self._scale, len(self.shares) * cells)
        before = (self.levels - 1) * expected_shortfall(self._scale, cells * count_pieces(cells))
        return before + expected_shortfall(self._scale, cells) + self._split_error(cells, crowd)

    def rank_error(self, cells: int, confidence: Number, crowd: int = 1) -> int:
        """Return a bound, at this confidence for all answers, on how many rows each is off."""
        surer = 1 - (1 - parse_confidence(confidence)) / len(self.shares)
        before, last = (
            likely_shortfall(self._scale, places, surer) + 1
            for places in (cells * count_pieces(cells), cells)
        )
        return (self._order.depth - 1) * before + last + self._split_error(cells, crowd)

    def share_interval(self, cells: int, rows: int, confidence: Number, crowd: int = 1) -> tuple[Span, ...]:
        """Return, for every answer, the shares that hold the share whose quantile it is."""
        off = self.rank_error(cells, confidence, crowd)
        return tuple(_around(share, off, rows) for share in self.shares)

    @property
    def _scale(self) -> Fraction:
        """Most rows that make a cell e times less likely, at every level."""
        return 2 * self.levels / self.epsilon

    def _split_error(self, cells: int, crowd: int) -> int:
        """Return the rows that splitting misplaces: half of a piece at most, each time rows are split."""
        piece = -(-parse_whole(crowd, "crowd") // count_pieces(cells))
        return (self._order.depth - 1) * -(-piece // 2)

    @property
    def _finest(self) -> int:
        """Largest denominator that a share within a span can have."""
        return math.lcm(*(share.denominator for share in self.shares))

    def _choose(self, table: Histograms, source: BitSource) -> NDArray[np.int64]:
        divided, span = DividedCells.of(table), (Fraction(0), Fraction(1))
        parts = CellRanges.cover(divided)
        found = self._within(divided, parts, self.shares, span, self._order, source)
        return np.stack(found) % table.cells

    def _within(
        self,
        table: DividedCells,
        parts: CellRanges,
        shares: tuple[Fraction, ...],
        span: Span,
        order: ChoiceOrder | None,
        source: BitSource,
    ) -> list[NDArray[np.int64]]:
        """Return the quantiles in these ranges, which hold the rows between the shares of the span."""
        if order is None:
            return []
        asked = tuple(shares[place] for place in order.first)
        if asked == shares:  # nothing is split any more, so whole cells do
            return self._choose_first(table.whole, parts.merge(table.pieces), shares, span, source)
        found: list[NDArray[np.int64]] = []
        chosen = self._choose_first(table, parts, asked, span, source)
        after = 0
        for place, cells, inner in zip(order.first, chosen, order.parts, strict=False):
            lower, parts = parts.split(table, cells)
            ends = span[0], shares[place]
            found += self._within(table, lower, shares[after:place], ends, inner, source)
            found.append(cells // table.pieces)
            after, span = place + 1, (shares[place], span[1])
        return [*found, *self._within(table, parts, shares[after:], span, order.parts[-1], source)]

    def _choose_first(
        self,
        table: RankedCells,
        parts: CellRanges,
        shares: tuple[Fraction, ...],
        span: Span,
        source: BitSource,
    ) -> list[NDArray[np.int64]]:
        """Return quantiles that are chosen among all rows of these ranges, in ascending order."""
        # A share is rescaled to the rows of this part, whose quantile it then is.
        within = ((share - span[0]) / (span[1] - span[0]) for share in shares)
        each = (QuantileMechanism(self.epsilon / self.levels, share) for share in within)
        return list(np.sort([choose_cells(table, parts, one.target, source) for one in each], axis=0))


def _around(share: Fraction, off: Fraction | int, rows: int) -> Span:
    part = Fraction(off) / parse_whole(rows, "rows")
    return max(share - part, Fraction(0)), min(share + part, Fraction(1))


def _shares(given: Sequence[Any]) -> tuple[Fraction, ...]:
    listed = given if isinstance(given, list | tuple) else (given,)
    shares = tuple(parse_exact(share, "share") for share in listed)
    common = math.lcm(*(share.denominator for share in shares))
    ascending = all(one < other for one, other in pairwise(shares))
    if not shares or not ascending or not 0 < shares[0] <= shares[-1] < 1 or common > FINEST:
        raise UsageError(
            "SF-N101",
            "Shares must lie between 0 and 1, ascend, and not be too fine.",
            got=", ".join(str(share)[:20] for share in listed[:4]),
            try_="0.25, 0.5, 0.75",
        )
    return shares
