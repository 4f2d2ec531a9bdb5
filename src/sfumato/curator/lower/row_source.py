"""Rows to ask about, with the unit followed: whose they are, and how many one unit can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.lower.scope import Scope
    from sfumato.engines import rows as engine
    from sfumato.engines.values import Predicate, Value


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows, what their columns are called, whose they are, and how many one unit can have."""

    rows: engine.Rows
    where: Predicate
    scope: Scope
    table: Table
    """The table whose units the rows are of; a public one where they are no one's."""
    max_rows: int
    tables: tuple[Table, ...]
    next_at: int
    apart: frozenset[Value] | None = None
    """Values that no two rows of a unit agree in, where some are known."""
