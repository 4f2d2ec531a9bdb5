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
from sfumato.noise.histograms import histograms
from sfumato.noise.ranks import Aim, Parts, choose
from sfumato.noise.record import through
from sfumato.privacy import events
from sfumato.privacy.exact import exact, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.noise.bits import Source
    from sfumato.noise.histograms import Histograms
    from sfumato.privacy.exact import Number

FINEST = 2**27  # the largest common denominator of shares, such as that of 1 %, 2 %, … and of 1 − 2^−20


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

    @property
    def aim(self) -> Aim:
        return Aim(self.share, self.scale)

    def event(self, rows: int = 1) -> events.Exponential:
        return events.Exponential(self.epsilon * rows)

    def release(self, counts: Any, *, rows: int | None = None, source: Source = OS) -> int:
        """The place of the chosen cell, in a row of counts or in `Histograms.sparse`.

        `rows`, as priced, is for auditors only.
        """
        return int(self.release_groups(histograms(counts), rows=rows, source=source)[0])

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: Source = OS
    ) -> NDArray[np.int64]:
        """For every group the place of the chosen cell. A unit has at most `rows` rows in all of them."""
        return through(self, table, rows, lambda: self.choose(table, source))

    def choose(self, table: Histograms, source: Source) -> NDArray[np.int64]:
        table = table.roomy(self.share.denominator)
        return choose(table, Parts.all(table), self.aim, source) % table.cells

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
        for steps in (1, self._finest):  # no share of a span is coarser than 1/2 or finer than this
            require_sensible(2 * steps * self.levels / self.epsilon)

    @property
    def levels(self) -> int:
        return len(self.shares).bit_length()

    def event(self, rows: int = 1) -> events.Repeated:
        return events.Repeated(events.Exponential(self.epsilon * rows / self.levels), self.levels)

    def release(self, counts: Any, *, rows: int | None = None, source: Source = OS) -> tuple[int, ...]:
        """The places of the chosen cells, one a share, as `Quantile.release` takes counts."""
        found = self.release_groups(histograms(counts), rows=rows, source=source)
        return tuple(found[:, 0].tolist())

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: Source = OS
    ) -> NDArray[np.int64]:
        """For every share a row with the chosen cell of each group. `rows` as for `Quantile`."""
        return through(self, table, rows, lambda: self._chosen(table.roomy(self._finest), source))

    @property
    def _finest(self) -> int:
        """No share of a span has a larger denominator."""
        return math.lcm(*(share.denominator for share in self.shares))

    def _chosen(self, table: Histograms, source: Source) -> NDArray[np.int64]:
        span = Fraction(0), Fraction(1)
        return np.stack(self._within(table, Parts.all(table), self.shares, span, source)) % table.cells

    def _within(
        self,
        table: Histograms,
        parts: Parts,
        shares: tuple[Fraction, ...],
        span: tuple[Fraction, Fraction],
        source: Source,
    ) -> list[NDArray[np.int64]]:
        """The quantiles that fall among these parts, which hold the rows between the shares of the span."""
        if not shares:
            return []
        middle = len(shares) // 2
        one = Quantile(self.epsilon / self.levels, (shares[middle] - span[0]) / (span[1] - span[0]))
        cells = choose(table, parts, one.aim, source)
        lower, upper = parts.split(table, cells)
        below = self._within(table, lower, shares[:middle], (span[0], shares[middle]), source)
        above = self._within(table, upper, shares[middle + 1 :], (shares[middle], span[1]), source)
        return [*below, cells, *above]


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
