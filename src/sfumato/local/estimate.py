"""Estimates of true shares from randomized answers. Everything here is post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_decimal
from sfumato.privacy.exact import parse_interval_level

if TYPE_CHECKING:
    from sfumato.privacy.exact import Number

Interval = tuple[float, float]
_SHOWN = 12


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """Estimated shares of the true values, from the counts of randomized answers.

    An answer names a true value v with probability `truth` and each other value with probability `lie`. So if
    a share π of the people have v, a share lie + (truth − lie)·π of the answers is expected to name v.
    """

    counts: tuple[int, ...]
    """Number of answers that name 0, 1, …"""
    truth: Fraction
    lie: Fraction
    size: int = 1
    """Number of values that each answer names."""

    @property
    def answers(self) -> int:
        """Number of all answers."""
        return sum(self.counts) // self.size

    @property
    def shares(self) -> tuple[float, ...]:
        """Unbiased estimates of the share of each true value; noise may take one below 0 or above 1."""
        return tuple(float((seen - self.lie) / self._slope) for seen in self._seen())

    @property
    def value(self) -> float:
        """Estimated share of 1, which stands for "yes"."""
        return self.shares[1]

    @property
    def variance(self) -> float:
        """Variance of `value` over the coins of the people who answered."""
        # The unbiased estimate may lie outside 0 to 1, where the variance of a coin makes no sense.
        share = min(max(self.value, 0.0), 1.0)
        base, rise = self._coin_variance()
        return (base + rise * share) / (self.answers * float(self._slope) ** 2)

    def interval(self, confidence: Number = 0.95, *, of: int = 1, population: bool = False) -> Interval:
        """Return the confidence interval for the share of one value, by the score test.

        The share is that among the people who answered. With `population` it is that of a large population of
        which they are a random sample; the interval is then wider. Its coverage is that of a normal
        approximation, good to a percentage point from about a thousand answers on.
        """
        z = NormalDist().inv_cdf((1 + parse_interval_level(confidence)) / 2)
        seen = float(self._seen()[self._place(of)])
        found = self._of_population(seen, z) if population else self._of_answered(seen, z)
        low, high = (min(max(end, 0.0), 1.0) for end in found)
        return low, high

    def top(self, k: int = _SHOWN) -> list[int]:
        """Return the k values with the largest estimated shares, largest first."""
        return sorted(range(len(self.counts)), key=lambda place: -self.counts[place])[:k]

    def plot(self, confidence: Number = 0.95) -> viz.Chart:
        """Return a chart of the shares with their intervals; of a long list, the largest ones."""
        places, shares = self._shown(), self.shares
        low, high = zip(*(self.interval(confidence, of=place) for place in places), strict=True)
        title = f"Estimated shares from {self.answers:,} answers"
        shown = [shares[place] for place in places]
        return viz.bars(places, shown, low, high, title=title, x="answer", y="share")

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values, with 95 % intervals."""
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
        """Return the variance of the answer v for a person without it, and how much more for one with it."""
        no, yes = self.lie * (1 - self.lie), self.truth * (1 - self.truth)
        return float(no), float(yes - no)

    def _of_answered(self, seen: float, z: float) -> Interval:
        """Return the ends of the π with (seen − lie − slope·π)² ≤ z²·(base + rise·π)/n."""
        base, rise = self._coin_variance()
        slope, off, weight = float(self._slope), seen - float(self.lie), z * z / self.answers
        return _roots(slope**2, 2 * slope * off + weight * rise, off**2 - weight * base)

    def _of_population(self, seen: float, z: float) -> Interval:
        """Return Wilson's interval for the probability that an answer is v, converted to the share."""
        weight = z * z / self.answers
        low, high = _roots(1 + weight, 2 * seen + weight, seen**2)
        return (low - float(self.lie)) / float(self._slope), (high - float(self.lie)) / float(self._slope)

    def _place(self, of: int) -> int:
        if of not in range(len(self.counts)):
            raise UsageError(
                "SF-N502",
                "There is no answer with this number.",
                got=str(of)[:40],
                answers=f"0 to {len(self.counts) - 1}",
            )
        return of

    def _lines(self) -> list[tuple[str, str]]:
        lines, shares, places = [("answers", f"{self.answers:,}")], self.shares, self._shown()
        for place in places:
            low, high = self.interval(of=place)
            lines.append(
                (
                    f"share of {place}",
                    (
                        f"{format_decimal(shares[place], 4)} (95 %: "
                        f"{format_decimal(low, 4)} to {format_decimal(high, 4)})"
                    ),
                )
            )
        smaller = len(shares) - len(places)
        return [*lines, ("smaller", f"{smaller:,} values")] if smaller else lines

    def _shown(self) -> list[int]:
        """Return the values to print: all of a short list, the largest ones of a long list."""
        return list(range(len(self.counts))) if len(self.counts) <= _SHOWN else self.top()


def _roots(a: float, b: float, c: float) -> Interval:
    """Return both solutions of a·x² − b·x + c = 0, or their middle where rounding leaves none."""
    spread = math.sqrt(max(b * b - 4 * a * c, 0.0))
    return (b - spread) / (2 * a), (b + spread) / (2 * a)
