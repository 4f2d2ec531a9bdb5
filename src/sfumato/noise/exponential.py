"""The exponential mechanism, P(i) ∝ e^(u_i / scale), drawn exactly (docs/proofs/exponential.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp, gaps_below_best
from sfumato.noise.sampling.bits import OS
from sfumato.noise.selection import SelectionMechanism, expected_shortfall, likely_shortfall, parse_scores
from sfumato.privacy import events

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class ExponentialMechanism(SelectionMechanism):
    """Chooses a candidate with probability ∝ exp(ε·u / (2·sensitivity)), or without the 2 if monotone.

    Privacy
    -------
    Protects : one unit, add/remove, that changes every utility by at most `sensitivity`, and all of them in
               the same direction if `monotone`.
    Costs    : Exponential(epsilon): ε in pure ε, and its privacy loss has a range of ε.
    Because  : docs/proofs/exponential.md
    Assumes  : the utilities are exact integers of a public list of candidates; how long a draw takes is not
               observed.
    """

    def event(self) -> events.Exponential:
        """Return the price of one choice."""
        return events.Exponential(self.epsilon)

    def release(self, utilities: Any, *, source: BitSource = OS) -> int:
        """Return the index of the chosen candidate."""
        scores = parse_scores(utilities)
        return observed(
            self,
            scores,
            self.sensitivity,
            lambda: build_bernoulli_exp(self.scale).pick(gaps_below_best(scores), source),
        )

    def expected_error(self, count: int) -> float:
        """Return a bound on the mean utility lost against the best of `count` candidates."""
        return expected_shortfall(self.scale, count)

    def shortfall(self, count: int, confidence: Number) -> int:
        """Return a bound, at this confidence, on the utility lost against the best of `count` candidates."""
        return likely_shortfall(self.scale, count, confidence)
