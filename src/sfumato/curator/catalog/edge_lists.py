"""What the steward says of a list of edges, and how it is prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.snapshot import GraphPreparation
from sfumato.errors import UsageError
from sfumato.privacy.graph_units import Edge, Node, names_edges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.privacy.graph_units import Protected


def prepare_graph(ends: Node | Edge, key: bytes) -> GraphPreparation:
    """A node's edges are bounded when the graph is prepared; single edges need no bound."""
    bound = ends.max_degree if isinstance(ends, Node) else None
    return GraphPreparation(ends.left, ends.right, bound, key)


def check_graph(name: str, ends: Node | Edge, columns: Mapping[str, DeclaredColumn] | None) -> Node | Edge:
    """What the steward said of a graph; what does not fit one is refused."""
    if columns:
        raise UsageError(
            "SF-C143",
            f"'{name}' is a graph: its edges have no columns to ask about.",
            try_="leave columns out",
        )
    require_population(name, ends)
    return ends


def require_population(name: str, unit: Protected) -> None:
    """A name that the ledger can keep, and that says what is protected."""
    population = unit.population(name)
    if ":" in population:
        raise UsageError(
            "SF-C124",
            f"The name of the people in '{name}' has a colon in it.",
            try_='sf.Unit(…, of="patients") names them',
        )
    if names_edges(population) and not isinstance(unit, Edge):
        raise UsageError(
            "SF-C144",
            f"The people in '{name}' have the name of edges.",
            why="what is paid for an edge promises nothing about a person",
            try_='of="patients"',
        )
