"""Which values are never missing among a question's rows. Declarations and conditions decide, never rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.engines.rows import Bounded, Computed, Joined, Scan
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
    Every,
    Folded,
    Less,
    Lookup,
    Matches,
    Missing,
    Multiply,
    Not,
    Same,
    Some,
    Spelled,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.engines.rows import Rows
    from sfumato.engines.values import Predicate, Value

    Parts = frozenset[Any]
    """Values that are known to be present."""


def is_present(value: Value, source: RowSource) -> bool:
    """Return whether a value is missing in none of the rows, as far as that is easily seen."""
    tables = {table.snapshot_name: table for table in source.tables}
    return _is_total(value, _declared(source.rows, tables) | _required(source.where))


def list_declared(source: RowSource) -> frozenset[Any]:
    """Return the stored columns that are never missing, whatever rows a condition keeps."""
    return _declared(source.rows, {table.snapshot_name: table for table in source.tables})


def _declared(rows: Rows, tables: Mapping[str, Table]) -> Parts:
    """Return the stored columns for which something stands in place of a missing value."""
    match rows:
        case Scan(snapshot, at):
            columns = tables[snapshot].columns.items()
            return frozenset(Column(at, name) for name, each in columns if each.missing is not None)
        case Joined(left, right):
            return _declared(left, tables) | (frozenset() if rows.optional else _declared(right, tables))
        case Bounded(inner) | Computed(inner):
            return _declared(inner, tables)
    return frozenset()


def _required(where: Predicate) -> Parts:
    """Return values without which a condition cannot hold."""
    match where:
        case Every(parts):
            return frozenset().union(*map(_required, parts))
        case Not(Missing(part)) | AtLeast(part) | AtMost(part) | Among(part) | Spelled(part) | Matches(part):
            return _needed(part)
        case Less(one, other) | Same(one, other):
            return _needed(one) | _needed(other)
        case Not(AtLeast() | AtMost() | Among() | Spelled() | Matches() | Less() | Same() as part):
            return _required(part)
    return frozenset()


def _needed(value: Any) -> Parts:
    """Return a value and the parts of it that make it missing where they are."""
    match value:
        case Add(one, other) | Multiply(one, other) | Divide(one, other):
            return frozenset({value}) | _needed(one) | _needed(other)
        case Lookup(part) | Calendar(part) | Folded(part):
            return frozenset({value}) | _needed(part)
    return frozenset({value})


def _is_total(value: Any, known: Parts) -> bool:
    """Return whether a value is there wherever the known parts are."""
    if value in known:
        return True
    match value:
        case Constant(number):
            return number is not None
        case Add(one, other) | Multiply(one, other):
            return _is_total(one, known) and _is_total(other, known)
        case Divide(part, Constant(int(number))):
            return number != 0 and _is_total(part, known)
        case Lookup(part, entries):
            return None not in entries and _is_total(part, known)
        case Calendar(part) | Folded(part):
            return _is_total(part, known)
        # A condition as a value: it is missing where it is unknown.
        case Choose(holds, then, Choose(Not(again), other, Constant(None))) if holds == again:
            return _is_decided(holds, known) and _is_total(then, known) and _is_total(other, known)
        case Choose(_, then, otherwise):
            return _is_total(then, known) and _is_total(otherwise, known)
    return False


def _is_decided(condition: Any, known: Parts) -> bool:
    """Return whether a condition is true or false, and never unknown, wherever the known parts are there."""
    match condition:
        case Missing():
            return True
        case AtLeast(part) | AtMost(part) | Among(part) | Spelled(part) | Matches(part):
            return _is_total(part, known)
        case Less(one, other) | Same(one, other):
            return _is_total(one, known) and _is_total(other, known)
        case Not(part):
            return _is_decided(part, known)
        case Every(parts) | Some(parts):
            return all(_is_decided(part, known) for part in parts)
    return False
