"""Graphs: what the steward declares about a list of edges, and how it is prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.snapshot import GraphPreparation
from sfumato.errors import UsageError
from sfumato.privacy.graph_units import Edge, Node, names_edges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.privacy.graph_units import Protected


def prepare_graph(ends: Node | Edge, key: bytes) -> GraphPreparation:
    """Return how an engine prepares a graph: the degree is bounded if nodes are protected, not for edges."""
    bound = ends.max_degree if isinstance(ends, Node) else None
    return GraphPreparation(ends.left, ends.right, bound, key)


def check_graph(name: str, ends: Node | Edge, columns: Mapping[str, object] | None) -> Node | Edge:
    """Return the declared ends of a graph's edges; refuse what does not fit a graph."""
    if columns:
        raise UsageError(
            "SF-C213",
            f"'{name}' is a graph, whose edges have no columns.",
            try_="leave columns out",
        )
    require_population(name, ends)
    return ends


def require_population(name: str, unit: Protected) -> None:
    """Refuse the name of a population that the ledger could not keep or would take for edges."""
    population = unit.population(name)
    if ":" in population:
        raise UsageError(
            "SF-C113",
            f"The name of the population of '{name}' has a colon in it.",
            try_='sf.Unit(…, of="patients") names them',
        )
    if names_edges(population) and not isinstance(unit, Edge):
        raise UsageError(
            "SF-C113",
            f"The population of '{name}' has a name that is kept for edges.",
            why="a price paid for an edge promises nothing about a person",
            try_='of="patients"',
        )
