"""What mechanisms that select a candidate share: scores, sensitivity, and how much utility a choice loses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.noise.additive import COMBINED, SMALLEST
from sfumato.noise.sampling.integers import IntArray, parse_integers
from sfumato.privacy.exact import Number, parse_confidence, parse_positive, parse_whole, require_bool

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(frozen=True, slots=True)
class SelectionMechanism:
    """A private selection of one candidate whose score is high.

    `sensitivity` is the most that one unit changes any score by. `monotone` promises that one unit changes
    all scores in the same direction, as it does with counts.
    """

    epsilon: Fraction
    sensitivity: int = 1
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "sensitivity", parse_whole(self.sensitivity, "sensitivity"))
        require_bool(self.monotone, "monotone")
        require_scale(self.scale)

    @property
    def scale(self) -> Fraction:
        """How much a score must fall for its candidate to become e times less likely."""
        return (1 if self.monotone else 2) * self.sensitivity / self.epsilon


def parse_scores(scores: Any) -> IntArray:
    """Return the scores as a one-dimensional array of integers; refuse anything else."""
    array = parse_integers(scores)
    if array.ndim != 1:
        raise UsageError(
            "SF-N203",
            "Scores must be a one-dimensional array, one score per candidate.",
            got=f"{array.ndim} dimensions",
        )
    return array


def expected_shortfall(scale: Fraction, count: int) -> float:
    """Return scale · log(count), the most that the exponential mechanism loses on average."""
    return float(scale) * math.log(parse_whole(count, "count"))


def likely_shortfall(scale: Fraction, count: int, confidence: Number) -> int:
    """Return a loss of utility that is exceeded with probability 1 − confidence at most, rounded up.

    It is a t with (count − 1) · e^(−(t + 1) / scale) ≤ 1 − confidence, by a union bound: a candidate that
    lies `gap` below the best is selected with probability e^(−gap / scale) at most.
    """
    rare = 1 - parse_confidence(confidence)
    others = parse_whole(count, "count") - 1
    if others <= rare:
        return 0
    return math.floor(float(scale) * math.log(others / rare) * (1 + 1e-12))


def require_scale(scale: Fraction) -> None:
    """Refuse a scale that hides nothing or drowns everything."""
    if not SMALLEST <= scale <= COMBINED:
        raise UsageError(
            "SF-N201",
            "The scale of this choice is out of range.",
            got=f"a scale of {format_number(scale)} in units of the score",
            allowed="from 1/1000 to 2^40",
            try_="scores on a coarser grid if it is too large, a smaller epsilon if it is too small",
        )
