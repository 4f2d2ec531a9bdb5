"""Counts that are made at registration, of public tables and of numbers that the steward declared public."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import FreeTexts
from sfumato.engines.program import CellSums, Counted, KeyedSums
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.values import Column
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.engines.program import Engine


MOST_LISTED = 2**16
"""Numbers that are kept of a public table at most, so that the catalog stays small."""


def count_public_facts(engine: Engine, table: Table) -> Table:
    """Return a public table with its number of rows, and how often each column repeats a value at most."""
    # These are read without a charge: a public table protects no one.
    rows = _count_rows(engine, table)
    if not rows:
        raise UsageError(
            "SF-C205", f"'{table.name}' has no rows.", why="a public table is there to be joined with"
        )
    most = {name: _count_repetitions(engine, table, name) for name in table.columns}
    return replace(table, public_rows=rows, multiplicity=most, combinations=_list_rows(engine, table, rows))


def require_rows(engine: Engine, table: Table) -> None:
    """Refuse a table with another number of rows than declared; under replace-one that number is public."""
    found = _count_rows(engine, table)
    if found != table.public_rows:
        raise UsageError(
            "SF-C205",
            f"'{table.name}' does not have the declared number of rows.",
            declared=str(table.public_rows),
            found=str(found),
        )


def _list_rows(engine: Engine, table: Table, rows: int) -> tuple[tuple[int | None, ...], ...] | None:
    """Return the different rows of a public table, which say what keys from it can be; None for too many."""
    names = [name for name, each in table.columns.items() if not isinstance(each.domain, FreeTexts)]
    if not names or rows * len(names) > MOST_LISTED:
        return None
    columns = tuple(Column(0, name) for name in names)
    found = engine.run(
        KeyedSums(Scan(table.snapshot_name), ALL, columns, (Counted(),), tuple(range(len(names))))
    )
    listed = (tuple(None if each is None else int(each) for each in key) for key in found.keys)
    return tuple(sorted(listed, key=repr))


def _count_rows(engine: Engine, table: Table) -> int:
    return int(engine.run(CellSums(Scan(table.snapshot_name), ALL, (), (Counted(),)))[0, 0])


def _count_repetitions(engine: Engine, table: Table, name: str) -> int:
    """Return how often a column repeats a value at most. Missing values never join, and count as one."""
    found = engine.run(KeyedSums(Scan(table.snapshot_name), ALL, (Column(0, name),), (Counted(),)))
    return max(1, *map(int, found.sums[0])) if found.keys else 1
