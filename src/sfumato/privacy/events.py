"""What happened to the data, as frozen values. An event never shrinks and knows its own price.

Each event answers three questions about a pair of neighbouring tables, never below the truth:
its pure ε (or none), its Rényi divergence at an order, and the δ that no curve covers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol


class Event(Protocol):
    """A priced use of the data."""

    def pure(self) -> Fraction | None:
        """The smallest proven pure ε, exact; none where there is no pure guarantee."""

    def renyi(self, order: float) -> float:
        """An upper bound, up to float rounding, on the Rényi divergence of this order (> 1)."""

    def side_delta(self) -> Fraction:
        """The δ paid outside the curve."""

    def to_dict(self) -> dict[str, Any]:
        """The canonical form: a tag of a closed set and exact numbers as text."""


@dataclass(frozen=True, slots=True)
class Pure:
    """Any ε-DP mechanism. Its curve is that of randomized response, which dominates all others.

    Because : docs/proofs/account.md#pure
    """

    epsilon: Fraction

    def pure(self) -> Fraction:
        return self.epsilon

    def renyi(self, order: float) -> float:
        return shifted_laplace_renyi(float(self.epsilon), 1, order)

    def side_delta(self) -> Fraction:
        return Fraction(0)

    def to_dict(self) -> dict[str, Any]:
        return {"event": "pure", "epsilon": str(self.epsilon)}


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Integer Laplace noise of one `scale` on a vector whose l1 norm moves by at most `l1` grid steps.

    Because : docs/proofs/discrete-laplace.md
    """

    scale: Fraction
    l1: int

    def pure(self) -> Fraction:
        return self.l1 / self.scale

    def renyi(self, order: float) -> float:
        return shifted_laplace_renyi(float(1 / self.scale), self.l1, order)

    def side_delta(self) -> Fraction:
        return Fraction(0)

    def to_dict(self) -> dict[str, Any]:
        return {"event": "discrete-laplace", "scale": str(self.scale), "l1": self.l1}


@dataclass(frozen=True, slots=True)
class Sequential:
    """Several events on the same people, one after the other."""

    events: tuple[Event, ...]

    def pure(self) -> Fraction | None:
        total: Fraction | None = Fraction(0)
        for event in self.events:
            total = _add_pure(total, event.pure())
        return total

    def renyi(self, order: float) -> float:
        return math.fsum(event.renyi(order) for event in self.events)

    def side_delta(self) -> Fraction:
        return sum((event.side_delta() for event in self.events), Fraction(0))

    def to_dict(self) -> dict[str, Any]:
        return {"event": "sequential", "events": [event.to_dict() for event in self.events]}


def shifted_laplace_renyi(rate: float, steps: int, order: float) -> float:
    """The Rényi divergence between integer Laplace noise of scale 1/rate and itself `steps` apart.

    The moment is a·u^k + b·v^k with a + b = 1, log u = (order − 1)·rate, log v = −order·rate and
    k = steps (docs/proofs/discrete-laplace.md). With one step it is randomized response's.
    """
    r = math.exp(-rate)
    odds = -math.expm1(-rate) / (1 + r)
    width = (2 * order - 1) * rate
    b = 1 / (1 + r) + odds / math.expm1(-width)
    a = 1 - b
    up, down = (order - 1) * rate * steps, -order * rate * steps
    if up < 1:
        return math.log1p(a * math.expm1(up) + b * math.expm1(down)) / (order - 1)
    tail = b / a * math.exp(down - up)
    return (math.log(a) + up + math.log1p(tail)) / (order - 1)


def _add_pure(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    return None if left is None or right is None else left + right
