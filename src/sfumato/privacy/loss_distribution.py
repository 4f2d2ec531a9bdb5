"""Privacy loss distributions (PLDs) of runs fixed in advance, composed numerically (docs/proofs/curves.md).

Google's dp-accounting holds and convolves the distributions. Losses are discretised on a grid: by
connect-the-dots for upper bounds, rounded down for lower bounds. Both directions of a pair are kept, and the
worse one counts.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy import gaussian
from sfumato.privacy.events import (
    ApproxDP,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    KeyRelease,
    Laplace,
    Parallel,
    Pure,
    RandomizedAnswer,
    Repeated,
    Sampled,
    Sequential,
    SpreadExponential,
    SpreadLaplace,
    ThresholdedKeys,
)
from sfumato.privacy.loss_atoms import LossAtoms, approximate_dp, discrete_laplace, kary_randomized_response
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

Losses = Any  # dp_accounting's PrivacyLossDistribution, which has no types


@dataclass(frozen=True, slots=True)
class LossGrid:
    """The grid that losses are discretised on, and the direction of rounding."""

    step: float
    lower: bool

    def options(self) -> dict[str, Any]:
        """Return the options by which dp-accounting builds a distribution on this grid."""
        return {
            "value_discretization_interval": self.step,
            "pessimistic_estimate": not self.lower,
            "use_connect_dots": not self.lower,
        }


@lru_cache(maxsize=16)
def loss_distribution(event: Event, step: float = STEP, lower: bool = False) -> Losses:
    """Return the distribution that dominates an event, or with `lower` one that the event dominates."""
    grid = LossGrid(step, lower)
    parts = [_self_compose(part, times, grid) for part, times in _parts(event, lower).items()]
    return _compose(parts or [_atoms(approximate_dp(0.0, 0.0), grid)])


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
        if not isinstance(event, Laplace | DiscreteLaplace | Gaussian | RandomizedAnswer):
            _refuse(event)


def _self_compose(event: Event, times: int, grid: LossGrid) -> Losses:
    once = _single(event, grid)
    return once if times == 1 else once.self_compose(times)


def _compose(parts: list[Losses]) -> Losses:
    """Return the composition of all parts."""
    # The smallest two are composed first, so that few convolutions are long.
    ties = itertools.count()
    heap = [(part._pmf_remove.size, next(ties), part) for part in parts]
    heapq.heapify(heap)
    while len(heap) > 1:
        (_, _, one), (_, _, other) = heapq.heappop(heap), heapq.heappop(heap)
        both = one.compose(other)
        heapq.heappush(heap, (both._pmf_remove.size, next(ties), both))
    return heap[0][2]


@singledispatch
def _single(event: Event, grid: LossGrid) -> Losses:
    _refuse(event)


def _refuse(event: Event) -> NoReturn:
    raise UsageError(
        "SF-N311",
        "There is no proven loss distribution for this event.",
        got=event.tag,
        try_="sf.privacy.renyi_epsilon(events, delta)",
    )


@_single.register
def _(event: Gaussian, grid: LossGrid) -> Losses:
    return _library().from_gaussian_mechanism(float(event.sigma), **grid.options())


@_single.register
def _(event: Laplace, grid: LossGrid) -> Losses:
    _require_narrow(1 / event.scale)
    return _library().from_laplace_mechanism(float(event.scale), **grid.options())


@_single.register
def _(event: DiscreteLaplace, grid: LossGrid) -> Losses:
    _require_narrow(event.pure())
    if event.l1 > MOST_STEPS:
        _refuse(event)
    return _atoms(discrete_laplace(float(1 / event.scale), event.l1), grid)


@_single.register
def _(event: RandomizedAnswer, grid: LossGrid) -> Losses:
    _require_narrow(event.epsilon)
    return _atoms(kary_randomized_response(float(event.epsilon), event.values), grid)


@_single.register(Pure)
@_single.register(ApproxDP)
@_single.register(ThresholdedKeys)
def _(event: Pure | ApproxDP | ThresholdedKeys, grid: LossGrid) -> Losses:
    _require_narrow(event.epsilon)
    return _atoms(approximate_dp(float(event.epsilon), float(event.side_delta())), grid)


@_single.register
def _(event: Exponential, grid: LossGrid) -> Losses:
    # Upper bound: the pair that dominates every mechanism of this range. Lower bound: the pair centred in it.
    _require_narrow(event.epsilon)
    if grid.lower or not event.epsilon:
        return _atoms(approximate_dp(float(event.epsilon) / 2, 0.0), grid)
    reach = math.ceil(float(event.epsilon) / grid.step)
    at = np.arange(-reach, reach + 1) * grid.step
    return _dots(-reach, bounded_range_profile(float(event.epsilon), at), grid)


@_single.register
def _(event: Sampled, grid: LossGrid) -> Losses:
    rate, poisson = float(event.rate), event.relation is Neighbours.ADD_REMOVE
    if event.rate == 1:
        return _single(event.event, grid)
    if poisson and isinstance(event.event, Gaussian):
        sigma = float(event.event.sigma)
        return _library().from_gaussian_mechanism(sigma, sampling_prob=rate, **grid.options())
    if poisson and isinstance(event.event, Laplace):
        _require_narrow(1 / event.event.scale)
        scale = float(event.event.scale)
        return _library().from_laplace_mechanism(scale, sampling_prob=rate, **grid.options())
    pure = event.pure()
    if pure is None or grid.lower:
        _refuse(event)
    return _single(ApproxDP(pure, event.side_delta()), grid)


@_single.register
def _(event: Parallel, grid: LossGrid) -> Losses:
    # Upper bound: the pair whose δ(ε) is the maximum over the parts. Lower bound: a part that is large at
    # order 2.
    if grid.lower or len(event.events) < 2:
        dearest = max(event.events, key=lambda part: part.renyi(2.0), default=Pure(0))
        return loss_distribution(dearest, grid.step, grid.lower)
    parts = [loss_distribution(part, grid.step) for part in event.events]
    reach = 1 + max(math.ceil(_reach(part) / grid.step) for part in parts)
    at = np.arange(-reach, reach + 1) * grid.step
    largest = np.max([part.get_delta_for_epsilon(at) for part in parts], axis=0)
    return _dots(-reach, np.clip(largest, 0, 1), grid)


def _reach(part: Losses) -> float:
    """Return the largest finite loss of a distribution."""
    pmf = part._pmf_remove.to_dense_pmf()
    return float((pmf._lower_loss + pmf.size) * pmf._discretization)


def bounded_range_profile(epsilon: float, at: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the largest δ at each ε' within ±ε over all pairs of ε-bounded range (docs/proofs/events.md)."""
    profile: NDArray[np.floating[Any]] = np.expm1(np.minimum(0, (at - epsilon) / 2)) ** 2 / -math.expm1(
        -epsilon
    )
    return np.where(at <= -epsilon, -np.expm1(np.minimum(at, 0)), profile)


def _dots(first: int, deltas: NDArray[np.floating[Any]], grid: LossGrid) -> Losses:
    from dp_accounting.pld import pld_pmf

    last = first + len(deltas) - 1
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid.step, first, last, deltas)
    return _library().PrivacyLossDistribution(pmf)


def _atoms(atoms: LossAtoms, grid: LossGrid) -> Losses:
    from dp_accounting.pld import pld_pmf

    if grid.lower:
        # Rounding losses down gives a distribution that the true one dominates: a lower bound.
        floors = np.floor(atoms.losses / grid.step).astype(int)
        masses = {int(at): float(atoms.masses[floors == at].sum()) for at in np.unique(floors)}
        pmf = pld_pmf.create_pmf(masses, grid.step, atoms.infinite, pessimistic_estimate=False)
    else:
        dots = atoms.dots(grid.step)
        deltas = np.clip(atoms.profile(dots * grid.step), 0, 1)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(grid.step, dots, deltas)
    return _library().PrivacyLossDistribution(pmf)


def _require_narrow(epsilon: Fraction) -> None:
    if epsilon > WIDEST:
        raise UsageError("SF-N314", "An event's ε is too large to be composed.", most=f"{WIDEST:g}")


def _library() -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


def gaussian_mu(event: Event) -> float | None:
    """Return the μ of a composition of Gaussian events only, else None."""
    counts = _counts(event)
    normal = [(part, times) for part, times in counts.items() if isinstance(part, Gaussian)]
    if not normal or len(normal) < len(counts):
        return None
    return gaussian.compose_mu(normal)
