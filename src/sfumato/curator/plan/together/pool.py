"""Questions about the same rows, whose sums are measured together by whichever keys serve them best."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.catalog.domains import MOST_CELLS
from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.shaped.shapes import ShapedSums
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.steps import PooledSums
from sfumato.curator.plan.summands import Summand, is_sum_over_rows, order_summands
from sfumato.curator.plan.together.design import (
    MOST_RESIDUALS,
    AskedSum,
    MeasurableForms,
    WorkloadDesign,
    count_cells,
    list_subsets,
)
from sfumato.curator.plan.together.shares import GRAINS, choose_shares, round_shares
from sfumato.engines.program import CellSums
from sfumato.errors import LedgerError, PolicyError
from sfumato.errors.checked import checked, require_field
from sfumato.noise import SimplicesNoise
from sfumato.privacy.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sfumato.curator.plan.resolved import Grouping, ResolvedQuestion
    from sfumato.curator.plan.sensitivity import SumSensitivity
    from sfumato.curator.plan.shaped.shapes import GaussianShape, LinearForm, Shape
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.steps import MeasuredSum
    from sfumato.curator.plan.together.design import Floats, Marginal

_EXACT = 1e-6
"""Variance that stands for no noise, in squared steps; numbers are rounded to whole steps afterwards."""
_MOST_MEASURABLE = 256
"""Marginals and sums that are compared; beyond, only what is asked is measured. It bounds time alone."""


@dataclass(frozen=True, slots=True)
class PooledQuestion:
    """A question, the part of the whole spend that it brings, and whether its noise would have a shape."""

    resolved: ResolvedQuestion
    part: Fraction
    shaped: bool = False

    @property
    def possible_shape(self) -> ShapedSums | None:
        """The shape that its sums can have, where noise is independent by coordinate."""
        found = self.resolved.shaped
        return None if found is None or found.shape.columns else found

    @property
    def shape(self) -> ShapedSums | None:
        """The shape of its sums, if its noise would have one."""
        return self.possible_shape if self.shaped else None

    def with_shape_of(self, names: Collection[str]) -> PooledQuestion:
        """Return the question whose noise has a shape if its shape is among those named."""
        found = self.possible_shape
        return replace(self, shaped=found is not None and name_block(found.shape) in names)


def can_pool(resolved: ResolvedQuestion) -> bool:
    """Return whether sums by the keys of a question are sums over those of finer groups."""
    keys = [] if resolved.discovers_keys else [key.engine_key() for key in resolved.keys]
    bounded = resolved.question.bounds is not None and resolved.source.max_rows > 1
    whole = not bounded and not resolved.discovers_keys and len(set(keys)) == len(keys)
    return whole and bool(resolved.summands) and not any(key.leaves_out for key in resolved.keys)


@dataclass(frozen=True, slots=True)
@checked
class StrategyItem:
    """Sums by some of the keys of a pool, measured with a part of the whole spend."""

    keys: tuple[int, ...]
    block: str
    """Name of what is measured, which no plan of another spend or payer changes."""
    part: Fraction

    def __post_init__(self) -> None:
        require_field(0 <= self.part <= 1, self, "part", "from 0 to 1")


BaseSum = tuple[Summand, "Marginal | None"]
"""A sum that is asked for. Numbers of different units and values do not add up over groups: each marginal has
its own."""
Block = int | ShapedSums
"""What is measured at once in a cell: one of the base sums, or the coordinates of a shape."""


def name_block(named: BaseSum | Shape | GaussianShape) -> str:
    """Return the name of a sum or a shape in what is kept."""
    written = canonical_json(list(named) if isinstance(named, tuple) else named)
    return hashlib.sha256(written.encode()).hexdigest()


def _rests_on(
    shape: ShapedSums, summand: Summand, derived: Mapping[BaseSum, tuple[ShapedSums, LinearForm]]
) -> bool:
    """Return whether a shape is made of a sum, or of others that follow from it."""
    return any(
        each == summand or ((each, None) in derived and _rests_on(derived[each, None][0], summand, derived))
        for each in shape.shape.sums
    )


class Pool:
    """The keys, sums and marginals of questions about the same rows."""

    def __init__(self, questions: Sequence[PooledQuestion]) -> None:
        self.questions = tuple(questions)
        found = {key.engine_key(): key for each in questions for key in each.resolved.keys}
        in_order = sorted(found, key=canonical_json)
        self.keys: tuple[Grouping, ...] = tuple(found[each] for each in in_order)
        self._places = {each: at for at, each in enumerate(in_order)}
        self.sizes = tuple(key.size for key in self.keys)

    def places(self, resolved: ResolvedQuestion) -> Marginal:
        """Return the places of a question's keys, in the order of the question."""
        return tuple(self._places[key.engine_key()] for key in resolved.keys)

    @property
    def fits(self) -> bool:
        """Whether the marginals have few enough residuals."""
        asked = {tuple(sorted(self.places(level))) for level, _ in self._levels()}
        many = sum(2 ** len(keys) for keys in asked)
        return many <= MOST_RESIDUALS or (
            max(map(len, asked)) <= 12
            and len({part for keys in asked for part in list_subsets(keys)}) <= MOST_RESIDUALS
        )

    def _levels(self) -> Iterator[tuple[ResolvedQuestion, PooledQuestion]]:
        for each in self.questions:
            for level in each.resolved.levels:
                yield level, each

    # ---- sums ----

    def name_sum(self, summand: Summand, keys: Marginal) -> BaseSum:
        """Return the base sum that a summand is at a marginal."""
        return summand, None if is_sum_over_rows(summand) else tuple(sorted(keys))

    @cached_property
    def sums(self) -> dict[BaseSum, int]:
        """Every sum that is asked for or that a shape is made of, and its place."""
        found: set[BaseSum] = set()
        for level, each in self._levels():
            found |= {self.name_sum(summand, self.places(level)) for summand in each.resolved.summands}
            found |= {(summand, None) for summand in (() if each.shape is None else each.shape.shape.sums)}
        # In canonical order: what is kept names sums by their places.
        order = {each: at for at, each in enumerate(order_summands({summand for summand, _ in found}))}
        in_order = sorted(found, key=lambda each: (order[each[0]], each[1] or ()))
        return {each: at for at, each in enumerate(in_order)}

    @cached_property
    def _derived(self) -> dict[BaseSum, tuple[ShapedSums, LinearForm]]:
        """The sums that follow from others: a sum of values from deviations and the number of values."""
        found: dict[BaseSum, tuple[ShapedSums, LinearForm]] = {}
        shapes = [each.shape for each in self.questions if each.shape is not None]
        for shape in shapes:
            for summand, form in shape.estimates.items():
                # A shape of one question may be made of a sum that follows from the shape of another.
                if (summand, None) not in found and not _rests_on(shape, summand, found):
                    found[summand, None] = shape, form
        return found

    @cached_property
    def base(self) -> dict[BaseSum, int]:
        """The sums that all others are computed from, and their places among each other."""
        kept = [each for each in self.sums if each not in self._derived]
        return {each: at for at, each in enumerate(kept)}

    @cached_property
    def bounds(self) -> Floats:
        """The most that a row adds to each sum."""
        return np.array([float(max(1, summand.bound)) for summand, _ in self.sums])

    @cached_property
    def rows_of_sums(self) -> Floats:
        """Every sum in terms of the base sums, each in units of its bound."""
        found = np.zeros((len(self.sums), len(self.base)))
        for named, at in self.sums.items():
            found[at] = self._in_base(named)
        return found

    def _in_base(self, named: BaseSum) -> Floats:
        if named in self.base:
            return np.asarray(np.eye(len(self.base))[self.base[named]])
        shape, form = self._derived[named]
        bound = self.bounds[self.sums[named]]
        return np.asarray(np.array(form, dtype=np.float64) @ self._coordinates(shape) / bound)

    def _coordinates(self, shaped: ShapedSums) -> Floats:
        """Return the coordinates of a shape in terms of the base sums, which are in units of their bounds."""
        found = np.zeros((len(shaped.shape.coordinates), len(self.base)))
        for place, summand in enumerate(shaped.shape.sums):
            whole = self._in_base((summand, None)) * self.bounds[self.sums[summand, None]]
            for row, each in zip(found, shaped.shape.coordinates, strict=True):
                row += each.weights[place] / each.divisor * whole
        return found

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Everything that can be measured at once in a cell: each sum, then the shapes."""
        shapes = {canonical_json(each.shape.shape): each.shape for each in self.questions if each.shape}
        return (*range(len(self.sums)), *(shapes[name] for name in sorted(shapes)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all blocks, in their order."""
        found = [name_block(each.shape) for each in self.blocks if not isinstance(each, int)]
        return (*map(name_block, self.sums), *found)

    def find_block(self, name: str) -> int:
        """Return the place of what has this name in a kept answer."""
        if name not in self.names:
            raise LedgerError(
                "SF-L315",
                "The answer that is kept to these questions has sums that they do not ask for.",
                sums=name,
                why="another version of sfumato may have measured it",
                try_="the version that released it, or another epsilon",
            )
        return self.names.index(name)

    def with_blocks(self, names: Collection[str]) -> Pool:
        """Return the pool of the same questions in which what has these names can be measured."""
        return Pool([each.with_shape_of(names) for each in self.questions])

    def _item(self, keys: Marginal, block: int, part: Fraction) -> StrategyItem:
        return StrategyItem(keys, self.names[block], part)

    def forms(self, block: Block) -> Floats:
        """Return what is measured in terms of the base sums, each of these in units of its bound."""
        if isinstance(block, int):
            return np.asarray(self.rows_of_sums[block : block + 1] * self.bounds[block])
        return self._coordinates(block)

    def by_keys(self, keys: Marginal) -> ResolvedQuestion:
        """Return the questions' rows, grouped by these keys."""
        return self.questions[0].resolved.by_keys(tuple(self.keys[at] for at in keys))

    def sensitivity(self, keys: Marginal, block: Block) -> SumSensitivity:
        """Return how far one unit can move what is measured by these keys."""
        grouped = self.by_keys(keys)
        if isinstance(block, int):
            return grouped.sensitivity(list(self.sums)[block][0])
        return grouped.contribution.shape_sensitivity(block.shape.width)

    # ---- what each question would measure alone ----

    def own_items(self, spend: Spend) -> dict[tuple[Marginal, int], Fraction]:
        """Return what the questions would measure alone with which part of the spend; equal ones add up."""
        found: dict[tuple[Marginal, int], Fraction] = {}
        for each in self.questions:
            for keys, block, part in self._own_items(each, spend):
                found[keys, block] = found.get((keys, block), Fraction(0)) + part
        return found

    def _own_items(self, asked: PooledQuestion, spend: Spend) -> Iterator[tuple[Marginal, int, Fraction]]:
        resolved = asked.resolved
        if asked.shape is not None and resolved.needs.shaped is not None:
            whole, *parts = spend.split(resolved.needs.shaped).sums
            keys = tuple(sorted(self.places(resolved)))
            yield keys, self._place(asked.shape), asked.part * whole
            for summand, part in zip(resolved.list_apart(asked.shape), parts, strict=True):
                yield keys, self.sums[self.name_sum(summand, keys)], asked.part * part
            return
        each_part = iter(spend.split(resolved.needs).sums)
        for level in resolved.levels:
            keys = tuple(sorted(self.places(level)))
            for summand in resolved.summands:
                yield keys, self.sums[self.name_sum(summand, keys)], asked.part * next(each_part)

    def _place(self, shape: ShapedSums) -> int:
        wanted = canonical_json(shape.shape)
        return next(
            at
            for at, each in enumerate(self.blocks)
            if not isinstance(each, int) and canonical_json(each.shape) == wanted
        )

    # ---- the strategy ----

    def plan_strategy(self, spend: Spend) -> tuple[StrategyItem, ...]:
        """Return what is measured: as the questions would alone, or with less noise in all that is asked."""
        own = self.own_items(spend)
        pool = sum(own.values(), start=Fraction(0))
        if not pool:
            return tuple(self._item(*each, part) for each, part in sorted(own.items()))
        items = self._list_items(own)
        design = self.make_design([each for each, _ in items], spend, own)
        start = np.array([float(own.get(each, Fraction(0)) / pool) for each, _ in items])
        shares = choose_shares(design, start, spend)
        if shares is start:
            return self._require_known(own, spend)
        grains = round_shares(shares)
        # In the order of `items`, which is that of marginals and blocks.
        found = tuple(
            self._item(*each, pool * Fraction(many, GRAINS))
            for (each, free), many in zip(items, grains, strict=True)
            if many or free
        )
        return found if self._is_known_from(found, spend) else self._require_known(own, spend)

    def _require_known(
        self, own: dict[tuple[Marginal, int], Fraction], spend: Spend
    ) -> tuple[StrategyItem, ...]:
        """Return what the questions would measure alone, from which all that is asked must follow."""
        items = tuple(self._item(*each, part) for each, part in sorted(own.items()))
        if not self._is_known_from(items, spend):
            raise PolicyError(
                "SF-Q228",
                "Some of these numbers have too much less noise than others to be put together.",
                why="computed in floating-point numbers, the others would be lost",
                try_="release() of each question by itself",
            )
        return items

    def design_of(self, items: Sequence[StrategyItem], spend: Spend) -> WorkloadDesign:
        """Return the design in which a strategy is measured, with the variances of its noise."""
        measurable = [self._measurable_of(each, spend) for each in items]
        return WorkloadDesign(self.sizes, measurable, list(self.list_asked()))

    def _is_known_from(self, items: Sequence[StrategyItem], spend: Spend) -> bool:
        """Return whether all that is asked follows from a strategy, in the form in which it is read."""
        return self.with_blocks({each.block for each in items}).design_of(items, spend).keeps_all_asked

    def _measurable_of(self, item: StrategyItem, spend: Spend) -> MeasurableForms:
        noise = self.measure(item, spend).noise
        if isinstance(noise, SimplicesNoise):
            raise AssertionError("noise in a pool is independent by coordinate")
        variance = _EXACT if noise is None else max(_EXACT, float(noise.moments.variance))
        forms = self.forms(self.blocks[self.find_block(item.block)])
        return MeasurableForms(item.keys, forms, variance, free=noise is None)

    def _list_items(
        self, own: dict[tuple[Marginal, int], Fraction]
    ) -> list[tuple[tuple[Marginal, int], bool]]:
        """Return what can be measured, and whether it is free."""
        found = dict.fromkeys(sorted(own))
        marginals = {keys for keys, _ in own}
        additive = {block for _, block in own if block >= len(self.sums) or list(self.sums)[block][1] is None}
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
        return [(each, not self.sensitivity(each[0], self.blocks[each[1]]).l1) for each in sorted(found)]

    def _close(self, marginals: set[Marginal]) -> set[Marginal]:
        """Return what pairs of marginals have in common and what they have together, and all keys."""
        pairs = list(itertools.combinations(sorted(marginals), 2))
        found = {tuple(sorted(set(one) & set(other))) for one, other in pairs}
        found |= {tuple(sorted({*one, *other})) for one, other in pairs}
        found.add(tuple(range(len(self.keys))))
        return {keys for keys in found if count_cells(self.sizes, keys) <= MOST_CELLS}

    def make_design(
        self,
        items: Sequence[tuple[Marginal, int]],
        spend: Spend,
        own: dict[tuple[Marginal, int], Fraction],
    ) -> WorkloadDesign:
        """Return the design in which these can be measured, to be compared with what is measured alone."""
        measurable = [self._make_measurable(*each, spend) for each in items]
        return WorkloadDesign(self.sizes, measurable, list(self._compare_asked(spend, own)))

    def _make_measurable(self, keys: Marginal, block: int, spend: Spend) -> MeasurableForms:
        sensitivity = self.sensitivity(keys, self.blocks[block])
        variance = sensitivity.l1**2 if isinstance(spend, PureSpend) else sensitivity.l2_squared
        forms = self.forms(self.blocks[block])
        return MeasurableForms(keys, forms, float(variance or _EXACT), free=not variance)

    def list_asked(self) -> Iterator[AskedSum]:
        """Yield every sum that is asked for, by its keys; all alike."""
        for level, each in self._levels():
            keys = tuple(sorted(self.places(level)))
            for summand in each.resolved.summands:
                at = self.sums[self.name_sum(summand, keys)]
                yield AskedSum(keys, at, self.rows_of_sums[at], 1.0, 1.0)

    def _compare_asked(self, spend: Spend, own: dict[tuple[Marginal, int], Fraction]) -> Iterator[AskedSum]:
        """Yield every sum that is asked for, each question with the weight of one."""
        whole = sum(own.values(), start=Fraction(0))
        for level, each in self._levels():
            keys = tuple(sorted(self.places(level)))
            harms, alone = each.resolved.sum_weights, self._alone(each, keys, spend, whole)
            places = {summand: self.sums[self.name_sum(summand, keys)] for summand in each.resolved.summands}
            total = sum(float(harms[summand]) * alone[at] for summand, at in places.items()) or 1.0
            for summand, at in places.items():
                weight = float(harms[summand]) / total
                yield AskedSum(keys, at, self.rows_of_sums[at], weight, max(alone[at], 1e-30))

    def _alone(
        self, asked: PooledQuestion, keys: Marginal, spend: Spend, whole: Fraction
    ) -> dict[int, float]:
        """Return the variance of each sum of a question at a marginal if it were asked alone."""
        found: dict[int, float] = {}
        for own, block, part in self._own_items(asked, spend):
            if own != keys:
                continue
            each, share = self._make_measurable(keys, block, spend), float(part / whole)
            precision = 1.0 if each.free else (share**2 if isinstance(spend, PureSpend) else share)
            inverse = np.linalg.pinv(each.forms)
            for at in self._measured_by(block):
                weights = self.rows_of_sums[at] @ inverse
                found[at] = float(weights @ weights) * each.variance / precision
        return found

    def _measured_by(self, block: int) -> list[int]:
        """Return the places of the sums that follow from one block."""
        shaped = self.blocks[block]
        return [block] if isinstance(shaped, int) else [self.sums[each, None] for each in shaped.measured]

    # ---- steps ----

    def make_steps(
        self, items: Sequence[StrategyItem], spend: Spend, place: int = 0
    ) -> tuple[PooledSums, ...]:
        """Return the steps that measure a strategy: one for each marginal."""
        steps = []
        for keys, own in itertools.groupby(items, key=lambda each: each.keys):
            grouped, of = self.by_keys(keys), list(own)
            measured = tuple(self.measure(each, spend) for each in of)
            terms = tuple(
                each.term
                for one in measured
                for each in (one.sums if isinstance(one, ShapedSum) else (one.of,))
            )
            program = CellSums(*grouped.rows, tuple(key.engine_key() for key in grouped.keys), terms)
            blocks, parts = tuple(each.block for each in of), tuple(each.part for each in of)
            steps.append(PooledSums(program, measured, place, keys, blocks, parts))
        return tuple(steps)

    def measure(self, item: StrategyItem, spend: Spend) -> MeasuredSum:
        """Return what one item of a strategy measures, with its noise."""
        block = self.blocks[self.find_block(item.block)]
        sensitivity = self.sensitivity(item.keys, block)
        if isinstance(block, int):
            summand = list(self.sums)[block][0]
            noise = spend.noise(sensitivity, item.part) if sensitivity.l1 else None
            return NoisySum(summand, sensitivity, noise)
        return ShapedSum.calibrated(block.shape, sensitivity, spend, item.part)
