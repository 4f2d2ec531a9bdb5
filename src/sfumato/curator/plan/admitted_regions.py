"""Which regions the rows of a program can come from, found from the program alone.

A unit with given values in the columns of the regions is followed through the program. Whatever else its rows
hold is taken to be anything, so a region is left out only where no row of such a unit can remain.

Because : docs/proofs/regions.md
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from sfumato.engines.program import CellHistogram, CellHistograms, CellSums, KeyedSums, UnitFigures
from sfumato.engines.rows import (
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
    list_scans,
)
from sfumato.engines.values import (
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
    from collections.abc import Callable, Iterable, Mapping

    from sfumato.curator.catalog.regions import Codes, Regions
    from sfumato.engines.program import EngineProgram

Possible = frozenset[int | None] | None
"""The integers that a value can be, None among them where it can be missing; None alone for anything."""
Outcomes = frozenset[bool | None]
"""What a condition can come to: true, false or unknown."""

_MOST_NUMBERS = 64
"""The largest set of integers that is looked at, since a sum of n CASE could be any of 2^n. Where there are
more, the value is taken to be anything, so privacy does not depend on it."""
_ANY_OUTCOME: Outcomes = frozenset((True, False, None))
_MISSING: Possible = frozenset((None,))
# What these answer depends on the rows that satisfy `where`, and on nothing else of the snapshots.
_PROGRAMS = (CellSums, CellHistogram, CellHistograms, KeyedSums, UnitFigures)


def find_admitted_accounts(programs: Iterable[EngineProgram[Any]], regions: Regions) -> frozenset[str]:
    """Return the accounts of all regions whose units can have a row that one of the programs reads."""
    admitted: frozenset[str] = frozenset()
    for program in programs:
        if type(program) not in _PROGRAMS:
            return frozenset(regions.list_accounts())
        admitted |= _admit_rows(program.rows, program.where, regions)
    return admitted


@lru_cache(maxsize=512)  # the rounds of a fit read the same rows
def _admit_rows(rows: Rows, where: Predicate, regions: Regions) -> frozenset[str]:
    if regions.snapshot not in {scan.snapshot for scan in list_scans(rows)}:
        return frozenset(regions.list_accounts())
    # A unit without a row keeps a region that nobody can see, or will have one: it may be in any.
    if regions.pinned and _UnitFollower(regions, None).can_have_row(rows, where):
        return frozenset(regions.list_accounts())
    return frozenset(
        regions.name_account(codes)
        for codes in regions.list_codes()
        if _UnitFollower(regions, codes).can_have_row(rows, where)
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the columns of one source of rows; of those that are not listed, nothing."""

    columns: Mapping[str, Possible]
    absent: bool = False
    """Whether a left join has found no row, so that all columns are missing."""

    def find_column(self, name: str) -> Possible:
        return _MISSING if self.absent else self.columns.get(name)

    def widen(self) -> _Known:
        """Return what is known once a left join may have found no row."""
        return _Known({name: None if each is None else each | {None} for name, each in self.columns.items()})


Scope = dict[int, _Known]
"""What is known of each source of rows, by its number."""


@dataclass(frozen=True, slots=True)
class _UnitFollower:
    """A unit with given values in the columns of the regions."""

    regions: Regions
    codes: Codes | None
    """None for a unit that has no row where others have these values."""

    def can_have_row(self, rows: Rows, where: Predicate) -> bool:
        """Return whether a row of such a unit may satisfy the condition."""
        scope = self._follow(rows)
        return scope is not None and True in judge_condition(where, scope)

    def _follow(self, rows: Rows) -> Scope | None:
        """Return what is known of the unit's rows in a source, or None if it has no row there."""
        match rows:
            case Scan(snapshot, at):
                return self._follow_scan(at) if snapshot == self.regions.snapshot else {at: _Known({})}
            case UnitSizes(_, at):
                return {at: _Known({})}
            case Joined():
                return self._follow_join(rows)
            case PerUnit(inner, where, keys, figures, at):
                scope = self._follow_filter(inner, where)
                return None if scope is None else {at: _sum_up(keys, figures, scope)}
            case Bounded(inner, where):
                return self._follow_filter(inner, where)
            case Computed(inner, values, at):
                scope = self._follow(inner)
                return None if scope is None else {**scope, at: _Known(_name_values("v", values, scope))}
            case Ordered(inner, where, _, _, at):
                scope = self._follow_filter(inner, where)
                return None if scope is None else {**scope, at: _Known({})}

    def _follow_scan(self, at: int) -> Scope | None:
        """Return what the snapshot says in which others have their regions."""
        if self.codes is None:
            return None
        codes = zip(self.regions.columns, self.codes, strict=True)
        return {at: _Known({name: frozenset((code,)) for name, code in codes})}

    def _follow_filter(self, rows: Rows, where: Predicate) -> Scope | None:
        scope = self._follow(rows)
        return scope if scope is not None and True in judge_condition(where, scope) else None

    def _follow_join(self, rows: Joined) -> Scope | None:
        left = self._follow(rows.left)
        # Rows of a public table are no unit's, and nothing is known of them.
        right = self._follow(rows.right) if rows.same_unit else {}
        if left is None or (right is None and not rows.optional):
            return None
        if right is None:
            return {**left, **{at: _Known({}, absent=True) for at in _list_numbers(rows.right)}}
        if rows.optional:
            right = {at: known if known.absent else known.widen() for at, known in right.items()}
        return {**left, **right}


def _list_numbers(rows: Rows) -> list[int]:
    """Return the numbers under which columns of a source can be addressed."""
    match rows:
        case Scan(_, at) | UnitSizes(_, at) | PerUnit(at=at):
            return [at]
        case Joined(left, right):
            return _list_numbers(left) + _list_numbers(right)
        case Bounded(inner):
            return _list_numbers(inner)
        case Computed(inner, at=at) | Ordered(inner, at=at):
            return [*_list_numbers(inner), at]


def _sum_up(keys: tuple[Value, ...], figures: tuple[Figure, ...], scope: Scope) -> _Known:
    """Return what is known of one row for each unit and combination of keys."""
    known = _name_values("k", keys, scope)
    for i, figure in enumerate(figures):
        # A least or greatest value is that of some row, or missing where it is in all of them.
        if isinstance(figure, Smallest | Largest):
            known[f"f{i}"] = list_possible(figure.value, scope)
    return _Known(known)


def _name_values(letter: str, values: tuple[Value, ...], scope: Scope) -> dict[str, Possible]:
    return {f"{letter}{i}": list_possible(value, scope) for i, value in enumerate(values)}


# ---- values ------------------------------------------------------------------------------------------------


def list_possible(value: Value, scope: Scope) -> Possible:
    """Return the integers that a value can be. What is not looked into can be anything."""
    match value:
        case Column(at, name):
            return scope[at].find_column(name) if at in scope else None
        case Constant(number):
            return frozenset((number,))
        case Add(left, right):
            return _combine(left, right, scope, lambda one, other: one + other)
        case Multiply(left, right):
            return _combine(left, right, scope, lambda one, other: one * other)
        case Lookup(part, entries):
            places = list_possible(part, scope)
            return None if places is None else frozenset(_look_up(place, entries) for place in places)
        case Either(first, second):
            return _either(list_possible(first, scope), list_possible(second, scope))
        case Choose(condition, then, otherwise):
            return _choose(judge_condition(condition, scope), then, otherwise, scope)
    return None


def _combine(left: Value, right: Value, scope: Scope, of: Callable[[int, int], int]) -> Possible:
    one = list_possible(left, scope)
    # Nearly all values can be anything, and then the other side need not be looked into.
    other = None if one is None else list_possible(right, scope)
    if one is None or other is None:
        return None
    return _limit(frozenset(None if a is None or b is None else of(a, b) for a, b in product(one, other)))


def _limit(numbers: Possible) -> Possible:
    return None if numbers is None or len(numbers) > _MOST_NUMBERS else numbers


def _look_up(place: int | None, entries: tuple[int | None, ...]) -> int | None:
    return entries[place] if place is not None and 0 <= place < len(entries) else None


def _either(first: Possible, second: Possible) -> Possible:
    if first is None:
        return None
    if None not in first:
        return first
    return None if second is None else _limit((first - {None}) | second)


def _choose(outcomes: Outcomes, then: Value, otherwise: Value, scope: Scope) -> Possible:
    taken = [then] if True in outcomes else []
    taken += [otherwise] if outcomes & {False, None} else []
    found: Possible = frozenset()
    for each in taken:
        more = None if found is None else list_possible(each, scope)
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
            return _test(part, scope, lambda number: number is None)
        case AtLeast(part, bound):
            return _test(part, scope, lambda number: None if number is None else number >= bound)
        case AtMost(part, bound):
            return _test(part, scope, lambda number: None if number is None else number <= bound)
        case Among(part, values):
            return _test(part, scope, lambda number: None if number is None else number in values)
        case Same(left, right):
            return _compare(left, right, scope, lambda one, other: one == other)
        case Less(left, right):
            return _compare(left, right, scope, lambda one, other: one < other)
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


def _test(part: Value, scope: Scope, holds: Callable[[int | None], bool | None]) -> Outcomes:
    numbers = list_possible(part, scope)
    return _ANY_OUTCOME if numbers is None else frozenset(holds(number) for number in numbers)


def _compare(left: Value, right: Value, scope: Scope, holds: Callable[[int, int], bool]) -> Outcomes:
    one, other = list_possible(left, scope), list_possible(right, scope)
    # What is missing equals nothing, so one side that always is leaves the other without weight.
    if one is None or other is None:
        return frozenset((None,)) if _MISSING in (one, other) else _ANY_OUTCOME
    return frozenset(None if a is None or b is None else holds(a, b) for a, b in product(one, other))
