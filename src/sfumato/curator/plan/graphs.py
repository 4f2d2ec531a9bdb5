"""How many nodes of a graph have each degree, and how many edges there are: prices, steps and answers.

What is measured are the nodes with at least one edge, at least two, and so on. Counts of nodes by their exact
degree are differences of these. Why one node, or one edge, moves them by no more than is said here is in
docs/proofs/graphs.md, and so is why counting by exact degrees instead would be worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.priced import Priced
from sfumato.curator.plan.spend import Needs, Sensitivity
from sfumato.engines.program import Counted, Key, Program, Total
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import DEGREE
from sfumato.engines.values import Add, Column, Constant, Least
from sfumato.errors import PolicyError
from sfumato.noise import LaplaceNoise
from sfumato.privacy.canonical import tagged
from sfumato.privacy.graph_units import Edge, Node
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.spend import Noise, Spend
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.events import Event

    Spends = Callable[[Table, Needs], Spend]

_COLUMN = Column(0, DEGREE)


# ---- how far one node or one edge can move them ------------------------------------------------------------


def degree_moves(protects: Node | Edge) -> Sensitivity:
    """Of the numbers of nodes with at least 1, 2, … `max_degree` edges."""
    most = protects.max_degree
    return Sensitivity(2 * most, most * most + 3 * most) if isinstance(protects, Node) else Sensitivity(2, 4)


def edge_moves(protects: Node | Edge) -> Sensitivity:
    """Of the number of edges that are kept."""
    most = protects.max_degree if isinstance(protects, Node) else 1
    return Sensitivity(most, most * most)


# ---- what is computed once it is paid ----------------------------------------------------------------------


@tagged("NoisyNumbers", "moves", "noise")
@dataclass(frozen=True, slots=True)
class NoisyNumbers:
    """Noise for numbers that one protected node or edge can move so far."""

    moves: Sensitivity
    noise: Noise

    def event(self) -> Event:
        if isinstance(self.noise, LaplaceNoise):
            return self.noise.event(self.moves.l1)
        return self.noise.event(self._l2)

    def release(self, exact: IntArray) -> list[int]:
        if isinstance(self.noise, LaplaceNoise):
            noisy = self.noise.release(exact, l1=self.moves.l1)
        else:
            noisy = self.noise.release(exact, l2=self._l2)
        found: list[int] = noisy.tolist()
        return found

    @property
    def _l2(self) -> Fraction:
        return root_up(Fraction(self.moves.l2_squared))


@tagged("DegreeCounts", "program", "numbers")
@dataclass(frozen=True, slots=True)
class DegreeCounts:
    """Noisy numbers of nodes with at least 1, 2, … edges. The program counts those with exactly so many."""

    program: Program
    numbers: NoisyNumbers

    def event(self) -> Event:
        return self.numbers.event()

    def release(self, exact: IntArray) -> list[int]:
        return self.numbers.release(np.cumsum(exact[0][::-1])[::-1])


@tagged("EdgeCount", "program", "numbers")
@dataclass(frozen=True, slots=True)
class EdgeCount:
    """A noisy number of edges. The program sums the degrees, to which every edge adds two."""

    program: Program
    numbers: NoisyNumbers

    def event(self) -> Event:
        return self.numbers.event()

    def release(self, exact: IntArray) -> list[int]:
        return self.numbers.release(exact[0] // 2)


# ---- from a question to a step -----------------------------------------------------------------------------


def ends(table: Table) -> Node | Edge:
    """What a graph protects; a table of rows is refused."""
    if isinstance(table.protects, Node | Edge):
        return table.protects
    raise PolicyError(
        "SF-Q171",
        f"'{table.name}' is not a graph.",
        try_=f's.table("{table.name}"), or unit=sf.Node("from", "to", max_degree=50) when it is registered',
    )


def degrees(table: Table, spends: Spends) -> Priced:
    """The priced question for how many nodes have each degree."""
    protects = ends(table)
    place = Add(Least(_COLUMN, Constant(protects.max_degree)), Constant(-1))
    program = Program(_rows(table), ALL, (Key(place, protects.max_degree),), (Counted(),))
    spend, numbers = _paid(table, degree_moves(protects), spends)
    return Priced(table, spend, (DegreeCounts(program, numbers),), bias(protects))


def edges(table: Table, spends: Spends) -> Priced:
    """The priced question for the number of edges."""
    protects = ends(table)
    program = Program(_rows(table), ALL, (), (Total(_COLUMN),))
    spend, numbers = _paid(table, edge_moves(protects), spends)
    left_out = bias(protects)[:1] if isinstance(protects, Node) else ()
    return Priced(table, spend, (EdgeCount(program, numbers),), left_out)


def bias(protects: Node | Edge) -> tuple[str, ...]:
    """What bounding the degree does, in words."""
    most = protects.max_degree
    if isinstance(protects, Edge):
        return (f"a node with more than {most} edges counts as one with {most}",)
    return (
        f"of a node with more than {most} edges at most {most} count, and the others count for neither end",
        "a node none of whose edges count is not counted",
    )


def _rows(table: Table) -> Scan:
    return Scan(table.snapshot_name)


def _paid(table: Table, moves: Sensitivity, spends: Spends) -> tuple[Spend, NoisyNumbers]:
    spend = spends(table, Needs((moves,)))
    return spend, NoisyNumbers(moves, spend.noise(moves))
