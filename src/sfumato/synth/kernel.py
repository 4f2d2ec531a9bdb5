"""The mechanism behind `Marginals`: rows as cells come in, noisy marginals go out, for one price.

Because : docs/proofs/synth.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.privacy.canonical import tagged
from sfumato.synth.measuring import Measurement, Measurer
from sfumato.synth.selection import (
    MEASURED,
    MST_CHOICES,
    AdaptiveSelection,
    TreeSelection,
    share_of_columns,
)
from sfumato.synth.spending import Currency, Purse
from sfumato.synth.work_limits import count_passes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.oracle.row_groups import RowGroups
    from sfumato.privacy.events import Event
    from sfumato.synth.column_cells import ColumnCells
    from sfumato.synth.workload import Weights

    Ints = NDArray[np.int64]

QUANTILES = Fraction(1, 20)
"""Share of the amount that pays for bins at quantiles, where any are bought."""


@tagged("Synthesis", "columns", "method", "weights", "currency", "amount", "most_cells")
@dataclass(frozen=True, slots=True)
class MarginalsKernel:
    """Chooses marginals and measures them with noise.

    Privacy
    -------
    Protects : one unit with at most `currency.rows` rows.
    Costs    : Concentrated(amount), or Pure(amount).
    Because  : docs/proofs/synth.md
    Assumes  : cells are declared; how long the estimates between choices take depends on released numbers
               alone.
    """

    columns: tuple[ColumnCells, ...]
    method: str
    weights: Weights
    currency: Currency
    amount: Fraction
    most_cells: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        return tuple(column.size for column in self.columns)

    @property
    def bought(self) -> dict[int, tuple[int, int]]:
        """Columns whose bins are bought: how many bins, and how many cells are not for missing values."""
        columns = enumerate(self.columns)
        return {at: (column.merged, len(column.cuts)) for at, column in columns if column.merged > 1}

    @property
    def passes(self) -> int:
        """About how often rows and models are gone over, from public facts."""
        return count_passes(self.sizes, self.weights, self.most_cells, self.currency.concentrated)

    def event(self) -> Event:
        """Return the price of all choices and marginals together."""
        return self.currency.make_event(self.amount)

    def release(self, rows: RowGroups) -> dict[str, Any]:
        """Return bins, merged cells and noisy marginals, as the ledger keeps them."""
        measurer = Measurer(Purse(self.currency, self.amount), rows, self.sizes)
        bought = self.bought
        with np.errstate(all="ignore"):
            if bought:
                measurer.merge_quantiles(bought, QUANTILES * self.amount)
            self._select(measurer)
        return write_release(measurer)

    def require_drawable(self) -> None:
        """Refuse an amount whose noise is too wide, or too narrow, to be drawn: before anything is charged.

        Later rounds are never cheaper than the first.
        """
        columns, currency, left = len(self.columns), self.currency, self.amount
        for wanted, _ in self.bought.values():
            left = (1 - QUANTILES) * self.amount
            shares = tuple(Fraction(at, wanted) for at in range(1, wanted))
            currency.make_quantiles(QUANTILES * self.amount / len(self.bought), shares)
        alone = share_of_columns(self.method, currency, columns, bool(self.weights) or self.method == "mst")
        currency.make_noise(alone * left / columns)
        if alone == 1:
            return
        if self.method == "mst":
            rest = (1 - alone) * left / (columns - 1)
            currency.make_noise((1 - MST_CHOICES) * rest)
            currency.make_choice(MST_CHOICES * rest, 1)
            return
        first = alone * left / (MEASURED * columns)
        currency.make_noise(MEASURED * first)
        currency.make_choice((1 - MEASURED) * first, max((weight for _, weight in self.weights), default=1))

    def _select(self, measurer: Measurer) -> None:
        if self.method == "mst":
            TreeSelection(measurer).run()
        else:
            AdaptiveSelection(measurer, self.weights, self.most_cells).run()


@dataclass(frozen=True, slots=True)
class ReleasedMarginals:
    """What a synthesis released: the bin of each cell, the merged cell of each bin, and noisy marginals."""

    bins: tuple[Ints, ...]
    merged: tuple[Ints, ...]
    measured: tuple[Measurement, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of merged cells of each column."""
        return tuple(int(each.max()) + 1 for each in self.merged)


def write_release(measurer: Measurer) -> dict[str, Any]:
    """Return what was released as plain lists."""
    return {
        "bins": [each.tolist() for each in measurer.bins],
        "merged": [each.tolist() for each in measurer.merged],
        "measured": [
            {"columns": list(each.columns), "counts": each.counts.tolist(), "noise": str(each.noise.spread)}
            for each in measurer.measured
        ],
    }


def read_release(written: Mapping[str, Any], currency: Currency) -> ReleasedMarginals:
    """Return what was released, from plain lists."""
    kind = GaussianNoise if currency.concentrated else LaplaceNoise
    measured = tuple(
        Measurement(
            tuple(each["columns"]), np.array(each["counts"], dtype=np.int64), kind(Fraction(each["noise"]))
        )
        for each in written["measured"]
    )
    bins, merged = (
        tuple(np.array(each, dtype=np.int64) for each in written[name]) for name in ("bins", "merged")
    )
    return ReleasedMarginals(bins, merged, measured)
