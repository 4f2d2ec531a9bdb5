"""How much one unit can make an engine carry and compute, from public facts alone, and the limits on it.

Whether a question fails, and how long it takes, are outputs too. So every plan has an upper bound on what a
unit can add to them, and a plan above the published limits is refused before anything is charged.

Because : docs/proofs/work.md
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.domains import FreeTexts
from sfumato.curator.lower.joins import count_partners
from sfumato.engines.ingest import LONGEST_TEXT
from sfumato.engines.like import list_runs, parse_like
from sfumato.engines.program import CellHistogram, CellHistograms, CellKey, CellSums, KeyedSums, UnitFigures
from sfumato.engines.rows import Bounded, Computed, Joined, Ordered, PerUnit, Scan, UnitSizes, list_scans
from sfumato.engines.used_columns import BLOCK, DIGEST, TESTED, find_used
from sfumato.engines.values import (
    Among,
    Column,
    Constant,
    Folded,
    Greatest,
    Least,
    Length,
    Lookup,
    Matches,
    Power,
    RealFunction,
    Spelled,
    UnitBlock,
    UnitDigest,
    Whole,
    flatten_extremes,
)
from sfumato.errors import PolicyError
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.curator.catalog.catalog import Table
    from sfumato.engines.like import Piece
    from sfumato.engines.program import EngineProgram
    from sfumato.engines.rows import Rows
    from sfumato.engines.used_columns import TextTest, UsedColumns

MOST_BYTES = 8 * 2**20
"""Bytes of one unit that an engine may carry."""
MOST_OPERATIONS = 600_000
"""Operations of one unit: at most about 20 ms of DuckDB's or PostgreSQL's time (benchmarks/work.py)."""
MOST_SCANS = 1_000
"""Reads of a table in one plan, all steps together."""
MOST_NUMBERS = 4_000_000
"""Sums that one plan may ask for, cells times terms."""

_WIDTH = 16
"""Bytes of an integer, which is 128 bits wide at most."""
_TEXT_WIDTH = 4 * LONGEST_TEXT
"""Bytes of a text: UTF-8 has at most four a character."""
_LOOK = LONGEST_TEXT // 10
"""Operations for going through a text once."""
_FOLD = 3 * LONGEST_TEXT // 10
"""Operations for changing the case of a text."""
_COMPARED = 28
"""Bytes of a pattern that are compared with a text in the time of an operation, one after the other."""
_TRIED = 4
"""Operations for trying one run of letters at one place, where an engine has no search of its own."""
_CURVE = 10
"""Operations for a root, a logarithm, an exponential or a power."""
_LISTED = 64
"""The most constants that are compared one by one; longer lists are hashed."""
_LEAVES = frozenset({Column, Constant, UnitBlock, UnitDigest})


@dataclass(frozen=True, slots=True)
class Work:
    """Upper bounds on what a plan makes an engine do, whoever is in the data."""

    rows: int
    """Rows of one unit, at the step where it has most."""
    bytes: int
    """Bytes of one unit that are carried from one step to the next, all steps together."""
    operations: int
    """Parts of expressions that are computed for one unit, each once for each of its rows."""
    scans: int
    """Reads of a table."""
    numbers: int
    """Numbers in the exact answer that depend on no row: cells times terms."""

    def find_refusal(self) -> PolicyError | None:
        """Return the refusal of what one unit could make too large or too slow, if it is."""
        limits = {
            "bytes of one unit to carry": (self.bytes, MOST_BYTES),
            "operations on one unit's rows": (self.operations, MOST_OPERATIONS),
            "reads of a table": (self.scans, MOST_SCANS),
            "numbers in the answer": (self.numbers, MOST_NUMBERS),
        }
        for what, (asked, most) in limits.items():
            if asked > most:
                return PolicyError(
                    "SF-Q158",
                    f"This question may need too many {what}.",
                    asked=f"up to {asked:,}",
                    most=f"{most:,}",
                    rows_of_a_unit=f"up to {self.rows:,}",
                    try_="fewer joins, GROUP BY the unit in a subquery before a join, or fewer conditions",
                )
        return None


def bound_work(programs: Iterable[EngineProgram[Any]], tables: Iterable[Table]) -> Work:
    """Return the bounds of all programs together. `tables` are those that they read."""
    known = {table.snapshot_name: table for table in tables}
    bounds = [_bound_program(program, known) for program in programs]
    return Work(
        max((each.rows for each in bounds), default=0),
        sum(each.bytes for each in bounds),
        sum(each.operations for each in bounds),
        sum(each.scans for each in bounds),
        sum(each.numbers for each in bounds),
    )


def _bound_program(program: EngineProgram[Any], tables: Mapping[str, Table]) -> Work:
    scans = list_scans(program.rows)
    at = {scan.at: tables[scan.snapshot] for scan in scans if isinstance(scan, Scan)}
    used = find_used(program, lambda column: _holds_text(column, at))
    tally = _Tally(tables, at, used)
    rows = tally.add_rows(program.rows)
    parts = tally.count_parts((program.where, *_asked_values(program)))
    tally.add(rows, tally.width(program.rows), parts)
    cells = program.cells if isinstance(program, CellSums | CellHistogram | CellHistograms) else 1
    terms = len(program.terms) if isinstance(program, CellSums) else 1
    return Work(tally.most, tally.bytes, tally.operations, len(scans), cells * terms)


def _asked_values(program: EngineProgram[Any]) -> tuple[Any, ...]:
    """Return what a program computes of every row that it uses."""
    match program:
        case CellSums(keys=keys, terms=terms) | KeyedSums(keys=keys, terms=terms):
            return (*keys, *terms)
        case CellHistogram(keys=keys, value=value):
            return (*keys, value)
        case CellHistograms(keys=keys, values=values):
            return (*keys, *values)
        case UnitFigures(figures=figures):
            return figures
    raise TypeError(type(program).__name__)


def _holds_text(column: Column, at: Mapping[int, Table]) -> bool:
    promise = at[column.at].columns.get(column.name)
    return promise is not None and isinstance(promise.domain, FreeTexts)


def rows_per_unit(table: Table) -> int:
    """Return how many rows of a table one unit can add or change; in a public one there are none."""
    protects = table.protects
    if isinstance(protects, Unit):
        return protects.max_rows
    # A node or an edge moves the degrees of those that it is or was linked with.
    return protects.max_degree + 1


@dataclass(slots=True)
class _Tally:
    """Adds up one unit's rows, bytes and operations, from the scans upwards."""

    tables: Mapping[str, Table]
    at: Mapping[int, Table]
    used: UsedColumns
    most: int = 0
    bytes: int = 0
    operations: int = 0
    _sizes: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """Parts by identity, each with what it is, so that no identity is used again."""

    def add(self, rows: int, width: int, parts: int) -> None:
        self.most = max(self.most, rows)
        self.bytes += rows * width
        self.operations += rows * (1 + parts)

    # ---- rows ----

    def add_rows(self, rows: Rows) -> int:
        """Count what a source of rows costs, and return how many rows of it one unit can have."""
        match rows:
            case Scan(snapshot, at):
                return self._add_scan(rows_per_unit(self.tables[snapshot]), at)
            case UnitSizes():
                self.add(1, 0, 1)
                return 1
            case Joined():
                return self._add_join(rows)
            case PerUnit(inner):
                found = self.add_rows(inner)
                self.add(found, self.width(inner), self.count_parts((rows.where, *rows.keys, *rows.figures)))
                return found if rows.keys else min(found, 1)
            case Bounded(inner):
                found = self.add_rows(inner)
                # Twice: rows are ranked within their cell, then cells among each other.
                sorting = 2 * found.bit_length()
                self.add(found, self.width(inner), self.count_parts((rows.where, *rows.cell)) + sorting)
                return min(found, rows.groups * rows.rows_each)
            case Computed(inner):
                found = self.add_rows(inner)
                self.add(found, self.width(rows), self.count_parts(rows.values))
                return found
            case Ordered(inner):
                found = self.add_rows(inner)
                # Each position may be sorted for by itself.
                sorting = len(rows.positions) * found.bit_length()
                parts = self.count_parts((rows.where, *rows.order, *rows.positions))
                self.add(found, self.width(rows), parts + sorting)
                return found

    def _add_scan(self, rows: int, at: int) -> int:
        # Rows are read one by one and not carried, so texts that are only tested cost time and no memory.
        self.add(rows, 0, sum(map(self._count_test, self.used.tests.get(at, []))))
        return rows

    def _add_join(self, rows: Joined) -> int:
        left = self.add_rows(rows.left)
        if rows.same_unit:
            right = self.add_rows(rows.right)
            self.add(right, self.width(rows.right), 1)
        else:
            if not isinstance(rows.right, Scan):
                raise AssertionError(rows.right)
            right = count_partners([other for _, other in rows.on], self.tables[rows.right.snapshot])
        found = left * max(right, 1)  # a LEFT JOIN keeps rows without a partner
        self.add(found, self.width(rows), self.count_parts(rows.on))
        return found

    def width(self, rows: Rows) -> int:
        """Return the bytes of one row: the unit, its place in the keyed order, and what is used of it."""
        return 2 * _WIDTH + self._columns_width(rows)

    def _columns_width(self, rows: Rows) -> int:
        match rows:
            case Scan(_, at) | UnitSizes(_, at):
                texts = sum(
                    name != BLOCK and at in self.at and _holds_text(Column(at, name), self.at)
                    for name in self.used.columns.get(at, ())
                )
                others = len(self.used.columns.get(at, ())) - texts + len(self.used.tests.get(at, ()))
                others += DIGEST in self.used.columns.get(at, ())  # 32 digits are twice as wide
                return texts * _TEXT_WIDTH + others * _WIDTH
            case Joined(left, right):
                return self._columns_width(left) + self._columns_width(right)
            case PerUnit():
                return _WIDTH * (len(rows.keys) + len(rows.figures))
            case Bounded(inner):
                return self._columns_width(inner)
            case Computed(inner):
                return self._columns_width(inner) + _WIDTH * len(rows.values)
            case Ordered(inner):
                return self._columns_width(inner) + _WIDTH * len(rows.positions)

    # ---- parts of expressions ----

    def count_parts(self, node: Any) -> int:
        """Return how many parts are computed, one that is written several times each time."""
        # Rounds of a fit have many thousands of parts, so little is done for each.
        kind = node.__class__
        if kind in _LEAVES:
            return 1
        if kind is tuple:
            return sum([self.count_parts(part) for part in node])
        known = self._sizes.get(id(node))
        if known is None:
            tested = kind in TESTED and self.used.find_test(node) is not None
            # A test was made where its row was read.
            known = self._sizes[id(node)] = node, 1 if tested else self._measure(node)
        return known[1]

    def _measure(self, node: Any) -> int:
        match node:
            case Matches() | Spelled() | Length() | Folded():
                return self._count_test(node)
            case Least() | Greatest():
                written = 1 if node.skips else 2
                return 1 + written * self.count_parts(tuple(flatten_extremes(node)))
            case Lookup(part):
                return 1 + self.count_parts(part)
            case RealFunction(_, part) | Power(part):
                return _CURVE + 2 * self.count_parts(part)
            case Whole(part):
                return 4 + 3 * self.count_parts(part)
            case Among(part, values):
                return 1 + min(len(values), _LISTED) + self.count_parts(part)
            case CellKey(value, nulls=True):
                # Tested for being missing, then given its place.
                return 3 + self.count_parts(value)
        if not is_dataclass(node):
            return 0
        return 1 + sum([self.count_parts(getattr(node, name)) for name in _field_names(node.__class__)])

    def _count_test(self, test: TextTest | Folded) -> int:
        """Return the operations for one test of one text of the greatest length."""
        match test:
            case Matches(text, pattern):
                return _count_folds(text) + _count_like(pattern)
            case Spelled(text, words):
                return _count_folds(text) + len(words) * _LOOK // 10
            case Length(text):
                return _count_folds(text) + _LOOK
            case Folded(text):
                return _count_folds(test)
        return 1


def _count_folds(text: Any) -> int:
    """Return the operations for the changes of case before a test. Each writes the whole text anew."""
    return _FOLD + _count_folds(text.text) if isinstance(text, Folded) else 0


def _count_like(pattern: str) -> int:
    """Return the operations of a LIKE, in the slowest way that an engine has, on the slowest text.

    The ends of a pattern are compared once, each piece between percent signs at every place of the text.
    """
    parsed = parse_like(pattern)
    last = parsed.last or ()
    operations = _LOOK + (_count_bytes(parsed.first) + _count_bytes(last)) // _COMPARED
    operations += 4 * _LOOK if last else 0  # what stands before it and at the end is cut out
    for place, (_, piece) in enumerate(parsed.middle, start=1):
        operations += _LOOK + LONGEST_TEXT * _count_bytes(piece) // _COMPARED
        if None in piece and place < len(parsed.middle):
            operations += _TRIED * LONGEST_TEXT * len(list_runs(piece))
            operations += LONGEST_TEXT * len(piece) // 2
    return operations


def _count_bytes(piece: Piece) -> int:
    """Return the bytes that are compared; passing over any one character takes as long as three."""
    return sum(3 if letter is None else len(letter.encode(errors="surrogatepass")) for letter in piece)


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))
