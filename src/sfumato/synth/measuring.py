"""Measuring marginals: noisy counts and choices, cells with few rows merged, and what was released so far.

What leaves this module are the answers of mechanisms, each paid for before it is drawn.

Because : docs/proofs/synth.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.synth.work_limits import KEPT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.noise import ExponentialMechanism
    from sfumato.noise.additive import Noise
    from sfumato.oracle.row_groups import RowGroups
    from sfumato.synth.junction_tree import Clique
    from sfumato.synth.spending import Purse

    Ints = NDArray[np.int64]

_LEAST = 0.1
"""The least deviation that is reckoned with: counts are whole, so that less is as good as none."""
_FEW = 3
"""Cells whose noisy count lies within so many deviations of 0 are merged into one, as in MST."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A noisy marginal as it is released: whole numbers, flat, and the noise that is in them.

    That of a single column counts its bins, those of several columns count merged cells.
    """

    columns: Clique
    counts: Ints
    noise: Noise

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in one count."""
        return max(_LEAST, math.sqrt(self.noise.moments.variance))


@dataclass
class Measurer:
    """Draws noisy marginals and choices from rows, each out of the purse, and keeps what was released."""

    purse: Purse
    rows: RowGroups
    sizes: tuple[int, ...]
    measured: list[Measurement] = field(default_factory=list)
    bins: list[Ints] = field(default_factory=list)
    """The bin of each cell, for every column; cells are their own bins where none were bought."""
    merged: list[Ints] = field(default_factory=list)
    """The merged cell of each bin, for every column."""

    def __post_init__(self) -> None:
        self.bins = [np.arange(size) for size in self.sizes]
        self.merged = list(self.bins)

    def measure(self, columns: Clique, amount: Fraction) -> Measurement:
        """Pay for a noisy marginal and return it."""
        noise, moved = self.purse.currency.make_noise(amount), self.purse.currency.sensitivity
        self.purse.pay(noise.event_for(moved))
        counts = noise.release_for(self.rows.count(columns, self.sizes), moved)
        found = Measurement(columns, np.asarray(counts, dtype=np.int64), noise)
        self.measured.append(found)
        return found

    def choose(self, scores: Ints, choice: ExponentialMechanism) -> int:
        """Pay for a choice and return the place of a score that is about the greatest."""
        self.purse.pay(choice.event())
        return choice.release(scores)

    def count(self, columns: Clique) -> Ints:
        """Return an exact marginal, for scores that a choice is made by. It never leaves as it is."""
        return self.rows.count(columns, self.sizes)

    # ---- cells ----

    def merge_quantiles(self, bins: Mapping[int, tuple[int, int]], amount: Fraction) -> None:
        """Merge the cells of columns at quantiles, bought for an amount in all.

        For each column `bins` has the number of bins, and that of its cells which are not for missing values.
        """
        for column, (wanted, present) in bins.items():
            self.bins[column] = self._buy_bins(column, wanted, present, amount / len(bins))
        self._merge(self.bins)

    def _buy_bins(self, column: int, wanted: int, present: int, amount: Fraction) -> Ints:
        """Return the bin of each cell; missing values keep a cell of their own, the last."""
        currency = self.purse.currency
        shares = tuple(Fraction(at, wanted) for at in range(1, wanted))
        mechanism, rows = currency.make_quantiles(amount, shares), currency.sensitivity.l1
        self.purse.pay(mechanism.event(rows))
        places = mechanism.release(self.count((column,))[:present], rows=rows)
        cuts = np.array(sorted({*places, present} - {0}))
        return np.searchsorted(cuts, np.arange(self.sizes[column]), side="right")

    def merge_few(self) -> None:
        """Merge those bins of every column whose noisy count may be nothing but noise.

        It follows from the released counts of the columns, which were measured before anything else.
        """
        self.merged = [_merge_map(each.counts, each.deviation) for each in self.measured]
        self._merge(self.merged)

    def _merge(self, maps: Sequence[Ints]) -> None:
        self.rows = self.rows.merge(maps)
        self.sizes = tuple(int(each.max()) + 1 for each in maps)


@dataclass
class KeptCounts:
    """Exact marginals for scores, kept as far as the limits allow. None of them leaves."""

    measurer: Measurer
    _kept: dict[Clique, Ints] = field(default_factory=dict)
    _cells: int = 0

    def count(self, columns: Clique) -> Ints:
        """Return an exact marginal, kept from before or counted anew."""
        known = self._kept.get(columns)
        if known is None:
            known = self.measurer.count(columns)
            if self._cells + known.size <= KEPT:
                self._kept[columns] = known
                self._cells += known.size
        return known


def _merge_map(counts: Ints, deviation: float) -> Ints:
    """Return the merged cell of each cell: those with enough rows in their order, then all others as one."""
    many = counts >= _FEW * deviation
    found = np.where(many, np.cumsum(many) - 1, many.sum())
    # One cell alone is merged with none.
    return np.arange(len(counts)) if (~many).sum() == 1 else found
