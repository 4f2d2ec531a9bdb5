"""The outcome of a black-box audit, as text, as a dictionary and as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato import viz


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """The outcome of a black-box audit. Only a violation is evidence; otherwise nothing was found."""

    claim: str
    violates: bool
    lower_bound: float
    """Lower bound on ε at the claim's δ, wrong with probability `alpha` at most."""
    used: float
    """Share of the claim that was seen to be used, at the same confidence; above 1 the claim is false."""
    shortfall: float | None
    """Least share of missing noise that would be caught nine times in ten; None where there is none."""
    event: str
    """Output set that tells the two inputs apart best, and on which of the two it is likelier."""
    samples: int
    alpha: float

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.violates:
            return "violates"
        power = "none" if self.shortfall is None else f"would catch {self.shortfall:.1%} noise shortfall"
        return f"no violation found; lower bound {self.lower_bound:.4g}, power: {power}"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {
            "claim": self.claim,
            "verdict": self.sentence,
            "violates": self.violates,
            "lower_bound": self.lower_bound,
            "used": self.used,
            "shortfall": self.shortfall,
            "event": self.event,
            "samples": self.samples,
            "alpha": self.alpha,
        }

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self._lines())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        return [
            ("verdict", self.sentence),
            ("claim", self.claim),
            ("ε is above", f"{self.lower_bound:.4g}, with confidence 1 − {self.alpha:g}"),
            ("best output set", self.event),
            ("samples", f"{self.samples:,} on each input, half to choose the set and half to measure it"),
        ]
