"""Noisy marginals of a pool put together by least squares: numbers that agree, and the law of their noise.

Because : docs/proofs/workloads.md
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.laws.drawn_noise import RoundingNoise
from sfumato.curator.answers.noise_law import NoiseLaw
from sfumato.curator.answers.together.joint_draws import JointDraws, MarginalDraws
from sfumato.curator.answers.together.rounding import AskedRoundings
from sfumato.curator.answers.together.whole_sums import WholeSums
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.steps import POOLED, POOLED_WEIGHTS
from sfumato.curator.plan.together.design import count_cells
from sfumato.curator.plan.together.pool import StrategyItem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.answers.noise_law import Floats
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.together.design import Marginal
    from sfumato.curator.plan.together.pool import Pool

_WHOLE = 1e-9
"""How far a weight may be from a whole number and still be taken for it."""

Strategy = tuple[StrategyItem, ...]


def read_strategies(answers: Sequence[Any]) -> dict[int, Strategy]:
    """Return what was measured for each pool, from a kept answer; nothing where it has none."""
    found: dict[int, list[StrategyItem]] = {}
    for pool, keys, blocks, parts, *kept in (answer[1] for answer in answers if is_pooled(answer)):
        # Only where a shape is for Gaussian noise are there weights, in all places that have one.
        weights = kept[0] if kept else [None] * len(blocks)
        own = zip(blocks, parts, weights, strict=True)
        found.setdefault(pool, []).extend(
            StrategyItem(tuple(keys), block, Fraction(part), each and tuple(map(tuple, each)))
            for block, part, each in own
        )
    return {pool: tuple(items) for pool, items in found.items()}


def is_pooled(answer: Any) -> bool:
    """Return whether a step's kept answer has sums of a pool."""
    return isinstance(answer, list) and bool(answer) and answer[0] in (POOLED, POOLED_WEIGHTS)


class PoolEstimates:
    """What the noisy marginals of one pool say of everything that was asked.

    `answers` are the kept answers of the pool's steps; without them only laws are known, for a quote.
    """

    def __init__(self, pool: Pool, items: Strategy, spend: Spend, answers: Sequence[Any] = ()) -> None:
        # Which noise has a shape is said by what was measured, and not by what would be planned now.
        self._pool, self._items = pool.with_shapes_of(items), items
        measured = [self._pool.measure(each, spend) for each in items]
        self._noises = [each.noise for each in measured]
        self._sizes_of = [
            len(each.shape.coordinates) if isinstance(each, ShapedSum) else 1 for each in measured
        ]
        self._design = self._pool.design_of(items, spend)
        if not self._design.keeps_all_asked:
            raise AssertionError("a strategy is only charged if all that is asked follows from it")
        ones = np.ones(len(items))
        covariances = self._design.invert(ones)
        self._gains = [self._design.gains(at, 1.0, covariances) for at in range(len(items))]
        self._roundings = AskedRoundings(self._design)
        rows = _split_rows(answers, self._sizes_of)
        self._whole = self._make_whole([[np.array(row, dtype=np.float64) for row in own] for own in rows])
        self._laws: dict[tuple[tuple[int, ...], Marginal], tuple[NoiseLaw, ...]] = {}

    def sum_question(self, resolved: ResolvedQuestion) -> NDArray[Any]:
        """Return the sums of a question, one row each and one column a cell."""
        rows = [
            np.concatenate([self._arranged(summand, level) for level in resolved.levels])
            for summand in resolved.summands
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), resolved.cells)

    def join_laws(self, resolved: ResolvedQuestion) -> tuple[NoiseLaw, ...]:
        """Return the law of the noise in each sum: one for all cells, or with levels one for each level."""
        by_level = self.list_laws(resolved)
        if len(by_level) == 1:
            return by_level[0]
        cells = [level.cells for level in resolved.levels]
        return tuple(_side_by_side(laws, cells) for laws in zip(*by_level, strict=True))

    def list_laws(self, resolved: ResolvedQuestion) -> list[tuple[NoiseLaw, ...]]:
        """Return the laws of a question's sums at each of its levels, the same in all cells of a level."""
        found = []
        for level in resolved.levels:
            named = [self._name(summand, level) for summand in resolved.summands]
            asked = tuple(at for at, _ in named), named[0][1]
            if asked not in self._laws:
                self._laws[asked] = self._find_laws(*asked)
            found.append(self._laws[asked])
        return found

    def _name(self, summand: Any, level: ResolvedQuestion) -> tuple[int, Marginal]:
        keys = tuple(sorted(self._pool.places(level)))
        return self._pool.sums[self._pool.name_sum(summand, keys)], keys

    def _arranged(self, summand: Any, level: ResolvedQuestion) -> Floats:
        """Return a sum in all cells of a level, in the order of its keys."""
        at, keys = self._name(summand, level)
        order = [keys.index(place) for place in self._pool.places(level)]
        table = self._whole.find(at, keys)[..., 0]
        return np.asarray(np.transpose(table, order) if order else table).reshape(-1)

    def _make_whole(self, rows: Sequence[Sequence[Floats]]) -> WholeSums:
        """Return what measured rows, or draws of their noise, say of all that was asked."""
        return WholeSums(self._pool, self._items, self._gains, self._roundings, rows)

    # ---- laws ----

    def _find_laws(self, sums: tuple[int, ...], keys: Marginal) -> tuple[NoiseLaw, ...]:
        """Return the law of the noise of each of some sums in a cell of a marginal."""
        draws = [part for each in self._list_draws(sums, keys) for part in each.split()]
        roundings = [self._find_rounding(at, keys) for at in sums]
        return JointDraws(draws, roundings, ("rest", sums, keys)).find_laws()

    def _list_draws(self, sums: Sequence[int], keys: Marginal) -> Iterator[MarginalDraws]:
        """Yield the draws of all noise in a cell of a marginal, those of equal weights together."""
        sizes, bounds = self._pool.sizes, self._pool.bounds
        for place, (item, noise) in enumerate(zip(self._items, self._noises, strict=True)):
            if noise is None:
                continue
            common = tuple(key for key in keys if key in item.keys)
            others = count_cells(sizes, set(item.keys) - set(common))
            coordinates = range(self._sizes_of[place])
            weights: Any = np.array(
                [
                    [self._weigh(place, each, at, keys, common) * bounds[at] for each in coordinates]
                    for at in sums
                ]
            )
            for agrees in itertools.product((0, 1), repeat=len(common)):
                many = others * math.prod(
                    1 if agree else sizes[key] - 1 for key, agree in zip(common, agrees, strict=True)
                )
                own = weights[(..., *agrees)]
                if many and own.any():
                    yield MarginalDraws(noise, own, many, ("pool", place, keys, agrees))

    def _weigh(self, place: int, coordinate: int, at: int, keys: Marginal, common: Marginal) -> Floats:
        """Return the weight of a cell of a measured marginal, by which of its keys agree with those asked."""
        sizes = self._pool.sizes
        rest = count_cells(sizes, set(keys) - set(common))
        weights: Any = np.zeros((2,) * len(common))
        for has in itertools.product((0, 1), repeat=len(common)):
            part = tuple(key for key, used in zip(common, has, strict=True) if used)
            gains = self._gains[place][self._design.places[part], :, coordinate]
            weights[has] = self._pool.rows_of_sums[at] @ gains / rest
        for axis, key in enumerate(common):
            # Rows: keys that differ and that agree. Columns: residuals without the key and with it.
            mixed = np.array([[1.0, -1.0], [1.0, sizes[key] - 1.0]]) / sizes[key]
            weights = np.moveaxis(np.tensordot(mixed, weights, axes=(1, axis)), 0, axis)
        return np.asarray(weights)

    def _find_rounding(self, at: int, keys: Marginal) -> RoundingNoise | None:
        """Return what rounding moves a sum by before its last rounding, which makes it whole.

        Noise is whole, so where all its weights are, numbers are whole before they are rounded.
        """
        home = self._roundings.find_home(at, keys)
        weights = [each.weights for each in self._list_draws([at], home.keys)]
        if all(np.abs(each - np.rint(each)).max(initial=0.0) < _WHOLE for each in weights):
            return None
        # A sum over all cells is rounded once; others are from one rounded sum to the next, in each run.
        parts = 2 * home.count_runs(keys, self._pool.sizes) - 1 if keys else 0
        return RoundingNoise(parts)


def _side_by_side(laws: Sequence[NoiseLaw], cells: Sequence[int]) -> NoiseLaw:
    """Return one law for the cells of several levels, each with draws of its own."""
    draws = tuple(draw for law in laws for draw in law.draws)
    weights, row = np.zeros((len(draws), sum(cells))), 0
    starts = np.cumsum([0, *cells]).tolist()
    for law, first, many in zip(laws, starts, cells, strict=False):
        weights[row : row + len(law.draws), first : first + many] = law.weights
        row += len(law.draws)
    return NoiseLaw(draws, weights)


def _split_rows(answers: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """Return the numbers of each item of a strategy, in its order."""
    rows = iter([row for answer in answers for row in answer[2:]])
    return [list(itertools.islice(rows, size)) for size in sizes]
