"""Privacy loss distributions (PLDs) of runs fixed in advance, composed numerically (docs/proofs/curves.md).

Losses are put on a grid: by connect-the-dots for upper bounds, by merging outcomes for lower bounds. Google's
dp-accounting knows the profiles of Gaussian and Laplace noise, also on samples. Both directions of a pair are
kept, and the worse one counts.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.privacy import gaussian
from sfumato.privacy.events import (
    ApproxDP,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    KeyRelease,
    KNorm,
    Laplace,
    Parallel,
    PrivacyProfile,
    Pure,
    RandomizedAnswer,
    RenyiCurve,
    Repeated,
    Sampled,
    Sequential,
    SpreadExponential,
    SpreadLaplace,
    ThresholdedKeys,
)
from sfumato.privacy.losses.atoms import (
    LossAtoms,
    approximate_dp,
    discrete_gaussian,
    discrete_laplace,
    kary_randomized_response,
    list_claimed,
)
from sfumato.privacy.losses.convolution import ComposedLosses
from sfumato.privacy.losses.masses import LossMasses, connect_dots
from sfumato.privacy.losses.merging import merge_atoms, merge_noise
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

STEP = 1e-4
"""Default step of the loss grid. A coarser step loosens the bounds and never invalidates them."""
WIDEST = 200.0
"""Largest loss of one event that a grid is made for."""

MOST_STEPS = 2**20
"""Largest l1 norm, in grid steps, whose losses are listed one by one."""


@dataclass(frozen=True, slots=True)
class LossGrid:
    """The grid that losses are discretised on, and the direction of rounding."""

    step: float
    lower: bool


@dataclass(frozen=True, slots=True, eq=False)
class LossPair:
    """The losses of one event when a unit is removed and when it is added."""

    remove: LossMasses
    add: LossMasses


@dataclass(frozen=True, slots=True, eq=False)
class LossDistribution:
    """Bounds on the δ and ε of a run: all of them above the truth, or with `lower` all below."""

    remove: ComposedLosses
    add: ComposedLosses

    def delta(self, epsilon: float) -> float:
        """Return a bound on δ at one ε."""
        return float(self.deltas(np.array([epsilon]))[0])

    def deltas(self, epsilons: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return bounds on δ at each ε."""
        return np.maximum(self.remove.delta(epsilons), self.add.delta(epsilons))

    def epsilon(self, delta: float) -> float:
        """Return a bound on the smallest ε for this δ."""
        return max(self.remove.epsilon(delta), self.add.epsilon(delta))

    @property
    def largest(self) -> float:
        """The largest finite loss."""
        return max(self.remove.largest, self.add.largest)


@lru_cache(maxsize=16)
def loss_distribution(event: Event, step: float = STEP, lower: bool = False) -> LossDistribution:
    """Return a distribution that dominates an event, or with `lower` one that the event dominates."""
    grid = LossGrid(step, lower)
    counts = _parts(event, lower) or Counter([Pure(0)])
    pairs = [(_single(part, grid), times) for part, times in counts.items()]
    remove = ComposedLosses([(pair.remove, times) for pair, times in pairs], lower=lower)
    if all(pair.add is pair.remove for pair, _ in pairs):
        return LossDistribution(remove, remove)
    return LossDistribution(remove, ComposedLosses([(pair.add, times) for pair, times in pairs], lower=lower))


def has_curve_only(event: Event) -> bool:
    """Return whether a part is known by its Rényi curve alone, or has too many losses to be listed."""
    return any(_has_no_losses(part) for part in _counts(event))


def _has_no_losses(part: Event) -> bool:
    if isinstance(part, DiscreteGaussian):
        # Noise is cut off ten deviations out, where it is rarer than any rounding.
        largest = part.l1 * (part.l1 + 20 * (part.sigma + 1)) / (part.sigma * part.sigma)
        return largest > WIDEST or part.sigma > MOST_STEPS // 32
    return isinstance(part, Concentrated | RenyiCurve)


def _parts(event: Event, lower: bool) -> Counter[Event]:
    """Return the single events of a composition and how often each occurs; Gaussian ones become one."""
    counts = _counts(event, lower)
    normal = {part: times for part, times in counts.items() if isinstance(part, Gaussian)}
    if sum(normal.values()) > 1:
        for part in normal:
            del counts[part]
        # Gaussian events compose exactly, so all of them are one event before anything is discretised.
        squares = sum((times / (part.sigma * part.sigma) for part, times in normal.items()), Fraction(0))
        counts[Gaussian(1 / math.sqrt(squares))] += 1
    return counts


def _counts(event: Event, lower: bool = False) -> Counter[Event]:
    match event:
        case Sequential():
            total: Counter[Event] = Counter()
            for part in event.events:
                total.update(_counts(part, lower))
            return total
        case Repeated():
            once = _counts(event.event, lower)
            return Counter({part: times * event.times for part, times in once.items()})
        case Grouped():
            counts = _counts(event.reduce_group(), lower)
            _require_attained(counts if lower else ())
            return counts
        case Parallel() if lower or len(event.events) < 2:
            # Lower bound: a part that is large at order 2.
            return _counts(max(event.events, key=lambda part: part.renyi(2.0), default=Pure(0)), lower)
        case SpreadLaplace() | SpreadExponential():
            return event.list_cells()
        case KeyRelease() if not lower:
            return _key_parts(event)
    return Counter([event])


def _key_parts(event: KeyRelease) -> Counter[Event]:
    """Return the parts of a release of keys: its δ beside its noise, or one (ε, δ) for Gaussian noise."""
    if event.event.pure() is None:
        return Counter([ApproxDP(event.epsilon, event.delta)])
    return _counts(event.event) + Counter([ApproxDP(0, event.delta)])


def _require_attained(counts: Iterable[Event]) -> None:
    """Refuse lower bounds for events whose group price is only an upper bound."""
    # For these events some mechanism attains the price of a group, because their sensitivities add up.
    for event in counts:
        if not isinstance(event, Laplace | DiscreteLaplace | DiscreteGaussian | Gaussian | RandomizedAnswer):
            _refuse(event)


@singledispatch
def _single(event: Event, grid: LossGrid) -> LossPair:
    _refuse(event)


def _refuse(event: Event) -> NoReturn:
    raise UsageError(
        "SF-N309",
        "There is no proven loss distribution for this event.",
        got=event.tag,
        try_="sf.privacy.renyi_epsilon(events, delta)",
    )


@_single.register
def _(event: Gaussian, grid: LossGrid) -> LossPair:
    return _additive("Gaussian", float(event.sigma), 1.0, grid)


@_single.register
def _(event: Laplace, grid: LossGrid) -> LossPair:
    _require_narrow(1 / event.scale)
    return _additive("Laplace", float(event.scale), 1.0, grid)


@_single.register
def _(event: DiscreteLaplace, grid: LossGrid) -> LossPair:
    _require_narrow(event.pure())
    if event.l1 > MOST_STEPS:
        _refuse(event)
    return _atoms(discrete_laplace(float(1 / event.scale), event.l1), grid)


@_single.register
def _(event: DiscreteGaussian, grid: LossGrid) -> LossPair:
    if _has_no_losses(event):
        _refuse(event)
    return _atoms(discrete_gaussian(float(event.sigma), event.l1), grid)


@_single.register
def _(event: PrivacyProfile, grid: LossGrid) -> LossPair:
    return _atoms(list_claimed(event.worst()), grid)


@_single.register
def _(event: RandomizedAnswer, grid: LossGrid) -> LossPair:
    _require_narrow(event.epsilon)
    return _atoms(kary_randomized_response(float(event.epsilon), event.values), grid)


@_single.register(Pure)
@_single.register(ApproxDP)
@_single.register(ThresholdedKeys)
def _(event: Pure | ApproxDP | ThresholdedKeys, grid: LossGrid) -> LossPair:
    _require_narrow(event.epsilon)
    return _atoms(approximate_dp(float(event.epsilon), float(event.side_delta())), grid)


@_single.register
def _(event: KNorm, grid: LossGrid) -> LossPair:
    # Upper bound: the pair that dominates every mechanism of this ε. Lower bound: no loss at all, because how
    # near a body comes to that pair depends on its shape.
    _require_narrow(event.pure())
    return _atoms(approximate_dp(0.0 if grid.lower else float(event.pure()), 0.0), grid)


@_single.register
def _(event: Exponential, grid: LossGrid) -> LossPair:
    # Upper bound: the pair that dominates every mechanism of this range. Lower bound: the pair centred in it.
    _require_narrow(event.epsilon)
    if grid.lower or not event.epsilon:
        return _atoms(approximate_dp(float(event.epsilon) / 2, 0.0), grid)
    reach = math.ceil(float(event.epsilon) / grid.step)
    at = np.arange(-reach, reach + 1) * grid.step
    return _dots(np.arange(-reach, reach + 1), bounded_range_profile(float(event.epsilon), at), grid)


@_single.register
def _(event: Sampled, grid: LossGrid) -> LossPair:
    rate, poisson = float(event.rate), event.relation is Neighbours.ADD_REMOVE
    if event.rate == 1:
        return _single(event.event, grid)
    if poisson and isinstance(event.event, Gaussian):
        return _additive("Gaussian", float(event.event.sigma), rate, grid)
    if poisson and isinstance(event.event, Laplace):
        _require_narrow(1 / event.event.scale)
        return _additive("Laplace", float(event.event.scale), rate, grid)
    pure = event.pure()
    if pure is None or grid.lower:
        _refuse(event)
    return _single(ApproxDP(pure, event.side_delta()), grid)


@_single.register
def _(event: Parallel, grid: LossGrid) -> LossPair:
    # Upper bound: the pair whose δ(ε) is the maximum over the parts.
    parts = [loss_distribution(part, grid.step) for part in event.events]
    reach = 1 + max(math.ceil(part.largest / grid.step) for part in parts)
    dots = np.arange(-reach, reach + 1)
    return _dots(dots, np.max([part.deltas(dots * grid.step) for part in parts], axis=0), grid)


def bounded_range_profile(epsilon: float, at: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the largest δ at each ε' within ±ε over all pairs of ε-bounded range (docs/proofs/events.md)."""
    profile: NDArray[np.floating[Any]] = np.expm1(np.minimum(0, (at - epsilon) / 2)) ** 2 / -math.expm1(
        -epsilon
    )
    return np.where(at <= -epsilon, -np.expm1(np.minimum(at, 0)), profile)


def _dots(dots: NDArray[np.int64], deltas: NDArray[np.floating[Any]], grid: LossGrid) -> LossPair:
    both = connect_dots(dots, np.clip(deltas, 0, 1), grid.step)
    return LossPair(both, both)


def _atoms(atoms: LossAtoms, grid: LossGrid) -> LossPair:
    if not grid.lower:
        dots = atoms.dots(grid.step)
        return _dots(dots, atoms.profile(dots * grid.step), grid)
    both = merge_atoms(atoms, grid.step)
    return LossPair(both, both)


def _additive(noise: str, scale: float, rate: float, grid: LossGrid) -> LossPair:
    """Return the losses of noise of this kind, on a Poisson sample where the rate is below 1."""
    remove = _one_way(noise, scale, rate, grid, "REMOVE")
    return LossPair(remove, remove if rate == 1 else _one_way(noise, scale, rate, grid, "ADD"))


@lru_cache(maxsize=8)
def _one_way(noise: str, scale: float, rate: float, grid: LossGrid, way: str) -> LossMasses:
    from dp_accounting.pld import privacy_loss_mechanism as library

    if grid.lower:
        return merge_noise(noise, scale, rate, grid.step, way)
    kind = library.GaussianPrivacyLoss if noise == "Gaussian" else library.LaplacePrivacyLoss
    law = kind(scale, sampling_prob=rate, adjacency_type=library.AdjacencyType[way])
    ends = law.connect_dots_bounds()
    first, last = math.floor(ends.epsilon_lower / grid.step), math.ceil(ends.epsilon_upper / grid.step)
    dots = np.arange(first, last + 1)
    return connect_dots(dots, np.asarray(law.get_delta_for_epsilon(dots * grid.step)), grid.step)


def _require_narrow(epsilon: Fraction) -> None:
    if epsilon > WIDEST:
        raise UsageError(
            "SF-N312", "An event's ε is too large to be composed.", most=format_number(WIDEST, 6)
        )


def gaussian_mu(event: Event) -> float | None:
    """Return the μ of a composition of Gaussian events only, else None."""
    counts = _counts(event)
    normal = [(part, times) for part, times in counts.items() if isinstance(part, Gaussian)]
    if not normal or len(normal) < len(counts):
        return None
    return gaussian.compose_mu(normal)
