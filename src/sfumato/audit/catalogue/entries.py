"""One row of the catalogue: a thing that is shipped, and how it is audited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.audit.blackbox import ALPHA

if TYPE_CHECKING:
    from collections.abc import Callable


class AuditOutcome(Protocol):
    """What every audit says, whichever layer it is of."""

    @property
    def claim(self) -> str:
        """Claim that was audited."""

    @property
    def violates(self) -> bool:
        """True where the claim is broken."""

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A mechanism, question, learner, stream, survey, trainer or generator, and the audit of its claim."""

    kind: str
    name: str
    attack: Callable[[int, float], AuditOutcome]
    """Takes how many times the fewest samples to draw, and the probability of a false alarm."""
    needs: str = ""
    """Library without which this entry is left out."""

    def audit(self, effort: int = 1, alpha: float = ALPHA) -> AuditOutcome:
        """Return the verdict, from so many times the samples of the fast catalogue."""
        return self.attack(effort, alpha)
