"""Report noisy max: Laplace noise on every score, and only the winner told (docs/proofs/noisy-max.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.audit_hook import observed
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.sampling.bits import OS, draw_below
from sfumato.noise.selection import SelectionMechanism, expected_shortfall, parse_scores
from sfumato.privacy.events import Pure
from sfumato.privacy.exact import parse_confidence, parse_whole

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class NoisyMax(SelectionMechanism):
    """Adds integer Laplace noise of scale 2·sensitivity/ε to every score and reports who has the maximum.

    If the scores are monotone, the 2 is left out.

    Integers can tie. A tie is broken uniformly at random, as if the candidates had been put into a random
    order beforehand; the order says nothing about the data.

    Privacy
    -------
    Protects : one unit, add/remove, that changes every score by at most `sensitivity`, and all of them in
               the same direction if `monotone`.
    Costs    : Pure(epsilon), however many candidates there are.
    Because  : docs/proofs/noisy-max.md
    Assumes  : the scores are exact integers of a public list of candidates, and only the index of the winner
               is released; how long a draw takes is not observed.
    """

    def event(self) -> Pure:
        """Return the price of one choice."""
        return Pure(self.epsilon)

    def release(self, scores: Any, *, source: BitSource = OS) -> int:
        """Return the index of the winner."""
        exact = parse_scores(scores)
        return observed(self, exact, self.sensitivity, lambda: self._winner(exact, source))

    def _winner(self, scores: IntArray, source: BitSource) -> int:
        noisy = LaplaceNoise(self.scale).release(scores, source=source)
        first = np.flatnonzero(noisy == noisy.max())
        return int(first[draw_below(first.size, source)])

    def expected_error(self, count: int) -> float:
        """Return a bound on the mean score lost against the best of `count` candidates."""
        # The loss is at most the maximum of so many noises.
        return float(self.scale) + expected_shortfall(self.scale, count)

    def shortfall(self, count: int, confidence: Number) -> int:
        """Return a bound, at this confidence, on the score lost against the best of `count` candidates."""
        # It holds when no noise exceeds half of it in size: a union bound over the candidates.
        rare = (1 - parse_confidence(confidence)) / parse_whole(count, "count")
        return 2 * LaplaceNoise(self.scale).half_width(1 - rare)
