"""A distribution over cells that fits noisy marginals: a product of factors on a junction tree.

Of all distributions with such factors it is the one that is nearest to the noisy marginals. Everything here
is computed from released numbers, so it is post-processing and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.synth.junction_tree import build_tree, count_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.synth.junction_tree import Clique, JunctionTree

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Factors = Mapping[Clique, Floats]

_TINY = 1e-300
"""Keeps a division by an empty cell from failing; what it divides is 0 there."""
_SHRINK, _GROW = 0.5, 1.2
"""How the length of a step adapts: by half where the loss rises, by a fifth where it falls."""
_TRIES, _FEW_TRIES = 30, 3
"""Halvings after which there is no way down, and after which scaled steps are given up for a while."""
_PLAIN_STEPS = 10
"""Plain steps after a scaled one that did not lead down."""
_FARTHEST = 4.0
"""By how much the logarithm of a factor moves in one step at most. A cell that one long step has emptied
would never be filled again, because nothing near it changes the loss."""
_WORTH = 0.999
"""Of the loss, what a scaled step must leave at most."""

_LARGEST = 2**24
"""The most cells of a tree. Greedy elimination may make it larger than was foreseen. It follows from what was
released, and privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class NoisyMarginal:
    """A marginal that was measured with noise: one axis a column."""

    columns: Clique
    counts: Floats
    deviation: float | Floats
    """The standard deviation of the noise, of all counts or of each."""


@dataclass(frozen=True)
class GraphicalModel:
    """Marginals of the cliques of a tree that agree with each other, and the factors they come from."""

    tree: JunctionTree
    total: float
    tables: tuple[Floats, ...]
    """The marginal of each clique, which adds up to 1."""
    factors: Factors
    """The logarithm of the factor of each measured marginal."""

    def marginal(self, columns: Clique) -> Floats:
        """Return the counts of a marginal that lies within a clique."""
        place = self.tree.find_clique(columns)
        clique = self.tree.cliques[place]
        rest = tuple(at for at, each in enumerate(clique) if each not in columns)
        found: Floats = self.total * self.tables[place].sum(axis=rest)
        return found

    def draw(self, rows: int, random: np.random.Generator) -> Ints:
        """Return rows of cells, one column each, whose counts are rounded and not drawn one by one.

        Within rows that agree on what a clique shares with its parent, every cell of the clique has its
        expected count, rounded up or down.
        """
        found = np.zeros((rows, len(self.tree.sizes)), dtype=np.int64)
        for place, table in enumerate(self.tables):
            clique = self.tree.cliques[place]
            shared = self.tree.separator(place) if self.tree.parents[place] >= 0 else ()
            new = tuple(each for each in clique if each not in shared)
            order = [clique.index(each) for each in (*shared, *new)]
            cells = table.transpose(order).reshape(count_cells(self.tree.sizes, shared), -1)
            given = flatten_cells(found, self.tree.sizes, shared)
            drawn = _draw_cells(cells, given, random)
            for column in reversed(new):
                drawn, found[:, column] = np.divmod(drawn, self.tree.sizes[column])
        return found


def flatten_cells(rows: Ints, sizes: Sequence[int], columns: Iterable[int]) -> Ints:
    """Return the cell of each row in a marginal, the last column fastest."""
    cell = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        cell *= sizes[column]
        cell += rows[:, column]
    return cell


def _draw_cells(chances: Floats, groups: Ints, random: np.random.Generator) -> Ints:
    """Return a cell for each row, by the chances of its group: systematic sampling within every group."""
    # Rows of a group come in random order and take their cells at equal distances.
    shuffled = random.permutation(len(groups))
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    counts = np.bincount(groups, minlength=len(chances))
    starts = np.cumsum(counts) - counts
    of = groups[order]
    at = (np.arange(len(order)) - starts[of] + random.random(len(chances))[of]) / counts[of]
    used = np.flatnonzero(counts)
    edges = np.cumsum(chances[used], axis=1)
    whole = edges[:, -1:]
    # A group that the model holds to be empty has all cells alike.
    even = np.arange(1, edges.shape[1] + 1) / edges.shape[1]
    edges = np.where(whole > 0, edges / np.maximum(whole, _TINY), even)
    rank = np.cumsum(counts > 0) - 1
    positions = rank[of] + np.minimum(at, 1 - 1e-12)
    flat = (edges + np.arange(len(used))[:, None]).ravel()
    cells = np.searchsorted(flat, positions, side="right") - rank[of] * edges.shape[1]
    found = np.empty(len(groups), dtype=np.int64)
    found[order] = np.clip(cells, 0, edges.shape[1] - 1)
    return found


# ---- estimation --------------------------------------------------------------------------------------------


def estimate(
    sizes: Sequence[int], measured: Sequence[NoisyMarginal], steps: int, start: Factors | None = None
) -> GraphicalModel:
    """Return the model that fits noisy marginals best, after so many steps of mirror descent.

    `start` holds factors of an earlier model, of which each is taken that still has its shape.
    """
    merged, tree = _hold_tree(sizes, merge_measurements(measured))
    return _Descent(tree, merged, estimate_total(merged)).run(steps, start or {})


def _hold_tree(
    sizes: Sequence[int], measured: list[NoisyMarginal]
) -> tuple[list[NoisyMarginal], JunctionTree]:
    """Return a tree that memory holds, and the marginals in it.

    Room for each marginal was foreseen when it was chosen, so that the last ones are hardly ever left out.
    """
    tree = build_tree(sizes, [each.columns for each in measured])
    while tree.cells > _LARGEST and len(measured) > len(sizes):
        measured = measured[:-1]
        tree = build_tree(sizes, [each.columns for each in measured])
    return measured, tree


def merge_measurements(measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """Return each marginal once: several measurements of one are averaged, the more exact ones for more."""
    found: dict[Clique, NoisyMarginal] = {}
    for each in measured:
        known = found.get(each.columns)
        if known is not None:
            mine, theirs = each.deviation**-2, known.deviation**-2
            counts = (mine * each.counts + theirs * known.counts) / (mine + theirs)
            each = NoisyMarginal(each.columns, counts, (mine + theirs) ** -0.5)
        found[each.columns] = each
    return list(found.values())


def estimate_total(measured: Sequence[NoisyMarginal]) -> float:
    """Return the number of rows that the marginals speak of, at least 1: their sums, by their exactness."""
    weights = [
        1 / float(np.sum(np.broadcast_to(each.deviation, each.counts.shape) ** 2)) for each in measured
    ]
    sums = [float(each.counts.sum()) * weight for each, weight in zip(measured, weights, strict=True)]
    return max(1.0, math.fsum(sums) / math.fsum(weights))


class _Descent:
    """Mirror descent: factors move against the gradient of the squared error, in units of the noise.

    A step is scaled by the square root of each count, where that leads down, and else plain. Both were
    compared on tables that no figure of the docs is about (docs/decisions/0044-estimating-tables.md).
    """

    def __init__(self, tree: JunctionTree, measured: Sequence[NoisyMarginal], total: float) -> None:
        self._tree, self._measured, self._total = tree, measured, total
        self._sums = TreeSums(tree)
        self._homes = [tree.find_clique(each.columns) for each in measured]
        held = [tree.cliques[home] for home in self._homes]
        pairs = list(zip(measured, held, strict=True))
        self._rest = [
            tuple(at for at, column in enumerate(clique) if column not in each.columns)
            for each, clique in pairs
        ]
        self._shapes = [
            tuple(tree.sizes[column] if column in each.columns else 1 for column in clique)
            for each, clique in pairs
        ]

    def run(self, steps: int, start: Factors) -> GraphicalModel:
        """Return the model after so many steps, or where no step makes the loss smaller."""
        self._move([self._begin(each, start) for each in self._measured])
        scaled, plain, plain_until = 1.0, 1.0, 0
        for at in range(steps):
            if at >= plain_until:
                found = self._step(self._scaled_slopes(), scaled, _FEW_TRIES, _WORTH)
                scaled = found or scaled / 2
                # Near its end a scaled step may lead upwards, which plain ones of a small length never do.
                plain_until = at if found else at + _PLAIN_STEPS
            if at < plain_until:
                plain = self._step(self._slopes(), plain, _TRIES, 1.0)
            if not plain:
                break
        named = {each.columns: factor for each, factor in zip(self._measured, self._factors, strict=True)}
        return GraphicalModel(self._tree, self._total, tuple(self._tables), named)

    def _move(self, factors: list[Floats]) -> None:
        self._factors, self._tables = factors, self._calibrate(factors)
        self._errors = self._find_errors(self._tables)
        self._loss = _sum_squares(self._errors)

    def _step(self, slopes: Sequence[Floats], length: float, tries: int, worth: float) -> float:
        """Go down the slopes and return the length to begin with next time; 0 where none was short enough."""
        steepest = max(float(np.abs(slope).max()) for slope in slopes)
        length = min(length, _FARTHEST / max(steepest, _TINY))
        for _ in range(tries):
            pairs = zip(self._factors, slopes, strict=True)
            factors = [factor - length * slope for factor, slope in pairs]
            tables = self._calibrate(factors)
            errors = self._find_errors(tables)
            loss = _sum_squares(errors)
            if loss < worth * self._loss:
                self._factors, self._tables, self._errors, self._loss = factors, tables, errors, loss
                return length * _GROW
            length *= _SHRINK
        return 0.0

    def _slopes(self) -> list[Floats]:
        return [error / each.deviation for error, each in zip(self._errors, self._measured, strict=True)]

    def _scaled_slopes(self) -> list[Floats]:
        """Return slopes that are steeper in cells with few rows, which plain ones leave for last."""
        return [
            error / np.sqrt(np.maximum(error * each.deviation + each.counts, 0.0) + each.deviation)
            for error, each in zip(self._errors, self._measured, strict=True)
        ]

    def _begin(self, measured: NoisyMarginal, start: Factors) -> Floats:
        known = start.get(measured.columns)
        if known is not None and known.shape == measured.counts.shape:
            return known
        if len(measured.columns) > 1:
            return np.zeros(measured.counts.shape)
        # What a column has alone, less what is all but surely noise.
        return np.log(np.maximum(measured.counts, measured.deviation / 4))

    def _calibrate(self, factors: Sequence[Floats]) -> list[Floats]:
        logs = [np.zeros(shape) for shape in self._sums.shapes]
        for factor, home, shape in zip(factors, self._homes, self._shapes, strict=True):
            logs[home] += factor.reshape(shape)
        return self._sums.calibrate(logs)

    def _find_errors(self, tables: Sequence[Floats]) -> list[Floats]:
        """Return how far the model is from each marginal, in deviations of its noise."""
        return [
            (self._total * tables[home].sum(axis=rest) - each.counts) / each.deviation
            for home, rest, each in zip(self._homes, self._rest, self._measured, strict=True)
        ]


def _sum_squares(errors: Sequence[Floats]) -> float:
    return math.fsum(float(np.vdot(each, each)) for each in errors)


class TreeSums:
    """The sums over a junction tree that make tables on its cliques agree with each other."""

    def __init__(self, tree: JunctionTree) -> None:
        self.shapes = [tuple(tree.sizes[each] for each in clique) for clique in tree.cliques]
        self._parents = tree.parents
        ways = [_summed_axes(tree, place) for place in range(len(tree.cliques))]
        self._own, self._above = [own for own, _ in ways], [above for _, above in ways]

    def calibrate(self, logs: Sequence[Floats]) -> list[Floats]:
        """Return the marginal of each clique under the product of all factors, given as logarithms."""
        tables = [np.exp(log - log.max()) for log in logs]
        sums: list[Any] = [None] * len(tables)
        for place in reversed(range(len(tables))):
            tables[place] /= tables[place].sum()
            parent = self._parents[place]
            if parent >= 0:
                sums[place] = tables[place].sum(axis=self._own[place], keepdims=True)
                tables[parent] *= sums[place].reshape(self._shape(parent, self._above[place]))
        for place, parent in enumerate(self._parents):
            if parent >= 0:
                wanted = tables[parent].sum(axis=self._above[place], keepdims=True)
                ratio = wanted.reshape(sums[place].shape) / np.maximum(sums[place], _TINY)
                tables[place] *= ratio
        return tables

    def _shape(self, place: int, summed: tuple[int, ...]) -> list[int]:
        return [1 if at in summed else size for at, size in enumerate(self.shapes[place])]


def _summed_axes(tree: JunctionTree, place: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of a clique, and those of its parent, that the two do not share."""
    parent = tree.parents[place]
    if parent < 0:
        return (), ()
    shared = tree.separator(place)
    own = tuple(at for at, each in enumerate(tree.cliques[place]) if each not in shared)
    above = tuple(at for at, each in enumerate(tree.cliques[parent]) if each not in shared)
    return own, above
