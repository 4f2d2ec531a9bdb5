"""Sums with noise: how far one unit can move them, what that costs, and where noise is added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.summands import Summand
from sfumato.errors.checked import checked, require_field, require_positive
from sfumato.noise import GaussianNoise, LaplaceNoise, MatrixNoise
from sfumato.noise.additive import Noise
from sfumato.privacy.canonical import tagged, written_by
from sfumato.privacy.events import Event, Sequential

if TYPE_CHECKING:
    from sfumato.noise.sampling.integers import IntArray

Summed = TypeVar("Summed")

FREE = Sequential(())


# The three forms are those of the classes that this one replaced. They are hashed, so they stay.
def _write(sums: NoisySum[Any]) -> dict[str, Any]:
    """Return the form that is hashed: each kind of sum is written under a tag of its own."""
    sensitivity = sums.sensitivity
    match sums.of:
        case Summand():
            return {"": "Measured", "summand": sums.of, "moves": sensitivity, "noise": sums.noise}
        case int():
            norms = {"l1": sensitivity.l1, "l2_squared": sensitivity.l2_squared}
            return {"": "Noisy", "terms": sums.of, **norms, "noise": sums.noise}
        case None:
            return {"": "NoisyNumbers", "moves": sensitivity, "noise": sums.noise}
    raise TypeError(type(sums.of).__name__)


@written_by(_write)
@dataclass(frozen=True, slots=True)
@checked
class NoisySum(Generic[Summed]):
    """Sums that share one noise, or that no unit can move.

    Of the latter only the public number of rows is ever shown, and `Plan` checks that it is what is counted.
    All others are sums of zeros, and zeros are released whatever an engine found.
    """

    of: Summed
    """What is summed: a summand of a question, the number of terms of a learner, None for nodes or edges."""
    sensitivity: SumSensitivity
    noise: Noise | None

    def __post_init__(self) -> None:
        summed = self.of is None or type(self.of) in (Summand, int)
        require_field(summed, self, "of", "a summand, a number of terms, or nothing")
        exact = self.noise is None
        known = exact or type(self.noise) in (LaplaceNoise, GaussianNoise)
        require_field(known, self, "noise", "Laplace or Gaussian noise")
        require_field(
            exact == (self.sensitivity.l1 == 0), self, "noise", "one, unless no unit moves the sums"
        )

    @property
    def counts_public_rows(self) -> bool:
        """Whether an exact number of rows is released, which must be public."""
        return self.noise is None and isinstance(self.of, Summand) and self.of.bound != 0

    def event(self) -> Event:
        """Return what releasing these sums costs."""
        return FREE if self.noise is None else self.noise.event_for(self.sensitivity)

    def release(self, exact: IntArray) -> IntArray:
        """Return the exact sums plus fresh noise, in the same shape."""
        if self.noise is not None:
            return self.noise.release_for(exact, self.sensitivity)
        return exact if self.counts_public_rows else np.zeros(np.shape(exact), dtype=np.int64)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in one sum, as learners plan with it."""
        return 0.0 if self.noise is None else self.noise.planned_deviation


@tagged("NoisyMatrix", "of", "trace", "noise")
@dataclass(frozen=True, slots=True)
@checked
class NoisyMatrix:
    """Sums of all products of two entries of a vector, which share the noise of a matrix."""

    of: int
    """The number of sums: the upper triangle of the matrix."""
    trace: int
    """The largest trace of what one unit adds."""
    noise: MatrixNoise

    def __post_init__(self) -> None:
        require_positive(self, "trace")
        require_field(self.of == self.noise.sums, self, "of", "the sums that the noise is for")

    def event(self) -> Event:
        """Return what releasing these sums costs."""
        return self.noise.event(self.trace)

    def release(self, exact: IntArray) -> IntArray:
        """Return the exact sums plus fresh noise, in the same shape."""
        return self.noise.release(exact, norm=self.trace)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in one sum, as learners plan with it."""
        return self.noise.deviation


NoisyBlock = NoisySum[int] | NoisyMatrix
