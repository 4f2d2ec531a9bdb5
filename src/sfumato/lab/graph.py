"""What is asked of a graph: the degrees of its nodes, and the number of its edges."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.answers.degrees import Degrees, joint_half_width, make_consistent
from sfumato.curator.answers.expected_error import SentenceError
from sfumato.curator.answers.measure import Measure
from sfumato.curator.answers.results import NoisyFigure, Receipt
from sfumato.curator.gate import decode_answer
from sfumato.curator.plan.graphs import plan_degrees, plan_edges, require_graph

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.graphs import DegreeCounts, EdgeCount
    from sfumato.curator.plan.priced import Plan
    from sfumato.ledger import Released
    from sfumato.noise.additive import Noise
    from sfumato.privacy.graph_units import Edge, Node

    DegreesPlan = Plan[DegreeCounts, Node | Edge]
    EdgesPlan = Plan[EdgeCount, Node | Edge]


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph to ask about. `max_degree`, and who is protected, were fixed when it was registered."""

    payer: Payer
    name: str

    def __post_init__(self) -> None:
        require_graph(self._table())

    def degrees(self) -> Measure[Degrees]:
        """Return the question for how many nodes have each degree, and how many at least that."""
        text = f"graph({self.name!r}).degrees()"
        return Measure(self.payer, text, self._plan_degrees, _read_degrees, _degrees_error)

    def edges(self) -> Measure[NoisyFigure]:
        """Return the question for how many edges there are."""
        text = f"graph({self.name!r}).edges()"
        return Measure(self.payer, text, self._plan_edges, _read_edges, _edges_error)

    def __repr__(self) -> str:
        return f"graph({self.name!r}); .degrees() and .edges() can be asked"

    def _table(self) -> Table:
        return self.payer.lab.table(self.name)

    def _plan_degrees(self, spending: Spending) -> DegreesPlan:
        return plan_degrees(self._table(), lambda table, needs: self.payer.spend(table, needs, spending))

    def _plan_edges(self, spending: Spending) -> EdgesPlan:
        return plan_edges(self._table(), lambda table, needs: self.payer.spend(table, needs, spending))


def _read_degrees(plan: DegreesPlan, released: Released) -> Degrees:
    counts = make_consistent(decode_answer(released.answer)[0])
    return Degrees(counts, _noise(plan), plan.bias, Receipt.of(plan, released))


def _degrees_error(plan: DegreesPlan, spending: Spending) -> SentenceError:
    half = joint_half_width(_noise(plan), plan.subject.max_degree, 0.95)
    return SentenceError(
        f"± {half:,} nodes with at least so many edges, ± {2 * half:,} with exactly so many, "
        "all of them together at 95 %"
    )


def _read_edges(plan: EdgesPlan, released: Released) -> NoisyFigure:
    value, half = decode_answer(released.answer)[0][0], _edges_half_width(plan)
    return NoisyFigure(value, max(0, value - half), max(0, value + half), Receipt.of(plan, released))


def _edges_error(plan: EdgesPlan, spending: Spending) -> SentenceError:
    return SentenceError(f"± {_edges_half_width(plan):,} edges at 95 %")


def _edges_half_width(plan: EdgesPlan) -> int:
    return _noise(plan).half_width(Fraction(95, 100))


def _noise(plan: DegreesPlan | EdgesPlan) -> Noise:
    noise = plan.steps[0].numbers.noise
    if noise is None:
        raise AssertionError(plan)
    return noise
