"""Which method to play, by public facts alone: experts, horizon, price, and what is assumed of losses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.online.experts.lazy import LazyMajority
from sfumato.online.experts.leader import NoisyLeader
from sfumato.online.experts.rates import require_within
from sfumato.online.experts.weights import WeightedMajority

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.online.experts.method import ExpertMethod

NON_PRIVATE: Final = "non-private"
LOSSES: Final = ("adaptive", "oblivious")
"""What may be assumed of losses for a bound on regret. Privacy assumes nothing."""

_NEEDS: Final = {
    "weights": "adaptive",
    "leader": "oblivious",
    "lazy": "oblivious",
}
"""What the bound of each private method needs, in the order in which `auto` tries them."""

METHODS: Final = ("auto", NON_PRIVATE, "source", *_NEEDS)


@dataclass(frozen=True, slots=True)
class Planned:
    """A method, its name, why it was taken, and what its bound on regret needs of losses."""

    name: str
    method: ExpertMethod
    why: str
    needs: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The public facts that a method is planned by."""

    experts: int
    horizon: int
    epsilon: Fraction
    delta: Fraction
    losses: str


def plan_method(name: str, facts: Facts) -> Planned:
    """Return the method of this name for these facts, or with `auto` the one of least proven regret."""
    if name not in METHODS:
        raise UsageError("SF-E187", "There is no such method.", got=name, allowed=", ".join(METHODS))
    if name == NON_PRIVATE:
        method = WeightedMajority.without_privacy(facts.experts, facts.horizon)
        return Planned(name, method, "asked for; NOT PRIVATE, for comparison only", "adaptive")
    planned = _plan_private(name, facts)
    require_within(planned.method.event(), facts.epsilon, facts.delta)
    return planned


def _plan_private(name: str, facts: Facts) -> Planned:
    if name == "auto":
        return _plan_best(facts)
    return Planned(name, _plan_one(name, facts), "asked for", _NEEDS.get(name, "adaptive"))


def _plan_one(name: str, facts: Facts) -> ExpertMethod:
    if name in ("source", "leader") and not facts.delta:
        raise UsageError("SF-N316", "This method needs a delta above 0.", got=name, try_="delta=1e-6")
    kinds: dict[str, Callable[..., ExpertMethod]] = {
        "source": WeightedMajority.by_source,
        "weights": WeightedMajority.calibrated,
        "leader": NoisyLeader.calibrated,
        "lazy": LazyMajority.calibrated,
    }
    return kinds[name](facts.experts, facts.horizon, facts.epsilon, facts.delta)


@lru_cache(maxsize=8)
def _plan_best(facts: Facts) -> Planned:
    """Return the method with the least bound on regret over the horizon, of those whose needs are met."""
    met = LOSSES[: LOSSES.index(facts.losses) + 1]
    names = [name for name, need in _NEEDS.items() if need in met and (facts.delta or name != "leader")]
    methods = _plan_possible(names, facts)
    bounds = {name: float(method.bounds(np.array(facts.horizon))) for name, method in methods.items()}
    best = min(bounds, key=bounds.__getitem__)
    listed = ", ".join(f"{name} {format_number(bound / facts.horizon, 3)}" for name, bound in bounds.items())
    return Planned(
        best,
        methods[best],
        f"least proven average regret for {facts.experts:,} experts, {facts.horizon:,} steps "
        f"and {facts.losses} losses: {listed}",
        _NEEDS[best],
    )


def _plan_possible(names: list[str], facts: Facts) -> dict[str, ExpertMethod]:
    """Return those of these methods that have a setting for the price; the first always has one."""
    found = {names[0]: _plan_one(names[0], facts)}
    for name in names[1:]:
        try:
            found[name] = _plan_one(name, facts)
            found[name].bounds(np.array(facts.horizon))
        except UsageError:
            found.pop(name, None)
    return found
