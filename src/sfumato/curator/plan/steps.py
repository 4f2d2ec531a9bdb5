"""What a priced question does once it is paid for: exact integers from an engine, noise, an answer to keep.

A step is a frozen value with its program, its price, and the one function that adds noise. What `release`
gives is plain lists, which the ledger keeps as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.shaped.shapes import GaussianShape, Shape
from sfumato.curator.plan.summands import Summand
from sfumato.engines.program import CellHistogram, CellSums, KeyedSums
from sfumato.errors.checked import checked, require_field, require_positive
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
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.shaped.gaussian_shapes import Weights
    from sfumato.engines.program import HistogramCounts, SumsByKey


MeasuredSum = NoisySum[Summand] | ShapedSum

SHAPED = "shape-1"
"""What stands before the coordinates of a shape in a kept answer. Without it, each row is a sum."""
GAUSSIAN = "gauss-1"
"""What stands there instead if noise is Gaussian, and after it the weights that the coordinates have: those
are found in floating-point numbers, and no two machines need to find the same."""


def _release_sums(measured: Sequence[MeasuredSum], exact: NDArray[Any]) -> list[Any]:
    """Return noisy sums, a list each; with a shape its mark, its coordinates, and then all other sums."""
    released: list[Any] = []
    for each, rows in zip(measured, _release_each(measured, exact), strict=True):
        released += [*_mark(each.shape), *rows] if isinstance(each, ShapedSum) else rows
    return released


def _release_each(measured: Sequence[MeasuredSum], exact: NDArray[Any]) -> Iterator[list[Any]]:
    """Yield the noisy rows of each: one of a sum, or one for each coordinate of a shape."""
    at = 0
    for each in measured:
        if isinstance(each, ShapedSum):
            yield each.release(exact[at : at + len(each.sums)]).tolist()
            at += len(each.sums)
        else:
            yield [each.release(exact[at]).tolist()]
            at += 1


def _mark(shape: Shape | GaussianShape) -> list[Any]:
    if isinstance(shape, GaussianShape):
        return [GAUSSIAN, [list(row) for row in shape.weights]]
    return [SHAPED]


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


POOLED = "pool-2"
"""What stands first in a kept answer of sums that questions or levels share."""
POOLED_WEIGHTS = "pool-3"
"""What stands there instead if some of them have a shape for Gaussian noise: the weights of its coordinates
follow the names of what was measured."""


@tagged("PooledSums", "program", "measured", "pool", "keys", "blocks", "parts")
@dataclass(frozen=True, slots=True)
@checked
class PooledSums:
    """Noisy sums by some of the keys of questions about the same rows, from which their answers are computed.

    What is kept says what was measured with which part of the spend, so that it can be read whichever
    strategy would be planned now.
    """

    program: CellSums
    measured: tuple[MeasuredSum, ...]
    pool: int
    """Place of the pool in its plan."""
    keys: tuple[int, ...]
    """Places of the keys in their pool."""
    blocks: tuple[str, ...]
    """Names of what is measured: which places it has depends on what else is planned."""
    parts: tuple[Fraction, ...]
    """Parts of the spend, one for each."""

    def __post_init__(self) -> None:
        fits = len(self.measured) == len(self.blocks) == len(self.parts)
        require_field(fits, self, "parts", "one for each sum")

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return Sequential(tuple(each.event() for each in self.measured))

    def release(self, exact: NDArray[Any]) -> list[Any]:
        """Return the mark, what was measured, and noisy integers: a list for each sum or coordinate."""
        named = [self.pool, list(self.keys), list(self.blocks), [str(part) for part in self.parts]]
        rows = [row for each in _release_each(self.measured, exact) for row in each]
        if not any(self.weights):
            return [POOLED, named, *rows]
        return [POOLED_WEIGHTS, [*named, [each and [*map(list, each)] for each in self.weights]], *rows]

    @property
    def weights(self) -> tuple[Weights | None, ...]:
        """The weights of the coordinates of each shape for Gaussian noise; None for all else."""
        shapes = (each.shape if isinstance(each, ShapedSum) else None for each in self.measured)
        return tuple(each.weights if isinstance(each, GaussianShape) else None for each in shapes)


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

    @property
    def size(self) -> int:
        """Number of places that are chosen among."""
        return self.program.size

    def event(self) -> Event:
        """Return what one unit's presence can cost: the choice, and then the counts around it."""
        return _price_choices(self)

    def release(self, exact: HistogramCounts) -> list[list[int]]:
        """Return the places chosen, one row a share, and the counts around them; one column a cell."""
        # The engine sorts by cell and place; nothing in the answer depends on an order of rows.
        shape = {"groups": self.program.cells, "cells": self.size}
        return _choose(self, Histograms.from_sorted_cells(exact.places, exact.counts, **shape))


def _price_choices(step: Choices | DiscoveredChoices) -> Event:
    chosen = step.mechanism.event_by_cell(step.moves)
    if step.around is None:
        return chosen
    # Where all of a unit's rows in a cell are in one count, they move the counts furthest.
    return Sequential((chosen, step.around.event(SumSensitivity.of(step.moves))))


def _choose(step: Choices | DiscoveredChoices, table: Histograms) -> list[list[int]]:
    places = step.mechanism.release_groups(table, rows=step.rows).reshape(-1, table.groups)
    chosen: list[list[int]] = places.tolist()
    if step.around is None:
        return chosen
    counts: list[list[int]] = step.around.release(table, places, SumSensitivity.of(step.moves)).tolist()
    return chosen + counts


@tagged("Bought", "program", "keys", "measured")
@dataclass(frozen=True, slots=True)
@checked
class DiscoveredKeys:
    """Keys that enough units have, and noisy sums for those."""

    program: KeyedSums
    keys: TruncatedGeometric | ThresholdedNoise
    measured: tuple[MeasuredSum, ...]

    discovers_keys: ClassVar[bool] = True
    """Says that later steps may wait for what this one shows."""

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


@tagged("BoughtChoices", "program", "size", "mechanism", "moves", "around")
@dataclass(frozen=True, slots=True)
@checked
class DiscoveredChoices:
    """Quantiles of a value, or its most frequent one, for keys that an earlier step discovered.

    The engine counts the rows of every key and place; those of keys that are not shown are dropped before
    anything is drawn for them.
    """

    program: KeyedSums
    """Counts rows; its last key is the place of the value."""
    size: int
    mechanism: ChoiceMechanism
    moves: Moves
    """Number of a unit's rows in each cell, at worst."""
    around: Surroundings | None = None

    def __post_init__(self) -> None:
        require_positive(self, "size")
        fits = bool(self.moves) and all(rows >= 1 and cells >= 1 for rows, cells in self.moves)
        require_field(fits, self, "moves", "at least one row in at least one cell")

    @property
    def rows(self) -> int:
        """Number of a unit's rows in all cells together."""
        return sum_moves(self.moves)

    def event(self) -> Event:
        """Return what one unit's presence can cost: the choice, and then the counts around it."""
        return _price_choices(self)

    def release(self, exact: SumsByKey) -> list[list[int]]:
        """Refuse: which keys may be shown is only known from an earlier answer."""
        raise AssertionError("keys are discovered first")

    def release_after(self, earlier: Sequence[Any], found: SumsByKey) -> list[list[int]]:
        """Return the places chosen, and the counts around them, with one column for each key shown.

        `earlier` are the answers from the step that discovered the keys on.
        """
        shown = {tuple(key): group for group, key in enumerate(earlier[0][0])}
        if not shown:
            return []
        kept = [
            (shown[tuple(key[:-1])], int(key[-1]), count)
            for key, count in zip(found.keys, found.sums[0].tolist(), strict=True)
            if tuple(key[:-1]) in shown
        ]
        groups, places, counts = np.array(sorted(kept), dtype=np.int64).reshape(-1, 3).T
        shape = {"groups": len(shown), "cells": self.size}
        return _choose(self, Histograms.from_triplets(groups, places, counts, **shape))


def sortable_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key that can be compared with others of its columns, missing parts after all others."""
    return tuple((part is None, "" if part is None else part) for part in key)


ChoiceStep = Choices | DiscoveredChoices
QuestionStep = Sums | PooledSums | Choices | DiscoveredKeys | DiscoveredChoices
