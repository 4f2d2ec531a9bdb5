"""What a priced question does once it is paid for: exact integers from an engine, noise, an answer to keep.

A step is a frozen value with its program, its price, and the one function that adds noise. What `release`
gives is plain lists, which the ledger keeps as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.shaped_sum import ShapedSum
from sfumato.curator.plan.summands import Summand
from sfumato.engines.program import CellHistogram, CellSums, KeyedSums
from sfumato.errors.checked import checked, require_field
from sfumato.noise import (
    ExtremeMechanism,
    ModeMechanism,
    QuantilesMechanism,
    ThresholdedNoise,
    TruncatedGeometric,
)
from sfumato.noise.histograms import Histograms
from sfumato.privacy.canonical import tagged, written_by
from sfumato.privacy.events import Event, Moves, Sequential, sum_moves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.engines.program import HistogramCounts, SumsByKey


MeasuredSum = NoisySum[Summand] | ShapedSum

SHAPED = "shape-1"
"""What stands before the coordinates of a shape in a kept answer. Without it, each row is a sum."""


def _release_sums(measured: Sequence[MeasuredSum], exact: NDArray[Any]) -> list[Any]:
    """Return noisy sums, a list each; with a shape its mark, its coordinates, and then all other sums."""
    released: list[Any] = []
    at = 0
    for each in measured:
        if isinstance(each, ShapedSum):
            released += [SHAPED, *each.release(exact[at : at + len(each.sums)]).tolist()]
            at += len(each.sums)
        else:
            released.append(each.release(exact[at]).tolist())
            at += 1
    return released


@tagged("Sums", "program", "measured")
@dataclass(frozen=True, slots=True)
@checked
class Sums:
    """Noisy sums over listed cells."""

    program: CellSums
    measured: tuple[MeasuredSum, ...]

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return Sequential(tuple(each.event() for each in self.measured))

    def release(self, exact: NDArray[Any]) -> list[Any]:
        """Return a list of noisy integers for each sum or coordinate, one a cell."""
        return _release_sums(self.measured, exact)


ChoiceMechanism = QuantilesMechanism | ExtremeMechanism | ModeMechanism


# The moves are not written: requests were hashed before prices knew them, and they change no choice.
def _write(step: Choices) -> dict[str, Any]:
    return {"": "Choices", "program": step.program, "mechanism": step.mechanism, "rows": step.rows}


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

    def __post_init__(self) -> None:
        fits = bool(self.moves) and all(rows >= 1 and cells >= 1 for rows, cells in self.moves)
        require_field(fits, self, "moves", "at least one row in at least one cell")

    @property
    def rows(self) -> int:
        """Number of a unit's rows in all cells together."""
        return sum_moves(self.moves)

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.mechanism.event_by_cell(self.moves)

    def release(self, exact: HistogramCounts) -> list[list[int]]:
        """Return the places chosen: one row a share, one column a cell."""
        # The engine sorts by cell and place; nothing in the answer depends on an order of rows.
        shape = {"groups": self.program.cells, "cells": self.program.size}
        table = Histograms.from_sorted_cells(exact.places, exact.counts, **shape)
        places = self.mechanism.release_groups(table, rows=self.rows)
        chosen: list[list[int]] = places.reshape(-1, self.program.cells).tolist()
        return chosen


@tagged("Bought", "program", "keys", "measured")
@dataclass(frozen=True, slots=True)
@checked
class DiscoveredKeys:
    """Keys that enough units have, and noisy sums for those."""

    program: KeyedSums
    keys: TruncatedGeometric | ThresholdedNoise
    measured: tuple[MeasuredSum, ...]

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
        sums = _release_sums(self.measured, found.sums[:, at])
        return [[list(found.keys[place]) for place in at], *sums]


def sortable_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key that can be compared with others of its columns, missing parts after all others."""
    return tuple((part is None, "" if part is None else part) for part in key)


QuestionStep = Sums | Choices | DiscoveredKeys
