"""Propose-test-release: a value is released if it is surely stable (docs/proofs/propose-test-release.md)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.laplace import LaplaceNoise, LaplaceQuotient
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import parse_integers
from sfumato.noise.sampling.inversion import tail_quantile
from sfumato.privacy.events import ApproxDP
from sfumato.privacy.exact import parse_confidence, parse_delta, parse_positive

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Proposal:
    """The value and its distance to instability, as auditors see them."""

    value: Any
    distance: int


@dataclass(frozen=True, slots=True)
class ProposeTestRelease:
    """Releases a value exactly if its noisy distance to instability reaches a threshold, and else nothing.

    Privacy
    -------
    Protects : one unit, add/remove.
    Costs    : ApproxDP(epsilon, delta).
    Because  : docs/proofs/propose-test-release.md
    Assumes  : `distance` is an exact integer that one unit changes by at most 1, and it is 0 or less whenever
               some neighbouring table has another value; how long a draw takes is not observed.
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", parse_delta(self.delta))
        self._noise()

    def event(self) -> ApproxDP:
        """Return the price of one test."""
        return ApproxDP(self.epsilon, self.delta)

    @property
    def threshold(self) -> int:
        """Smallest t that the noise reaches with probability δ at most: e^(−εt) / (1 + e^−ε) ≤ δ."""
        return tail_quantile(self._law(), self.delta)

    def release(self, value: Value, distance: Any, *, source: BitSource = OS) -> Value | None:
        """Return the value if the test passes, else None."""
        exact = parse_integers(distance)
        if exact.ndim:
            raise UsageError(
                "SF-N203", "A value has exactly one distance to instability.", got=f"{exact.size} of them"
            )
        proposal = Proposal(value, int(exact[()]))
        return observed(self, proposal, 1, lambda: self._test(value, exact, source))

    def chance(self, distance: int) -> float:
        """Return the probability that a value at this distance is released; it is then without error."""
        return self._law().tail_probability(self.threshold - distance)

    def distance_needed(self, confidence: Number) -> int:
        """Return the smallest distance that releases the value with this confidence, and at least 1/2."""
        # The noise is symmetric, so P(noise ≥ −m) = 1 − P(noise ≥ m + 1).
        rare = 1 - max(parse_confidence(confidence), Fraction(1, 2))
        return self.threshold + tail_quantile(self._law(), rare) - 1

    def _test(self, value: Value, exact: IntArray, source: BitSource) -> Value | None:
        noisy = self._noise().release(exact, source=source)
        return value if int(noisy[()]) >= self.threshold else None

    def _noise(self) -> LaplaceNoise:
        return LaplaceNoise.calibrated(self.epsilon, 1)

    def _law(self) -> LaplaceQuotient:
        return LaplaceQuotient(self.epsilon, 1)
