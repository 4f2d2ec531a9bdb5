"""What the interval of the noise does not cover: only what applies to the question at hand.

Each function that returns a `Caveat` has a test that measures what it says (tests/unit/lab/test_caveats.py).
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from sfumato.curator.catalog.columns import DateColumn, ListedColumn, NumberColumn
from sfumato.curator.catalog.domains import FreeTexts
from sfumato.curator.lower.lowered_value import multiply_by_integer
from sfumato.curator.question.relation import Name
from sfumato.engines.program import CountedUnits
from sfumato.engines.rows import Scan, UnitSizes, list_scans
from sfumato.engines.used_columns import find_used
from sfumato.engines.value_ranges import ValueRanges
from sfumato.engines.values import WIDEST, Column, Divide, Every, Greatest, Least, Quotient
from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.steps import QuestionStep


class Caveat(str):
    """One sentence on what an interval does not cover. Only the functions of this module make one."""

    __slots__ = ()


# ---- sentences ---------------------------------------------------------------------------------------------


def truncated(table: Table, *, named: bool = False) -> Caveat:
    """Say how many rows of a unit are kept in a snapshot."""
    unit, whose = table.unit, f" of '{table.name}'" if named else ""
    if unit.max_rows == 1:
        return Caveat(f"Only one row per {unit.column}{whose} is used")
    return Caveat(f"At most {unit.max_rows} rows per {unit.column}{whose} are used")


def limited(unit: str | None, groups: int | None, rows: int | None, *, grouped: bool = True) -> Caveat:
    """Say in how many groups a unit counts, and with how many rows in each; None is as many as it has."""
    many_groups = f"{groups} group{'' if groups == 1 else 's'}"
    many_rows = f"{rows} row{'' if rows == 1 else 's'}"
    if rows is None:
        said, several = many_groups, groups != 1
    elif groups is None:
        said, several = f"{many_rows}{' in each group' if grouped else ''}", rows != 1
    else:
        said, several = f"{many_groups} and {many_rows} in {'it' if groups == 1 else 'each'}", True
    return Caveat(f"Of each {unit} at most {said} {'are' if several else 'is'} used")


def clamped(what: str) -> Caveat:
    """Say that numbers or dates are clipped to their declared bounds."""
    return Caveat(f"{what} outside their declared bounds count as the nearer bound")


def stepped() -> Caveat:
    """Say that numbers without a declared step are rounded."""
    return Caveat(
        "Numbers count in steps of less than a millionth of their larger bound, unless a step was declared"
    )


def skipped() -> Caveat:
    """Say that an extreme takes its other arguments where a quotient has no value."""
    return Caveat("A quotient by 0 is NULL, which LEAST and GREATEST skip: CASE can leave such rows out")


def undeclared() -> Caveat:
    """Say that values outside a declared list are not told apart."""
    return Caveat("Values that were not declared count as missing")


def replaced() -> Caveat:
    """Say that missing values count as a declared one."""
    return Caveat("Missing values count as the value that was declared for them")


def left_out_keys() -> Caveat:
    """Say that rows without a key are in no group."""
    return Caveat("Rows whose key is missing are in none of the groups")


def hidden_keys() -> Caveat:
    """Say that discovered groups need enough units."""
    return Caveat("Groups with few units are not shown")


def lucky() -> Caveat:
    """Say that groups which are chosen by noisy numbers look larger than they are."""
    return Caveat("Groups were chosen by noisy numbers, so luck may have favoured those that are shown")


def clipped_units(unit: str | None, limit: Fraction, *, grouped: bool) -> Caveat:
    """Say what a unit adds to a sum, or to that of each group, at most."""
    each = " in each group" if grouped else ""
    return Caveat(f"What one {unit} adds is clipped to {format_number(limit, 12)}{each}")


def clipped_values(
    name: str, low: Fraction, high: Fraction, outside: str, epsilon: Fraction, entry: int
) -> Caveat:
    """Name the ends that clip="auto" chose for the values of a column, and the units outside."""
    chosen = f"chosen privately (ε = {format_number(epsilon, 6)}, ledger entry {entry})"
    return Caveat(
        f"Values of {name} are clipped to {show_ends(low, high)}, {chosen}; units outside: {outside}"
    )


def hidden_values(epsilon: Fraction, entry: int) -> Caveat:
    """Explain that clip="auto" found no ends, because no count of units stands out of the noise."""
    return Caveat(
        f"Values are not clipped: noise hides them all at ε = {format_number(epsilon, 6)} "
        f"(ledger entry {entry})"
    )


def estimated_bias(bias: str) -> Caveat:
    """Say what the picked bounds of a tuned question leave out, as noisy counts estimate it."""
    return Caveat(f"Estimated bias: {bias}")


def largest_degree(most: int) -> Caveat:
    """Say that degrees above the bound are counted in the last cell, where edges are protected."""
    return Caveat(f"A node with more than {most} edges counts as one with {most}")


def dropped_edges(most: int) -> Caveat:
    """Say how many edges of a node are kept, where nodes are protected."""
    return Caveat(f"At most {most} edges per node are used; the others count for neither end")


def dropped_nodes() -> Caveat:
    """Say that a node without a kept edge has no degree."""
    return Caveat("A node none of whose edges are used is not counted")


def no_possible_row() -> Caveat:
    """Say why no row can satisfy a condition beyond the declared bounds."""
    beyond = "values beyond their declared bounds count as the nearer bound"
    return Caveat(f"No data was read: {beyond}, and so satisfy no condition beyond it")


def late_rows() -> Caveat:
    """Say that a tick of a stream is read once."""
    return Caveat("Rows that arrive after their tick was released are not counted")


def limited_ticks(unit: str, ticks: int, rows: int, apart: int) -> Caveat:
    """Say in how many ticks of a stream a unit counts, with how many rows, and how far apart."""
    many = f"{ticks} tick{'s' * (ticks > 1)} per {unit} with {rows} row{'s' * (rows > 1)} each"
    distance = f", {apart} ticks apart" if apart > 1 else ""
    return Caveat(f"At most {many} count{distance}")


def limited_visits(unit: str, times: int) -> Caveat:
    """Say how often someone can come again in a stream of people who leave."""
    return Caveat(f"Each {unit} comes at most {times} time{'s' * (times > 1)}")


def left_out_groups(hidden: int) -> Caveat:
    """Count the groups that SQL over an answer does not read, because their counts are not significant."""
    groups, verb = ("1 group", "is") if hidden == 1 else (f"{hidden:,} groups", "are")
    return Caveat(f"{groups} without a significant count {verb} left out as if empty: r.all_groups().sql(…)")


def without_interval(name: str, reason: str) -> Caveat:
    """Explain why a column of SQL over an answer has no interval."""
    return Caveat(f"No interval for {name}: {reason}")


def without_intervals() -> Caveat:
    """Explain that no column has an interval if sfumato does not follow how the SQL computes them."""
    return Caveat("No intervals: how this SQL computes its columns is not followed")


def chosen_rows() -> Caveat:
    """Explain what intervals hold for if noise decides which rows of an answer are shown."""
    return Caveat("Noise decides which rows are shown: intervals hold for all rows together")


def show_ends(low: Fraction, high: Fraction) -> str:
    """Return two ends of a clip as text."""
    return f"{format_number(low, 6)} to {format_number(high, 6)}".replace("-", "−")


# ---- which of them apply -----------------------------------------------------------------------------------


def describe_truncation(*tables: Table) -> tuple[Caveat, ...]:
    """Return what bounding a unit's rows leaves out of each table; nothing where each row is a unit."""
    named = {each.name: each for each in tables if not each.is_public}
    about = [each for each in named.values() if each.unit.column is not None]
    return tuple(truncated(each, named=len(about) > 1) for each in about)


def list_caveats(resolved: ResolvedQuestion, steps: Iterable[QuestionStep]) -> Iterator[Caveat]:
    """Yield what intervals do not cover, in the words of the table whose units are protected."""
    question, steps = resolved.question, tuple(steps)
    used = list(_used_columns(resolved, steps))
    left_out = describe_truncation(resolved.table, *resolved.source.tables)
    yield from left_out if _may_be_truncated(resolved) else left_out[1:]
    yield from _describe_limits(resolved)
    yield from _describe_columns(used)
    if _replaces_missing(resolved):
        yield replaced()
    if any(each.step != 1 for each in resolved.summands) and any(map(_is_rounded, used)):
        yield stepped()
    if any(_skips_quotients(step.program, _find_ranges(resolved, step)) for step in steps):
        yield skipped()
    if any(key.leaves_out for key in resolved.keys):
        yield left_out_keys()
    if resolved.discovers_keys:
        yield hidden_keys()
    if question.chooses_groups:
        yield lucky()


def _describe_limits(resolved: ResolvedQuestion) -> Iterator[Caveat]:
    """Yield the bounds that were asked for, where a unit can have more."""
    asked = resolved.question.bounds
    if asked is None or resolved.source.max_rows == 1:
        return
    most = resolved.unbounded_contribution
    groups = asked.groups if asked.groups < most.cells else None
    # Where the rows are totals of units, a unit has one in each group, and all of its own rows are in it.
    rows = asked.rows if asked.rows < most.each else None
    if groups is not None or rows is not None:
        yield limited(resolved.table.unit.column, groups, rows, grouped=bool(resolved.question.keys))


def _describe_columns(used: Iterable[DeclaredColumn]) -> Iterator[Caveat]:
    """Yield how declared columns change values that do not fit."""
    kinds = {type(each) for each in used}
    if kinds & {NumberColumn, DateColumn}:
        both = kinds >= {NumberColumn, DateColumn}
        yield clamped("Numbers and dates" if both else "Numbers" if NumberColumn in kinds else "Dates")
    if ListedColumn in kinds:
        yield undeclared()


def _replaces_missing(resolved: ResolvedQuestion) -> bool:
    """Return whether a column that the question names has a value for missing ones.

    A program may not read it: where nothing is missing, COUNT(tip) is the number of rows.
    """
    named = {each.column.casefold() for each in _list_names(resolved.question)}
    columns = (pair for table in resolved.source.tables for pair in table.columns.items())
    return any(
        name.casefold() in named and getattr(column, "missing", None) is not None for name, column in columns
    )


def _list_names(node: object) -> Iterator[Name]:
    if isinstance(node, Name):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from _list_names(part)
    elif is_dataclass(node):
        for each in fields(node):
            yield from _list_names(getattr(node, each.name))


def _may_be_truncated(resolved: ResolvedQuestion) -> bool:
    """Return whether rows that were not kept could matter: the number of all units has them all."""
    whole = resolved.source.where == Every() and isinstance(resolved.source.rows, Scan)
    units = all(each.term == CountedUnits() for each in resolved.summands) and not resolved.choices
    everyone = whole and units and not resolved.keys
    return not everyone and not isinstance(resolved.source.rows, UnitSizes)


def _skips_quotients(node: object, ranges: ValueRanges, inside: bool = False) -> bool:
    """Return whether an argument of LEAST or GREATEST has a quotient or remainder by what may be 0."""
    if isinstance(node, tuple):
        return any(_skips_quotients(part, ranges, inside) for part in node)
    if not is_dataclass(node):
        return False
    if inside and isinstance(node, Quotient | Divide) and _may_divide_by_zero(node, ranges):
        return True
    inside = inside or (isinstance(node, Least | Greatest) and node.skips and not _is_absolute(node))
    return any(_skips_quotients(getattr(node, each.name), ranges, inside) for each in fields(node))


def _may_divide_by_zero(node: Quotient | Divide, ranges: ValueRanges) -> bool:
    if isinstance(node, Quotient):
        return not node.nonzero
    low, high = ranges.find(node.right)
    return low <= 0 <= high


def _is_absolute(node: Least | Greatest) -> bool:
    """Return whether this is ABS, both arguments of which are missing together."""
    return node.right == multiply_by_integer(node.left, -1)


def _find_ranges(resolved: ResolvedQuestion, step: QuestionStep) -> ValueRanges:
    """Return the ranges of values over declared columns; nothing is known of computed columns."""
    tables = {table.snapshot_name: table for table in resolved.source.tables}
    columns = {
        Column(scan.at, name): (column.domain.low, column.domain.high)
        for scan in list_scans(step.program.rows)
        if isinstance(scan, Scan)
        for name, column in tables[scan.snapshot].columns.items()
        if not isinstance(column.domain, FreeTexts)
    }
    return ValueRanges(columns, unknown=(-WIDEST, WIDEST))


def _is_rounded(column: DeclaredColumn) -> bool:
    return isinstance(column, NumberColumn) and not column.declared_step


def _used_columns(resolved: ResolvedQuestion, steps: Iterable[QuestionStep]) -> Iterator[DeclaredColumn]:
    """Yield the declared columns that the question looks at."""
    tables = {table.snapshot_name: table for table in resolved.source.tables}
    for program in (step.program for step in steps):
        found = find_used(program, lambda _: False).columns
        for scan in list_scans(program.rows):
            columns = tables[scan.snapshot].columns if isinstance(scan, Scan) else {}
            yield from (columns[name] for name in found.get(scan.at, ()) if name in columns)
