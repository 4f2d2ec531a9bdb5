"""What is counted at registration: of public tables only, and where the steward said the number already."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.engines.program import CellSums, Counted, KeyedSums
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.values import Column
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.engines.program import Engine


def count_public_facts(engine: Engine, table: Table) -> Table:
    """A public table with its number of rows, and the largest number of rows with one value of a column."""
    rows = _rows(engine, table)
    if not rows:
        raise UsageError(
            "SF-C132", f"'{table.name}' has no rows.", why="a public table is there to be joined with"
        )
    most = {name: _most(engine, table, name) for name in table.columns}
    return replace(table, public_rows=rows, multiplicity=most)


def require_rows(engine: Engine, table: Table) -> None:
    """Under replace-one the number of rows is public, so it can be compared and told."""
    found = _rows(engine, table)
    if found != table.public_rows:
        raise UsageError(
            "SF-C133",
            f"'{table.name}' has another number of rows than was said.",
            said=str(table.public_rows),
            found=str(found),
        )


def _rows(engine: Engine, table: Table) -> int:
    return int(engine.run(CellSums(Scan(table.snapshot_name), ALL, (), (Counted(),)))[0, 0])


def _most(engine: Engine, table: Table, name: str) -> int:
    """Missing values equal nothing, so they are in no join; a column of them counts as one."""
    found = engine.run(KeyedSums(Scan(table.snapshot_name), ALL, (Column(0, name),), (Counted(),)))
    return max(1, *map(int, found.sums[0])) if found.keys else 1
