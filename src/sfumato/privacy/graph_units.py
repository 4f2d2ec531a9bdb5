"""The unit of protection of a graph: a node with all its edges, or a single edge; added or removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.units import Unit, check_population

MOST_DEGREE = 2**20
"""Largest degree bound: a degree histogram has one cell for each degree."""
_EDGE_OF = "edge of "


@dataclass(frozen=True, slots=True, init=False)
class _Ends:
    """The two columns that hold the ends of an edge. Both directions of an edge are one edge."""

    tag: ClassVar[str]
    """Name under which the catalog keeps this kind of unit; it never changes."""

    left: str
    right: str
    max_degree: int
    of: str | None

    def __init__(self, left: str, right: str, max_degree: int | None = None, of: str | None = None) -> None:
        named = all(isinstance(name, str) and name for name in (left, right)) and left != right
        if not named:
            raise UsageError(
                "SF-C114",
                "The unit of a graph must name the two columns that hold the ends of an edge.",
                try_='sf.Node("from", "to", max_degree=50)',
            )
        if max_degree is None:
            raise UsageError(
                "SF-U104",
                "Say how many edges of one node may count.",
                why="without a bound one node could change an answer without limit",
                try_=f'sf.{type(self).__name__}("{left}", "{right}", max_degree=50)',
            )
        object.__setattr__(self, "left", str.__str__(left))
        object.__setattr__(self, "right", str.__str__(right))
        object.__setattr__(self, "max_degree", _degree(max_degree))
        object.__setattr__(self, "of", check_population(of))

    def to_dict(self) -> dict[str, Any]:
        """Return the form that is kept in the catalog."""
        ends = {"left": self.left, "right": self.right}
        return {"protects": self.tag, **ends, "max_degree": self.max_degree, "of": self.of}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Return the unit that `to_dict` wrote."""
        return cls(fields["left"], fields["right"], fields["max_degree"], fields["of"])


class Node(_Ends):
    """Protects a node with all its edges; at most `max_degree` of them count.

    Nodes that are the units of other tables share their budget: name their population with `of`.
    """

    __slots__ = ()
    tag: ClassVar[str] = "Node"

    def population(self, table: str) -> str:
        """Return the name of the account that pays."""
        return self.of or f"node of {table}"

    def sentence(self) -> str:
        """Return what is protected, in words."""
        return f"one node with all its edges, of which at most {self.max_degree} are used"


class Edge(_Ends):
    """Protects single edges: that two nodes are linked, but not how many links a node has.

    Degrees above `max_degree` count as `max_degree`. Edges have accounts of their own, since a price for an
    edge promises nothing about a node; `of` makes several lists of the same edges share one account.
    """

    __slots__ = ()
    tag: ClassVar[str] = "Edge"

    def population(self, table: str) -> str:
        """Return the name of the account that pays."""
        return f"{_EDGE_OF}{self.of or table}"

    def sentence(self) -> str:
        """Return what is protected, in words."""
        return f"one edge; degrees above {self.max_degree} count as {self.max_degree}"


Protected = Unit | Node | Edge
"""What a table can protect: a unit of rows, a node or an edge."""


def protected_from_dict(fields: dict[str, Any]) -> Protected:
    """Return the unit that was kept in the catalog, of a table or of a graph."""
    kinds: dict[str, type[Node | Edge]] = {kind.tag: kind for kind in (Node, Edge)}
    return kinds[fields["protects"]].from_dict(fields) if "protects" in fields else Unit.from_dict(fields)


def names_edges(population: str) -> bool:
    """Return whether accounts of this name belong to edges alone."""
    return population.startswith(_EDGE_OF)


def _degree(value: Any) -> int:
    degree = parse_whole(value, "max_degree")
    if degree > MOST_DEGREE:
        raise UsageError(
            "SF-N101",
            "max_degree is too large for a histogram.",
            got=str(degree),
            limit=f"{MOST_DEGREE:,}",
            try_="the degree that few nodes exceed; noise grows with it",
        )
    return degree
