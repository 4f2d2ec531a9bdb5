"""The expected error of a question with bounds of its own, with facts about these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.curator.answers.quote import ExpectedError


@dataclass(frozen=True, slots=True)
class TunedError:
    """The error that noise brings under bounds that were picked, with facts about these bounds."""

    noise: ExpectedError
    bounds: tuple[tuple[str, str], ...]
    """Names of these facts with a sentence each, such as the estimated bias."""

    def half_widths(self, confidence: float) -> dict[str, float | None]:
        """Return half the width of each number's interval, noise only."""
        return self.noise.half_widths(confidence)

    def error_rows(self) -> list[tuple[str, str, str]]:
        """Return each column with its error and what the error assumes."""
        return self.noise.error_rows()

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts about the bounds before all others."""
        return [*self.bounds, *self.noise.facts()]

    def shared_by(self) -> str:
        """Return what the spend is split over, in words."""
        return self.noise.shared_by()
