"""Membership from means: thousands of published averages tell who was averaged.

Homer and others (*Resolving individuals contributing trace amounts of DNA …*, 2008) found people in mixtures
of genomes; Dwork and others (*Robust traceability from trace amounts*, 2015) did so by inner products.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato import noise
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.attacks.real_lab import Floats

    Ints = NDArray[np.int64]

DELTA = 1e-6


def mean_membership(
    *, people: int = 100, attributes: int = 3600, trials: int = 300, epsilon: float = 1.0, seed: int = 0
) -> AttackReport:
    """Tell whether a person was averaged, from the means of thousands of yes-or-no attributes.

    The attacker knows the person's attributes and how common each is. In every trial a new person is added to
    the same group or not, by a coin, and all sums are released: exactly, rounded to whole per cent, or with
    Gaussian noise for (ε, δ), which is added to all sums together.
    """
    rng = np.random.default_rng(seed)
    common = rng.uniform(0.1, 0.9, attributes)
    group = (rng.random((people, attributes)) < common).sum(axis=0)
    person = (rng.random((trials, attributes)) < common).astype(np.int64)
    coin = rng.integers(0, 2, trials)
    sums: Ints = group + coin[:, None] * person
    size = people + coin[:, None]
    # A row of zeros and ones has norm √d at most.
    noisy = noise.gaussian(sums, sensitivity=math.ceil(math.sqrt(attributes)), epsilon=epsilon, delta=DELTA)

    def score(against: str, means: Floats, ceiling: float | None = None) -> Outcome:
        inside = score_members(person, means, common) > _halfway(common, people)
        return Outcome(against, int(np.sum(inside == (coin == 1))), trials, ceiling)

    return AttackReport(
        "membership-means",
        f"Whether somebody is among {people} people, from {attributes:,} means.",
        "people told right",
        0.5,
        (
            score("exact means", sums / size),
            score("means in whole per cent", np.round(sums / size, 2)),
            score(
                f"sfumato, Gaussian noise, ε = {format_number(epsilon)}, δ = {format_number(DELTA)}",
                noisy / people,
                guess_ceiling(epsilon, delta=DELTA),
            ),
        ),
    )


def score_members(rows: Ints, means: Floats, common: Floats) -> Floats:
    """Return how far each row leans towards the means, beyond what is common: the inner product of both."""
    return np.asarray(((rows - common) * (means - common)).sum(axis=1))


def _halfway(common: Floats, people: int) -> float:
    """Return half of what a member's own part adds to their score."""
    return float(np.sum(common * (1 - common))) / people / 2
