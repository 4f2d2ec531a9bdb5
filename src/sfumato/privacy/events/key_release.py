"""Key discovery whose Rényi curve is that of its noise, beside the δ of its threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sfumato.privacy import divergences
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events.event import Event, require_event
from sfumato.privacy.exact import parse_nonnegative, parse_probability

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.privacy.divergences import Curve
    from sfumato.privacy.exact import Number
    from sfumato.privacy.neighbours import Neighbours


@tagged("KeyRelease", "epsilon", "delta", "event")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class KeyRelease(Event):
    """Key discovery that is (ε, δ)-DP, and beside its δ costs at most `event`.

    `event` is that of the noise on a list of keys that is fixed: pure, or Gaussian, where a part of δ pays
    for the losses of the noise that are above ε.

    Because : docs/proofs/keys.md#price
    """

    tag: ClassVar[str] = "key-release"
    epsilon: Fraction
    delta: Fraction
    event: Event

    def __init__(self, epsilon: Number, delta: Number, event: Event) -> None:
        object.__setattr__(self, "epsilon", parse_nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "delta", parse_probability(delta, "delta"))
        object.__setattr__(self, "event", require_event(event))

    def pure(self) -> Fraction:
        return self.epsilon

    def curve(self) -> Curve:
        alone, inner = divergences.randomized_response(float(self.epsilon)), self.event.curve()
        # Without its losses above ε the rest of Gaussian noise is likelier by 1/(1 − δ) at most.
        cut = 0.0 if self.event.pure() is not None else -math.log1p(-float(self.delta))
        return lambda order: min(alone(order), inner(order) + cut / (order - 1))

    def side_delta(self) -> Fraction:
        return self.delta

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours
