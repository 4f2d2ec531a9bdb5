"""Propose-test-release: a value is told if it is surely stable (docs/proofs/propose-test-release.md)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.candidates import share
from sfumato.noise.laplace import LaplaceNoise, LaplaceQuotient
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import integers
from sfumato.noise.tails import reached_rarely, reaching, risk
from sfumato.privacy.events import ApproxDP
from sfumato.privacy.exact import positive

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is put to the test, as auditors see it."""

    value: Any
    distance: int


@dataclass(frozen=True, slots=True)
class ProposeTestRelease:
    """Tells a value exactly, if its noisy distance to instability reaches a threshold; else tells nothing.

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
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", risk(self.delta))
        self._noise()

    def event(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    @property
    def threshold(self) -> int:
        """The smallest t that noise reaches with chance at most δ: e^(−εt) / (1 + e^−ε) ≤ δ, when t ≥ 0."""
        return reached_rarely(LaplaceQuotient(self.epsilon, 1), self.delta)

    def release(self, value: Value, distance: Any, *, source: BitSource = OS) -> Value | None:
        """The value, or none."""
        exact = integers(distance)
        if exact.ndim:
            raise UsageError(
                "SF-N408", "One value has one distance to instability.", got=f"{exact.size} of them"
            )
        proposal = Proposal(value, int(exact[()]))
        return observed(self, proposal, 1, lambda: self._tested(value, exact, source))

    def chance(self, distance: int) -> float:
        """The chance that a value at this distance is told, which it is without error."""
        return reaching(self._noise(), self.threshold - distance)

    def distance_needed(self, confidence: Number) -> int:
        """The smallest distance at which the value is told with this confidence, and at least even odds.

        P(noise ≥ −m) = 1 − P(noise ≥ m + 1), as the noise is symmetric.
        """
        rare = 1 - max(share(confidence), Fraction(1, 2))
        return self.threshold + reached_rarely(LaplaceQuotient(self.epsilon, 1), rare) - 1

    def _tested(self, value: Value, exact: IntArray, source: BitSource) -> Value | None:
        noisy = self._noise().release(exact, source=source)
        return value if int(noisy[()]) >= self.threshold else None

    def _noise(self) -> LaplaceNoise:
        return LaplaceNoise.calibrated(self.epsilon, 1)
