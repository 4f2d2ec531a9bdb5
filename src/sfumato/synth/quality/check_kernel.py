"""A private measurement of how far rows are from a synthetic table: a few noisy numbers for one price.

Each number is a count, or a sum of distances between marginals, which one row changes by 1 for each marginal.

Because : docs/proofs/synth.md#measured-quality
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.canonical import written_by
from sfumato.synth.junction_tree import count_cells
from sfumato.synth.quality.additive_classifier import digest_arrays
from sfumato.synth.spending import Currency, Purse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.oracle.row_groups import RowGroups
    from sfumato.privacy.events import Event
    from sfumato.synth.junction_tree import Clique
    from sfumato.synth.quality.additive_classifier import CellClassifier
    from sfumato.synth.quality.drawn_cells import DrawnCells

    Ints = NDArray[np.int64]

MOST_PARTS = 364
"""Marginals of two or three columns that are compared; where there are more, a fixed seed chooses."""
_SCORES, _CELLS = 64, 2**17
"""Scores of a row, and cells, that take as long as a pass over the rows. Privacy does not depend on them."""
_MOST_CELLS = 2**18
"""Cells of a marginal that is compared."""


def _write_kernel(kernel: CheckKernel) -> dict[str, Any]:
    predicted = None if kernel.classifier is None else [kernel.classifier.target, kernel.classifier.digest]
    return {
        "": "SynthesisCheck",
        "columns": list(kernel.drawn.columns),
        "drawn": digest_arrays(kernel.drawn.rows),
        "each": kernel.each,
        "classifier": predicted,
        "currency": kernel.currency,
        "amount": kernel.amount,
    }


@written_by(_write_kernel)
@dataclass(frozen=True)
class CheckKernel:
    """Measures rows against a synthetic table.

    Privacy
    -------
    Protects : one unit with at most `currency.rows` rows.
    Costs    : Concentrated(amount), or Pure(amount).
    Because  : docs/proofs/synth.md#measured-quality
    Assumes  : the synthetic table is public.
    """

    drawn: DrawnCells
    each: int
    """How many rows each synthetic row counts for."""
    classifier: CellClassifier | None
    currency: Currency
    amount: Fraction

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        return self.drawn.sizes

    @property
    def passes(self) -> int:
        """About how often the rows are gone over, from public facts."""
        parts = [part for group in self.groups.values() for part in group]
        cells = sum(count_cells(self.sizes, part) for part in parts)
        classes = 0 if self.classifier is None else self.sizes[self.classifier.target]
        scores = classes * len(self.sizes) // _SCORES + classes * sum(self.sizes) // _CELLS
        return 2 * len(parts) + 10 + cells // _CELLS + scores

    def event(self) -> Event:
        """Return the price of all numbers together."""
        return self.currency.make_event(self.amount)

    @cached_property
    def groups(self) -> dict[str, list[Clique]]:
        """The marginals whose distances are added up, by what their sum is called."""
        columns = range(len(self.sizes))
        found: dict[str, list[Clique]] = {f"column {self.drawn.columns[at].name}": [(at,)] for at in columns}
        for ways in (2, 3):
            parts = [
                each for each in combinations(columns, ways) if count_cells(self.sizes, each) <= _MOST_CELLS
            ]
            if len(parts) > MOST_PARTS:
                chosen = np.random.default_rng(ways).choice(len(parts), MOST_PARTS, replace=False)
                parts = [parts[at] for at in sorted(chosen)]
            if parts:
                found[f"{ways} columns"] = parts
        return found

    def share_amount(self) -> dict[str, Fraction]:
        """Return what each number costs: kinds of numbers alike, columns divide the share of their kind."""
        groups = self.groups
        singles = [name for name, parts in groups.items() if len(parts[0]) == 1]
        kinds = ["right"] * (self.classifier is not None) + [name for name in groups if name not in singles]
        each = self.amount / (len(kinds) + 1)
        return {**dict.fromkeys(singles, each / len(singles)), **dict.fromkeys(kinds, each)}

    def price_number(self, name: str) -> Currency:
        """Return the currency of a number that one row changes by as many as there are marginals in it.

        A row that is replaced leaves one cell and comes to another, and moves each distance by 2.
        """
        moved = len(self.groups.get(name, [()])) * (2 if self.currency.replaced else 1)
        return replace(self.currency, rows=self.currency.rows * moved, replaced=False)

    def require_drawable(self) -> None:
        """Refuse an amount whose noise cannot be drawn, before anything is charged."""
        for name, amount in self.share_amount().items():
            self.price_number(name).make_noise(amount)

    def release(self, rows: RowGroups) -> dict[str, int]:
        """Return the noisy numbers by name."""
        exact = self._count(rows)
        purse = Purse(self.currency, self.amount)
        found = {}
        for name, amount in self.share_amount().items():
            currency = self.price_number(name)
            noise = currency.make_noise(amount)
            purse.pay(noise.event_for(currency.sensitivity))
            noisy = noise.release_for(np.array([exact[name]], dtype=np.int64), currency.sensitivity)
            found[name] = int(noisy[0])
        return found

    def _count(self, rows: RowGroups) -> dict[str, int]:
        found = {
            name: sum(self._distance(rows, part) for part in parts) for name, parts in self.groups.items()
        }
        if self.classifier is not None:
            right = self.classifier.predict(rows.columns) == rows.columns[self.classifier.target]
            found["right"] = int(rows.counts[right].sum())
        return found

    def _distance(self, rows: RowGroups, part: Clique) -> int:
        drawn = self.each * self.drawn.groups.count(part, self.sizes)
        return int(np.abs(rows.count(part, self.sizes) - drawn).sum())


@dataclass(frozen=True, slots=True)
class MeasuredNumber:
    """A distance or a share that was measured with noise, and an interval that noise alone may leave."""

    name: str
    value: float
    low: float
    high: float


def read_numbers(
    kernel: CheckKernel, written: Mapping[str, int], confidence: float
) -> tuple[MeasuredNumber, ...]:
    """Return total variations and the share of right predictions, from noisy sums."""
    total = max(1, kernel.each * len(kernel.drawn))
    groups, amounts = kernel.groups, kernel.share_amount()
    found = []
    for name, noisy in written.items():
        width = kernel.price_number(name).make_noise(amounts[name]).half_width(confidence)
        # A total variation is half of the distance, on the average of the marginals in a sum.
        scale = total * (2 * len(groups[name]) if name in groups else 1)
        low, value, high = (
            min(1.0, max(0.0, each / scale)) for each in (noisy - width, noisy, noisy + width)
        )
        found.append(MeasuredNumber(name, value, low, high))
    return tuple(found)


def fit_sample_size(total: float, most: int = 2**17) -> tuple[int, int]:
    """Return how many rows to draw for a table of about so many rows, and how many each stands for."""
    each = max(1, -(-round(total) // most))
    return max(1, round(total) // each), each
