"""What a fitted estimator promises, in words and as numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.curator.spend import Pure, Rounded
from sfumato.privacy import composition, events
from sfumato.privacy.exact import shown
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.curator.spend import Spend

EXACT = "exact: integers on a public grid, noise drawn exactly"
IDEALISED = "idealised arithmetic: proven for real numbers, computed with doubles"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Who is protected, against which change, and how much a fit can give away."""

    neighbours: str
    unit: str
    epsilon: float
    delta: float
    rho: float | None
    replaced: str
    """The same for replacing a unit, in words."""
    arithmetic: str
    others: str = ""
    """What other fits of the same estimator cost, where there were any."""

    @classmethod
    def of(
        cls,
        spend: Spend,
        delta: Fraction,
        *,
        unit: str = "one row",
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        arithmetic: str = EXACT,
    ) -> Guarantee:
        rho = float(1 / (2 * spend.multiplier**2)) if isinstance(spend, Rounded) else None
        replaced = "" if neighbours is Neighbours.REPLACE_ONE else _replaced(spend, delta)
        return cls(
            neighbours.value,
            unit,
            epsilon_of(spend, delta),
            float(delta) if rho is not None else 0.0,
            rho,
            replaced,
            arithmetic,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self._lines())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        change = "is added or removed" if self.neighbours == "add-remove" else "is replaced"
        lines = [("protects", f"{self.unit}, which {change}"), ("costs", self._costs())]
        if self.replaced:
            lines.append(("if replaced", self.replaced))
        lines.append(("arithmetic", self.arithmetic))
        return lines + ([("together", self.others)] if self.others else [])

    def _costs(self) -> str:
        return _words(self.epsilon, self.delta) + ("" if self.rho is None else f" (ρ = {self.rho:.4g})")


def event_of(spend: Spend) -> events.Event:
    """The price of a whole fit."""
    return events.Pure(spend.epsilon) if isinstance(spend, Pure) else events.Gaussian(spend.multiplier)


def epsilon_of(spend: Spend, delta: Fraction) -> float:
    if isinstance(spend, Pure):
        return float(spend.epsilon)
    return composition.epsilon([event_of(spend)], delta) if delta else math.inf


def together(spends: list[tuple[Spend, Fraction]]) -> str:
    """Several fits on the same rows, in words."""
    delta = max(each for _, each in spends)
    total = composition.epsilon([event_of(spend) for spend, _ in spends], delta)
    found = "" if math.isinf(total) else f": {_words(total, float(delta))}"
    return f"{len(spends)} fits of this estimator and its clones so far, if on the same rows{found}"


def _replaced(spend: Spend, delta: Fraction) -> str:
    """Replacing is removing one and adding another: twice the sensitivity."""
    if isinstance(spend, Pure):
        return f"ε = {shown(2 * spend.epsilon)}"
    if not delta:
        return f"ρ = {float(2 / spend.multiplier**2):.4g}"
    doubled = composition.epsilon([events.Gaussian(spend.multiplier / 2)], delta)
    return _words(doubled, float(delta))


def _words(epsilon: float, delta: float) -> str:
    if math.isinf(epsilon):
        return "ρ alone"
    return f"ε = {epsilon:.4g}" + (f", δ = {delta:.3g}" if delta else "")
