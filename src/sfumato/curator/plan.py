"""From a question and a spend to a quote: what will be summed, how far one unit can move it, what it costs.

Only public facts come in: the catalog, the question and the spend. Nothing here can read a row.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.columns import OneOf, Summand
from sfumato.curator.measurement import Aggregate, Count, Mean, Question, Sum, Units, Variance
from sfumato.curator.relation import AllOf, AnyOf, Comparison, Condition, IsMissing, Negation
from sfumato.engines import program as engine
from sfumato.errors import PolicyError
from sfumato.noise import Laplace
from sfumato.privacy.account import Cost, price
from sfumato.privacy.events import Event, Sequential
from sfumato.privacy.exact import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog import Table
    from sfumato.curator.spend import Noise, Spend
    from sfumato.noise.integers import IntArray

MOST_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Measured:
    """One noisy sum or count: a unit moves it by at most `l1` over all cells.

    All rows of a unit may fall into one cell, so the l2 norm of a sum has no smaller bound than its l1 norm.
    """

    summand: Summand
    l1: int
    noise: Noise

    def event(self) -> Event:
        return self.noise.event(self.l1)

    def release(self, exact: IntArray) -> IntArray:
        if isinstance(self.noise, Laplace):
            return self.noise.release(exact, l1=self.l1)
        return self.noise.release(exact, l2=self.l1)


@dataclass(frozen=True, slots=True)
class Plan:
    """A priced question: the program that answers it and the noise that each sum gets."""

    table: Table
    question: Question
    spend: Spend
    program: engine.Program
    measured: tuple[Measured, ...]

    @property
    def event(self) -> Event:
        """What one unit's presence can cost: every sum is charged, one after the other."""
        return Sequential(tuple(each.event() for each in self.measured))

    @property
    def cost(self) -> Cost:
        return price(self.event)

    @property
    def request(self) -> str:
        """The identity of the question: rows, cells, sums and noise on one snapshot, whatever the names."""
        noise = [each.noise for each in self.measured]
        return hashlib.sha256(canonical_json([self.program, noise]).encode()).hexdigest()

    @property
    def bias(self) -> tuple[str, ...]:
        """What no interval for the noise covers."""
        unit = self.table.unit
        clipped = "numbers outside their declared bounds count as the nearer bound"
        chosen = "groups were chosen by noisy numbers, so luck may have helped those that are shown"
        after = (chosen,) if self.question.chooses else ()
        if unit.column is None:
            return (clipped, *after)
        cut = f"a {unit.column} with more than {unit.max_rows} rows counts with {unit.max_rows} of them"
        return (cut, clipped, *after)

    def sums(self, aggregate: Aggregate) -> tuple[int, ...]:
        """Where the sums of an aggregate stand among the measured ones."""
        terms = [each.summand.term for each in self.measured]
        return tuple(terms.index(summand.term) for summand in summands(self.table, aggregate))


def plan(table: Table, question: Question, spend: Spend) -> Plan:
    """Price a question. The spend is split evenly over the sums that the question needs."""
    keys = tuple(_key(table, name) for name in question.keys)
    asked = needed(table, question)
    program = engine.Program(
        table.snapshot_name,
        simplified(_lowered(table, question.relation.where)),
        keys,
        tuple(summand.term for summand in asked),
    )
    if program.cells > MOST_CELLS:
        raise PolicyError(
            "SF-Q117", f"A question has at most {MOST_CELLS:,} groups.", asked=f"{program.cells:,}"
        )
    measured = tuple(_measured(each, _l1(table, each, program.cells), spend, len(asked)) for each in asked)
    return Plan(table, question, spend, program, measured)


def summands(table: Table, aggregate: Aggregate) -> tuple[Summand, ...]:
    """The sums an aggregate is computed from."""
    match aggregate:
        case Count(None):
            return (Summand(engine.Rows(), 1, Fraction(1)),)
        case Count(str(name)):
            return (_present(table, name),)
        case Units(name):
            table.require_unit(name)
            return (Summand(engine.Units(), 1, Fraction(1)),)
        case Sum(name):
            column = table.column(name)
            return (table.columns[column].total(column),)
        case Mean(name):
            column = table.column(name)
            return (table.columns[column].deviation(column), _present(table, name))
        case Variance(name):
            column = table.column(name)
            deviation = table.columns[column].deviation(column)
            return (deviation.squared(), deviation, _present(table, name))
        case _:
            raise AssertionError(aggregate)


def _present(table: Table, name: str) -> Summand:
    return Summand(engine.Present(table.column(name)), 1, Fraction(1))


def needed(table: Table, question: Question) -> tuple[Summand, ...]:
    """Every sum once, in the order of the terms' canonical form, so that equal questions are equal."""
    asked = question.aggregates
    by_term = {summand.term: summand for aggregate in asked for summand in summands(table, aggregate)}
    return tuple(by_term[term] for term in sorted(by_term, key=canonical_json))


def _l1(table: Table, summand: Summand, cells: int) -> int:
    """A unit has at most `max_rows` rows, and all may fall into one cell: the l1 norm counts.

    Among the units of a cell it counts once, so with `max_rows` rows it counts in that many cells at most.
    """
    rows = table.unit.max_rows
    return min(rows, cells) if isinstance(summand.term, engine.Units) else rows * summand.bound


def _measured(summand: Summand, l1: int, spend: Spend, sums: int) -> Measured:
    return Measured(summand, l1, spend.noise(l1, sums))


def _key(table: Table, name: str) -> engine.Key:
    column = table.column(name)
    promise = table.columns[column]
    if not isinstance(promise, OneOf):
        raise PolicyError(
            "SF-Q109",
            f"'{column}' cannot name groups: its values are not listed.",
            why="which groups exist would say something about the people in them",
            try_=f"declare {column} with sf.one_of(…), or ask with WHERE {column} BETWEEN … AND …",
        )
    return engine.Key(column, len(promise.values))


# ---- conditions --------------------------------------------------------------------------------------------


def _lowered(table: Table, condition: Condition) -> engine.Predicate:
    """The condition on the integers of the snapshot."""
    match condition:
        case Comparison(name, operator, value):
            column = table.column(name)
            return table.columns[column].compare(column, operator, value)
        case IsMissing(name):
            return engine.Missing(table.column(name))
        case Negation(part):
            return engine.Not(_lowered(table, part))
        case AllOf(parts):
            return engine.Every(tuple(_lowered(table, part) for part in parts))
        case AnyOf(parts):
            return engine.Some(tuple(_lowered(table, part) for part in parts))


def simplified(predicate: engine.Predicate) -> engine.Predicate:
    """One form for conditions that differ only in order, nesting, repetition or where NOT stands.

    Each rule keeps SQL's three-valued meaning: both sides are unknown for the same rows.
    """
    match predicate:
        case engine.Not(part):
            return _negated(part)
        case engine.Every(parts):
            return _flat(parts, engine.Every)
        case engine.Some(parts):
            return _flat(parts, engine.Some)
        case _:
            return predicate


def _negated(predicate: engine.Predicate) -> engine.Predicate:
    match predicate:
        case engine.Not(part):
            return simplified(part)
        case engine.AtLeast(column, value):
            return engine.AtMost(column, value - 1)
        case engine.AtMost(column, value):
            return engine.AtLeast(column, value + 1)
        case engine.Every(parts):
            return _flat(tuple(engine.Not(part) for part in parts), engine.Some)
        case engine.Some(parts):
            return _flat(tuple(engine.Not(part) for part in parts), engine.Every)
        case _:
            return engine.Not(predicate)


def _flat(
    parts: tuple[engine.Predicate, ...],
    kind: Callable[[tuple[engine.Predicate, ...]], engine.Every | engine.Some],
) -> engine.Predicate:
    flat: list[engine.Predicate] = []
    for part in map(simplified, parts):
        flat += part.parts if isinstance(part, engine.Every | engine.Some) and type(part) is kind else [part]
    unique = sorted(dict.fromkeys(flat), key=canonical_json)
    return unique[0] if len(unique) == 1 else kind(tuple(unique))
