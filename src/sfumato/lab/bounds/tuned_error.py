"""The expected error of a tuned question, and the bounds that were picked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.curator.answers.quote import ExpectedError
    from sfumato.lab.bounds.tuning import PickedBounds


@dataclass(frozen=True, slots=True)
class TunedError:
    """The error that noise brings under the bounds that were picked. What those lose is named beside it."""

    noise: ExpectedError
    picked: PickedBounds

    def half_widths(self, confidence: float) -> dict[str, float | None]:
        """Return half the width of each number's interval, noise only."""
        return self.noise.half_widths(confidence)

    def error_rows(self) -> list[tuple[str, str, str]]:
        """Return each column with its error and what the error assumes."""
        return self.noise.error_rows()

    def facts(self) -> list[tuple[str, str]]:
        """Return the bounds and their estimated bias, before what else is known."""
        return [("bounds", str(self.picked)), ("bias", self.picked.bias), *self.noise.facts()]

    def shared_by(self) -> str:
        """Return what the spend is split over, in words."""
        return self.noise.shared_by()
