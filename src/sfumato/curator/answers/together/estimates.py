"""Noisy marginals of a pool put together by least squares: numbers that agree, and the law of their noise.

Because : docs/proofs/workloads.md
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.noise_law import AddedDraws, Draw, NoiseLaw, NormalNoise
from sfumato.curator.answers.together.rounding import order_roundings, sum_to
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.steps import POOLED
from sfumato.curator.plan.together.design import count_cells, list_subsets
from sfumato.curator.plan.together.pool import StrategyItem
from sfumato.noise import GaussianNoise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.answers.noise_law import Floats
    from sfumato.curator.answers.together.rounding import MarginalRounding
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.together.design import Marginal
    from sfumato.curator.plan.together.pool import Pool
    from sfumato.noise.additive import Noise

_KNOWN_APART = 12
"""Draws of a number that are followed one by one; all smaller ones together are all but normal."""
_NOTHING = 1e-6
"""Share of a number's variance below which a draw is left out."""
_WHOLE = 1e-9
"""How far a weight may be from a whole number and still be taken for it."""

Strategy = tuple[StrategyItem, ...]


def read_strategies(answers: Sequence[Any]) -> dict[int, Strategy]:
    """Return what was measured for each pool, from a kept answer; nothing where it has none."""
    found: dict[int, list[StrategyItem]] = {}
    for pool, keys, blocks, parts in (answer[1] for answer in answers if is_pooled(answer)):
        own = zip(blocks, parts, strict=True)
        found.setdefault(pool, []).extend(
            StrategyItem(tuple(keys), block, Fraction(part)) for block, part in own
        )
    return {pool: tuple(items) for pool, items in found.items()}


def is_pooled(answer: Any) -> bool:
    """Return whether a step's kept answer has sums of a pool."""
    return isinstance(answer, list) and bool(answer) and answer[0] == POOLED


class PoolEstimates:
    """What the noisy marginals of one pool say of everything that was asked.

    `answers` are the kept answers of the pool's steps; without them only laws are known, for a quote.
    """

    def __init__(self, pool: Pool, items: Strategy, spend: Spend, answers: Sequence[Any] = ()) -> None:
        self._pool, self._items = pool, items
        measured = [pool.measure(each, spend) for each in items]
        self._noises: list[Noise | None] = [each.noise for each in measured]  # type: ignore[misc]
        self._sizes_of = [
            len(each.shape.coordinates) if isinstance(each, ShapedSum) else 1 for each in measured
        ]
        self._design = pool.design_of(items, spend)
        if not self._design.keeps_all_asked:
            raise AssertionError("a strategy is only charged if all that is asked follows from it")
        ones = np.ones(len(items))
        covariances = self._design.invert(ones)
        self._gains = [self._design.gains(at, 1.0, covariances) for at in range(len(items))]
        self._rows = _split_rows(answers, self._sizes_of)
        self._laws: dict[tuple[int, Marginal], NoiseLaw] = {}

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
        return [
            tuple(self._law(*self._name(summand, level)) for summand in resolved.summands)
            for level in resolved.levels
        ]

    def _name(self, summand: Any, level: ResolvedQuestion) -> tuple[int, Marginal]:
        keys = tuple(sorted(self._pool.places(level)))
        return self._pool.sums[self._pool.name_sum(summand, keys)], keys

    def _arranged(self, summand: Any, level: ResolvedQuestion) -> Floats:
        """Return a sum in all cells of a level, in the order of its keys."""
        at, keys = self._name(summand, level)
        order = [keys.index(place) for place in self._pool.places(level)]
        table = self._whole[at, keys]
        return np.asarray(np.transpose(table, order) if order else table).reshape(-1)

    # ---- numbers ----

    @cached_property
    def _residuals(self) -> dict[Marginal, Floats]:
        """Every base sum in every residual, the sums on the first axis."""
        found = {}
        for place, part in enumerate(self._design.residuals):
            total: Any = np.zeros((len(self._pool.base), *(self._pool.sizes[key] for key in part)))
            for item, gains, rows in zip(self._items, self._gains, self._rows, strict=True):
                if set(part) <= set(item.keys):
                    summed = np.stack(
                        [_residual(self._shape(row, item.keys), item.keys, part) for row in rows]
                    )
                    total = total + np.tensordot(gains[place], summed, axes=1)
            found[part] = total
        return found

    def _shape(self, row: Sequence[int], keys: Marginal) -> Floats:
        return np.array(row, dtype=np.float64).reshape([self._pool.sizes[key] for key in keys])

    def _estimate(self, at: int, keys: Marginal) -> Floats:
        """Return a sum in every cell of a marginal: all residuals of it, each spread over its cells."""
        table = np.zeros([self._pool.sizes[key] for key in keys])
        for part in list_subsets(keys):
            rest = count_cells(self._pool.sizes, set(keys) - set(part))
            shape = [self._pool.sizes[key] if key in part else 1 for key in keys]
            residual = np.tensordot(self._pool.rows_of_sums[at], self._residuals[part], axes=1)
            table = table + residual.reshape(shape) / rest
        return np.asarray(table * self._pool.bounds[at])

    @cached_property
    def _whole(self) -> dict[tuple[int, Marginal], Floats]:
        """Every asked sum in whole steps, so that sums of shown numbers are shown numbers."""
        found: dict[tuple[int, Marginal], Floats] = {}
        for at, asked in self._asked.items():
            rounded: dict[Marginal, Floats] = {}
            for each in self._roundings[at]:
                fixed = sum_to(rounded[each.after], each.after, each.fixed) if each.fixed else None
                rounded[each.keys] = each.round(self._estimate(at, each.keys), fixed)
            for keys in asked:
                home = self._find_home(at, keys).keys
                found[at, keys] = sum_to(rounded[home], home, keys)
        return found

    @cached_property
    def _asked(self) -> dict[int, list[Marginal]]:
        """The marginals that each sum is asked for at."""
        found: dict[int, list[Marginal]] = {}
        for each in self._design.asked:
            found.setdefault(each.at, []).append(each.keys)
        return {at: list(dict.fromkeys(keys)) for at, keys in found.items()}

    @cached_property
    def _roundings(self) -> dict[int, list[MarginalRounding]]:
        """How the marginals of each sum are rounded, one after the other."""
        return {at: order_roundings(asked) for at, asked in self._asked.items()}

    def _find_home(self, at: int, keys: Marginal) -> MarginalRounding:
        """Return the rounding of the marginal that a coarser one is summed from."""
        return next(each for each in self._roundings[at] if set(keys) <= set(each.keys))

    # ---- laws ----

    def _law(self, at: int, keys: Marginal) -> NoiseLaw:
        """Return the law of the noise of a sum in a cell of a marginal."""
        if (at, keys) not in self._laws:
            self._laws[at, keys] = self._find_law(at, keys)
        return self._laws[at, keys]

    def _find_law(self, at: int, keys: Marginal) -> NoiseLaw:
        parts = sorted(self._list_draws(at, keys), key=lambda each: -each[0])
        total = sum(variance for variance, *_ in parts)
        parts = [each for each in parts if each[0] > _NOTHING * total]
        if len(parts) == 1 and parts[0][3] == 1:
            _, weight, noise, _, source = parts[0]
            return NoiseLaw((Draw(noise, source),), np.array([[weight]]))
        apart = [] if all(isinstance(each[2], GaussianNoise) for each in parts) else parts[:_KNOWN_APART]
        rest = sum(variance for variance, *_ in parts[len(apart) :])
        draws = [(Draw(_add(noise, many), source), weight) for _, weight, noise, many, source in apart]
        rest += self._rounding(at, keys)
        if rest:
            draws.append((Draw(NormalNoise(math.sqrt(rest)), ("rest", at, keys)), 1.0))
        weights = np.array([weight for _, weight in draws]).reshape(-1, 1)
        return NoiseLaw(tuple(draw for draw, _ in draws), weights)

    def _list_draws(self, at: int, keys: Marginal) -> Iterator[tuple[float, float, Noise, int, Any]]:
        """Yield variance, weight, noise, number and source of all draws with one weight in a sum."""
        sizes, bound = self._pool.sizes, self._pool.bounds[at]
        for place, (item, noise) in enumerate(zip(self._items, self._noises, strict=True)):
            if noise is None:
                continue
            common = tuple(key for key in keys if key in item.keys)
            others = count_cells(sizes, set(item.keys) - set(common))
            for coordinate in range(self._sizes_of[place]):
                weights = self._weigh(place, coordinate, at, keys, common) * bound
                for agrees in itertools.product((0, 1), repeat=len(common)):
                    many = others * math.prod(
                        1 if agree else sizes[key] - 1 for key, agree in zip(common, agrees, strict=True)
                    )
                    weight = float(weights[agrees])
                    if many and weight:
                        variance = weight**2 * many * float(noise.moments.variance)
                        yield variance, weight, noise, many, ("pool", place, coordinate, keys, agrees)

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

    def _rounding(self, at: int, keys: Marginal) -> float:
        """Return the variance of what rounding to whole steps adds: a sixth for each run of cells.

        Noise is whole, so where all its weights are, numbers are whole before they are rounded.
        """
        home = self._find_home(at, keys)
        weights = np.array([weight for _, weight, *_ in self._list_draws(at, home.keys)])
        if np.abs(weights - np.rint(weights)).max(initial=0.0) < _WHOLE:
            return 0.0
        return home.count_runs(keys, self._pool.sizes) / 6


def _add(noise: Noise, many: int) -> Noise | AddedDraws:
    return noise if many == 1 else AddedDraws(noise, many)


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


def _residual(table: Floats, has: Marginal, part: Marginal) -> Floats:
    """Return a marginal's sums by some of its keys, less their means over each key."""
    found = sum_to(table, has, part)
    for axis in range(found.ndim):
        found = found - found.mean(axis=axis, keepdims=True)
    return found
