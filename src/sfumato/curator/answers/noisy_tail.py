"""How many units lie beyond each candidate for a bound, estimated from noisy counts, and which one to take.

This is post-processing: it sees noisy counts, the law of their noise and public candidates, and never a row.
A choice that turns out bad costs accuracy, and no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.answers.laws.drawn_noise import sum_half_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.answers.noise_law import Floats
    from sfumato.noise.additive import Noise

CHANCE = 0.001
"""Chance that any empty cell is taken for a cell with units."""
FURTHER = 3
"""Candidates that a bound may lie beyond the one that holds the last cell with units that were seen."""
_UNSEEN = 0.5
_DECAY = (0.1, 0.4)
"""Share of what a cell could hide that is expected there, and how fast cells beyond it grow empty.

These three were chosen by benchmarks/bounds.py: they make the mean total error on its two tables least.
"""
_USUAL = 0.95


@dataclass(frozen=True, slots=True)
class NoisyTail:
    """Noisy numbers of units in cells that are ordered outward, each unit in one cell."""

    counts: tuple[int, ...]
    noise: Noise

    @property
    def units(self) -> int:
        """The noisy number of all units."""
        return sum(self.counts)

    @property
    def seen(self) -> int | None:
        """The last cell whose count stands out of the noise; None where none does."""
        radius = self.noise.half_width(1 - CHANCE / len(self.counts))
        standing = [place for place, count in enumerate(self.counts) if count > radius]
        return standing[-1] if standing else None

    @property
    def expected(self) -> Floats:
        """Expected numbers of units in each cell.

        Up to the last cell that was seen they are the noisy ones. Beyond it single counts are mostly noise,
        so that cells are taken to grow empty as fast as the first of them at most allows.
        """
        found, seen = np.maximum(np.array(self.counts, dtype=np.float64), 0.0), self.seen
        if seen is None or seen + 1 == len(found):
            return found
        hidden = found[seen + 1] + math.sqrt(float(self.noise.moments.variance))
        first = min(_UNSEEN * hidden, found[seen])
        decay = min(max(first / found[seen], _DECAY[0]), _DECAY[1])
        found[seen + 1 :] = first * decay ** np.arange(len(found) - seen - 1)
        return found

    def expect_beyond(self, first: int) -> float:
        """Return the expected number of units from this cell on."""
        return float(self.expected[first:].sum())

    def pick_candidate(self, firsts: Sequence[int], allowed: float, barrier: int = -1) -> int | None:
        """Return the least candidate with so few units expected beyond it; None where no cell was seen.

        `firsts` has the first cell beyond each candidate. A bound goes at most `FURTHER` candidates beyond
        what was seen, and not beyond the cell `barrier` unless units were seen there.
        """
        seen = self.seen
        if seen is None:
            return None
        holds = next((at for at, first in enumerate(firsts) if first > seen), len(firsts) - 1)
        last = min(holds + FURTHER, len(firsts) - 1)
        if seen <= barrier:
            last = max(holds, min(last, max(at for at, first in enumerate(firsts) if first <= barrier + 1)))
        found = (at for at in range(last) if self.expect_beyond(firsts[at]) <= allowed)
        return next(found, last)

    def describe_beyond(self, first: int) -> str:
        """Return how many units lie from a cell on, in words, with how far off that is at 95 %."""
        cells = len(self.counts) - first
        if not cells:
            return "none"
        half = math.ceil(sum_half_width(self.noise, cells, _USUAL))
        return f"{max(sum(self.counts[first:]), 0):,} ± {half:,}"
