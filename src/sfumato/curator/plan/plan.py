"""From a resolved question and a spend to a plan: what will be summed, with which noise, at what price.

Only public facts come in: the catalog, the question and the spend. Nothing here can read a row.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato.curator.plan.caveats import list_caveats, no_possible_row
from sfumato.curator.plan.choices import engine_keys, null_places, plan_choices
from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.shaped.shapes import GaussianShape
from sfumato.curator.plan.spend import PureSpend, prefers_shape
from sfumato.curator.plan.steps import (
    ChoiceStep,
    DiscoveredKeys,
    PooledSums,
    QuestionStep,
    Sums,
)
from sfumato.curator.plan.together.pool import Pool, PooledQuestion, StrategyItem, can_pool
from sfumato.curator.plan.together.strategy import plan_strategy
from sfumato.curator.question.measurement import (
    Aggregate,
    ChosenAggregate,
    Question,
)
from sfumato.engines import program as engine
from sfumato.noise import (
    ThresholdedNoise,
    TruncatedGeometric,
)
from sfumato.noise.additive import LARGEST, SMALLEST
from sfumato.privacy.events import Parallel, Repeated

if TYPE_CHECKING:
    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.plan.resolved import Tables
    from sfumato.curator.plan.shaped.gaussian_shapes import Weights
    from sfumato.curator.plan.shaped.shapes import ShapedSums
    from sfumato.curator.plan.spend import Needs, Spend, Split
    from sfumato.curator.plan.steps import MeasuredSum
    from sfumato.curator.plan.summands import Summand

_BETTER = Fraction(99, 100)
"""Share of the harm of independent noise from which on a shape is worth it."""


class QuestionPlan(Plan[QuestionStep, ResolvedQuestion]):
    """A priced question: the steps that answer it, and where each number of the answer is found in them."""

    @property
    def resolved(self) -> ResolvedQuestion:
        """The question with its names looked up."""
        return self.subject

    @property
    def question(self) -> Question:
        """The question as it was asked."""
        return self.resolved.question

    @property
    def is_empty(self) -> bool:
        """Whether no row can be used by declaration: the plan has no steps, and its answer no noise."""
        return self.resolved.is_empty

    @property
    def snapshots(self) -> tuple[str, ...]:
        """The snapshots that the question reads."""
        return tuple(table.snapshot_name for table in self.resolved.source.tables)

    @property
    def summands(self) -> tuple[Summand, ...]:
        """The sums of the answer, in its order."""
        return self.resolved.summands

    @cached_property
    def measured(self) -> tuple[MeasuredSum, ...]:
        """The sums with noise: one for each of the answer, or a shape for several and then the others."""
        # Levels measure the same sums, each with noise of its own, unless they are measured together.
        steps = self.pooled_steps or self.steps_of_levels[0]
        return tuple(each for step in steps if not isinstance(step, ChoiceStep) for each in step.measured)

    @property
    def measured_alone(self) -> tuple[NoisySum[Summand], ...]:
        """The sums with noise of their own: all of them, unless some have a shape."""
        return tuple(each for each in self.measured if isinstance(each, NoisySum))

    @cached_property
    def shaped(self) -> ShapedSums | None:
        """How sums follow from the coordinates of a shape, if this plan has one."""
        shape = next((each.shape for each in self.measured if isinstance(each, ShapedSum)), None)
        moves = self.resolved.row_moves
        if isinstance(shape, GaussianShape) and moves is not None:
            return moves.shape(shape.weights)
        if shape is None:
            return None
        return self.resolved.shaped

    @cached_property
    def needs(self) -> Needs:
        """What the spend is split over."""
        return self.resolved.needs if self.shaped is None else self.resolved.needs_of(self.shaped)

    def with_shape(self, shaped: bool, weights: Weights | None = None) -> QuestionPlan:
        """Return the plan of the same question whose noise is shaped, or is not; itself if it is so.

        `weights` are those of the coordinates, where noise is Gaussian and an answer was kept with others.
        """
        shape = None if self.shaped is None else self.shaped.shape
        if (shape is not None) is shaped and weights in (None, getattr(shape, "weights", None)):
            return self
        spend = replace(self.spend, shaped=shaped)
        other = price_question(
            self.resolved, spend, self.named[0][1:], counts_around=self._counts_around, weights=weights
        )
        return replace(other, bias=self.bias)

    @property
    def pooled_steps(self) -> tuple[PooledSums, ...]:
        """The steps that measure levels together, if this plan does."""
        return tuple(step for step in self.steps if isinstance(step, PooledSums))

    @cached_property
    def pool(self) -> Pool:
        """The keys, sums and marginals of this question alone."""
        return Pool([PooledQuestion(self.resolved, Fraction(1))])

    @property
    def strategy(self) -> tuple[StrategyItem, ...]:
        """What is measured of levels together; nothing where each is measured apart."""
        return tuple(
            StrategyItem(step.keys, *named)
            for step in self.pooled_steps
            for named in zip(step.blocks, step.parts, step.weights, strict=True)
        )

    def with_strategy(self, items: tuple[StrategyItem, ...] | None) -> QuestionPlan:
        """Return the plan of the same question that measures its levels so, or each apart if it is none."""
        if items is None and not self.pooled_steps:
            return self
        spent = self.resolved, self.spend, self.named[0][1:]
        other = price_question(*spent, counts_around=self._counts_around, strategy=items or ())
        return replace(other, bias=self.bias)

    @property
    def steps_of_levels(self) -> tuple[tuple[QuestionStep, ...], ...]:
        """The steps of each level; all steps where there are no levels."""
        if not self.question.levels:
            return (self.steps,)
        steps = self.steps[len(self.pooled_steps) :]
        size = len(steps) // len(self.resolved.levels)
        return tuple(steps[at * size : (at + 1) * size] for at in range(len(self.resolved.levels)))

    @cached_property
    def levels(self) -> tuple[QuestionPlan, ...]:
        """The plan of each level alone; itself where there are no levels."""
        if not self.question.levels:
            return (self,)
        pairs = zip(self.steps_of_levels, self.resolved.levels, strict=True)
        return tuple(QuestionPlan(self.table, self.spend, steps, level) for steps, level in pairs)

    @property
    def _counts_around(self) -> bool:
        """Whether rows are counted around quantiles, so that they have intervals."""
        return any(isinstance(step, ChoiceStep) and step.around is not None for step in self.steps)

    @cached_property
    def without_counts_around(self) -> QuestionPlan:
        """The plan as it was before quantiles had intervals; itself where none has one."""
        if not self._counts_around:
            return self
        spent = self.resolved, self.spend, self.named[0][1:]
        return price_question(*spent, counts_around=False, strategy=self.strategy)

    @cached_property
    def without_nulls(self) -> QuestionPlan:
        """The plan without groups for missing keys; itself where there are none."""
        bare = self.resolved.without_nulls
        if bare is self.resolved:
            return self
        return price_question(bare, self.spend, self.named[0][1:], counts_around=self._counts_around)

    def sums(self, aggregate: Aggregate) -> tuple[int, ...]:
        """Return where the sums of an aggregate stand among the measured ones."""
        return () if isinstance(aggregate, ChosenAggregate) else self._places[aggregate]

    @cached_property
    def _places(self) -> dict[Aggregate, tuple[int, ...]]:
        at = {each: place for place, each in enumerate(self.summands)}
        found = self.resolved.summands_of.items()
        return {aggregate: tuple(at[each] for each in parts) for aggregate, parts in found}


def plan_question(tables: Tables, question: Question, spend: Spend) -> QuestionPlan:
    """Return the plan of a question. The spend is split over the sums and choices that it needs."""
    return price_question(ResolvedQuestion(tables, question), spend)


def price_question(
    resolved: ResolvedQuestion,
    spend: Spend,
    refines: tuple[str, ...] = (),
    *,
    counts_around: bool = True,
    strategy: tuple[StrategyItem, ...] | None = None,
    weights: Weights | None = None,
) -> QuestionPlan:
    """Return the plan of a question whose names are known.

    `refines` holds the requests of the answers that this one refines, from the first: with them it is another
    request, to be charged and drawn anew. Without `counts_around` quantiles have no intervals. A `strategy`
    says what is measured of levels, in the place of the best one; with an empty one, each is measured apart.
    With `weights` Gaussian noise has the shape of these coordinates, as in an answer that was kept with them.
    """
    named = ("refined", *refines) if refines else ("question",)
    steps: tuple[QuestionStep, ...] = ()
    if not resolved.is_empty:
        steps = (
            _pooled_steps(resolved, spend, counts_around, strategy)
            or _shaped_steps(resolved, _choose_shape(resolved, spend, weights), spend, counts_around)
            or _steps(resolved, spend, counts_around)
        )
    reads = resolved.source.tables
    # A question is recognised by what it was before there were groups for missing keys, shapes, levels that
    # are measured together, and intervals of quantiles, so that what was paid for then is still found.
    bare = resolved.without_nulls
    other = not steps or _has_shape(steps) or isinstance(steps[0], PooledSums)
    before = bare is not resolved or resolved.choices or other
    return QuestionPlan(
        resolved.table,
        spend,
        steps,
        resolved,
        tuple(list_caveats(resolved, steps)) if steps else (no_possible_row(),),
        (named,),
        reads=reads,
        known_as=_steps(bare, spend, counts_around=False) if before else (),
    )


def plan_parts(plans: tuple[QuestionPlan, ...], copies: int) -> Plan[QuestionStep, tuple[QuestionPlan, ...]]:
    """Return one plan for questions about parts of a table.

    Neighbours can differ in `copies` of the parts, so the dearest of the plans is charged that often.
    """
    # Units of different parts are different people, unless a unit can be in several parts.
    dearest = Parallel(plan.event for plan in plans)
    steps = tuple(step for plan in plans for step in plan.steps)
    return Plan(
        plans[0].table,
        plans[0].spend,
        steps,
        plans,
        plans[0].bias,
        # Parts that no row can be in have no steps, where they had some once.
        ("parts", copies, *(("some empty",) if any(plan.is_empty for plan in plans) else ())),
        None if not steps else (dearest if copies == 1 else Repeated(dearest, copies)),
        copies,
        tuple(table for plan in plans for table in plan.reads),
        tuple(step for plan in plans for step in plan.known_as or plan.steps),
    )


def _steps(resolved: ResolvedQuestion, spend: Spend, counts_around: bool) -> tuple[QuestionStep, ...]:
    # Parts of the spend follow from public weights; sums that no unit moves have no part and no noise.
    split, size = spend.split(resolved.needs), len(resolved.summands)
    steps: list[QuestionStep] = []
    for at, level in enumerate(resolved.levels):
        own = zip(resolved.summands, split.sums[at * size : (at + 1) * size], strict=True)
        measured = tuple(_measured(level, each, spend, part) for each, part in own)
        steps += _question_steps(level, measured, spend, split, resolved.choices, counts_around)
    return tuple(steps)


def _question_steps(
    resolved: ResolvedQuestion,
    measured: tuple[MeasuredSum, ...],
    spend: Spend,
    split: Split,
    # What is chosen is lowered once; only the groups of a level are its own.
    choices: tuple[tuple[LoweredValue, tuple[ChosenAggregate, ...]], ...],
    counts_around: bool,
) -> tuple[QuestionStep, ...]:
    """Return the steps that measure these sums and choose these values, of one level."""
    chosen = tuple(plan_choices(resolved, *each, spend, split.other, counts_around) for each in choices)
    if resolved.discovers_keys:
        return (_discovered_keys(resolved, measured, spend, split.other), *chosen)
    keys = tuple(key.engine_key() for key in resolved.keys)
    sums = engine.CellSums(*resolved.rows, keys, _terms(measured))
    return ((Sums(sums, measured),) if measured else ()) + chosen


def _pooled_steps(
    resolved: ResolvedQuestion,
    spend: Spend,
    counts_around: bool,
    strategy: tuple[StrategyItem, ...] | None,
) -> tuple[QuestionStep, ...] | None:
    """Return the steps that measure all levels together; None where that is not wanted or cannot be."""
    if not resolved.question.levels or strategy == () or not can_pool(resolved):
        return None
    pool = Pool([PooledQuestion(resolved, Fraction(1), list_pooled_shapes(resolved, spend))])
    if not pool.fits:
        return None
    items = plan_strategy(pool, spend) if strategy is None else strategy
    pool = pool.with_shapes_of(items)
    split = spend.split(resolved.needs)
    chosen = [
        plan_choices(level, *each, spend, split.other, counts_around)
        for level in resolved.levels
        for each in resolved.choices
    ]
    return (*pool.make_steps(items, spend), *chosen)


def _terms(measured: tuple[MeasuredSum, ...]) -> tuple[engine.Term, ...]:
    """Return what the engine sums, in the order in which it is measured."""
    return tuple(
        each.term for one in measured for each in (one.sums if isinstance(one, ShapedSum) else (one.of,))
    )


def _has_shape(steps: tuple[QuestionStep, ...]) -> bool:
    sums = [step for step in steps if not isinstance(step, ChoiceStep)]
    return any(isinstance(each, ShapedSum) for step in sums for each in step.measured)


def _choose_shape(resolved: ResolvedQuestion, spend: Spend, weights: Weights | None) -> ShapedSums | None:
    """Return the shape that noise has for this spend; None where it is independent between sums."""
    if not spend.shaped:
        return None
    if isinstance(spend, PureSpend):
        return resolved.shaped
    if weights is not None:
        return None if resolved.row_moves is None else resolved.row_moves.shape(weights)
    shaped = resolved.gaussian_shaped
    if shaped is None:
        return None
    # The price is the same for both: the one that does less harm is taken.
    better = spend.harm(resolved.needs_of(shaped)) < _BETTER * spend.harm(resolved.needs)
    return shaped if better else None


def list_pooled_shapes(resolved: ResolvedQuestion, spend: Spend) -> tuple[ShapedSums, ...]:
    """Return the shape that noise has where sums are measured together with others; none where it has none.

    Each level has it, since rows add the same to the groups of all of them.
    """
    level = resolved.levels[0]
    if isinstance(spend, PureSpend):
        spend = replace(spend, shaped=prefers_shape(level.needs))
    shaped = _choose_shape(level, spend, None)
    if shaped is None:
        return ()
    needs = resolved.needs_of(shaped)
    parts, size = spend.split(needs).sums, len(needs.sums) // len(resolved.levels)
    scales = (spend.scale(*each) for each in zip(needs.sums[::size], parts[::size], strict=True))
    return (shaped,) if all(SMALLEST <= each <= LARGEST for each in scales) else ()


def _shaped_steps(
    resolved: ResolvedQuestion, shaped: ShapedSums | None, spend: Spend, counts_around: bool
) -> tuple[QuestionStep, ...] | None:
    """Return the steps whose sums share a noise; None where that is not wanted or cannot be drawn."""
    if shaped is None:
        return None
    split = spend.split(resolved.needs_of(shaped))
    sensitivity = resolved.contribution.shape_sensitivity(shaped.shape.width)
    if not SMALLEST <= spend.scale(sensitivity, split.sums[0]) <= LARGEST:
        return None
    own = zip(resolved.list_apart(shaped), split.sums[1:], strict=True)
    apart = tuple(_measured(resolved, each, spend, part) for each, part in own)
    whole = ShapedSum.calibrated(shaped.shape, sensitivity, spend, split.sums[0])
    return _question_steps(resolved, (whole, *apart), spend, split, resolved.choices, counts_around)


def _measured(
    resolved: ResolvedQuestion, summand: Summand, spend: Spend, part: Fraction
) -> NoisySum[Summand]:
    sensitivity = resolved.sensitivity(summand)
    return NoisySum(summand, sensitivity, spend.noise(sensitivity, part) if sensitivity.l1 else None)


def _discovered_keys(
    resolved: ResolvedQuestion, measured: tuple[MeasuredSum, ...], spend: Spend, part: Fraction
) -> DiscoveredKeys:
    if not isinstance(spend, PureSpend) or not spend.delta:
        raise AssertionError(spend)
    program = engine.KeyedSums(*resolved.rows, engine_keys(resolved), _terms(measured), null_places(resolved))
    return DiscoveredKeys(
        program, _key_mechanism(spend.choice(part), spend.delta, resolved.contribution.keys), measured
    )


def _key_mechanism(
    epsilon: Fraction, delta: Fraction, per_unit: int
) -> TruncatedGeometric | ThresholdedNoise:
    """Return the mechanism that shows a group from the fewest units on."""
    if per_unit == 1:
        return TruncatedGeometric(epsilon, delta)
    # Which noise has the lower threshold depends on how many groups a unit can be in.
    laplace, gaussian = (ThresholdedNoise(epsilon, delta, per_unit, noise) for noise in (False, True))
    return laplace if laplace.threshold <= gaussian.threshold else gaussian
