"""From a question and a spend to a plan: what will be summed, how far one unit can move it, what it costs.

Only public facts come in: the catalog, the question and the spend. Nothing here can read a row.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.domains import MOST_CELLS, Domain, FreeTexts, Numbers, Periods, is_countable
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import (
    MISSING,
    LoweredValue,
    add_integer,
    coarsen_grid,
    require_number,
)
from sfumato.curator.lower.relations import lower_relation
from sfumato.curator.plan.priced import truncation
from sfumato.curator.plan.sensitivity import ContributionBounds
from sfumato.curator.plan.spend import Needs, PureSpend, Sensitivity
from sfumato.curator.plan.steps import Choices, DiscoveredKeys, Measured, Step, Sums
from sfumato.curator.plan.summands import Summand, summands, weighed
from sfumato.curator.question.measurement import MINIMUM_SHARE, Aggregate, QuantileOf, Question
from sfumato.engines import program as engine
from sfumato.engines.rows import Bounded, Scan
from sfumato.engines.values import Every
from sfumato.errors import PolicyError
from sfumato.noise import ExtremeMechanism, QuantilesMechanism, ThresholdedNoise, TruncatedGeometric
from sfumato.privacy.account import Cost, price
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.events import Event, Sequential
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.spend import Spend
    from sfumato.engines.rows import Rows
    from sfumato.engines.values import Predicate, Value

    Tables = Callable[[str], Table]

MOST_PLACES = 2**22
"""Quantiles are chosen among at most so many places."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """A key, and what its integers or texts stand for."""

    part: LoweredValue

    @property
    def domain(self) -> Domain:
        return self.part.domain

    @property
    def listed(self) -> bool:
        """Whether every group is known beforehand."""
        return is_countable(self.domain)

    def engine_key(self) -> engine.Key:
        if isinstance(self.domain, FreeTexts):
            raise AssertionError(self)
        return engine.Key(add_integer(self.part.value, -self.domain.low), self.domain.size)


class ResolvedQuestion:
    """A question whose names are known and whose bounds are followed; what it costs is yet to be said."""

    def __init__(self, tables: Tables, question: Question) -> None:
        self.question = question
        self.source = lower_relation(question.relation, tables)
        if self.table.is_public:
            raise PolicyError(
                "SF-Q144",
                f"'{self.table.name}' is public: there is no one to protect in it.",
                try_="read it as it is, or join it with a table about people",
            )
        self.keys = tuple(Grouping(lower_expression(key, self.source.scope)) for key in question.keys)
        self._check_keys()

    @property
    def table(self) -> Table:
        return self.source.table

    @property
    def bought(self) -> bool:
        """Whether some key is not listed, so that all groups are bought."""
        return not all(key.listed for key in self.keys)

    @property
    def cells(self) -> int:
        return math.prod(key.domain.size for key in self.keys if not isinstance(key.domain, FreeTexts))

    @cached_property
    def rows(self) -> tuple[Rows, Predicate]:
        """Where rows come from and which of them count, once a unit's part is bounded as asked."""
        bounds = self.question.bounds
        if bounds is None or self.source.max_rows == 1:
            return self.source.rows, self.source.where
        cell = tuple(key.part.value for key in self.keys)
        return Bounded(self.source.rows, self.source.where, cell, bounds.groups, bounds.rows), Every()

    @cached_property
    def reach(self) -> ContributionBounds:
        rows, bounds = self.source.max_rows, self.question.bounds
        constant = all(key.part.constant for key in self.keys)
        cells = 1 if constant else rows if self.bought else min(rows, self.cells)
        each = 1 if self._apart else rows
        if bounds is not None:
            cells, each = min(cells, bounds.groups), min(each, bounds.rows)
        replaced = self.table.neighbours is Neighbours.REPLACE_ONE
        return ContributionBounds(min(rows, cells * each), cells, each, replaced, not self.keys)

    @property
    def _apart(self) -> bool:
        """Whether no two rows of a unit can be in one cell."""
        apart = self.source.apart
        return apart is not None and apart <= {key.part.value for key in self.keys}

    @cached_property
    def summands(self) -> tuple[Summand, ...]:
        """Every sum once, in the order of their canonical form, so that equal questions are equal.

        The same integers may stand for different numbers, as those of x and x / 3 do: those are two sums.
        """
        wanted = {
            each
            for aggregate in self.question.aggregates
            if not isinstance(aggregate, QuantileOf)
            for each in summands(aggregate, self.source)
        }
        return tuple(sorted(wanted, key=lambda each: (canonical_json(each.term), canonical_json(each))))

    @cached_property
    def quantiles(self) -> tuple[tuple[LoweredValue, tuple[QuantileOf, ...]], ...]:
        """The quantiles that are chosen together, shares ascending, with their value; ends alone."""
        found: dict[tuple[LoweredValue, Fraction | None], list[QuantileOf]] = {}
        for aggregate in self.question.aggregates:
            if isinstance(aggregate, QuantileOf):
                part = _rankable(lower_expression(aggregate.of, self.source.scope))
                alone = aggregate.share if aggregate.is_end else None
                found.setdefault((part, alone), []).append(aggregate)
        in_order = sorted(found, key=lambda each: canonical_json([each[0].value, each[1]]))
        return tuple((key[0], tuple(sorted(found[key], key=lambda each: each.share))) for key in in_order)

    @cached_property
    def needs(self) -> Needs:
        moves = tuple(map(self.moves, self.summands))
        return Needs(moves, len(self.quantiles), self.bought, self._weights())

    def _weights(self) -> tuple[Fraction, ...]:
        """What each sum weighs in all numbers of the answer together."""
        found = dict.fromkeys(self.summands, Fraction(0))
        for aggregate in self.question.aggregates:
            if not isinstance(aggregate, QuantileOf):
                for summand, weight in weighed(aggregate, self.source):
                    found[summand] += weight
        return tuple(found.values())

    def moves(self, summand: Summand) -> Sensitivity:
        """Nothing moves the number of all rows where it is public."""
        everyone = self.rows == (self.source.rows, Every()) and isinstance(self.source.rows, Scan)
        whole = everyone and not self.keys and isinstance(summand.term, engine.Counted)
        if whole and self.table.neighbours is Neighbours.REPLACE_ONE:
            return Sensitivity(0, 0)
        return self.reach.moves(summand)

    def _check_keys(self) -> None:
        for key in self.keys:
            if key.part is MISSING:
                raise PolicyError("SF-Q134", "A group is NULL whatever happens.", try_="GROUP BY a column")
            if isinstance(key.domain, Numbers) and not key.domain.known:
                raise PolicyError(
                    "SF-Q109",
                    "A group cannot be named by a number whose values are not whole.",
                    why="its values are not listed",
                    try_="FLOOR(age / 10), or sf.between(…, step=1) when the table is registered",
                )
        if not self.bought and self.cells > MOST_CELLS:
            raise PolicyError(
                "SF-Q117", f"A question has at most {MOST_CELLS:,} groups.", asked=f"{self.cells:,}"
            )
        if self.bought and any(isinstance(each, QuantileOf) for each in self.question.aggregates):
            raise PolicyError(
                "SF-Q145", "Quantiles are taken of listed groups.", try_="sf.one_of(…) for the key, or AVG"
            )


def _rankable(part: LoweredValue) -> LoweredValue:
    """A value with an order and not too many places."""
    domain = part.domain
    if part is MISSING:
        raise PolicyError("SF-Q134", "What a quantile takes is NULL whatever happens.", try_="a column")
    if not isinstance(domain, Numbers | Periods):
        part, domain = require_number(part, "What a quantile takes")
    if domain.size > MOST_PLACES:
        if isinstance(domain, Periods):
            raise PolicyError(
                "SF-Q146", "A quantile is chosen among at most 2^22 places.", try_="DATE_TRUNC('hour', …)"
            )
        part = coarsen_grid(part, domain, domain.size.bit_length() - 22)
    return part


@dataclass(frozen=True)
class Plan:
    """A priced question: the steps that answer it, in order."""

    resolved: ResolvedQuestion
    spend: Spend
    steps: tuple[Step, ...]
    round: tuple[str, ...] = ()
    """The requests of the answers that this one refines, from the first."""

    @property
    def question(self) -> Question:
        return self.resolved.question

    @property
    def table(self) -> Table:
        return self.resolved.table

    @property
    def snapshots(self) -> tuple[str, ...]:
        return tuple(table.snapshot_name for table in self.resolved.source.tables)

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """The noisy sums, in the order of the answer."""
        return tuple(each for step in self.steps if not isinstance(step, Choices) for each in step.measured)

    @cached_property
    def event(self) -> Event:
        """What one unit's presence can cost: every step is charged, one after the other."""
        return Sequential(tuple(step.event() for step in self.steps))

    @cached_property
    def cost(self) -> Cost:
        return price(self.event)

    @cached_property
    def request(self) -> str:
        """The identity of the question: rows, cells, sums and noise on one snapshot, whatever the names."""
        named = ["refined", *self.round] if self.round else ["question"]
        return hashlib.sha256(canonical_json([named, *self.steps]).encode()).hexdigest()

    @property
    def bias(self) -> tuple[str, ...]:
        """What no interval for the noise covers."""
        return tuple(_bias(self.resolved))

    def sums(self, aggregate: Aggregate) -> tuple[int, ...]:
        """Where the sums of an aggregate stand among the measured ones."""
        measured = [each.summand for each in self.measured]
        if isinstance(aggregate, QuantileOf):
            return ()
        wanted = summands(aggregate, self.resolved.source)
        return tuple(measured.index(summand) for summand in wanted)


def plan(tables: Tables, question: Question, spend: Spend) -> Plan:
    """Price a question. The spend is split over the sums and choices that the question needs."""
    return priced(ResolvedQuestion(tables, question), spend)


def priced(resolved: ResolvedQuestion, spend: Spend) -> Plan:
    split = spend.split(resolved.needs)
    measured = tuple(
        _measured(resolved, each, spend, part)
        for each, part in zip(resolved.summands, split.sums, strict=True)
    )
    if resolved.bought:
        return Plan(resolved, spend, (_bought(resolved, measured, spend, split.other),))
    rows, where = resolved.rows
    keys = tuple(key.engine_key() for key in resolved.keys)
    sums = engine.Program(rows, where, keys, tuple(each.summand.term for each in measured))
    choices = tuple(
        _choices(resolved, part, quantiles, spend.choice(split.other))
        for part, quantiles in resolved.quantiles
    )
    return Plan(resolved, spend, ((Sums(sums, measured),) if measured else ()) + choices)


def _measured(resolved: ResolvedQuestion, summand: Summand, spend: Spend, part: Fraction) -> Measured:
    moves = resolved.moves(summand)
    return Measured(summand, moves, spend.noise(moves, part) if moves.l1 else None)


def _choices(
    resolved: ResolvedQuestion, part: LoweredValue, quantiles: tuple[QuantileOf, ...], shared: Fraction
) -> Choices:
    """All rows of a unit share the ε of a choice."""
    rows, where = resolved.rows
    keys = tuple(key.engine_key() for key in resolved.keys)
    domain: Any = part.domain
    value: Value = add_integer(part.value, -domain.low)
    shares = tuple(dict.fromkeys(each.share for each in quantiles))
    count = resolved.reach.counted
    epsilon = shared / count
    mechanism: QuantilesMechanism | ExtremeMechanism = QuantilesMechanism(epsilon, shares)
    if quantiles[0].is_end:
        mechanism = ExtremeMechanism.calibrated(epsilon, domain.size, highest=shares[0] > MINIMUM_SHARE)
    return Choices(engine.Tally(rows, where, keys, value, domain.size), mechanism, count)


def _bought(
    resolved: ResolvedQuestion, measured: tuple[Measured, ...], spend: Spend, part: Fraction
) -> DiscoveredKeys:
    if not isinstance(spend, PureSpend) or not spend.delta:
        raise AssertionError(spend)
    rows, where = resolved.rows
    keys = tuple(key.part.value for key in resolved.keys)
    program = engine.Keyed(rows, where, keys, tuple(each.summand.term for each in measured))
    return DiscoveredKeys(program, _keys(spend.choice(part), spend.delta, resolved.reach.keys), measured)


def _keys(epsilon: Fraction, delta: Fraction, per_unit: int) -> TruncatedGeometric | ThresholdedNoise:
    """The mechanism that tells a key from the fewest units on."""
    if per_unit == 1:
        return TruncatedGeometric(epsilon, delta)
    laplace, gaussian = (ThresholdedNoise(epsilon, delta, per_unit, noise) for noise in (False, True))
    return laplace if laplace.threshold <= gaussian.threshold else gaussian


def _bias(resolved: ResolvedQuestion) -> list[str]:
    """In the words of the table whose units are protected."""
    unit, question = resolved.table.unit, resolved.question
    found = list(truncation(resolved.table))
    if question.bounds is not None and resolved.source.max_rows > 1:
        kept = f"{question.bounds.groups} groups and {question.bounds.rows} rows in each"
        found.append(f"of each {unit.column} at most {kept} count")
    found.append("numbers outside their declared bounds count as the nearer bound")
    if any(each.step != 1 for each in resolved.summands):
        found.append("numbers count in steps, about a million between their bounds where none is declared")
    if resolved.bought:
        found.append("groups that few units are in are not shown")
    if question.chooses_groups:
        found.append("groups were chosen by noisy numbers, so luck may have helped those that are shown")
    return found
