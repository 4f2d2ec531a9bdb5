"""Top-k selection: k exponential choices, one after the other (docs/proofs/top-k.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.exponential import ExponentialMechanism
from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp, gaps_below_best
from sfumato.noise.sampling.bits import OS
from sfumato.noise.selection import expected_shortfall, likely_shortfall, parse_scores
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Repeated
from sfumato.privacy.exact import parse_confidence, parse_positive, parse_whole

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number


@tagged("TopK", "epsilon", "k", "sensitivity", "monotone")
@dataclass(frozen=True, slots=True)
class TopK:
    """Chooses a candidate by the exponential mechanism at ε/k, sets it aside, and chooses again, k times.

    The answer is in the order of the choices. It has the law of adding Gumbel noise of this scale to every
    utility once and taking the k highest in order.

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
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "k", parse_whole(self.k, "k"))
        object.__setattr__(self, "sensitivity", self.single_choice().sensitivity)

    def single_choice(self) -> ExponentialMechanism:
        """Return the mechanism of a single choice."""
        return ExponentialMechanism(self.epsilon / self.k, self.sensitivity, self.monotone)

    def event(self) -> Repeated:
        """Return the price of all k choices."""
        return Repeated(self.single_choice().event(), self.k)

    def release(self, utilities: Any, *, source: BitSource = OS) -> list[int]:
        """Return the indices of the chosen candidates, the first choice first."""
        scores = parse_scores(utilities)
        if scores.size < self.k:
            raise UsageError(
                "SF-N203", "There are fewer candidates than k.", got=f"{scores.size} for k = {self.k}"
            )
        return observed(self, scores, self.sensitivity, lambda: self._choose(scores, source))

    def _choose(self, scores: IntArray, source: BitSource) -> list[int]:
        # A chosen candidate is removed, so the k choices are k different ones.
        weights, left, chosen = build_bernoulli_exp(self.single_choice().scale), np.arange(scores.size), []
        for _ in range(self.k):
            place = weights.pick(gaps_below_best(scores[left]), source)
            chosen.append(int(left[place]))
            left = np.delete(left, place)
        return chosen

    def expected_error(self, count: int) -> float:
        """Return a bound on the mean utility that a choice loses against the best candidate then left."""
        return expected_shortfall(self.single_choice().scale, count)

    def shortfall(self, count: int, confidence: Number) -> int:
        """Return a bound on what each choice loses, at this confidence for all k of them together."""
        rare = (1 - parse_confidence(confidence)) / self.k
        return likely_shortfall(self.single_choice().scale, count, 1 - rare)
