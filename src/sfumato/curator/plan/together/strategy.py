"""What is measured for the questions of a pool: what each would measure alone, or something better for all.

Because : docs/proofs/workloads.md#the-strategy
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.catalog.domains import MOST_CELLS
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.together.design import (
    AskedSum,
    JointLimit,
    MeasurableForms,
    WorkloadDesign,
    count_cells,
)
from sfumato.curator.plan.together.pool import EXACT, Pool
from sfumato.curator.plan.together.shares import GRAINS, choose_shares, round_shares
from sfumato.errors import PolicyError
from sfumato.noise.additive import LARGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.together.design import Floats, Marginal
    from sfumato.curator.plan.together.pool import PooledQuestion, StrategyItem

    Place = tuple[Marginal, int]
    """Keys, and the place of what is measured by them among the blocks of a pool."""

_MOST_MEASURABLE = 256
"""Marginals and sums that are compared; beyond, only what is asked is measured. It bounds time alone."""
_LEAST = 1e-30
"""Least variance that is divided by."""
_DEPENDENT = 1e-9
"""Eigenvalue of a correlation below which one of the sums follows from the others."""


def plan_strategy(pool: Pool, spend: Spend) -> tuple[StrategyItem, ...]:
    """Return what is measured: as the questions would alone, or with less noise in all that is asked."""
    return StrategyPlanner(pool, spend).plan()


class StrategyPlanner:
    """Compares what can be measured for a pool with what its questions would measure alone."""

    def __init__(self, pool: Pool, spend: Spend) -> None:
        self._pool, self._spend = pool, spend
        self._own = [(each, _add_parts(self._list_own(each))) for each in pool.questions]

    def plan(self) -> tuple[StrategyItem, ...]:
        """Return what is measured, with which parts of the spend."""
        own = self.own
        whole = sum(own.values(), start=Fraction(0))
        if not whole:
            return self._make_items(own)
        items = self._list_items()
        start = np.array([float(own.get(each, Fraction(0)) / whole) for each, _ in items])
        shares = choose_shares(self.make_design([each for each, _ in items]), start, self._spend)
        if shares is start:
            return self._require_known(own)
        grains = round_shares(shares)
        # In the order of `items`, which is that of marginals and blocks.
        found = self._make_items(
            {
                each: whole * Fraction(many, GRAINS)
                for (each, free), many in zip(items, grains, strict=True)
                if many or free
            }
        )
        return found if self._can_draw(found) and self._is_known_from(found) else self._require_known(own)

    def _make_items(self, parts: Mapping[Place, Fraction]) -> tuple[StrategyItem, ...]:
        return tuple(self._pool.make_item(*each, part) for each, part in sorted(parts.items()))

    # ---- what each question would measure alone ----

    @property
    def own(self) -> dict[Place, Fraction]:
        """What the questions would measure alone with which part of the spend; equal ones add up."""
        return _add_parts(each for _, items in self._own for each in items.items())

    def _list_own(self, asked: PooledQuestion) -> Iterator[tuple[Place, Fraction]]:
        return self._plan_levels(asked) if self._measures_together(asked) else self._split_evenly(asked)

    def _measures_together(self, asked: PooledQuestion) -> bool:
        """Return whether a question has levels that it would also measure together if it were asked alone."""
        return bool(asked.resolved.question.levels) and len(self._pool.questions) > 1

    def _split_evenly(self, asked: PooledQuestion) -> Iterator[tuple[Place, Fraction]]:
        """Yield what a question measures with noise of its own, each level with an equal part."""
        pool, resolved, shape = self._pool, asked.resolved, next(iter(asked.shapes), None)
        needs = resolved.needs if shape is None else resolved.needs_of(shape)
        parts = iter(self._spend.split(needs).sums)
        for level in resolved.levels:
            keys = tuple(sorted(pool.places(level)))
            if shape is not None:
                yield (keys, pool.find_shape(shape)), asked.part * next(parts)
            for summand in resolved.summands if shape is None else resolved.list_apart(shape):
                yield (keys, pool.sums[pool.name_sum(summand, keys)]), asked.part * next(parts)

    def _plan_levels(self, asked: PooledQuestion) -> Iterator[tuple[Place, Fraction]]:
        """Yield what a question with levels measures alone, where they are measured together."""
        alone = Pool([asked])
        for item in plan_strategy(alone, self._spend):
            keys = self._find_keys(alone, item.keys)
            block = alone.blocks[alone.find_block(item.block)]
            if not isinstance(block, int):
                yield (keys, self._pool.find_shape(block)), item.part
                continue
            summand, _ = list(alone.sums)[block]
            yield (keys, self._pool.sums[self._pool.name_sum(summand, keys)]), item.part

    def _find_keys(self, other: Pool, keys: Marginal) -> Marginal:
        """Return the places in this pool of keys of another one."""
        return tuple(sorted(self._pool.places(other.by_keys(keys))))

    # ---- what can be measured ----

    def _list_items(self) -> list[tuple[Place, bool]]:
        """Return what can be measured, and whether it is free."""
        pool, own = self._pool, self.own
        found = dict.fromkeys(sorted(own))
        marginals = {keys for keys, _ in own}
        additive = {block for _, block in own if block >= len(pool.sums) or list(pool.sums)[block][1] is None}
        more = [
            (keys, block)
            for keys in sorted(self._close(marginals) | marginals)
            for block in sorted(additive)
            if any(
                set(keys) <= set(other) or set(other) <= set(keys) for other, asked in own if asked == block
            )
        ]
        if len({*found, *more}) <= _MOST_MEASURABLE:
            found |= dict.fromkeys(more)
        return [(each, not pool.sensitivity(each[0], pool.blocks[each[1]]).l1) for each in sorted(found)]

    def _close(self, marginals: set[Marginal]) -> set[Marginal]:
        """Return what pairs of marginals have in common and what they have together, and all keys."""
        pairs = list(itertools.combinations(sorted(marginals), 2))
        found = {tuple(sorted(set(one) & set(other))) for one, other in pairs}
        found |= {tuple(sorted({*one, *other})) for one, other in pairs}
        found.add(tuple(range(len(self._pool.keys))))
        return {keys for keys in found if count_cells(self._pool.sizes, keys) <= MOST_CELLS}

    def _measurable(self, keys: Marginal, block: int) -> MeasurableForms:
        """Return what can be measured, in units of what the whole spend would give."""
        what = self._pool.blocks[block]
        sensitivity = self._pool.sensitivity(keys, what)
        variance = sensitivity.l1**2 if isinstance(self._spend, PureSpend) else sensitivity.l2_squared
        covariance = None if isinstance(what, int) or not what.shape.columns else what.covariance
        forms = self._pool.forms(what)
        return MeasurableForms(keys, forms, float(variance or EXACT), not variance, covariance)

    # ---- what is asked ----

    def make_design(self, items: Sequence[Place]) -> WorkloadDesign:
        """Return the design in which these can be measured, to be compared with what is measured alone."""
        asked: list[AskedSum] = []
        limits: list[JointLimit] = []
        for each, own in self._own:
            for sums, limit in self._compare(each, own):
                asked += sums
                limits.append(limit)
        measurable = [self._measurable(*each) for each in items]
        return WorkloadDesign(self._pool.sizes, measurable, asked, limits)

    def _compare(
        self, question: PooledQuestion, own: Mapping[Place, Fraction]
    ) -> Iterator[tuple[list[AskedSum], JointLimit]]:
        """Yield the sums of each level, the question with the weight of one, and what limits their noise."""
        asked, harms = list(self._pool.list_asked(question)), question.resolved.sum_weights
        for first in range(0, len(asked), len(harms)):
            sums = asked[first : first + len(harms)]
            # Where each level has noise of its own, what others say of it was never part of its error.
            items = own if self._measures_together(question) else _take_marginal(own, sums[0].keys)
            yield _limit(sums, list(harms.values()), self._find_covariance(sums, items))

    def _find_covariance(self, sums: Sequence[AskedSum], items: Mapping[Place, Fraction]) -> Floats:
        """Return the covariance of sums in a cell if these are measured."""
        alone = WorkloadDesign(self._pool.sizes, [self._measurable(*each) for each in items], sums)
        forms = np.array([each.form for each in sums])
        return alone.covary(sums[0].keys, forms, alone.invert(self._find_precisions(items)))

    def _find_precisions(self, own: Mapping[Place, Fraction]) -> Floats:
        """Return the precision of what a question measures alone, relative to what the pool could give."""
        whole = sum(self.own.values(), start=Fraction(0))
        shares = np.array([float(part / whole) for part in own.values()])
        return np.asarray(shares**2 if isinstance(self._spend, PureSpend) else shares)

    # ---- what can be read ----

    def _can_draw(self, items: Sequence[StrategyItem]) -> bool:
        """Return whether no noise of a strategy is too wide to be drawn."""
        pool, spend = self._pool, self._spend
        blocks = [(each, pool.blocks[pool.find_block(each.block)]) for each in items if each.part]
        scales = (spend.scale(pool.sensitivity(each.keys, block), each.part) for each, block in blocks)
        return all(each <= LARGEST for each in scales)

    def _is_known_from(self, items: Sequence[StrategyItem]) -> bool:
        """Return whether all that is asked follows from a strategy, in the form in which it is read."""
        return self._pool.with_shapes_of(items).design_of(items, self._spend).keeps_all_asked

    def _require_known(self, own: Mapping[Place, Fraction]) -> tuple[StrategyItem, ...]:
        """Return what the questions would measure alone, from which all that is asked must follow."""
        items = self._make_items(own)
        if not self._is_known_from(items):
            raise PolicyError(
                "SF-Q221",
                "Some of these numbers have too much less noise than others to be put together.",
                why="computed in floating-point numbers, the others would be lost",
                try_="release() of each question by itself",
            )
        return items


def _add_parts(pairs: Iterable[tuple[Place, Fraction]]) -> dict[Place, Fraction]:
    found: dict[Place, Fraction] = {}
    for place, part in pairs:
        found[place] = found.get(place, Fraction(0)) + part
    return found


def _take_marginal(own: Mapping[Place, Fraction], keys: Marginal) -> dict[Place, Fraction]:
    return {place: part for place, part in own.items() if place[0] == keys}


def _limit(
    sums: Sequence[AskedSum], harms: Sequence[Fraction], covariance: Floats
) -> tuple[list[AskedSum], JointLimit]:
    """Return a question's sums at a level, with the weight of one in all, and what limits their noise."""
    keys, forms = sums[0].keys, np.array([each.form for each in sums])
    variances = np.maximum(np.diagonal(covariance), _LEAST)
    weights = np.array([float(each) for each in harms])
    weights = weights / (float(weights @ variances) or 1.0)
    white = _whiten(covariance)
    back = np.linalg.pinv(white)
    compared = [
        AskedSum(keys, each.at, each.form, weight, variance)
        for each, weight, variance in zip(sums, weights.tolist(), variances.tolist(), strict=True)
    ]
    return compared, JointLimit(keys, white @ forms, back.T @ np.diag(weights) @ back)


def _whiten(covariance: Floats) -> Floats:
    """Return forms of numbers with this covariance that are uncorrelated, with variance 1 each."""
    scales = 1 / np.sqrt(np.maximum(np.diagonal(covariance), _LEAST))
    values, vectors = np.linalg.eigh(covariance * np.outer(scales, scales))
    # A sum that follows from others adds no number of its own.
    kept = values > _DEPENDENT
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T * scales)
