"""Quantiles of a histogram over a public grid, chosen exactly (docs/proofs/quantiles.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.bits import OS
from sfumato.noise.candidates import likely_shortfall, require_sensible
from sfumato.noise.chances import chances
from sfumato.noise.histograms import histogram, roomy
from sfumato.noise.record import through
from sfumato.privacy import events
from sfumato.privacy.exact import exact, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.noise.bits import Source
    from sfumato.noise.chances import Gaps
    from sfumato.noise.integers import IntArray
    from sfumato.privacy.exact import Number

FINEST = 2**20  # the largest common denominator of shares


@dataclass(frozen=True, slots=True)
class Quantile:
    """Chooses a cell such that about the given share of all rows lies below it.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : Exponential(rows · epsilon).
    Because  : docs/proofs/quantiles.md
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.

    The answer has no interval: how far the cell lies from the true quantile depends on the rows between
    them. `rank_error` bounds how many rows that is.
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

    def event(self, rows: int = 1) -> events.Exponential:
        return events.Exponential(self.epsilon * rows)

    def release(self, counts: Any, *, rows: int | None = None, source: Source = OS) -> int:
        """The place of the chosen cell. `rows`, as priced, is for auditors only."""
        cells = histogram(counts)
        return through(self, cells, rows, lambda: self.choose(cells, source))

    def choose(self, cells: IntArray, source: Source) -> int:
        return chances(self.scale).pick(distances(cells, self.share), source)

    def rank_error(self, cells: int, confidence: Number) -> Fraction:
        """With this confidence the chosen cell of so many is at most this many rows off."""
        return Fraction(likely_shortfall(self.scale, cells, confidence), self.share.denominator)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Several quantiles at once: the middle one first, then those on either side among the rows there.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : Exponential(rows · epsilon / levels), `levels` times, for levels = ⌈log₂(shares + 1)⌉.
    Because  : docs/proofs/quantiles.md
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.

    The answers ascend. They have no intervals, for the reason given at `Quantile`.
    """

    epsilon: Fraction
    shares: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "shares", _shares(self.shares))
        finest = math.lcm(*(share.denominator for share in self.shares))
        for steps in (1, finest):  # no share of a span is coarser than 1/2 or finer than this
            require_sensible(2 * steps * self.levels / self.epsilon)

    @property
    def levels(self) -> int:
        return len(self.shares).bit_length()

    def event(self, rows: int = 1) -> events.Repeated:
        return events.Repeated(events.Exponential(self.epsilon * rows / self.levels), self.levels)

    def release(self, counts: Any, *, rows: int | None = None, source: Source = OS) -> tuple[int, ...]:
        """The places of the chosen cells, one a share. `rows`, as priced, is for auditors only."""
        cells = histogram(counts)
        return through(
            self, cells, rows, lambda: self._within(cells, self.shares, (Fraction(0), Fraction(1)), source)
        )

    def _within(
        self, cells: IntArray, shares: tuple[Fraction, ...], span: tuple[Fraction, Fraction], source: Source
    ) -> tuple[int, ...]:
        """The quantiles that fall among these cells, which hold the rows between the shares of the span."""
        if not shares:
            return ()
        middle = len(shares) // 2
        share = (shares[middle] - span[0]) / (span[1] - span[0])
        place = Quantile(self.epsilon / self.levels, share).choose(cells, source)
        lower, upper = parted(cells, place)
        below = self._within(lower, shares[:middle], (span[0], shares[middle]), source)
        above = self._within(upper, shares[middle + 1 :], (shares[middle], span[1]), source)
        return (*below, place, *(place + further for further in above))


def distances(cells: IntArray, share: Fraction) -> Gaps:
    """For each cell, how far the wanted rank lies outside the ranks of its rows, times the denominator.

    The wanted rank is share · n. The rows of a cell have ranks from the number of rows before it to the
    number up to it, so a cell that holds the quantile has distance 0, and there always is one.
    """
    rows = roomy(cells, share.denominator)
    upto: NDArray[Any] = np.cumsum(rows)
    wanted, last = share.numerator * upto[-1], share.denominator * upto
    outside = np.maximum(last - share.denominator * rows - wanted, wanted - last)
    return np.asarray(np.maximum(outside, 0), dtype=object if rows.dtype == object else np.uint64)


def parted(cells: IntArray, place: int) -> tuple[IntArray, IntArray]:
    """The cells up to a place and those from it on; of its own rows each side gets half.

    One row more in the cell is one row more on exactly one side, so the two are as private as their sum.
    """
    lower, upper = cells[: place + 1].copy(), cells[place:].copy()
    lower[-1] = cells[place] // 2
    upper[0] = cells[place] - cells[place] // 2
    return lower, upper


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
