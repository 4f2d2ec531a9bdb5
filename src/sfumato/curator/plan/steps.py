"""What a priced question does once it is paid for: exact integers from an engine, noise, an answer to keep.

A step is a frozen value with its program, its price, and the one function that adds noise. What `release`
gives is plain lists, which the ledger keeps as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.summands import Summand
from sfumato.engines.program import CellHistogram, CellSums, KeyedSums
from sfumato.errors.checked import checked, require_field
from sfumato.noise import (
    ExtremeMechanism,
    ModeMechanism,
    QuantilesMechanism,
    Surroundings,
    ThresholdedNoise,
    TruncatedGeometric,
)
from sfumato.noise.histograms import Histograms
from sfumato.privacy.canonical import tagged, written_by
from sfumato.privacy.events import Event, Moves, Sequential, sum_moves

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.engines.program import HistogramCounts, SumsByKey


@tagged("Sums", "program", "measured")
@dataclass(frozen=True, slots=True)
@checked
class Sums:
    """Noisy sums over listed cells."""

    program: CellSums
    measured: tuple[NoisySum[Summand], ...]

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return Sequential(tuple(each.event() for each in self.measured))

    def release(self, exact: NDArray[Any]) -> list[list[int]]:
        """Return a list of noisy integers for each sum, one a cell."""
        return [each.release(sums).tolist() for each, sums in zip(self.measured, exact, strict=True)]


ChoiceMechanism = QuantilesMechanism | ExtremeMechanism | ModeMechanism


# The moves are not written: requests were hashed before prices knew them, and they change no choice.
def _write(step: Choices) -> dict[str, Any]:
    around = {} if step.around is None else {"around": step.around}
    return {"": "Choices", "program": step.program, "mechanism": step.mechanism, "rows": step.rows, **around}


@written_by(_write)
@dataclass(frozen=True, slots=True)
@checked
class Choices:
    """Quantiles of a value, or its most frequent one, in every cell.

    Each cell's choice has a log-likelihood ratio in an interval as long as the unit's rows there, and choices
    in different cells are independent.
    """

    program: CellHistogram
    mechanism: ChoiceMechanism
    moves: Moves
    """Number of a unit's rows in each cell, at worst."""
    around: Surroundings | None = None
    """What counts the rows around the places chosen, so that quantiles have intervals; none for others."""

    def __post_init__(self) -> None:
        fits = bool(self.moves) and all(rows >= 1 and cells >= 1 for rows, cells in self.moves)
        require_field(fits, self, "moves", "at least one row in at least one cell")

    @property
    def rows(self) -> int:
        """Number of a unit's rows in all cells together."""
        return sum_moves(self.moves)

    def event(self) -> Event:
        """Return what one unit's presence can cost: the choice, and then the counts around it."""
        chosen = self.mechanism.event_by_cell(self.moves)
        if self.around is None:
            return chosen
        return Sequential((chosen, self.around.event(self._sensitivity)))

    def release(self, exact: HistogramCounts) -> list[list[int]]:
        """Return the places chosen, one row a share, and the counts around them; one column a cell."""
        # The engine sorts by cell and place; nothing in the answer depends on an order of rows.
        shape = {"groups": self.program.cells, "cells": self.program.size}
        table = Histograms.from_sorted_cells(exact.places, exact.counts, **shape)
        places = self.mechanism.release_groups(table, rows=self.rows).reshape(-1, self.program.cells)
        chosen: list[list[int]] = places.tolist()
        if self.around is None:
            return chosen
        counts: list[list[int]] = self.around.release(table, places, self._sensitivity).tolist()
        return chosen + counts

    @property
    def _sensitivity(self) -> SumSensitivity:
        """How far one unit moves the counts: by its rows, at worst all of a cell in one count."""
        return SumSensitivity.of(self.moves)


@tagged("Bought", "program", "keys", "measured")
@dataclass(frozen=True, slots=True)
@checked
class DiscoveredKeys:
    """Keys that enough units have, and noisy sums for those."""

    program: KeyedSums
    keys: TruncatedGeometric | ThresholdedNoise
    measured: tuple[NoisySum[Summand], ...]

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return Sequential((self.keys.event(), *(each.event() for each in self.measured)))

    def release(self, found: SumsByKey) -> list[list[Any]]:
        """Return the keys to show, in their own order, then a list a sum."""
        # What the engine found is not public: keys are shown only as the mechanism decides, and sums of the
        # others are dropped before any noise is drawn for them.
        keys = list(map(sortable_key, found.keys)) if self.program.nulls else found.keys
        places = {key: place for place, key in enumerate(keys)}
        shown = self.keys.release(dict(zip(keys, found.units.tolist(), strict=True)))
        at = [places[key] for key in shown]
        sums = [each.release(sums[at]).tolist() for each, sums in zip(self.measured, found.sums, strict=True)]
        return [[list(found.keys[place]) for place in at], *sums]


def sortable_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key that can be compared with others of its columns, missing parts after all others."""
    return tuple((part is None, "" if part is None else part) for part in key)


QuestionStep = Sums | Choices | DiscoveredKeys
