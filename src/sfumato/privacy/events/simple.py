"""Events of single mechanisms. Why each price is right: docs/proofs/events.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import UsageError
from sfumato.privacy import divergences
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events.event import Event
from sfumato.privacy.exact import (
    parse_exact,
    parse_noise_scale,
    parse_nonnegative,
    parse_probability,
    parse_whole,
    round_up,
)
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from sfumato.privacy.divergences import Curve
    from sfumato.privacy.exact import Number


@tagged("Pure", "epsilon")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Pure(Event):
    """Any ε-DP mechanism. Its curve is that of randomized response, which dominates all others.

    Because : docs/proofs/events.md#pure
    """

    tag: ClassVar[str] = "pure"
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", parse_nonnegative(epsilon, "epsilon"))

    def pure(self) -> Fraction:
        return self.epsilon

    def curve(self) -> Curve:
        return divergences.randomized_response(float(self.epsilon))


@tagged("Laplace", "scale")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Laplace(Event):
    """Continuous Laplace noise; `scale` is that of the noise over the l1 sensitivity.

    Because : docs/proofs/events.md#laplace-noise
    """

    tag: ClassVar[str] = "laplace"
    scale: Fraction

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", parse_noise_scale(scale, "scale"))

    def pure(self) -> Fraction:
        return 1 / self.scale

    def curve(self) -> Curve:
        return divergences.laplace(float(1 / self.scale))


@tagged("DiscreteLaplace", "scale", "l1")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteLaplace(Event):
    """Integer Laplace noise of one `scale` on a vector whose l1 norm moves by at most `l1` grid steps.

    Because : docs/proofs/discrete-laplace.md
    """

    tag: ClassVar[str] = "discrete-laplace"
    scale: Fraction
    l1: int

    def __init__(self, scale: Number, l1: int) -> None:
        object.__setattr__(self, "scale", parse_noise_scale(scale, "scale"))
        object.__setattr__(self, "l1", parse_whole(l1, "l1"))

    def pure(self) -> Fraction:
        return self.l1 / self.scale

    def curve(self) -> Curve:
        return divergences.discrete_laplace(float(1 / self.scale), self.l1)


@tagged("KNorm", "scale", "norm")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class KNorm(Event):
    """Noise whose law falls by e^(−1 / scale) a step of a norm, on cells that move by at most `norm` steps.

    Its curve is that of randomized response, which dominates every mechanism of this ε.

    Because : docs/proofs/k-norm.md
    """

    tag: ClassVar[str] = "k-norm"
    scale: Fraction
    norm: int

    def __init__(self, scale: Number, norm: int) -> None:
        object.__setattr__(self, "scale", parse_noise_scale(scale, "scale"))
        object.__setattr__(self, "norm", parse_whole(norm, "norm"))

    def pure(self) -> Fraction:
        return self.norm / self.scale

    def curve(self) -> Curve:
        return divergences.randomized_response(float(self.pure()))


@tagged("Gaussian", "sigma")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Gaussian(Event):
    """Gaussian noise, continuous or rounded to a grid; `sigma` is its deviation over the l2 sensitivity.

    Because : docs/proofs/events.md#gaussian-noise
    """

    tag: ClassVar[str] = "gaussian"
    sigma: Fraction

    def __init__(self, sigma: Number) -> None:
        object.__setattr__(self, "sigma", parse_noise_scale(sigma, "sigma"))

    def pure(self) -> None:
        return None

    def curve(self) -> Curve:
        return divergences.gaussian(float(self.sigma * self.sigma))


@tagged("Concentrated", "rho")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Concentrated(Event):
    """Any ρ-zCDP mechanism, such as steps chosen as answers come in whose ρ add up to this much at most.

    Because : docs/proofs/events.md#concentrated
    """

    tag: ClassVar[str] = "concentrated"
    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", parse_nonnegative(rho, "rho"))

    def pure(self) -> None:
        return None

    def curve(self) -> Curve:
        rho = float(self.rho)
        return lambda order: rho * order


@tagged("Exponential", "epsilon")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Exponential(Event):
    """A choice ∝ exp(ε·u/(2Δu)), or ∝ exp(ε·u/Δu) where all scores move the same way: ε-bounded range.

    Permute-and-flip and noisy maxima with other noise are not of bounded range; they are `Pure`.

    Because : docs/proofs/events.md#bounded-range
    """

    tag: ClassVar[str] = "exponential"
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", parse_nonnegative(epsilon, "epsilon"))

    def pure(self) -> Fraction:
        return self.epsilon

    def curve(self) -> Curve:
        return divergences.bounded_range(float(self.epsilon))


@tagged("RandomizedResponse", "epsilon", "values")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class RandomizedAnswer(Event):
    """Randomized response: one of `values` answers, the true one e^ε times as likely as each other.

    The truth of one respondent is replaced; that there is a respondent is not hidden.

    Because : docs/proofs/events.md#randomized-response
    """

    tag: ClassVar[str] = "randomized-response"
    epsilon: Fraction
    values: int

    def __init__(self, epsilon: Number, values: int = 2) -> None:
        object.__setattr__(self, "epsilon", parse_nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "values", parse_whole(values, "values"))
        if self.values < 2:
            raise UsageError("SF-N101", "Randomized response needs at least two possible answers.")

    @classmethod
    def truthful(cls, chance: Number, values: int = 2) -> RandomizedAnswer:
        """Return the protocol that answers truthfully with this probability, and else uniformly wrong.

        ε = ln(chance·(values − 1)/(1 − chance)), rounded up: the fair coin's 3/4 gives ln 3.
        """
        truth = parse_exact(chance, "chance")
        if not 1 <= values * truth < values:
            raise UsageError(
                "SF-N101",
                "The probability of a truthful answer must be at least 1/values and below 1.",
                got=str(chance),
            )
        return cls(round_up(math.log(truth * (values - 1) / (1 - truth))), values)

    def pure(self) -> Fraction:
        return self.epsilon

    def curve(self) -> Curve:
        return divergences.kary_randomized_response(float(self.epsilon), self.values)

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours.REPLACE_ONE


@tagged("ApproxDP", "epsilon", "delta")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Event):
    """Any (ε, δ)-DP mechanism: as if a hidden coin showed all with chance δ, and else an ε-DP answer.

    Because : docs/proofs/events.md#approximate
    """

    tag: ClassVar[str] = "approx"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", parse_nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "delta", parse_probability(delta, "delta"))

    def pure(self) -> Fraction:
        return self.epsilon

    def curve(self) -> Curve:
        return divergences.randomized_response(float(self.epsilon))

    def side_delta(self) -> Fraction:
        return self.delta


@tagged("ThresholdedKeys", "epsilon", "delta")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class ThresholdedKeys(Event):
    """Key discovery: keys released only where enough units have them, (ε, δ)-DP as the mechanism proves.

    Because : docs/proofs/events.md#approximate
    """

    tag: ClassVar[str] = "thresholded-keys"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", parse_nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "delta", parse_probability(delta, "delta"))

    def pure(self) -> Fraction:
        return self.epsilon

    def curve(self) -> Curve:
        return divergences.randomized_response(float(self.epsilon))

    def side_delta(self) -> Fraction:
        return self.delta


@tagged("NonPrivate")
@dataclass(frozen=True, slots=True, repr=False)
class NonPrivate(Event):
    """A use of the data without any guarantee. It can be written down but never charged."""

    tag: ClassVar[str] = "non-private"

    def pure(self) -> None:
        return None

    def curve(self) -> Curve:
        return lambda order: math.inf

    def side_delta(self) -> Fraction:
        return Fraction(1)
