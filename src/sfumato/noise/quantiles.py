"""Quantiles of a histogram over a public grid, chosen exactly (docs/proofs/quantiles.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.candidates import expected_shortfall, likely_shortfall, require_sensible
from sfumato.noise.candidates import share as confident
from sfumato.noise.histograms import histograms
from sfumato.noise.ranks import CellRanges, RankTarget, choose
from sfumato.noise.sampling.bits import OS
from sfumato.privacy import events
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import exact, positive, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.noise.histograms import Histograms
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number

Span = tuple[Fraction, Fraction]

FINEST = 2**27  # the largest common denominator of shares, such as that of 1 %, 2 %, … and of 1 − 2^−20


@dataclass(frozen=True, slots=True)
class QuantileMechanism:
    """Chooses a cell such that about the given share of all rows lies below it.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : Exponential(rows · epsilon).
    Because  : docs/proofs/quantiles.md
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.

    The answer has no interval in the unit of the data: how far the cell lies from the true quantile depends
    on the rows between them. `rank_error` bounds how many rows that is, and `share_interval` which shares.
    """

    epsilon: Fraction
    share: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "share", _shares([self.share])[0])
        require_sensible(self.scale)

    @property
    def scale(self) -> Fraction:
        """How many steps of the score make a cell e times less likely."""
        return 2 * max(self.share.numerator, self.share.denominator - self.share.numerator) / self.epsilon

    @property
    def aim(self) -> RankTarget:
        return RankTarget(self.share, self.scale)

    def event(self, rows: int = 1) -> events.Exponential:
        return events.Exponential(self.epsilon * rows)

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> int:
        """The place of the chosen cell, in a row of counts or in `Histograms.sparse`.

        `rows`, as priced, is for auditors only.
        """
        return int(self.release_groups(histograms(counts), rows=rows, source=source)[0])

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: BitSource = OS
    ) -> NDArray[np.int64]:
        """For every group the place of the chosen cell. A unit has at most `rows` rows in all of them."""
        return observed(self, table, rows, lambda: self.choose(table, source))

    def choose(self, table: Histograms, source: BitSource) -> NDArray[np.int64]:
        table = table.roomy(self.share.denominator)
        return choose(table, CellRanges.all(table), self.aim, source) % table.cells

    def expected_error(self, cells: int) -> float:
        """On average the chosen cell of so many is at most this many rows off."""
        return expected_shortfall(self.scale, cells) / self.share.denominator

    def rank_error(self, cells: int, confidence: Number) -> Fraction:
        """With this confidence the chosen cell of so many is at most this many rows off."""
        return Fraction(likely_shortfall(self.scale, cells, confidence), self.share.denominator)

    def share_interval(self, cells: int, rows: int, confidence: Number) -> Span:
        """With this confidence the chosen cell is the quantile, among so many rows, of a share in here."""
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

    Without rows beyond it, every empty cell outside would be as good as the end itself. So many are left out
    that those cells together are unlikely.
    """

    epsilon: Fraction
    beyond: int
    highest: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "beyond", whole(self.beyond, "beyond"))
        require_sensible(self.scale)

    @classmethod
    def calibrated(cls, epsilon: Number, cells: int, *, highest: bool = False) -> ExtremeMechanism:
        """As near as can be while all cells outside together have a chance of at most 1/20."""
        per_row = positive(epsilon, "epsilon")
        return cls(per_row, math.ceil(2 * math.log(20 * whole(cells, "cells")) / float(per_row)), highest)

    @property
    def scale(self) -> Fraction:
        return 2 / self.epsilon

    @property
    def aim(self) -> RankTarget:
        offset = -self.beyond if self.highest else self.beyond
        return RankTarget(Fraction(int(self.highest)), self.scale, offset)

    def event(self, rows: int = 1) -> events.Exponential:
        return events.Exponential(self.epsilon * rows)

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> int:
        """The place of the chosen cell, as `Quantile.release` takes counts."""
        return int(self.release_groups(histograms(counts), rows=rows, source=source)[0])

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: BitSource = OS
    ) -> NDArray[np.int64]:
        """For every group the place of the chosen cell. A unit has at most `rows` rows in all of them."""
        return observed(
            self, table, rows, lambda: choose(table, CellRanges.all(table), self.aim, source) % table.cells
        )

    def expected_error(self, cells: int) -> float:
        """On average at most this many rows lie between the chosen cell of so many and the end."""
        return self.beyond + expected_shortfall(self.scale, cells)

    def rank_error(self, cells: int, confidence: Number) -> int:
        """With this confidence at most this many rows lie between the chosen cell of so many and the end."""
        return self.beyond + likely_shortfall(self.scale, cells, confidence)


@tagged("Quantiles", "epsilon", "shares")
@dataclass(frozen=True, slots=True)
class QuantilesMechanism:
    """Several quantiles at once: the middle one first, then those on either side among the rows there.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : Exponential(rows · epsilon / levels), `levels` times, for levels = ⌈log₂(shares + 1)⌉.
    Because  : docs/proofs/quantiles.md
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.

    The answers ascend. Errors are in rows, as for `Quantile`, and add up along the levels. They grow with
    `crowd`, the most rows that a cell holds, as each level halves the rows of the cell that it chose. The
    true number is as secret as any; who plans assumes one.
    """

    epsilon: Fraction
    shares: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "shares", _shares(self.shares))
        for steps in (1, self._finest):  # no share of a span is coarser than 1/2 or finer than this
            require_sensible(steps * self._scale)

    @property
    def levels(self) -> int:
        return len(self.shares).bit_length()

    def event(self, rows: int = 1) -> events.Repeated:
        return events.Repeated(events.Exponential(self.epsilon * rows / self.levels), self.levels)

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> tuple[int, ...]:
        """The places of the chosen cells, one a share, as `Quantile.release` takes counts."""
        found = self.release_groups(histograms(counts), rows=rows, source=source)
        return tuple(found[:, 0].tolist())

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: BitSource = OS
    ) -> NDArray[np.int64]:
        """For every share a row with the chosen cell of each group. `rows` as for `Quantile`."""
        return observed(self, table, rows, lambda: self._chosen(table.roomy(self._finest), source))

    def expected_error(self, cells: int, crowd: int = 1) -> float:
        """On average each answer is at most this many rows off."""
        return self.levels * expected_shortfall(self._scale, cells) + self._split_error(crowd)

    def rank_error(self, cells: int, confidence: Number, crowd: int = 1) -> int:
        """With this confidence all answers, each a cell of so many, are at most this many rows off."""
        surer = 1 - (1 - confident(confidence)) / len(self.shares)
        return self.levels * (likely_shortfall(self._scale, cells, surer) + 1) + self._split_error(crowd)

    def share_interval(self, cells: int, rows: int, confidence: Number, crowd: int = 1) -> tuple[Span, ...]:
        """With this confidence every answer is, among so many rows, the quantile of a share in its span."""
        off = self.rank_error(cells, confidence, crowd)
        return tuple(_around(share, off, rows) for share in self.shares)

    @property
    def _scale(self) -> Fraction:
        """At most so many rows make a cell e times less likely, at every level."""
        return 2 * self.levels / self.epsilon

    def _split_error(self, crowd: int) -> int:
        """Each level but the last splits the rows of a cell, by at most half of them in the wrong place."""
        return (self.levels - 1) * -(-whole(crowd, "crowd") // 2)

    @property
    def _finest(self) -> int:
        """No share of a span has a larger denominator."""
        return math.lcm(*(share.denominator for share in self.shares))

    def _chosen(self, table: Histograms, source: BitSource) -> NDArray[np.int64]:
        span = Fraction(0), Fraction(1)
        return np.stack(self._within(table, CellRanges.all(table), self.shares, span, source)) % table.cells

    def _within(
        self,
        table: Histograms,
        parts: CellRanges,
        shares: tuple[Fraction, ...],
        span: tuple[Fraction, Fraction],
        source: BitSource,
    ) -> list[NDArray[np.int64]]:
        """The quantiles that fall among these parts, which hold the rows between the shares of the span."""
        if not shares:
            return []
        middle = len(shares) // 2
        one = QuantileMechanism(self.epsilon / self.levels, (shares[middle] - span[0]) / (span[1] - span[0]))
        cells = choose(table, parts, one.aim, source)
        lower, upper = parts.split(table, cells)
        below = self._within(table, lower, shares[:middle], (span[0], shares[middle]), source)
        above = self._within(table, upper, shares[middle + 1 :], (shares[middle], span[1]), source)
        return [*below, cells, *above]


def _around(share: Fraction, off: Fraction | int, rows: int) -> Span:
    part = Fraction(off) / whole(rows, "rows")
    return max(share - part, Fraction(0)), min(share + part, Fraction(1))


def _shares(given: Sequence[Any]) -> tuple[Fraction, ...]:
    shares = tuple(exact(share, "share") for share in given)
    common = math.lcm(*(share.denominator for share in shares))
    ascending = all(one < other for one, other in pairwise(shares))
    if not shares or not ascending or not 0 < shares[0] <= shares[-1] < 1 or common > FINEST:
        raise UsageError(
            "SF-N504",
            "Shares lie between 0 and 1, ascend, and are not too fine.",
            got=", ".join(str(share)[:20] for share in given[:4]),
            try_="0.25, 0.5, 0.75",
        )
    return shares
