"""Lowered rows with the unit followed: whose they are, and how many one unit can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.lower.scope import Scope
    from sfumato.engines import rows as engine
    from sfumato.engines.values import Column, Predicate, Value


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows, the names of their columns, whose they are, and how many one unit can have."""

    rows: engine.Rows
    where: Predicate
    scope: Scope
    table: Table
    """The table whose units own the rows; a public table where no one does."""
    max_rows: int
    tables: tuple[Table, ...]
    next_at: int
    apart: frozenset[Value] | None = None
    """Values in which no two rows of a unit agree, where such are known."""
    numbered: Column | None = None
    """The column that numbers the rows of each unit, if they were numbered and not joined since."""
