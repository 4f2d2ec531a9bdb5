"""Questions about the same rows, whose sums are measured together by whichever keys serve them best."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.shaped.gaussian_shapes import Weights
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.shaped.shapes import GaussianShape, ShapedSums
from sfumato.curator.plan.steps import PooledSums
from sfumato.curator.plan.summands import Summand, is_sum_over_rows, order_summands
from sfumato.curator.plan.together.design import (
    MOST_RESIDUALS,
    AskedSum,
    MeasurableForms,
    WorkloadDesign,
    list_subsets,
)
from sfumato.engines.program import CellSums
from sfumato.errors import LedgerError
from sfumato.errors.checked import checked, require_field
from sfumato.noise import SimplicesNoise
from sfumato.privacy.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sfumato.curator.plan.resolved import Grouping, ResolvedQuestion
    from sfumato.curator.plan.sensitivity import SumSensitivity
    from sfumato.curator.plan.shaped.shapes import LinearForm, Shape
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.steps import MeasuredSum
    from sfumato.curator.plan.together.design import Floats, Marginal

EXACT = 1e-6
"""Variance that stands for no noise, in squared steps; numbers are rounded to whole steps afterwards."""


@dataclass(frozen=True, slots=True)
class PooledQuestion:
    """A question, the part of the whole spend that it brings, and the shape that its noise would have."""

    resolved: ResolvedQuestion
    part: Fraction
    shapes: tuple[ShapedSums, ...] = ()
    """The one that it would have alone, or all that were measured and that its sums can have."""

    def with_shapes_of(self, items: Collection[StrategyItem]) -> PooledQuestion:
        """Return the question with the shapes that a strategy measures."""
        names = {each.block for each in items}
        found = (each for each in self._list_shapes(items) if name_block(each.shape) in names)
        return replace(self, shapes=tuple(found))

    def _list_shapes(self, items: Collection[StrategyItem]) -> Iterator[ShapedSums]:
        """Yield the shapes that its sums can have: for Laplace noise, and with the weights of these items."""
        # Whatever groups rows are in, they add the same.
        level = self.resolved.levels[0]
        if level.shaped is not None:
            yield level.shaped
        moves = level.row_moves
        if moves is not None:
            weights = dict.fromkeys(each.weights for each in items if each.weights is not None)
            yield from (moves.shape(each) for each in weights if moves.fits(each))


def can_pool(resolved: ResolvedQuestion) -> bool:
    """Return whether sums by the keys of a question are sums over those of finer groups."""
    keys = [] if resolved.discovers_keys else [key.engine_key() for key in resolved.keys]
    bounded = resolved.question.bounds is not None and resolved.source.max_rows > 1
    whole = not bounded and not resolved.discovers_keys and len(set(keys)) == len(keys)
    apart = any(key.leaves_out or key.leader is not None for key in resolved.keys)
    return whole and bool(resolved.summands) and not apart


@dataclass(frozen=True, slots=True)
@checked
class StrategyItem:
    """Sums by some of the keys of a pool, measured with a part of the whole spend."""

    keys: tuple[int, ...]
    block: str
    """Name of what is measured, which no plan of another spend or payer changes."""
    part: Fraction
    weights: Weights | None = None
    """Weights of the coordinates, where it is a shape for Gaussian noise: no two machines need find the same.
    """

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
            found |= {(summand, None) for shape in each.shapes for summand in shape.shape.sums}
        # In canonical order: what is kept names sums by their places.
        order = {each: at for at, each in enumerate(order_summands({summand for summand, _ in found}))}
        in_order = sorted(found, key=lambda each: (order[each[0]], each[1] or ()))
        return {each: at for at, each in enumerate(in_order)}

    @cached_property
    def _derived(self) -> dict[BaseSum, tuple[ShapedSums, LinearForm]]:
        """The sums that follow from others: a sum of values from deviations and the number of values."""
        found: dict[BaseSum, tuple[ShapedSums, LinearForm]] = {}
        for shape in self._all_shapes():
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
        # Exactly: a sum that cancels out must not seem to be a part of this one.
        pairs = list(zip(form, shape.shape.coordinates, strict=True))
        weights = [
            sum((w * each.weights[at] / each.divisor for w, each in pairs), start=Fraction(0))
            for at in range(len(shape.shape.sums))
        ]
        return np.asarray(self._add_up(shape, weights) / self.bounds[self.sums[named]])

    def _add_up(self, shaped: ShapedSums, weights: Sequence[Fraction]) -> Floats:
        """Return a weighted sum of a shape's sums in terms of the base sums, in units of their bounds."""
        found = np.zeros(len(self.base))
        for summand, weight in zip(shaped.shape.sums, weights, strict=True):
            if weight:
                whole = self._in_base((summand, None)) * self.bounds[self.sums[summand, None]]
                found = found + float(weight) * whole
        return found

    def _coordinates(self, shaped: ShapedSums) -> Floats:
        """Return the coordinates of a shape in terms of the base sums, which are in units of their bounds."""
        parts = [[Fraction(w, each.divisor) for w in each.weights] for each in shaped.shape.coordinates]
        return np.array([self._add_up(shaped, each) for each in parts])

    @cached_property
    def shapes(self) -> tuple[ShapedSums, ...]:
        """The shapes of all questions, each once."""
        found = {canonical_json(each.shape): each for each in self._all_shapes()}
        return tuple(found[name] for name in sorted(found))

    def _all_shapes(self) -> list[ShapedSums]:
        return [shape for each in self.questions for shape in each.shapes]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Everything that can be measured at once in a cell: each sum, then the shapes."""
        return (*range(len(self.sums)), *self.shapes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all blocks, in their order."""
        return (*map(name_block, self.sums), *(name_block(each.shape) for each in self.shapes))

    def find_block(self, name: str) -> int:
        """Return the place of what has this name in a kept answer."""
        if name not in self.names:
            raise LedgerError(
                "SF-C112",
                "The answer that is kept to these questions has sums that they do not ask for.",
                sums=name,
                why="another version of sfumato may have measured it",
                try_="the version that released it, or another epsilon",
            )
        return self.names.index(name)

    def find_shape(self, shape: ShapedSums) -> int:
        """Return the place of a shape among the blocks."""
        return self.find_block(name_block(shape.shape))

    def with_shapes_of(self, items: Collection[StrategyItem]) -> Pool:
        """Return the pool of the same questions with the shapes that a strategy measures, and no others."""
        return Pool([each.with_shapes_of(items) for each in self.questions])

    def make_item(self, keys: Marginal, block: int, part: Fraction) -> StrategyItem:
        """Return an item of a strategy that measures a block with this part of the spend."""
        shape = None if block < len(self.sums) else self.shapes[block - len(self.sums)].shape
        weights = shape.weights if isinstance(shape, GaussianShape) else None
        return StrategyItem(keys, self.names[block], part, weights)

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

    def list_asked(self, asked: PooledQuestion | None = None) -> Iterator[AskedSum]:
        """Yield every sum that a question asks for, or that all do, by its keys; all alike."""
        for level, each in self._levels():
            if asked is None or each is asked:
                keys = tuple(sorted(self.places(level)))
                for summand in each.resolved.summands:
                    at = self.sums[self.name_sum(summand, keys)]
                    yield AskedSum(keys, at, self.rows_of_sums[at], 1.0, 1.0)

    def design_of(self, items: Sequence[StrategyItem], spend: Spend) -> WorkloadDesign:
        """Return the design in which a strategy is measured, with the variances of its noise."""
        measurable = [self._measurable_of(each, spend) for each in items]
        return WorkloadDesign(self.sizes, measurable, list(self.list_asked()))

    def _measurable_of(self, item: StrategyItem, spend: Spend) -> MeasurableForms:
        noise = self.measure(item, spend).noise
        forms = self.forms(self.blocks[self.find_block(item.block)])
        if isinstance(noise, SimplicesNoise):
            return MeasurableForms(item.keys, forms, 1.0, covariance=noise.covariance)
        variance = EXACT if noise is None else max(EXACT, float(noise.moments.variance))
        return MeasurableForms(item.keys, forms, variance, free=noise is None)

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
