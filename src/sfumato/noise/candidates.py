"""What every choice among candidates is told: their scores, and how sharply to choose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.noise.sampling.integers import IntArray, integers
from sfumato.noise.scales import LARGEST, SMALLEST
from sfumato.privacy.exact import Number, exact, positive, shown, whole

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(frozen=True, slots=True)
class SelectionMechanism:
    """A choice of one candidate whose score is high.

    `sensitivity` is the most that one unit changes any score by. `monotone` says that one unit changes all
    scores in the same direction, as it does with counts.
    """

    epsilon: Fraction
    sensitivity: int = 1
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "sensitivity", whole(self.sensitivity, "sensitivity"))
        yes_or_no(self.monotone, "monotone")
        require_sensible(self.scale)

    @property
    def scale(self) -> Fraction:
        """By how much a score must fall for its candidate to become e times less likely."""
        return (1 if self.monotone else 2) * self.sensitivity / self.epsilon


def candidates(scores: Any) -> IntArray:
    """The scores as one row of whole numbers; anything else is refused before a bit is drawn."""
    array = integers(scores)
    if array.ndim != 1:
        raise UsageError(
            "SF-N401", "Candidates stand in one row, with one score each.", got=f"{array.ndim} dimensions"
        )
    return array


def expected_shortfall(scale: Fraction, count: int) -> float:
    """scale · log(count): what exponential weights over `count` candidates lose on average, at most."""
    return float(scale) * math.log(whole(count, "count"))


def likely_shortfall(scale: Fraction, count: int, confidence: Number) -> int:
    """A t with (count − 1) · e^(−(t + 1) / scale) ≤ 1 − confidence, where no candidate i has a chance above
    e^(−gap_i / scale). Rounded up."""
    rare = 1 - share(confidence)
    others = whole(count, "count") - 1
    if others <= rare:
        return 0
    return math.floor(float(scale) * math.log(others / rare) * (1 + 1e-12))


def share(confidence: Number) -> Fraction:
    """A confidence, exact: at least 0 and below 1."""
    value = exact(confidence, "confidence")
    if not 0 <= value < 1:
        raise UsageError("SF-N204", "confidence must be at least 0 and below 1.", got=str(confidence)[:40])
    return value


def yes_or_no(value: Any, name: str) -> None:
    """Anything but True and False is refused: the text "no" would count as yes and buy less noise."""
    if not isinstance(value, bool):
        raise UsageError("SF-N403", f"{name} is True or False.", got=type(value).__name__)


def require_sensible(scale: Fraction) -> None:
    """A scale that hides nothing, or drowns everything, is refused."""
    if not SMALLEST <= scale <= LARGEST:
        raise UsageError(
            "SF-N402",
            "The choice is far too sharp or far too blunt.",
            got=f"a scale of {shown(scale)} in units of the score",
            allowed="from 1/1000 to 2^40",
            try_="scores on a coarser grid if it is too large, a smaller epsilon if it is too small",
        )
