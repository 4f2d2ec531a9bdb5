"""Report noisy max: Laplace noise on every score, and only the winner told (docs/proofs/noisy-max.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.audit_hook import observed
from sfumato.noise.candidates import SelectionMechanism, candidates, expected_shortfall, share
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.sampling.bits import OS, below
from sfumato.privacy.events import Pure
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class NoisyMax(SelectionMechanism):
    """Adds integer Laplace noise of scale 2·sensitivity/ε, or without the 2 if monotone, and tells who leads.

    Integers tie. A tie is broken uniformly at random, which is as if the candidates had been put into a
    random order beforehand; the order says nothing about the data.

    Privacy
    -------
    Protects : one unit, add/remove, that changes every score by at most `sensitivity`, and all of them in
               the same direction if `monotone`.
    Costs    : Pure(epsilon), however many candidates there are.
    Because  : docs/proofs/noisy-max.md
    Assumes  : the scores are exact integers of a public list of candidates, and nothing but the winner's
               place is told; how long a draw takes is not observed.
    """

    def event(self) -> Pure:
        return Pure(self.epsilon)

    def release(self, scores: Any, *, source: BitSource = OS) -> int:
        """The place of the winner."""
        exact = candidates(scores)
        return observed(self, exact, self.sensitivity, lambda: self._winner(exact, source))

    def _winner(self, scores: IntArray, source: BitSource) -> int:
        noisy = LaplaceNoise(self.scale).release(scores, source=source)
        first = np.flatnonzero(noisy == noisy.max())
        return int(first[below(first.size, source)])

    def expected_error(self, count: int) -> float:
        """The score lost against the best of `count` candidates is at most this on average.

        That is what the highest of so many noises is, at most.
        """
        return float(self.scale) + expected_shortfall(self.scale, count)

    def shortfall(self, count: int, confidence: Number) -> int:
        """The score lost against the best of `count` candidates is at most this, with this confidence.

        That is so when no noise passes half of it in size; each may, by an equal part of the chance left.
        """
        rare = (1 - share(confidence)) / whole(count, "count")
        return 2 * LaplaceNoise(self.scale).half_width(1 - rare)
