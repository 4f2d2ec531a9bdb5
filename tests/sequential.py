"""Statistical tests that stop drawing as soon as they are decided, at a fixed rate of false alarms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.blackbox import compare_samplers
from sfumato.audit.claims import parse_claim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.audit.verdict import Verdict

LOOKS = 16, 8, 4, 2, 1
"""An audit looks after a sixteenth of its samples, and each time after twice as many."""
FEWEST = 125
"""Fewest samples to look at. Audits that users call take more, but the bounds are exact for any number."""
EARLY = 1 / 10
"""Share of alpha for all early looks together. The last look has the rest, so it is hardly weaker."""


class _Prefix:
    """A sampler that returns the first `count` of its samples, and draws only those that are missing."""

    def __init__(self, sampler: Callable[[int], Any]) -> None:
        self._sampler = sampler
        self._parts: list[Any] = []
        self._drawn = 0

    def __call__(self, count: int) -> Any:
        if count > self._drawn:
            self._parts.append(self._sampler(count - self._drawn))
            self._drawn = count
        if all(isinstance(part, np.ndarray) for part in self._parts):
            return np.concatenate(self._parts)[:count]
        return [each for part in self._parts for each in part][:count]


def audit_in_stages(target: tuple[Any, Any], claim: Any, *, samples: int, alpha: float) -> Verdict:
    """Audit a mistake that must be found; stop at the first look that finds it.

    Calls a true claim broken with probability at most `alpha`, by a union bound over the looks. All looks use
    the same stream of samples. A mistake that an audit of all samples finds is found here too, up to the
    tenth of `alpha` that the early looks have.
    """
    prefixes = tuple(map(_Prefix, target))
    sizes = sorted({max(FEWEST, samples // share) for share in LOOKS})
    early, stated = alpha * EARLY / (len(LOOKS) - 1), parse_claim(claim, 0)
    for size in sizes[:-1]:
        found = compare_samplers(prefixes, stated, samples=size, alpha=early)
        if found.violates:
            return found
    return compare_samplers(prefixes, stated, samples=samples, alpha=alpha * (1 - EARLY))


def have_shares(
    draw: Callable[[int], Any],
    shares: Mapping[int, float],
    *,
    off: float,
    alarm: float,
    missed: float,
    step: int = 500,
) -> bool:
    """Decide whether outcomes have these probabilities, by Wald's sequential test of each, both ways.

    `draw(n)` returns an array of n independent outcomes. If all probabilities are as stated, this returns
    False with probability at most `alarm`. If one is off by at least `off` of its standard deviations
    √(p(1 − p)), it returns True with probability at most `missed`. Both hold whenever the test stops,
    because likelihood ratios are martingales: of the share p + d to p, for every chance up to p, and of p to
    p + d, for every chance from p + d on (Ville's inequality).
    """
    ways = [
        (each, p, p + sign * off * math.sqrt(p * (1 - p))) for each, p in shares.items() for sign in (-1, 1)
    ]
    assert all(0 < wrong < 1 for _, _, wrong in ways)
    evidence = np.zeros(len(ways))
    open_ = np.ones(len(ways), dtype=bool)
    while open_.any():
        drawn = draw(step)
        for place, (outcome, p, wrong) in enumerate(ways):
            hits = int(np.count_nonzero(drawn == outcome))
            evidence[place] += hits * math.log(wrong / p) + (step - hits) * math.log((1 - wrong) / (1 - p))
        if (evidence[open_] >= math.log(len(ways) / alarm)).any():
            return False
        open_ &= evidence > math.log(missed)
    return True
