"""Where rows come from: snapshots, joined, summed up by unit, cut to a bounded number a unit, or widened.

Every source of rows knows each row's unit. Its columns are addressed by the source's number, `at`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.engines.values import Every, Predicate, Value
from sfumato.privacy.canonical import tagged, written_by

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_COUNTED = 2**20


def _written_as(tag: str) -> Callable[[Any], dict[str, Any]]:
    """Return what writes a scan to be hashed: with the number of its snapshot, and without its identity.

    The ledger compares identities by themselves, so that the hashes of old requests stay what they were.
    """
    return lambda scan: {"": tag, "snapshot": scan.snapshot.partition(".")[0], "at": scan.at}


@written_by(_written_as("Scan"))
@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a snapshot."""

    snapshot: str
    at: int = 0


@written_by(_written_as("Sizes"))
@dataclass(frozen=True, slots=True)
class UnitSizes:
    """One row for each unit. Its column `rows` is how many the source had, up to MOST_COUNTED."""

    snapshot: str
    at: int = 0


@tagged("Joined", "left", "right", "on", "same_unit", "optional")
@dataclass(frozen=True, slots=True)
class Joined:
    """Every pair of a left and a right row that agree.

    `on` lists pairs of values that must be equal and not missing. `same_unit` asks that both rows are of one
    unit; without it the right side is public, and the unit is the left row's. `optional` keeps a left row
    that finds no partner once, with the right side missing.
    """

    left: Rows
    right: Rows
    on: tuple[tuple[Value, Value], ...] = ()
    same_unit: bool = False
    optional: bool = False


@tagged("Counted")
@dataclass(frozen=True, slots=True)
class Counted:
    """How many rows."""


@tagged("Present", "value")
@dataclass(frozen=True, slots=True)
class Present:
    """How many rows where the value is not missing."""

    value: Value


@tagged("Total", "value")
@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a value, missing as nothing."""

    value: Value


@tagged("Smallest", "value")
@dataclass(frozen=True, slots=True)
class Smallest:
    """The least value; missing where all are."""

    value: Value


@tagged("Largest", "value")
@dataclass(frozen=True, slots=True)
class Largest:
    """The greatest value; missing where all are."""

    value: Value


Figure = Counted | Present | Total | Smallest | Largest


@tagged("PerUnit", "rows", "where", "keys", "figures", "at")
@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row for each unit and each combination of keys among its rows that satisfy `where`.

    Columns k0, k1, … are the keys, where missing is a key like any other; f0, f1, … are the figures.
    """

    rows: Rows
    where: Predicate
    keys: tuple[Value, ...]
    figures: tuple[Figure, ...]
    at: int


@tagged("Bounded", "rows", "where", "cell", "groups", "rows_each")
@dataclass(frozen=True, slots=True)
class Bounded:
    """Rows that satisfy `where`, in at most `groups` cells a unit and `rows_each` rows in each of them.

    Both are chosen in the keyed order of the snapshot, by a rule that looks at one unit's rows alone.
    """

    rows: Rows
    where: Predicate
    cell: tuple[Value, ...]
    groups: int
    rows_each: int


@tagged("Computed", "rows", "values", "at")
@dataclass(frozen=True, slots=True)
class Computed:
    """Adds columns v0, v1, … to rows, each computed once however often it is used."""

    rows: Rows
    values: tuple[Value, ...]
    at: int


@tagged("Place", "function", "value", "offset")
@dataclass(frozen=True, slots=True)
class Position:
    """A row's number among those of its unit (row_number, rank, dense_rank), or a value of another row.

    lag and lead are so many rows before and after, first_value is the first; missing where there is none.
    """

    function: str
    value: Value | None = None
    offset: int = 1


@tagged("Ordered", "rows", "where", "order", "positions", "at")
@dataclass(frozen=True, slots=True)
class Ordered:
    """Rows that satisfy `where`, with columns v0, v1, … for positions in the order of their unit's rows.

    `order` pairs values with whether they descend; missing values come last. Rows that tie there are in the
    keyed order of the snapshot, which looks at the unit's own rows alone.
    """

    rows: Rows
    where: Predicate
    order: tuple[tuple[Value, bool], ...]
    positions: tuple[Position, ...]
    at: int


Rows = Scan | UnitSizes | Joined | PerUnit | Bounded | Computed | Ordered

ALL = Every()
"""The condition that every row satisfies."""


def list_scans(rows: Rows) -> tuple[Scan | UnitSizes, ...]:
    """Return the snapshots that are read, from left to right."""
    match rows:
        case Scan() | UnitSizes():
            return (rows,)
        case Joined(left, right):
            return (*list_scans(left), *list_scans(right))
        case PerUnit(inner) | Bounded(inner) | Computed(inner) | Ordered(inner):
            return list_scans(inner)
