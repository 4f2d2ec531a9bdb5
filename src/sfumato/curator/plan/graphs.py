"""How many nodes of a graph have each degree, and how many edges there are: prices, steps and answers.

What is measured are the nodes with at least one edge, at least two, and so on. Counts of nodes by their exact
degree are differences of these. Why one node, or one edge, moves them by no more than is said here is in
docs/proofs/graphs.md, and so is why counting by exact degrees instead would be worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.caveats import dropped_edges, dropped_nodes, largest_degree
from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import Needs
from sfumato.engines.program import CellKey, CellSums, Counted, Total
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import DEGREE
from sfumato.engines.values import Add, Column, Constant, Least
from sfumato.errors import PolicyError
from sfumato.errors.checked import checked
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import list_moves
from sfumato.privacy.graph_units import Edge, Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.caveats import Caveat
    from sfumato.curator.plan.spend import Spend
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.events import Event

    Spends = Callable[[Table, Needs], Spend]

_COLUMN = Column(0, DEGREE)


# ---- how far one node or one edge can move them ------------------------------------------------------------


def degree_sensitivity(protects: Node | Edge) -> SumSensitivity:
    """Return how far one node or edge moves the numbers of nodes with at least 1, 2, … `max_degree` edges."""
    most = protects.max_degree
    return (
        SumSensitivity.of(list_moves([most + 1, *[1] * (most - 1)]))
        if isinstance(protects, Node)
        else SumSensitivity(2, 4)
    )


def edge_sensitivity(protects: Node | Edge) -> SumSensitivity:
    """Return how far one node or edge moves the number of edges that are kept."""
    most = protects.max_degree if isinstance(protects, Node) else 1
    return SumSensitivity(most, most * most)


# ---- what is computed once it is paid ----------------------------------------------------------------------


@tagged("DegreeCounts", "program", "numbers")
@dataclass(frozen=True, slots=True)
@checked
class DegreeCounts:
    """Noisy numbers of nodes with at least 1, 2, … edges. The program counts those with exactly so many."""

    program: CellSums
    numbers: NoisySum[None]

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.numbers.event()

    def release(self, exact: IntArray) -> list[int]:
        """Return the noisy numbers of nodes with at least 1, 2, … edges."""
        counts: list[int] = self.numbers.release(np.cumsum(exact[0][::-1])[::-1]).tolist()
        return counts


@tagged("EdgeCount", "program", "numbers")
@dataclass(frozen=True, slots=True)
@checked
class EdgeCount:
    """A noisy number of edges. The program sums the degrees, to which every edge adds two."""

    program: CellSums
    numbers: NoisySum[None]

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.numbers.event()

    def release(self, exact: IntArray) -> list[int]:
        """Return the noisy number of edges."""
        counts: list[int] = self.numbers.release(exact[0] // 2).tolist()
        return counts


# ---- from a question to a step -----------------------------------------------------------------------------


def require_graph(table: Table) -> Node | Edge:
    """Return what a graph protects; a table of rows is refused."""
    if isinstance(table.protects, Node | Edge):
        return table.protects
    raise PolicyError(
        "SF-C213",
        f"'{table.name}' is not a graph.",
        try_=f's.table("{table.name}"), or unit=sf.Node("from", "to", max_degree=50) when it is registered',
    )


def plan_degrees(table: Table, spends: Spends) -> Plan[DegreeCounts, Node | Edge]:
    """Return the plan for how many nodes have each degree."""
    protects = require_graph(table)
    # Where only edges are protected, a degree may be above the bound: such nodes fall into the last cell.
    place = Add(Least(_COLUMN, Constant(protects.max_degree)), Constant(-1))
    program = CellSums(_rows(table), ALL, (CellKey(place, protects.max_degree),), (Counted(),))
    spend, numbers = _paid(table, degree_sensitivity(protects), spends)
    return Plan(table, spend, (DegreeCounts(program, numbers),), protects, describe_degree_bound(protects))


def plan_edges(table: Table, spends: Spends) -> Plan[EdgeCount, Node | Edge]:
    """Return the plan for the number of edges."""
    protects = require_graph(table)
    program = CellSums(_rows(table), ALL, (), (Total(_COLUMN),))
    spend, numbers = _paid(table, edge_sensitivity(protects), spends)
    # Edges beyond the bound are still counted where only edges are protected.
    left_out = describe_degree_bound(protects)[:1] if isinstance(protects, Node) else ()
    return Plan(table, spend, (EdgeCount(program, numbers),), protects, left_out)


def describe_degree_bound(protects: Node | Edge) -> tuple[Caveat, ...]:
    """Return what bounding the degree does, in words."""
    most = protects.max_degree
    if isinstance(protects, Edge):
        return (largest_degree(most),)
    return dropped_edges(most), dropped_nodes()


def _rows(table: Table) -> Scan:
    return Scan(table.snapshot_name)


def _paid(table: Table, sensitivity: SumSensitivity, spends: Spends) -> tuple[Spend, NoisySum[None]]:
    spend = spends(table, Needs((sensitivity,)))
    return spend, NoisySum(None, sensitivity, spend.noise(sensitivity))
