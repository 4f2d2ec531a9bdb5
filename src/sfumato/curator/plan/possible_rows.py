"""What the rows of a program can hold, found from the program and from public facts about stored columns.

Every value of a row is followed through the program as a set of integers, as a span between two, or as
anything. More may seem possible than is, never less: so where no row seems possible, there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import FreeTexts
from sfumato.engines.rows import (
    MOST_COUNTED,
    Bounded,
    Computed,
    Figure,
    Joined,
    Largest,
    Ordered,
    PerUnit,
    Rows,
    Scan,
    Smallest,
    UnitSizes,
)
from sfumato.engines.value_ranges import ValueRanges
from sfumato.engines.values import (
    WIDEST,
    Add,
    Among,
    AtLeast,
    AtMost,
    Choose,
    Column,
    Constant,
    Either,
    Every,
    Less,
    Lookup,
    Missing,
    Multiply,
    Not,
    Predicate,
    Same,
    Some,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.lower.row_source import RowSource


@dataclass(frozen=True, slots=True)
class Span:
    """Any integer between two, and missing if that is possible."""

    low: int
    high: int
    missing: bool = True


Listed = frozenset[int | None]
"""A set of integers, None among them where a value can be missing."""
Possible = Listed | Span | None
"""The integers that a value can be; None for anything."""
Outcomes = frozenset[bool | None]
"""What a condition can come to: true, false or unknown."""

_MOST_NUMBERS = 64
"""The largest set of integers that is looked at, since a sum of n CASE could be any of 2^n. Where there are
more, the value is taken to be anything, so privacy does not depend on it."""
_ANY_OUTCOME: Outcomes = frozenset((True, False, None))
_MISSING: Listed = frozenset((None,))
_ANYWHERE = (-(WIDEST**2), WIDEST**2)
"""Between which integers a column is of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the columns of one source of rows; of those that are not listed, nothing."""

    columns: Mapping[str, Possible]
    absent: bool = False
    """Whether a left join has found no row, so that all columns are missing."""

    def find_column(self, name: str) -> Possible:
        """Return what a column can hold."""
        return _MISSING if self.absent else self.columns.get(name)

    def widen(self) -> Known:
        """Return what is known once a left join may have found no row."""
        return Known({name: _or_missing(each) for name, each in self.columns.items()})


Scope = dict[int, Known]
"""What is known of each source of rows, by its number."""


def has_no_rows(source: RowSource) -> bool:
    """Return whether no row can be among these, whatever the tables hold: declarations and conditions decide.

    Stored values lie within their declared bounds, as values beyond them are clipped when a table is
    registered. So `cost > 1e9` holds for no row of a column that is declared up to 5,000.
    """
    tables = {table.snapshot_name: table for table in source.tables}
    return _RowFollower(tables).follow_filter(source.rows, source.where) is None


def _find_declared(scan: Scan | UnitSizes, tables: Mapping[str, Table]) -> Known:
    if isinstance(scan, UnitSizes):
        return Known({"rows": Span(1, MOST_COUNTED, missing=False)})
    columns = tables[scan.snapshot].columns.items()
    return Known(
        {
            name: Span(each.domain.low, each.domain.high, each.missing is None)
            for name, each in columns
            if not isinstance(each.domain, FreeTexts)
        }
    )


# ---- rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _RowFollower:
    """Follows rows through a program, from what is declared of these tables."""

    tables: Mapping[str, Table]

    def _follow(self, rows: Rows) -> Scope | None:
        """Return what is known of the rows of a source, or None if there are none."""
        match rows:
            case Scan(at=at) | UnitSizes(at=at):
                return {at: _find_declared(rows, self.tables)}
            case Joined():
                return self._follow_join(rows)
            case PerUnit(inner, where, keys, figures, at):
                scope = self.follow_filter(inner, where)
                return None if scope is None else {at: _sum_up(keys, figures, scope)}
            case Bounded(inner, where):
                return self.follow_filter(inner, where)
            case Computed(inner, values, at):
                scope = self._follow(inner)
                return None if scope is None else {**scope, at: Known(_name_values("v", values, scope))}
            case Ordered(inner, where, _, _, at):
                scope = self.follow_filter(inner, where)
                return None if scope is None else {**scope, at: Known({})}

    def follow_filter(self, rows: Rows, where: Predicate) -> Scope | None:
        """Return what is known of the rows that satisfy a condition, or None if there are none."""
        scope = self._follow(rows)
        narrowed = None if scope is None else _narrow_scope(where, scope)
        return narrowed if narrowed is not None and True in judge_condition(where, narrowed) else None

    def _follow_join(self, rows: Joined) -> Scope | None:
        left, right = self._follow(rows.left), self._follow(rows.right)
        if left is None or (right is None and not rows.optional):
            return None
        if right is None:
            return {**left, **{at: Known({}, absent=True) for at in _list_places(rows.right)}}
        if rows.optional:
            right = {at: known if known.absent else known.widen() for at, known in right.items()}
        return {**left, **right}


def _list_places(rows: Rows) -> list[int]:
    """Return the numbers under which columns of a source can be addressed."""
    match rows:
        case Scan(_, at) | UnitSizes(_, at) | PerUnit(at=at):
            return [at]
        case Joined(left, right):
            return _list_places(left) + _list_places(right)
        case Bounded(inner):
            return _list_places(inner)
        case Computed(inner, at=at) | Ordered(inner, at=at):
            return [*_list_places(inner), at]


def _sum_up(keys: tuple[Value, ...], figures: tuple[Figure, ...], scope: Scope) -> Known:
    """Return what is known of one row for each unit and combination of keys."""
    known = _name_values("k", keys, scope)
    for i, figure in enumerate(figures):
        # A least or greatest value is that of some row, or missing where it is in all of them.
        if isinstance(figure, Smallest | Largest):
            known[f"f{i}"] = find_possible(figure.value, scope)
    return Known(known)


def _name_values(letter: str, values: tuple[Value, ...], scope: Scope) -> dict[str, Possible]:
    return {f"{letter}{i}": find_possible(value, scope) for i, value in enumerate(values)}


# ---- values ------------------------------------------------------------------------------------------------


def find_possible(value: Value, scope: Scope) -> Possible:
    """Return the integers that a value can be: a set where there are few, else a span where one is known."""
    listed = _list_numbers(value, scope)
    return _find_span(value, scope) if listed is None else listed


def _find_span(value: Value, scope: Scope) -> Span | None:
    if isinstance(value, Column):
        found = scope[value.at].find_column(value.name) if value.at in scope else None
        return found if isinstance(found, Span) else None
    spans = {
        Column(at, name): (each.low, each.high)
        for at, known in scope.items()
        for name, each in known.columns.items()
        if isinstance(each, Span)
    }
    ranges = ValueRanges(spans, _ANYWHERE)
    # Nothing is known of doubles, which lie far beyond the integers too.
    return Span(*ranges.find(value)) if spans and not ranges.is_double(value) else None


def _or_missing(possible: Possible) -> Possible:
    if isinstance(possible, Span):
        return replace(possible, missing=True)
    return None if possible is None else possible | {None}


def _list_numbers(value: Value, scope: Scope) -> Listed | None:
    """Return the set of integers that a value can be. What is not looked into can be anything."""
    match value:
        case Column(at, name):
            found = scope[at].find_column(name) if at in scope else None
            return None if isinstance(found, Span) else found
        case Constant(number):
            return frozenset((number,))
        case Add(left, right):
            return _combine(left, right, scope, lambda one, other: one + other)
        case Multiply(left, right):
            return _combine(left, right, scope, lambda one, other: one * other)
        case Lookup(part, entries):
            places = _list_numbers(part, scope)
            return None if places is None else frozenset(_look_up(place, entries) for place in places)
        case Either(first, second):
            return _either(_list_numbers(first, scope), _list_numbers(second, scope))
        case Choose(condition, then, otherwise):
            return _choose(judge_condition(condition, scope), then, otherwise, scope)
    return None


def _combine(left: Value, right: Value, scope: Scope, of: Callable[[int, int], int]) -> Listed | None:
    one = _list_numbers(left, scope)
    # Nearly all values can be anything, and then the other side need not be looked into.
    other = None if one is None else _list_numbers(right, scope)
    if one is None or other is None:
        return None
    return _limit(frozenset(None if a is None or b is None else of(a, b) for a, b in product(one, other)))


def _limit(numbers: Listed | None) -> Listed | None:
    return None if numbers is None or len(numbers) > _MOST_NUMBERS else numbers


def _look_up(place: int | None, entries: tuple[int | None, ...]) -> int | None:
    return entries[place] if place is not None and 0 <= place < len(entries) else None


def _either(first: Listed | None, second: Listed | None) -> Listed | None:
    if first is None:
        return None
    if None not in first:
        return first
    return None if second is None else _limit((first - {None}) | second)


def _choose(outcomes: Outcomes, then: Value, otherwise: Value, scope: Scope) -> Listed | None:
    taken = [then] if True in outcomes else []
    taken += [otherwise] if outcomes & {False, None} else []
    found: Listed | None = frozenset()
    for each in taken:
        more = None if found is None else _list_numbers(each, scope)
        found = None if found is None or more is None else found | more
    return _limit(found)


# ---- conditions --------------------------------------------------------------------------------------------


def judge_condition(condition: Predicate, scope: Scope) -> Outcomes:
    """Return what a condition can come to, in SQL's three-valued logic.

    Parts are judged each by itself, so that more may seem possible than is; never less.
    """
    match condition:
        case Every(parts):
            return _fold(parts, scope, True)
        case Some(parts):
            return _fold(parts, scope, False)
        case Not(part):
            return frozenset(None if each is None else not each for each in judge_condition(part, scope))
        case Missing(part):
            return _judge_missing(find_possible(part, scope))
        case AtLeast(part, bound):
            return _judge_between(find_possible(part, scope), bound, math.inf)
        case AtMost(part, bound):
            return _judge_between(find_possible(part, scope), -math.inf, bound)
        case Among(part, values):
            return _judge_among(find_possible(part, scope), values)
        case Same(left, right):
            return _compare(left, right, scope, equal=True)
        case Less(left, right):
            return _compare(left, right, scope, equal=False)
    return _ANY_OUTCOME


def _fold(parts: tuple[Predicate, ...], scope: Scope, all_hold: bool) -> Outcomes:
    """Return what "all hold" can come to, or with False what "some hold" can."""
    outcomes: Outcomes = frozenset((all_hold,))
    for part in parts:
        judged = judge_condition(part, scope)
        outcomes = frozenset(_join_outcomes(a, b, all_hold) for a, b in product(outcomes, judged))
    return outcomes


def _join_outcomes(one: bool | None, other: bool | None, all_hold: bool) -> bool | None:
    """Return the outcome of two parts: the one that decides, else unknown if one of them is."""
    if (not all_hold) in (one, other):
        return not all_hold
    return None if None in (one, other) else all_hold


def _judge_missing(possible: Possible) -> Outcomes:
    if isinstance(possible, Span):
        return frozenset((True, False) if possible.missing else (False,))
    return frozenset((True, False) if possible is None else (number is None for number in possible))


def _judge_between(possible: Possible, low: float, high: float) -> Outcomes:
    if isinstance(possible, Span):
        inside = low <= possible.low and possible.high <= high
        return _outcomes(possible.low <= high and low <= possible.high, not inside, possible.missing)
    if possible is None:
        return _ANY_OUTCOME
    return frozenset(None if number is None else low <= number <= high for number in possible)


def _judge_among(possible: Possible, values: tuple[int, ...]) -> Outcomes:
    if isinstance(possible, Span):
        # Whether the values fill the span is not looked at, so "false" stays possible.
        return _outcomes(
            any(possible.low <= each <= possible.high for each in values), True, possible.missing
        )
    if possible is None:
        return _ANY_OUTCOME
    return frozenset(None if number is None else number in values for number in possible)


def _compare(left: Value, right: Value, scope: Scope, *, equal: bool) -> Outcomes:
    one, other = find_possible(left, scope), find_possible(right, scope)
    # What is missing equals nothing, so one side that always is leaves the other without weight.
    if one is None or other is None:
        return frozenset((None,)) if _MISSING in (one, other) else _ANY_OUTCOME
    if isinstance(one, Span) or isinstance(other, Span):
        return _compare_spans(_hull(one), _hull(other), equal=equal)
    return frozenset(
        None if a is None or b is None else (a == b if equal else a < b) for a, b in product(one, other)
    )


def _compare_spans(one: Span | None, other: Span | None, *, equal: bool) -> Outcomes:
    if one is None or other is None:  # a side that is always missing
        return frozenset((None,))
    missing = one.missing or other.missing
    if equal:
        return _outcomes(one.low <= other.high and other.low <= one.high, True, missing)
    return _outcomes(one.low < other.high, one.high >= other.low, missing)


def _hull(possible: Listed | Span) -> Span | None:
    """Return the span around a set of integers; None where only "missing" is in it."""
    if isinstance(possible, Span):
        return possible
    numbers = [each for each in possible if each is not None]
    return Span(min(numbers), max(numbers), None in possible) if numbers else None


def _outcomes(holds: bool, fails: bool, unknown: bool) -> Outcomes:
    found = ((True, holds), (False, fails), (None, unknown))
    return frozenset(outcome for outcome, possible in found if possible)


def _narrow_scope(where: Predicate, scope: Scope) -> Scope | None:
    """Return what is known of the rows that satisfy a condition; None if its parts contradict each other.

    Only spans of columns that a part limits by itself are narrowed.
    """
    narrowed = dict(scope)
    for part in where.parts if isinstance(where, Every) else (where,):
        match part:
            case AtLeast(Column() as column, bound):
                low, high = bound, WIDEST
            case AtMost(Column() as column, bound):
                low, high = -WIDEST, bound
            case Among(Column() as column, values) if values:
                low, high = min(values), max(values)
            case _:
                continue
        known = narrowed.get(column.at)
        span = None if known is None else known.find_column(column.name)
        if known is None or not isinstance(span, Span):
            continue
        least, most = max(low, span.low), min(high, span.high)
        if least > most:
            return None
        narrowed[column.at] = Known({**known.columns, column.name: Span(least, most, missing=False)})
    return narrowed
