"""Which method to play, by public facts alone: experts, horizon, price, and what is assumed of losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.continual.planning import square_root_variance
from sfumato.online.experts.blocks import RestartedBlocks
from sfumato.online.experts.lazy import LazyMajority
from sfumato.online.experts.leader import NoisyLeader, mean_of_greatest
from sfumato.online.experts.rates import require_within
from sfumato.online.experts.realizable import RealizableExperts
from sfumato.online.experts.weights import WeightedMajority
from sfumato.privacy.calibration import gaussian_sigma

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.online.experts.method import ExpertMethod

NON_PRIVATE: Final = "non-private"
LOSSES: Final = ("adaptive", "oblivious", "realizable")
"""What may be assumed of losses for a bound on regret, ever more. Privacy assumes nothing."""

_NEEDS: Final = {
    "weights": "adaptive",
    "leader": "oblivious",
    "lazy": "oblivious",
    "realizable": "realizable",
}
"""What the bound of each private method needs, in the order in which `auto` tries them."""

METHODS: Final = ("auto", NON_PRIVATE, "source", *_NEEDS, "blocks")


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
    shifts: int


def plan_method(name: str, facts: Facts) -> Planned:
    """Return the method of this name for these facts, or with `auto` the one of least proven regret."""
    if name not in METHODS:
        raise UsageError("SF-N625", "There is no such method.", got=name, allowed=", ".join(METHODS))
    if name == NON_PRIVATE:
        method = WeightedMajority.without_privacy(facts.experts, facts.horizon)
        return Planned(name, method, "asked for; NOT PRIVATE, for comparison only", "adaptive")
    planned = _plan_private(name, facts)
    require_within(planned.method.event(), facts.epsilon, facts.delta)
    return planned


def _plan_private(name: str, facts: Facts) -> Planned:
    if name == "blocks" or (name == "auto" and facts.shifts):
        return _plan_blocks(facts)
    if name == "auto":
        return _plan_best(facts)
    return Planned(name, _plan_one(name, facts), "asked for", _NEEDS.get(name, "adaptive"))


def _plan_one(name: str, facts: Facts) -> ExpertMethod:
    if name in ("source", "leader") and not facts.delta:
        raise UsageError("SF-N626", "This method needs a delta above 0.", got=name, try_="delta=1e-6")
    kinds: dict[str, Callable[..., ExpertMethod]] = {
        "source": WeightedMajority.by_source,
        "weights": WeightedMajority.calibrated,
        "leader": NoisyLeader.calibrated,
        "lazy": LazyMajority.calibrated,
        "realizable": RealizableExperts.calibrated,
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
    listed = ", ".join(f"{name} {bound / facts.horizon:.3g}" for name, bound in bounds.items())
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


def _plan_blocks(facts: Facts) -> Planned:
    """Return restarts after as many steps as promise the least regret with so many shifts."""
    shifts = max(1, facts.shifts)
    lengths = sorted(
        {max(2, facts.horizon * part // 64 // (shifts + 1)) for part in (1, 2, 4, 8, 16, 24, 32, 48, 64)}
    )
    length = min(lengths, key=lambda each: shifts * each + facts.horizon / each * _guess_regret(each, facts))
    losses = "oblivious" if facts.losses == "realizable" else facts.losses
    block = Facts(facts.experts, length, facts.epsilon, facts.delta, losses, 0)
    inner = _plan_best(block)
    method = RestartedBlocks(facts.experts, facts.horizon, inner.method, shifts)
    why = f"the best expert shifts {shifts}×: blocks of {length:,} steps, each with {inner.name}"
    return Planned("blocks", method, why, inner.needs)


def _guess_regret(length: int, facts: Facts) -> float:
    """Return about what a block loses; it chooses a length, and neither price nor bound depends on it."""
    if not facts.delta or facts.losses == "adaptive":
        return (
            WeightedMajority.calibrated(facts.experts, length, facts.epsilon, facts.delta)
            .bounds(np.array(length))
            .item()
        )
    sigma = gaussian_sigma(facts.epsilon, facts.delta, 1) * math.sqrt(facts.experts)
    spread = sigma * math.sqrt(square_root_variance(length))
    return min(length, mean_of_greatest(facts.experts) * (spread + length / (4 * spread)))
