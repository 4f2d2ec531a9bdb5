"""What is asked of a graph: the degrees of its nodes, and the number of its edges."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.degrees import Degrees, consistent, half_width
from sfumato.curator.answers.results import Figure, Receipt
from sfumato.curator.gate import decode
from sfumato.curator.payer import Measure, Payer
from sfumato.curator.plan import graphs

if TYPE_CHECKING:
    from sfumato.curator.plan.priced import Priced
    from sfumato.ledger import Released
    from sfumato.noise.additive import Noise


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph to ask about. `max_degree`, and who is protected, were fixed when it was registered."""

    payer: Payer
    name: str

    def __post_init__(self) -> None:
        graphs.ends(self.payer.lab.table(self.name))

    def degrees(self) -> Measure[Degrees]:
        """How many nodes have each degree, and how many at least that."""
        text = f"graph({self.name!r}).degrees()"
        return Measure(self.payer, text, self._degrees, _read_degrees, _degrees_off)

    def edges(self) -> Measure[Figure]:
        """How many edges there are."""
        return Measure(self.payer, f"graph({self.name!r}).edges()", self._edges, _read_edges, _edges_off)

    def __repr__(self) -> str:
        return f"graph({self.name!r}); .degrees() and .edges() can be asked"

    def _degrees(self, spends: Any) -> Priced:
        return graphs.degrees(self.payer.lab.table(self.name), spends)

    def _edges(self, spends: Any) -> Priced:
        return graphs.edges(self.payer.lab.table(self.name), spends)


def _read_degrees(paid: Priced, released: Released) -> Degrees:
    counts = consistent(decode(released.answer)[0])
    return Degrees(counts, _noise(paid), paid.bias, Receipt.of(paid, released))


def _degrees_off(paid: Priced) -> str:
    half = half_width(_noise(paid), graphs.ends(paid.table).max_degree, 0.95)
    return (
        f"± {half:,} nodes with at least so many edges, ± {2 * half:,} with exactly so many, "
        "all of them together at 95 %"
    )


def _read_edges(paid: Priced, released: Released) -> Figure:
    value, half = decode(released.answer)[0][0], _edges_half(paid)
    return Figure(value, max(0, value - half), max(0, value + half), Receipt.of(paid, released))


def _edges_off(paid: Priced) -> str:
    return f"± {_edges_half(paid):,} edges at 95 %"


def _edges_half(paid: Priced) -> int:
    return _noise(paid).half_width(Fraction(95, 100))


def _noise(paid: Priced) -> Noise:
    step: Any = paid.steps[0]
    noise: Noise = step.numbers.noise
    return noise
