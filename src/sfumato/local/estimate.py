"""From randomized answers back to shares of the truth. Post-processing only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.privacy.exact import exact

if TYPE_CHECKING:
    from sfumato.privacy.exact import Number

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """What the answers say about the truth.

    A truth v is answered as v with chance `truth` and as any one other answer with chance `lie`. So if a
    share π of the people have v, a share lie + (truth − lie)·π of the answers is expected to be v.
    """

    counts: tuple[int, ...]
    """How many answered 0, 1, …"""
    truth: Fraction
    lie: Fraction

    @property
    def answers(self) -> int:
        return sum(self.counts)

    @property
    def shares(self) -> tuple[float, ...]:
        """For each answer, an unbiased estimate of the share whose truth it is; it may leave 0 to 1."""
        return tuple(float((seen - self.lie) / self._slope) for seen in self._seen())

    @property
    def value(self) -> float:
        """The estimated share of 1, which is "yes"."""
        return self.shares[1]

    @property
    def variance(self) -> float:
        """Of `value`, over the coins that the people who answered tossed."""
        share = min(max(self.value, 0.0), 1.0)
        base, rise = self._coin_variance()
        return (base + rise * share) / (self.answers * float(self._slope) ** 2)

    def interval(self, confidence: Number = 0.95, *, of: int = 1, population: bool = False) -> Interval:
        """Where the share of one answer lies: all shares that the answers do not rule out (score test).

        The share is that among the people who answered. With `population` it is that of a large population
        of which they are a random sample; the interval is then wider. Its coverage is that of a normal
        approximation, good to a percentage point from about a thousand answers on.
        """
        z = NormalDist().inv_cdf((1 + _confidence(confidence)) / 2)
        seen = float(self._seen()[self._place(of)])
        found = self._of_population(seen, z) if population else self._of_answered(seen, z)
        low, high = (min(max(end, 0.0), 1.0) for end in found)
        return low, high

    def to_dict(self) -> dict[str, Any]:
        return {
            "answers": self.answers,
            "shares": list(self.shares),
            "intervals": [list(self.interval(of=place)) for place in range(len(self.counts))],
        }

    def __str__(self) -> str:
        return "\n".join(f"{name}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    # ---- parts ----

    @property
    def _slope(self) -> Fraction:
        return self.truth - self.lie

    def _seen(self) -> list[Fraction]:
        return [Fraction(count, self.answers) for count in self.counts]

    def _coin_variance(self) -> tuple[float, float]:
        """Of one person's answer being v: when it is not their truth, and how much more when it is."""
        no, yes = self.lie * (1 - self.lie), self.truth * (1 - self.truth)
        return float(no), float(yes - no)

    def _of_answered(self, seen: float, z: float) -> Interval:
        """The π with (seen − lie − slope·π)² ≤ z²·(base + rise·π)/n."""
        base, rise = self._coin_variance()
        slope, off, weight = float(self._slope), seen - float(self.lie), z * z / self.answers
        return _roots(slope**2, 2 * slope * off + weight * rise, off**2 - weight * base)

    def _of_population(self, seen: float, z: float) -> Interval:
        """Wilson's interval for the chance that an answer is v, and from it the share."""
        weight = z * z / self.answers
        low, high = _roots(1 + weight, 2 * seen + weight, seen**2)
        return (low - float(self.lie)) / float(self._slope), (high - float(self.lie)) / float(self._slope)

    def _place(self, of: int) -> int:
        if of not in range(len(self.counts)):
            raise UsageError(
                "SF-N502",
                "There is no such answer.",
                got=str(of)[:40],
                answers=f"0 to {len(self.counts) - 1}",
            )
        return of

    def _lines(self) -> list[tuple[str, str]]:
        lines = [("answers", f"{self.answers:,}")]
        for place, share in enumerate(self.shares):
            low, high = self.interval(of=place)
            lines.append((f"share of {place}", f"{share:.4f} (95 %: {low:.4f} to {high:.4f})"))
        return lines


def _roots(a: float, b: float, c: float) -> Interval:
    """Both solutions of a·x² − b·x + c = 0; their middle where rounding leaves none."""
    spread = math.sqrt(max(b * b - 4 * a * c, 0.0))
    return (b - spread) / (2 * a), (b + spread) / (2 * a)


def _confidence(value: Number) -> float:
    share = exact(value, "confidence")
    if not 0 < share < 1:
        raise UsageError("SF-N107", "A confidence lies between 0 and 1.", got=str(value)[:40], try_="0.95")
    return float(share)
