"""From a resolved question and a spend to a plan: what will be summed, with which noise, at what price.

Only public facts come in: the catalog, the question and the spend. Nothing here can read a row.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.curator.lower.lowered_value import LoweredValue, add_integer
from sfumato.curator.plan.caveats import list_caveats
from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.steps import (
    ChoiceMechanism,
    Choices,
    ChoiceStep,
    DiscoveredChoices,
    DiscoveredKeys,
    QuestionStep,
    Sums,
)
from sfumato.curator.question.measurement import (
    MINIMUM_SHARE,
    Aggregate,
    ChosenAggregate,
    ModeOf,
    QuantileOf,
    Question,
)
from sfumato.engines import program as engine
from sfumato.errors import UsageError
from sfumato.noise import (
    ExtremeMechanism,
    ModeMechanism,
    QuantilesMechanism,
    Surroundings,
    ThresholdedNoise,
    TruncatedGeometric,
)
from sfumato.privacy.events import Parallel, Repeated

if TYPE_CHECKING:
    from sfumato.curator.plan.resolved import Tables
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.summands import Summand
    from sfumato.engines.values import Value


_AROUND = Fraction(1, 50)
"""Part of the spend of a quantile for the counts around it, which its interval is computed from."""
_GROWTHS = (2, 4, 16)
"""How much further each edge around a quantile may be than the one before: the first that is not too much."""
_FEW_KEYS = 2**10
"""Number of keys that edges are planned for where keys are discovered."""
_MOST_COUNTS = 2**16
"""Most numbers that are kept for the intervals of one value's quantiles."""


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
    def snapshots(self) -> tuple[str, ...]:
        """The snapshots that the question reads."""
        return tuple(table.snapshot_name for table in self.resolved.source.tables)

    @cached_property
    def measured(self) -> tuple[NoisySum[Summand], ...]:
        """The noisy sums, in the order of the answer."""
        # Levels measure the same sums, each with noise of its own.
        steps = self.steps_of_levels[0]
        return tuple(each for step in steps if not isinstance(step, ChoiceStep) for each in step.measured)

    @property
    def steps_of_levels(self) -> tuple[tuple[QuestionStep, ...], ...]:
        """The steps of each level; all steps where there are no levels."""
        if not self.question.levels:
            return (self.steps,)
        size = len(self.steps) // len(self.resolved.levels)
        return tuple(self.steps[at : at + size] for at in range(0, len(self.steps), size))

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
        return price_question(self.resolved, self.spend, self.named[0][1:], counts_around=False)

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
        at = {each.of: place for place, each in enumerate(self.measured)}
        found = self.resolved.summands_of.items()
        return {aggregate: tuple(at[each] for each in parts) for aggregate, parts in found}


def plan_question(tables: Tables, question: Question, spend: Spend) -> QuestionPlan:
    """Return the plan of a question. The spend is split over the sums and choices that it needs."""
    return price_question(ResolvedQuestion(tables, question), spend)


def price_question(
    resolved: ResolvedQuestion, spend: Spend, refines: tuple[str, ...] = (), *, counts_around: bool = True
) -> QuestionPlan:
    """Return the plan of a question whose names are known.

    `refines` holds the requests of the answers that this one refines, from the first: with them it is another
    request, to be charged and drawn anew. Without `counts_around` quantiles have no intervals.
    """
    named = ("refined", *refines) if refines else ("question",)
    steps = _steps(resolved, spend, counts_around)
    reads = resolved.source.tables
    # A question is recognised by what it was before there were groups for missing keys, and intervals of
    # quantiles, so that what was paid for then is still found.
    bare = resolved.without_nulls
    known_as = () if bare is resolved and not resolved.choices else _steps(bare, spend, counts_around=False)
    return QuestionPlan(
        resolved.table,
        spend,
        steps,
        resolved,
        tuple(list_caveats(resolved, steps)),
        (named,),
        reads=reads,
        known_as=known_as,
    )


def plan_parts(plans: tuple[QuestionPlan, ...], copies: int) -> Plan[QuestionStep, tuple[QuestionPlan, ...]]:
    """Return one plan for questions about parts of a table.

    Neighbours can differ in `copies` of the parts, so the dearest of the plans is charged that often.
    """
    # Units of different parts are different people, unless a unit can be in several parts.
    dearest = Parallel(plan.event for plan in plans)
    return Plan(
        plans[0].table,
        plans[0].spend,
        tuple(step for plan in plans for step in plan.steps),
        plans,
        plans[0].bias,
        ("parts", copies),
        dearest if copies == 1 else Repeated(dearest, copies),
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
        if resolved.discovers_keys:
            keys = _discovered_keys(resolved, measured, spend, split.other)
            chosen = (
                _choices(resolved, *each, spend, split.other, counts_around) for each in resolved.choices
            )
            return (keys, *chosen)
        cells = tuple(key.engine_key() for key in level.keys)
        sums = engine.CellSums(*level.rows, cells, tuple(each.of.term for each in measured))
        steps += [Sums(sums, measured)] if measured else []
        # What is chosen is lowered once; only the groups of a level are its own.
        steps += [_choices(level, *each, spend, split.other, counts_around) for each in resolved.choices]
    return tuple(steps)


def _measured(
    resolved: ResolvedQuestion, summand: Summand, spend: Spend, part: Fraction
) -> NoisySum[Summand]:
    sensitivity = resolved.sensitivity(summand)
    return NoisySum(summand, sensitivity, spend.noise(sensitivity, part) if sensitivity.l1 else None)


def _choices(
    resolved: ResolvedQuestion,
    part: LoweredValue,
    asked: tuple[ChosenAggregate, ...],
    spend: Spend,
    share: Fraction,
    counts_around: bool,
) -> ChoiceStep:
    """Choices of one value. All rows of a unit share the ε of the choice."""
    domain: Any = part.domain
    value: Value = add_integer(part.value, -domain.low)
    contribution = resolved.contribution
    around = _around(resolved, domain.size, asked, spend, share) if counts_around else None
    epsilon = spend.choice(share if around is None else share * (1 - _AROUND))
    mechanism = _choice_mechanism(asked, epsilon / contribution.counted, domain.size)
    if resolved.discovers_keys:
        counted = engine.KeyedSums(
            *resolved.rows, (*_engine_keys(resolved), value), (engine.Counted(),), _null_places(resolved)
        )
        return DiscoveredChoices(counted, domain.size, mechanism, contribution.row_moves, around)
    keys = tuple(key.engine_key() for key in resolved.keys)
    program = engine.CellHistogram(*resolved.rows, keys, value, domain.size)
    return Choices(program, mechanism, contribution.row_moves, around)


def _around(
    resolved: ResolvedQuestion,
    size: int,
    asked: tuple[ChosenAggregate, ...],
    spend: Spend,
    share: Fraction,
) -> Surroundings | None:
    """Return what counts rows around quantiles; None for ends and modes, and where it would be too much."""
    if isinstance(asked[0], ModeOf) or asked[0].is_end:
        return None
    sensitivity = SumSensitivity.of(resolved.contribution.row_moves)
    # So little may be spent that no noise is wide enough; the choice itself needs far less.
    try:
        noise = spend.noise(sensitivity, share * _AROUND)
    except UsageError:
        return None
    shares = len({each.share for each in asked if isinstance(each, QuantileOf)})
    # How many keys will be discovered is not known: their edges are few from the start.
    cells = _FEW_KEYS if resolved.discovers_keys else resolved.cells
    fitting = (Surroundings(noise, growth) for growth in _GROWTHS)
    return next((each for each in fitting if each.numbers(shares, size) * cells <= _MOST_COUNTS), None)


def _choice_mechanism(asked: tuple[ChosenAggregate, ...], epsilon: Fraction, cells: int) -> ChoiceMechanism:
    if isinstance(asked[0], ModeOf):
        return ModeMechanism(epsilon)
    # The same share asked twice is chosen once.
    shares = tuple(dict.fromkeys(each.share for each in asked if isinstance(each, QuantileOf)))
    if asked[0].is_end:
        return ExtremeMechanism.calibrated(epsilon, cells, highest=shares[0] > MINIMUM_SHARE)
    return QuantilesMechanism(epsilon, shares)


def _discovered_keys(
    resolved: ResolvedQuestion, measured: tuple[NoisySum[Summand], ...], spend: Spend, part: Fraction
) -> DiscoveredKeys:
    if not isinstance(spend, PureSpend) or not spend.delta:
        raise AssertionError(spend)
    terms = tuple(each.of.term for each in measured)
    program = engine.KeyedSums(*resolved.rows, _engine_keys(resolved), terms, _null_places(resolved))
    return DiscoveredKeys(
        program, _key_mechanism(spend.choice(part), spend.delta, resolved.contribution.keys), measured
    )


def _engine_keys(resolved: ResolvedQuestion) -> tuple[Value, ...]:
    """Return the keys as engines group by them where they are to be discovered: their values."""
    return tuple(key.part.value for key in resolved.keys)


def _null_places(resolved: ResolvedQuestion) -> tuple[int, ...]:
    return tuple(place for place, key in enumerate(resolved.keys) if key.nulls)


def _key_mechanism(
    epsilon: Fraction, delta: Fraction, per_unit: int
) -> TruncatedGeometric | ThresholdedNoise:
    """Return the mechanism that shows a group from the fewest units on."""
    if per_unit == 1:
        return TruncatedGeometric(epsilon, delta)
    # Which noise has the lower threshold depends on how many groups a unit can be in.
    laplace, gaussian = (ThresholdedNoise(epsilon, delta, per_unit, noise) for noise in (False, True))
    return laplace if laplace.threshold <= gaussian.threshold else gaussian
