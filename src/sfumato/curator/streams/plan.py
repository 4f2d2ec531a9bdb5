"""What a stream over a table asks: which rows a tick has, what one unit can move, and what all ticks cost.

Only public facts come in: the catalog, the question and the spend. Nothing here can read a row.

Because : docs/proofs/streams.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from sfumato.curator.catalog.calendar import count_periods, parse_moment, start_of_period
from sfumato.curator.catalog.domains import Numbers, Periods, Scalar, is_countable
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.relations import lower_relation
from sfumato.curator.lower.simplify import simplify_predicate
from sfumato.curator.plan.caveats import (
    describe_truncation,
    late_rows,
    limited_ticks,
    limited_visits,
)
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.resolved import Grouping
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import GaussianSpend, Needs
from sfumato.curator.plan.summands import ROWS, Summand, list_summands
from sfumato.curator.question.measurement import DistinctUnits, SummedAggregate
from sfumato.curator.question.relation import Expression, FunctionCall, Name, Relation
from sfumato.engines.program import CellSums, KeyedSums
from sfumato.engines.rows import Bounded, Scan
from sfumato.engines.used_columns import find_used
from sfumato.engines.values import AtLeast, AtMost, Every, UnitDigest
from sfumato.errors import PolicyError, UsageError
from sfumato.errors.checked import checked, require_field, require_positive
from sfumato.noise import RunningSums
from sfumato.privacy.exact import parse_exact
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.caveats import Caveat
    from sfumato.curator.plan.spend import Spend
    from sfumato.privacy.events import Event

NEEDS = Needs((SumSensitivity(1, 1),))
"""A stream shares its spend with nothing: all its numbers are one vector with one noise."""
MOST_HORIZON = 2**20
MOST_GROUPS = 2**16
"""Limits on how far the ledger grows: a tick keeps a number for each group. Privacy depends on neither."""


@dataclass(frozen=True, slots=True)
@checked
class StreamQuestion:
    """What is asked after every tick, of which rows, for how many ticks, and how often one unit counts."""

    relation: Relation
    time: Expression
    measure: SummedAggregate
    horizon: int
    start: Scalar | None = None
    keys: tuple[Expression, ...] = ()
    participations: int = 1
    separation: int = 1
    contribution: int = 1
    window: int | None = None
    """People count as present for so many ticks after their last row; None where nobody leaves."""
    series: str | None = None
    """The stream that this is one block of: a unit counts in one block of it."""

    def __post_init__(self) -> None:
        require_positive(self, "horizon", "participations", "separation", "contribution")
        require_field(self.horizon <= MOST_HORIZON, self, "horizon", f"at most {MOST_HORIZON:,}")
        require_field(self.window is None or self.window >= 1, self, "window", "1 or more")


class ResolvedStream:
    """A stream whose names are looked up: programs for its ticks, and what one unit can move."""

    def __init__(self, tables: Callable[[str], Table], question: StreamQuestion) -> None:
        self.question = question
        self.source = lower_relation(question.relation, tables)
        self._require_one_table()
        self.time = self._lower_time()
        self.keys = tuple(Grouping(lower_expression(key, self.source.scope)) for key in question.keys)
        self._require_listed_keys()
        self.counts_people = self._is_about_people()
        self.summands = self._list_summands()
        self._require_consistent()

    @property
    def table(self) -> Table:
        """The table whose units are protected."""
        return self.source.table

    @property
    def by_unit(self) -> bool:
        """Whether units have names, so that it is remembered in which ticks each has been."""
        return self.table.unit.column is not None

    @property
    def cells(self) -> int:
        """The number of groups."""
        return math.prod(key.size for key in self.keys)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Whole factors that make the parts of a row's vector alike in size, as they share one noise."""
        widest = max(each.bound for each in self.summands)
        return tuple(max(1, widest // max(1, each.bound)) for each in self.summands)

    @property
    def row_norm(self) -> int:
        """The largest l2 norm of what one row adds, rounded up."""
        parts = zip(self.weights, self.summands, strict=True)
        squares = sum((weight * max(1, each.bound)) ** 2 for weight, each in parts)
        return math.isqrt(squares - 1) + 1

    def mechanism(self, multiplier: Fraction) -> RunningSums:
        """Return the mechanism for all ticks: a unit moves at most so many of them, each by so much."""
        asked = self.question
        # Someone who comes and goes moves two ticks; whoever is replaced moves the sums twice as far.
        moves = 1 if asked.window is None else 2
        replaced = 2 if self.table.neighbours is Neighbours.REPLACE_ONE else 1
        return RunningSums(
            multiplier,
            asked.horizon,
            replaced * asked.contribution * self.row_norm,
            min(asked.horizon, moves * asked.participations),
            asked.separation,
            self.cells * len(self.summands),
        )

    # ---- ticks ----

    @property
    def first(self) -> int:
        """The place of the first tick in the domain of the time."""
        if self.question.start is not None:
            return self._find_place(self.question.start)
        domain: Any = self.time.domain
        return int(domain.low)

    def show_tick(self, tick: int) -> Any:
        """Return what a tick stands for: when it starts, or its number."""
        domain: Any = self.time.domain
        return domain.show_value(self.first + tick)

    def count_complete(self) -> int:
        """Return how many ticks the steward has said to be complete. No row has a part in it."""
        through = self.table.through.get(self.time_column)
        if through is None:
            return 0
        domain, column = self.time.domain, self.table.domain_of(self.time_column)
        after = through + 1
        if isinstance(domain, Periods) and isinstance(column, Periods):
            after = math.floor(count_periods(start_of_period(after, column.unit), domain.unit))
        return max(0, min(self.question.horizon, after - self.first))

    @cached_property
    def time_column(self) -> str:
        """The declared column that the time is taken from."""
        named = _find_name(self.question.time).casefold()
        return next(name for name in self.table.columns if name.casefold() == named)

    def program(self, tick: int) -> CellSums | KeyedSums:
        """Return the program that reads a tick: a vector for each unit, or sums where rows are units."""
        source, place = self.source, self.first + tick
        where = Every((source.where, AtLeast(self.time.value, place), AtMost(self.time.value, place)))
        rows, terms = source.rows, tuple(each.term for each in self.summands)
        met = simplify_predicate(where)
        if not self.by_unit:
            return CellSums(rows, met, tuple(key.engine_key() for key in self.keys), terms)
        if source.max_rows > self.question.contribution:
            rows, met = Bounded(rows, met, (), 1, self.question.contribution), Every()
        keys = tuple(key.engine_key().value for key in self.keys)
        return KeyedSums(rows, met, (UnitDigest(0), *keys), terms)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What is hashed: everything that an answer depends on, except which snapshot is the newest."""
        asked, limits = self.question, (self.question.participations, self.question.separation)
        return (
            self.table.name,
            self.table.population,
            self.table.relation,
            self.source.where,
            self.time.value,
            (self._grid, self._declared),
            (self.first, asked.horizon),
            tuple(key.engine_key() for key in self.keys),
            (*self.summands, "people" if self.counts_people else "rows"),
            self.weights,
            (*limits, asked.contribution, asked.window),
            *(() if asked.series is None else (asked.series,)),
        )

    @property
    def _grid(self) -> Any:
        """The grid of the time. Its bounds may widen; on another grid a row would come into another tick."""
        domain: Any = self.time.domain
        return domain.unit if isinstance(domain, Periods) else domain.step

    @property
    def _declared(self) -> tuple[Any, ...]:
        """The declared values of columns that are read, which programs name by their places.

        Of the time it is only what stands for a missing one, since its bounds may widen.
        """
        used = find_used(self.program(0), lambda _: False).columns
        names = sorted(name for each in used.values() for name in each if name in self.table.columns)
        return tuple((name, self._describe_declared(name)) for name in names)

    def _describe_declared(self, name: str) -> tuple[Any, ...]:
        missing = self.table.columns[name].missing
        domain = () if name == self.time_column else (self.table.domain_of(name),)
        return (*domain, None if missing is None else str(missing))

    def _find_place(self, start: Scalar) -> int:
        domain: Any = self.time.domain
        if isinstance(domain, Periods):
            moment = parse_moment(start) if isinstance(start, str) else start
            if isinstance(moment, date):
                return math.floor(count_periods(moment, domain.unit))
        elif not isinstance(start, str | bool | date):
            return int(parse_exact(start, "start") // domain.step)
        raise UsageError("SF-S103", "The start of a stream is a value of its time.", try_='"2026-01-01"')

    # ---- what is refused ----

    def _require_one_table(self) -> None:
        if self.table.is_public or not isinstance(self.source.rows, Scan):
            raise PolicyError(
                "SF-S103",
                "A stream follows the rows of one table about people.",
                try_='s.stream("visits", where="age >= 65", …)',
            )

    def _lower_time(self) -> Any:
        """Return the time of a row: a date or a whole number, or the week, month or year of a date."""
        asked = self.question.time
        time = lower_expression(asked, self.source.scope)
        if (
            not _find_name(asked)
            or not isinstance(time.domain, Numbers | Periods)
            or not is_countable(time.domain)
        ):
            raise PolicyError(
                "SF-S103",
                "The time of a stream is a declared date or whole number, or a period of a date.",
                try_='time="day", or time="DATE_TRUNC(\'week\', day)"',
            )
        return time

    def _require_listed_keys(self) -> None:
        if all(key.listed for key in self.keys) and self.cells > MOST_GROUPS:
            raise PolicyError(
                "SF-S103",
                f"A stream has at most {MOST_GROUPS:,} groups, because every tick shows all of them.",
                asked=f"{self.cells:,}",
                try_="fewer columns in by=, or coarser ones",
            )
        for key in self.keys:
            if not key.listed:
                raise PolicyError(
                    "SF-S103",
                    "The groups of a stream are known beforehand.",
                    try_="declare the column with sf.one_of(…)",
                )

    def _is_about_people(self) -> bool:
        measure = self.question.measure
        people = isinstance(measure, DistinctUnits)
        if people and not (isinstance(measure.of, Name) and self.source.scope.is_unit(measure.of)):
            raise measure_error()
        return people

    def _list_summands(self) -> tuple[Summand, ...]:
        return (ROWS,) if self.counts_people else list_summands(self.question.measure, self.source)

    def _require_consistent(self) -> None:
        asked, domain = self.question, self.time.domain
        last = self.first + asked.horizon - 1
        if self.first < domain.low or last > domain.high:
            raise PolicyError(
                "SF-S103",
                "The ticks of a stream lie within the declared bounds of its time.",
                declared=f"{domain.show_value(domain.low)} to {domain.show_value(domain.high)}",
                ticks=f"{asked.horizon:,}",
                try_="start=…, a shorter horizon, or lab.advance with wider bounds",
            )
        several = (asked.participations, asked.separation, asked.contribution) != (1, 1, 1)
        if several and not self.by_unit:
            _refuse_people(f"Each row of '{self.table.name}' is a unit, and is in one tick.")
        if asked.window is not None and not self.counts_people:
            _refuse_people("Only people leave; windows of other streams are free: stream.values(window=7).")
        if self.counts_people and (asked.contribution, asked.separation) != (1, 1):
            _refuse_people("Whoever is counted counts once; leave contribution and separation out.")
        if self.counts_people and asked.window is None and asked.participations != 1:
            _refuse_people("Whoever never leaves comes once; participations= goes with window=.")


def _find_name(time: Expression) -> str:
    """Return the column that a time is, or is a period of; an empty text for other expressions."""
    match time:
        case Name(column):
            return column
        case FunctionCall(function, (Name(column),)) if function.startswith("truncate_"):
            return column
    return ""


def measure_error() -> PolicyError:
    """Return the refusal of what a stream cannot measure."""
    return PolicyError(
        "SF-S103",
        "A stream counts rows or people, sums a number or averages it.",
        try_='measure=sf.count(), sf.sum("cost"), sf.mean("cost"), or sf.units of the unit\'s column',
    )


def _refuse_people(sentence: str) -> NoReturn:
    raise UsageError("SF-S103", sentence)


# ---- the price ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TickStep:
    """All ticks of a stream as one step of a plan: what the first of them reads, and what all cost."""

    program: CellSums | KeyedSums
    mechanism: RunningSums

    def event(self) -> Event:
        """Return what one unit's presence can cost, in all ticks together."""
        return self.mechanism.event()

    def release(self, exact: Any) -> object:
        """Refuse: ticks are released one by one, in curator/streams/door.py."""
        raise AssertionError(self)


class StreamPlan(Plan[TickStep, ResolvedStream]):
    """A priced stream. It is the same request whichever snapshot is the newest."""

    @property
    def resolved(self) -> ResolvedStream:
        """The stream with its names looked up."""
        return self.subject

    @property
    def mechanism(self) -> RunningSums:
        """The mechanism for all ticks, as it would be planned now."""
        return self.steps[0].mechanism

    @property
    def identities(self) -> tuple[tuple[str, str], ...]:
        """Nothing: a stream goes on from one snapshot to the next."""
        return ()


def price_stream(resolved: ResolvedStream, spend: Spend) -> StreamPlan:
    """Return the plan of a stream. Noise over time is Gaussian, so pure ε cannot pay for it."""
    if not isinstance(spend, GaussianSpend):
        raise UsageError(
            "SF-N109",
            "The price of a stream is missing, or there are two.",
            try_="rho=…, or epsilon=… and delta=…",
        )
    step = TickStep(resolved.program(0), resolved.mechanism(spend.multiplier))
    return StreamPlan(
        resolved.table,
        spend,
        (step,),
        resolved,
        _list_caveats(resolved),
        (("stream", spend.multiplier),),
        known_as=resolved.identity,
    )


def _list_caveats(resolved: ResolvedStream) -> tuple[Caveat, ...]:
    """Return what no interval covers, in words."""
    asked, unit = resolved.question, resolved.table.unit.column
    if unit is None:
        return (late_rows(),)
    if not resolved.counts_people:
        ticks = limited_ticks(unit, asked.participations, asked.contribution, asked.separation)
        return (*describe_truncation(resolved.table), ticks, late_rows())
    # Whoever never leaves is there from the first time on, however often they come.
    again = () if asked.window is None else (limited_visits(unit, asked.participations),)
    return (*describe_truncation(resolved.table), *again, late_rows())
