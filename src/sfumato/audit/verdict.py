"""The outcome of a black-box audit, as text, as a dictionary and as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.errors.numbers import format_number, format_share

if TYPE_CHECKING:
    from sfumato.audit.replay import Replayed


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(viz.NamedLines):
    """The outcome of a black-box audit. Only a violation is evidence; otherwise nothing was found."""

    claim: str
    broken: bool
    """True where the outputs break the claim."""
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
    measured: int = 0
    """Outputs on either input that measured the set; the others chose it."""
    shares: tuple[float, float] = (0.0, 0.0)
    """Shares of the measured outputs that lie in the set, on the input where it is likelier and the other."""
    neighbours: str = ""
    """Pair of tables that told most, where a search chose it."""
    tables: int = 1
    """Pairs of tables that were searched."""
    replayed: Replayed | None = None
    """Outcome of the replay, where noise could be recorded."""

    @property
    def violates(self) -> bool:
        """True where the outputs or the replay break the claim."""
        return self.broken or (self.replayed is not None and self.replayed.violates)

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.broken:
            return "violates"
        if self.replayed is not None and self.replayed.violates:
            return self.replayed.sentence
        power = (
            "none"
            if self.shortfall is None
            else f"would catch {format_share(self.shortfall)} noise shortfall"
        )
        return f"no violation found; lower bound {format_number(self.lower_bound)}, power: {power}"

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
            "measured": self.measured,
            "alpha": self.alpha,
            "shares": list(self.shares),
            "neighbours": self.neighbours,
            "pairs": self.tables,
            "replay": None if self.replayed is None else self.replayed.to_dict(),
        }

    def plot(self) -> viz.Chart:
        """Return a chart of how often outputs on either input lie in the set that was found."""
        return viz.bars(
            ["likelier on", "on the other"],
            list(self.shares),
            title=f"Outputs where {self.event.rsplit(',', 1)[0]}",
            y=f"share of the measured outputs; ε is above {format_number(self.lower_bound, 3)}",
        )

    def _lines(self) -> list[tuple[str, str]]:
        more = []
        if self.neighbours:
            more.append(("neighbours", f"{self.neighbours}, the worst of {self.tables:,} pairs"))
        if self.replayed is not None:
            more.append(("replay", self.replayed.sentence))
        return [
            ("verdict", self.sentence),
            ("claim", self.claim),
            (
                "ε is above",
                f"{format_number(self.lower_bound)}, with confidence 1 − {format_number(self.alpha)}",
            ),
            ("best output set", self.event),
            (
                "samples",
                f"{self.samples:,} on each input, of which {self.measured:,} measured the set",
            ),
            *more,
        ]
