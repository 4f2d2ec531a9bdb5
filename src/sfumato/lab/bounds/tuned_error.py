"""The expected error of a tuned question: noise, and what its bounds leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.curator.answers.quote import ExpectedError
    from sfumato.lab.bounds.tuning import PickedBounds


@dataclass(frozen=True, slots=True)
class TunedError:
    """The error that noise brings, and what the bounds that were picked are expected to lose."""

    noise: ExpectedError
    picked: PickedBounds

    def half_widths(self, confidence: float) -> dict[str, float | None]:
        """Return half the width of each number's interval, noise only."""
        return self.noise.half_widths(confidence)

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines of a quote, as names and texts."""
        return [("picked", str(self.picked)), *self.noise.lines(), ("estimated bias", self.picked.bias)]

    def shared_by(self) -> str:
        """Return what the spend is split over, in words."""
        return self.noise.shared_by()
