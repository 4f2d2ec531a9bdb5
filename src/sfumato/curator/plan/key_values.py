"""Which values keys can have together, by public facts: declarations, WHERE, and the rows of public tables.

The columns that keys are computed from have few values each. All combinations of them that WHERE and joins
allow are gone through, as if they were rows, and the keys are computed of each. A key over too many values is
left as it is declared. Nothing here reads rows of people.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.domains import FreeTexts
from sfumato.curator.lower.presence import list_declared
from sfumato.engines.kernels.column_facts import ColumnFacts
from sfumato.engines.kernels.held_rows import BatchColumns, RowBatch
from sfumato.engines.kernels.row_windows import RowWindow
from sfumato.engines.rows import Bounded, Computed, Joined, Ordered, Scan, list_scans
from sfumato.engines.value_ranges import ValueRanges
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Every,
    Greatest,
    Least,
    Less,
    Lookup,
    Missing,
    Multiply,
    Not,
    Same,
    Some,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.engines.rows import Rows
    from sfumato.engines.values import Predicate, Value

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

MOST_COMBINATIONS = 2**20
"""Combinations of column values that are gone through at most. It bounds time and memory."""
MOST_LISTED = 2**12
"""Values of one column that are all gone through. Of more, only those where something changes are."""
MOST_VALUES = 2**18
"""Values of one column that are gone through at most."""
MOST_OUTCOMES = 2**12
"""Values that are listed at most of a key whose columns have too many."""
MISSING = np.iinfo(np.int64).min
"""Stands for a missing value among combinations."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyValues:
    """Combinations of values of some keys."""

    keys: tuple[int, ...]
    """The places of the keys."""
    rows: Ints
    """One row for each combination, one column for each key; `MISSING` where a key is missing."""


def find_key_values(keys: Sequence[Value], source: RowSource) -> list[KeyValues]:
    """Return what keys can be, those together that depend on each other; nothing for what is not known."""
    found: list[KeyValues] = []
    world = _World.of(source)
    links = [world.list_blocks(part) for part in world.where]
    for group in _list_connected([world.list_blocks_joined(key) for key in keys], links):
        together = world.combine([keys[at] for at in group])
        if together is not None:
            found.append(KeyValues(tuple(group), together))
            continue
        for at in group:
            alone = world.combine([keys[at]]) if len(group) > 1 else None
            outcomes = list_outcomes(keys[at])
            if alone is None and outcomes is not None:
                listed = [MISSING if each is None else each for each in outcomes]
                alone = np.array(sorted(listed), dtype=np.int64)[:, None]
            if alone is not None:
                found.append(KeyValues((at,), alone))
    return found


def _list_connected(
    parts: Sequence[frozenset[Any] | None], links: Sequence[frozenset[Any] | None]
) -> Iterator[list[int]]:
    """Yield the places of parts that share something or are linked, directly or through others."""
    waiting = list(range(len(parts)))
    while waiting:
        group = [waiting.pop(0)]
        shared = parts[group[0]] or frozenset()
        while True:
            near = shared.union(*(link for link in links if link and link & shared))
            more = [at for at in waiting if near & (parts[at] or frozenset())]
            if not more:
                break
            group += more
            waiting = [at for at in waiting if at not in more]
            shared = shared.union(*(parts[at] or frozenset() for at in more))
        yield sorted(group)


# ---- columns and their values ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """Columns whose values are listed together: one of people, or all that are used of a public table."""

    at: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class _PublicJoin:
    """A join with a public table: what is equal, and whether rows without a partner are kept."""

    right: _Block
    on: tuple[tuple[Value, Value], ...]
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    """The columns of a relation, what each can be, and which public rows they are joined with."""

    tables: Mapping[int, Table]
    present: frozenset[Any]
    """Columns that are never missing."""
    joins: tuple[_PublicJoin, ...]
    where: tuple[Predicate, ...]

    @classmethod
    def of(cls, source: RowSource) -> _World:
        named = {table.snapshot_name: table for table in source.tables}
        scans = [scan for scan in list_scans(source.rows) if isinstance(scan, Scan)]
        tables = {scan.at: named[scan.snapshot] for scan in scans}
        joins = tuple(
            _PublicJoin(_Block(join.right.at), join.on, join.optional)
            for join in _list_joins(source.rows)
            if isinstance(join.right, Scan) and tables[join.right.at].combinations is not None
        )
        where = source.where.parts if isinstance(source.where, Every) else (source.where,)
        computable = tuple(part for part in where if _is_computable(part))
        return cls(tables, list_declared(source), joins, computable)

    def list_blocks(self, *values: Any) -> frozenset[_Block] | None:
        """Return what values and conditions look at; None where what that can be is not known."""
        columns = list(_list_columns(values))
        if not _is_computable(values) or any(self._find_table(each) is None for each in columns):
            return None
        return frozenset(map(self._block_of, columns))

    def combine(self, keys: Sequence[Value]) -> Ints | None:
        """Return the different combinations of these keys; None where too many would have to be tried."""
        asked = self.list_blocks(*keys)
        if asked is None:
            return None
        joined = self.list_blocks_joined(*keys) or asked
        # The most that is known first; what it takes too many rows to know is left out.
        for blocks in dict.fromkeys((self._with_conditions(joined), joined, asked)):
            # Values that 64 bits may not hold are left to engines.
            with suppress(OverflowError):
                rows = self._list_rows(blocks, keys)
                if rows is not None:
                    window = self._window(rows)
                    return _list_different([_read(window, key) for key in keys])
        return None

    def _find_table(self, column: Column) -> Table | None:
        table = self.tables.get(column.at)
        if table is None or column.name not in table.columns:
            return None
        return None if isinstance(table.columns[column.name].domain, FreeTexts) else table

    def _block_of(self, column: Column) -> _Block:
        listed = self.tables[column.at].combinations is not None
        return _Block(column.at) if listed else _Block(column.at, column.name)

    def list_blocks_joined(self, *values: Any) -> frozenset[_Block] | None:
        """Return what values look at, and what public tables are joined on that say more about it."""
        blocks = self.list_blocks(*values)
        while blocks is not None:
            wider = blocks
            for join in self.joins:
                needed = self.list_blocks(join.on) or frozenset()
                # A LEFT JOIN keeps all rows, so it says nothing about the left side.
                if join.right in blocks or (needed & blocks and not join.optional):
                    wider |= needed
            if wider == blocks:
                break
            blocks = wider
        return blocks

    def _with_conditions(self, blocks: frozenset[_Block]) -> frozenset[_Block]:
        """Return blocks with all that conditions on them look at besides."""
        needed = [found for part in self.where if (found := self._find_needed(part))]
        while True:
            wider = blocks.union(*(each for each in needed if each & blocks))
            if wider == blocks:
                return blocks
            blocks = wider

    # ---- rows that may exist ----

    def _list_rows(self, blocks: frozenset[_Block], keys: Sequence[Value]) -> _Rows | None:
        """Return all combinations of column values that conditions and joins allow; None for too many."""
        tests: list[tuple[Predicate | _PublicJoin, frozenset[_Block]]] = [
            (test, needed)
            for test in (*self.where, *self.joins)
            if (needed := self._find_needed(test)) is not None and needed <= blocks
        ]
        used = (*keys, *(test.on if isinstance(test, _PublicJoin) else test for test, _ in tests))
        listed = {block: own for block in blocks if (own := self._list_values(block, used)) is not None}
        if len(listed) < len(blocks):
            return None
        found, done = _Rows(1, {}), frozenset[_Block]()
        # The smallest first, so that conditions leave few rows to be combined with the next.
        for block in sorted(listed, key=lambda each: (listed[each].count, each.at, each.name)):
            if found.count * listed[block].count > MOST_COMBINATIONS:
                return None
            found, before, done = found.combine(listed[block]), done, done | {block}
            window = self._window(found)
            kept = np.ones(found.count, dtype=np.bool_)
            for test, needed in tests:
                if needed <= done and (not needed <= before or not before):
                    kept &= (
                        self._match(window, test) if isinstance(test, _PublicJoin) else window.condition(test)
                    )
            found = found.take(kept)
        return found

    def _find_needed(self, test: Predicate | _PublicJoin) -> frozenset[_Block] | None:
        """Return what a condition or join looks at; None where it cannot be tried on combinations."""
        if isinstance(test, _PublicJoin):
            return self.list_blocks(test.on)
        needed = self.list_blocks(test)
        private = [each for each in _list_columns(test) if self._block_of(each).name] if needed else []
        return needed if all(self._list_turning(each, test) is not None for each in private) else None

    def _match(self, window: RowWindow, join: _PublicJoin) -> Mask:
        """Return where a row has the partner that stands beside it, or none where it finds none."""
        equal = np.ones(window.count, dtype=np.bool_)
        for left, right in join.on:
            one, other = _read(window, left), _read(window, right)
            equal &= (one == other) & (one != MISSING)
        if not join.optional:
            return equal
        bare: Mask = np.logical_and.reduce([_read(window, right) == MISSING for _, right in join.on])
        if len(join.on) == 1:
            ((left, right),) = join.on
            one, other = _read(window, left), _read(window, right)
            bare &= ~np.isin(one, other[other != MISSING])
        return equal | bare

    def _list_values(self, block: _Block, used: Any) -> _Rows | None:
        columns = sorted({each for each in _list_columns(used) if self._block_of(each) == block}, key=_name)
        table = self.tables[block.at]
        if not block.name:
            return self._list_public(block, columns, table)
        (column,) = columns
        values = self._list_turning(column, used)
        if values is None:
            return None
        return _Rows(values.size, {column: values}).with_missing(column not in self.present)

    def _list_turning(self, column: Column, used: Any) -> Ints | None:
        """Return the values of a column, of many only those where something that is used changes."""
        domain = self.tables[column.at].columns[column.name].domain
        if isinstance(domain, FreeTexts):
            raise AssertionError(column)
        turns = None if domain.size <= MOST_LISTED else _list_turns(column, used, domain.low, domain.high)
        if turns is not None:
            return turns if turns.size <= MOST_COMBINATIONS else None
        if domain.size <= MOST_VALUES:
            return np.arange(domain.low, domain.high + 1)
        return self._list_allowed(column, domain.low, domain.high)

    def _list_allowed(self, column: Column, low: int, high: int) -> Ints | None:
        """Return the values that conditions on one column alone allow; None for too many."""
        alone = tuple(part for part in self.where if set(_list_columns(part)) == {column})
        turns = _list_turns(column, alone, low, high) if alone else None
        if turns is None or turns.size > MOST_COMBINATIONS:
            return None
        window = self._window(_Rows(turns.size, {column: turns}))
        kept = np.logical_and.reduce([window.condition(part) for part in alone])
        sizes = np.where(kept, np.append(turns[1:], high + 1) - turns, 0)
        if sizes.sum() > MOST_VALUES:
            return None
        # The numbers from each turn up to the next, one range after the other.
        starts = np.cumsum(sizes) - sizes
        return np.repeat(turns - starts, sizes) + np.arange(sizes.sum())

    def _list_public(self, block: _Block, columns: Sequence[Column], table: Table) -> _Rows:
        names, rows = list(table.columns), table.combinations or ()
        held = [name for name in names if not isinstance(table.columns[name].domain, FreeTexts)]
        places = [held.index(column.name) for column in columns]
        different = sorted({tuple(row[at] for at in places) for row in rows}, key=repr)
        found = {
            column: np.array([MISSING if row[at] is None else row[at] for row in different], dtype=np.int64)
            for at, column in enumerate(columns)
        }
        optional = any(join.optional for join in self.joins if join.right == block)
        return _Rows(len(different), found).with_missing(optional)

    def _window(self, rows: _Rows) -> RowWindow:
        ranges, held = {}, {}
        for column, values in rows.columns.items():
            missing = values == MISSING
            held[column] = np.where(missing, 0, values), missing if missing.any() else None
            ranges[column] = (
                min(0, int(held[column][0].min(initial=0))),
                max(0, int(held[column][0].max(initial=0))),
            )
        facts = ColumnFacts(ValueRanges(ranges), missing=True)
        return RowWindow(facts, BatchColumns(RowBatch(rows.count, held), {}), slice(0, rows.count))


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows that may exist, by their columns; `MISSING` where a value is missing."""

    count: int
    columns: Mapping[Column, Ints]

    def combine(self, other: _Rows) -> _Rows:
        """Return every pair of a row of this and a row of the other."""
        left = {column: np.repeat(values, other.count) for column, values in self.columns.items()}
        right = {column: np.tile(values, self.count) for column, values in other.columns.items()}
        return _Rows(self.count * other.count, left | right)

    def take(self, kept: Mask) -> _Rows:
        """Return some of the rows."""
        return _Rows(int(kept.sum()), {column: values[kept] for column, values in self.columns.items()})

    def with_missing(self, wanted: bool) -> _Rows:
        """Return the rows with one more, of missing values, if that is wanted."""
        if not wanted:
            return self
        more = {column: np.append(values, MISSING) for column, values in self.columns.items()}
        return _Rows(self.count + 1, more)


def _list_different(columns: Sequence[Ints]) -> Ints:
    """Return the different rows of these columns, sorted."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        # Renumbered after each column, so that no code is larger than the square of the number of rows.
        codes = np.unique(codes * max(1, values.size) + places.reshape(-1), return_inverse=True)[1].reshape(
            -1
        )
    first = np.unique(codes, return_index=True)[1]
    return np.stack([column[first] for column in columns], axis=1)


def _read(window: RowWindow, value: Value) -> Ints:
    """Return a value of every row, `MISSING` where it is missing."""
    missing = window.missing(value)
    found = window.integers(value)
    return found if missing is None else np.where(missing, MISSING, found)


def _list_joins(rows: Rows) -> Iterator[Joined]:
    match rows:
        case Joined():
            yield rows
            yield from _list_joins(rows.left)
            yield from _list_joins(rows.right)
        case Bounded(inner) | Computed(inner) | Ordered(inner):
            yield from _list_joins(inner)


# ---- values and conditions ---------------------------------------------------------------------------------

_COMPUTED = (Column, Constant, Add, Multiply, Divide, Least, Greatest, Either, Lookup, Choose, Calendar)
_DECIDED = (AtLeast, AtMost, Among, Less, Same, Missing, Not, Every, Some)
_KNOWN = frozenset({*_COMPUTED, *_DECIDED})


def _walk(node: Any) -> Iterator[Any]:
    """Yield the parts of values and conditions, each once."""
    waiting, seen = [node], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, tuple):
            waiting += part
        elif is_dataclass(part):
            yield part
            waiting += _parts_of(part)


def _parts_of(node: Any) -> list[Any]:
    """Return what a value or condition is made of."""
    # The entries of a list and the numbers of Among are integers, of which there may be many.
    if isinstance(node, Lookup | Among):
        return [node.part]
    own = (getattr(node, each.name) for each in fields(node))
    return [each for each in own if isinstance(each, tuple) or is_dataclass(each)]


def _is_computable(node: Any) -> bool:
    return all(type(part) in _KNOWN for part in _walk(node))


def _list_columns(node: Any) -> Iterator[Column]:
    return (part for part in _walk(node) if isinstance(part, Column))


def _name(column: Column) -> tuple[int, str]:
    return column.at, column.name


def _list_turns(column: Column, used: Any, low: int, high: int) -> Ints | None:
    """Return numbers between which nothing that is used changes; None where a column is used in other ways.

    Comparisons with constants and whole quotients by constants tell where they change.
    """
    turns, waiting = [np.array([low])], [used]
    while waiting:
        part = waiting.pop()
        if part == column:
            return None
        found = _turns_of(part, column, low, high)
        if found is not None:
            turns.append(found)
        elif isinstance(part, tuple):
            waiting += part
        else:
            waiting += _parts_of(part)
    every = np.unique(np.concatenate(turns))
    return every[(every >= low) & (every <= high)]


def _turns_of(part: Any, column: Column, low: int, high: int) -> Ints | None:
    """Return where one value or condition changes; None where its parts have to say it."""
    line = None if isinstance(part, tuple) else _find_line(_first_part(part), column)
    if line is None:
        return None
    match part:
        case Missing():
            return np.zeros(0, dtype=np.int64)
        case AtLeast(_, bound):
            return _cross(line, [bound])
        case AtMost(_, bound):
            return _cross(line, [bound + 1])
        case Among(_, values) if len(values) <= MOST_LISTED:
            return _cross(line, [end for value in values for end in (value, value + 1)])
        case Divide(_, Constant(int(number))) if number > 0:
            first, last = sorted(line[0] * end + line[1] for end in (low, high))
            quotients = range(first // number, last // number + 2)
            if len(quotients) <= MOST_VALUES and max(abs(first), abs(last)) < 2**62:
                return _cross(line, number * np.array(quotients, dtype=np.int64))
    return None


def _first_part(node: Any) -> Any:
    return getattr(node, "part", None) or getattr(node, "left", None)


def _find_line(value: Any, column: Column) -> tuple[int, int] | None:
    """Return factor and constant of a value that is a multiple of a column and a constant; else None."""
    match value:
        case Column() if value == column:
            return 1, 0
        case Add(inner, Constant(int(number))):
            line = _find_line(inner, column)
            return None if line is None else (line[0], line[1] + number)
        case Multiply(inner, Constant(int(number))) if number:
            line = _find_line(inner, column)
            return None if line is None else (line[0] * number, line[1] * number)
    return None


def _cross(line: tuple[int, int], bounds: Any) -> Ints:
    """Return where a line first reaches each bound, and the numbers next to it: a falling one turns there."""
    factor, constant = line
    at = -((constant - np.asarray(bounds, dtype=np.int64)) // factor)
    return np.concatenate([at - 1, at, at + 1])


def list_outcomes(value: Value) -> frozenset[int | None] | None:
    """Return all that a value can be, as its form shows; None where that does not show."""
    found: frozenset[int | None] | None = None
    match value:
        case Constant(number):
            return frozenset({number})
        case Lookup(_, entries):
            found = frozenset({*entries, None})
        case Choose(_, one, other) | Either(one, other):
            pair = list_outcomes(one), list_outcomes(other)
            found = None if pair[0] is None or pair[1] is None else pair[0] | pair[1]
        case Add(inner, Constant(int(number))):
            found = _map_outcomes(inner, 1, number)
        case Multiply(inner, Constant(int(number))):
            found = _map_outcomes(inner, number, 0)
    return found if found is not None and len(found) <= MOST_OUTCOMES else None


def _map_outcomes(inner: Value, factor: int, constant: int) -> frozenset[int | None] | None:
    found = list_outcomes(inner)
    if found is None:
        return None
    return frozenset(None if each is None else each * factor + constant for each in found)
