"""The privacy guarantee of a fitted estimator, in words and as numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.errors.numbers import format_number
from sfumato.oracle.blocks import share_of
from sfumato.oracle.fit_budget import FitBudget, to_event
from sfumato.privacy import composition, events
from sfumato.privacy.conversion import renyi_epsilon
from sfumato.privacy.events import Repeated, Sequential
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections import Counter
    from fractions import Fraction

    from sfumato.privacy.events import Event

# How far floating point can weaken the promise: not at all; not at all, if doubles are as IEEE 754 says; or
# in ways that were not proven.
EXACT = "exact: integers on a public grid, noise drawn exactly"
COVERED = "exact noise on a public grid, which covers what a solver and doubles leave"
IDEALISED = "idealised arithmetic: proven for real numbers, computed with doubles"


@dataclass(frozen=True, slots=True, repr=False)
class Guarantee(viz.NamedLines):
    """Who is protected, against which change, and how much a fit can reveal."""

    neighbours: str
    unit: str
    epsilon: float
    delta: float
    rho: float | None
    replaced: str
    """What is promised if a unit is replaced instead, in words."""
    arithmetic: str
    others: str = ""
    """What all fits of the estimator cost together, in words, where there were several."""
    assumes: str = ""
    """What is taken on trust, in words, where something is."""

    @classmethod
    def of(
        cls,
        budget: FitBudget,
        *,
        unit: str = "one row",
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        arithmetic: str = EXACT,
    ) -> Guarantee:
        """Return the guarantee of a fit that spent this budget."""
        epsilon = math.inf if budget.epsilon is None else float(budget.epsilon)
        rho = None if budget.rho is None else float(budget.rho)
        replaced = "" if neighbours is Neighbours.REPLACE_ONE else _replaced(budget)
        return cls(neighbours.value, unit, epsilon, float(budget.delta), rho, replaced, arithmetic)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name."""
        return asdict(self)

    def _lines(self) -> list[tuple[str, str]]:
        change = "is added or removed" if self.neighbours == "add-remove" else "is replaced"
        lines = [("protects", f"{self.unit}, which {change}"), ("costs", self.cost_in_words)]
        if self.replaced:
            lines.append(("if replaced", self.replaced))
        lines.append(("arithmetic", self.arithmetic))
        more = [("together", self.others), ("assumes", self.assumes)]
        return lines + [(name, text) for name, text in more if text]

    @property
    def cost_in_words(self) -> str:
        """What the fit cost: ε and δ, or ρ."""
        return _words(self.epsilon, self.delta) if self.rho is None else f"ρ = {format_number(self.rho)}"


def describe_fits(fits: Counter[tuple[Event, ...]], delta: Fraction, called: str = "fits") -> str:
    """Return what several fits on the same rows cost together, in words; nothing where there was one."""
    if fits.total() == 1:
        return ""
    every = Sequential(tuple(Repeated(Sequential(fit), times) for fit, times in fits.items()))
    pure = every.pure()
    total = float(pure) if pure is not None else renyi_epsilon(every, delta) if delta else math.inf
    found = "" if math.isinf(total) else f": {_words(total, float(delta))}"
    return f"{fits.total()} {called} of this estimator and its clones so far, if on the same rows{found}"


@lru_cache(maxsize=64)
def _replaced(budget: FitBudget) -> str:
    """Return what is promised if a unit is replaced: one is removed and another added.

    Every sum has twice the sensitivity then.
    """
    if budget.whole is not None and budget.epsilon is not None and budget.delta:
        epsilon, seldom = float(budget.epsilon), float(budget.delta)
        # (1 + e^ε)·δ is at most 2·e^ε·δ; where that reaches 1, a δ promises nothing.
        if epsilon + math.log(2 * seldom) >= 0:
            return "nothing is promised"
        # Group privacy for two changes: 2ε and (1 + e^ε)·δ.
        return _words(2 * epsilon, (1 + math.exp(epsilon)) * seldom)
    if budget.rho is not None:
        # ρ grows with the square of the sensitivity.
        return f"ρ = {format_number(float(4 * budget.rho))}"
    if isinstance(budget.main, PureSpend) or budget.epsilon is None:
        return _words(2 * float(budget.epsilon or 0), 0.0)
    delta = budget.delta / 2 if budget.first else budget.delta
    # Twice the sensitivity is half the noise multiplier; pure ε doubles.
    doubled = composition.epsilon([events.Gaussian(budget.main.multiplier / 2)], delta)
    instead = 2 * float(budget.alone.epsilon)
    if budget.first:
        before = GaussianSpend(budget.main.multiplier / 2, "")
        instead += composition.epsilon([to_event(share_of(before, budget.first))], delta)
    first = 0.0 if budget.aside is None else 2 * float(budget.aside.epsilon)
    return _words(first + max(doubled, instead), float(budget.delta))


def _words(epsilon: float, delta: float) -> str:
    return f"ε = {format_number(epsilon)}" + (f", δ = {format_number(delta, 3)}" if delta else "")
