"""The k highest candidates, one exponential choice after the other (docs/proofs/top-k.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.candidates import candidates, expected_shortfall, likely_shortfall, share
from sfumato.noise.exponential import ExponentialMechanism
from sfumato.noise.sampling.bernoulli_exp import below_best, chances
from sfumato.noise.sampling.bits import OS
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Repeated
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number


@tagged("TopK", "epsilon", "k", "sensitivity", "monotone")
@dataclass(frozen=True, slots=True)
class TopK:
    """Chooses a candidate by the exponential mechanism at ε/k, sets it aside, and chooses again, k times.

    The answer is in the order of the choices. Its law is that of adding Gumbel noise of the same scale to
    every utility once and reading off the k highest in order.

    Privacy
    -------
    Protects : one unit, add/remove, that changes every utility by at most `sensitivity`, and all of them in
               the same direction if `monotone`.
    Costs    : k times Exponential(epsilon / k): ε in pure ε, and less by its curve.
    Because  : docs/proofs/top-k.md
    Assumes  : the utilities are exact integers of a public list of candidates; how long a draw takes is not
               observed.
    """

    epsilon: Fraction
    k: int
    sensitivity: int = 1
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "k", whole(self.k, "k"))
        object.__setattr__(self, "sensitivity", self.one().sensitivity)

    def one(self) -> ExponentialMechanism:
        """The mechanism of a single choice."""
        return ExponentialMechanism(self.epsilon / self.k, self.sensitivity, self.monotone)

    def event(self) -> Repeated:
        return Repeated(self.one().event(), self.k)

    def release(self, utilities: Any, *, source: BitSource = OS) -> list[int]:
        """The places of the chosen candidates, the first choice first."""
        scores = candidates(utilities)
        if scores.size < self.k:
            raise UsageError(
                "SF-N404", "There are fewer candidates than places.", got=f"{scores.size} for k = {self.k}"
            )
        return observed(self, scores, self.sensitivity, lambda: self._chosen(scores, source))

    def _chosen(self, scores: IntArray, source: BitSource) -> list[int]:
        weights, left, chosen = chances(self.one().scale), np.arange(scores.size), []
        for _ in range(self.k):
            place = weights.pick(below_best(scores[left]), source)
            chosen.append(int(left[place]))
            left = np.delete(left, place)
        return chosen

    def expected_error(self, count: int) -> float:
        """Each choice loses at most this on average against the best then left of `count` candidates."""
        return expected_shortfall(self.one().scale, count)

    def shortfall(self, count: int, confidence: Number) -> int:
        """Each choice loses at most this against the best then left, all k of them with this confidence."""
        rare = (1 - share(confidence)) / self.k
        return likely_shortfall(self.one().scale, count, 1 - rare)
