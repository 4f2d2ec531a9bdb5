"""How much noise a run needs, and what it costs by each way of accounting.

A run on own arrays is fixed in advance, so privacy-loss distributions price it. Behind the curator an account
adds up many charges, by filters that hold whatever is asked next: these need more noise for the same ε.

Because : docs/proofs/dp-sgd.md
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.deep.batches import PoissonBatches
from sfumato.errors import UsageError
from sfumato.privacy import composition
from sfumato.privacy.account import caps, find_epsilon, price
from sfumato.privacy.bisection import find_smallest
from sfumato.privacy.budget import Budget
from sfumato.privacy.calibration import COARSE, sampled_sigma
from sfumato.privacy.conversion import renyi_epsilon
from sfumato.privacy.events import Repeated
from sfumato.privacy.exact import parse_positive, parse_probability
from sfumato.privacy.losses.sampled_groups import group_epsilon
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.deep.batches import Batches
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

_PRECISION = 1e-4
"""Relative width of the grid on which noise is searched for; it is rounded up."""


@lru_cache(maxsize=64)
def solve_multiplier(batches: Batches, steps: int, epsilon: Number, delta: Number) -> float:
    """Return the least noise multiplier for which a run of so many steps is (ε, δ)-private."""
    if isinstance(batches, PoissonBatches):
        return sampled_sigma(batches.rate, steps, epsilon, delta)
    target, share = float(parse_positive(epsilon, "epsilon")), parse_probability(delta, "delta")

    def holds(multiplier: float) -> bool:
        # Loss distributions of batches of a fixed size are not known; Rényi divergences are.
        return renyi_epsilon(batches.event(multiplier, steps), share) <= target

    return find_smallest(holds, 0.25, 0.5, precision=_PRECISION)


@lru_cache(maxsize=64)
def solve_charged_multiplier(batches: Batches, steps: int, epsilon: Number, delta: Number) -> float:
    """Return the least noise multiplier for which an account of (ε, δ) would just hold the whole run."""
    limits = caps(Budget.of(epsilon, delta))
    if max(limits.renyi) <= 0:
        raise UsageError(
            "SF-N316",
            "Gaussian noise needs a delta above 0, and one that is not too small for its epsilon.",
            try_="delta=1e-6",
        )
    return find_smallest(
        lambda multiplier: limits.holds(price(batches.event(multiplier, steps))),
        0.25,
        0.5,
        precision=_PRECISION,
    )


@lru_cache(maxsize=256)
def find_run_epsilon(event: Event, delta: Fraction) -> float:
    """Return the ε of a run that is fixed in advance, by the tightest proven way."""
    if event.neighbours is Neighbours.REPLACE_ONE:
        return renyi_epsilon(event, delta)
    return composition.epsilon(event, delta, step=COARSE)


@lru_cache(maxsize=64)
def find_charged_epsilon(event: Event, delta: Fraction) -> float:
    """Return the ε of the smallest account that would hold a run, by the account's own filters."""
    return float(find_epsilon(price(event), delta))


@lru_cache(maxsize=64)
def find_group_epsilon(event: Event, k: int, delta: Fraction) -> float:
    """Return the ε of a run with Poisson batches for k units that are added or removed together."""
    return group_epsilon(event, k, delta)


def find_spent_epsilon(event: Event, epsilon: Number, delta: Number, steps: int) -> float:
    """Return an ε for the first steps of a run at its δ, never above that of the whole run."""
    whole = float(parse_positive(epsilon, "epsilon"))
    if not isinstance(event, Repeated):
        return whole
    share = parse_probability(delta, "delta")
    return min(whole, find_run_epsilon(Repeated(event.event, steps), share))
