"""How the gradient of a unit is bounded: by a fixed norm, or scaled so that nothing needs tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

_ROUNDING = 1 - 2.0**-10
"""Norms are computed in the precision of the module; the factor leaves room for what that loses."""


class Clipping(Protocol):
    """Turns norms of gradients into factors: a factor times its norm is at most `norm`."""

    @property
    def norm(self) -> float:
        """The largest norm that a unit has after clipping."""

    def factors(self, norms: Tensor) -> Tensor:
        """Return the factor of each unit."""


@dataclass(frozen=True, slots=True)
class FixedNorm:
    """Longer gradients are shortened to the norm; others stay as they are."""

    norm: float

    def factors(self, norms: Tensor) -> Tensor:
        """Return norm / max(norm, length) for each unit."""
        return self.norm * _ROUNDING / norms.clamp(min=self.norm)


@dataclass(frozen=True, slots=True)
class Normalised:
    """Every gradient is scaled to nearly the norm, short ones a little less (automatic clipping).

    With it the learning rate alone sets the size of a step, so that there is no norm to be tuned.
    """

    norm: float = 1.0
    stability: float = 0.01

    def factors(self, norms: Tensor) -> Tensor:
        """Return norm / (length + stability) for each unit."""
        return self.norm * _ROUNDING / (norms + self.stability)
