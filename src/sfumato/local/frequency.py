"""Estimated shares of many values, with their intervals. Everything here is post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.local.parameters import parse_codes
from sfumato.privacy.exact import parse_interval_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.exact import Number

    Floats = NDArray[np.float64]

_SHOWN = 10


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class FrequencyEstimate:
    """Estimated share of every value, from randomized reports.

    If a share π of the people have a value, its estimate has variance (base + rise·π)/answers.
    """

    answers: int
    """Number of people who reported."""
    shares: Floats
    """Unbiased estimates of the share of each value; noise may take one below 0 or above 1."""
    base: Floats
    rise: float
    spread: Floats
    """Largest mean variance of what a report adds to the estimate of a value that nobody has."""
    largest: float
    """The most that one report adds to an estimate."""

    @property
    def counts(self) -> Floats:
        """Unbiased estimates of the number of people with each value."""
        return self.shares * self.answers

    @property
    def variances(self) -> Floats:
        """Variance of each share over the coins of the people who answered."""
        # An unbiased estimate may lie outside 0 to 1, where the variance of a coin makes no sense.
        return (self.base + self.rise * np.clip(self.shares, 0, 1)) / self.answers

    def interval(
        self, confidence: Number = 0.95, *, of: Any = None, population: bool = False
    ) -> tuple[Floats, Floats]:
        """Return the ends of the confidence intervals of all values, or of those named, by the score test.

        A share is that among the people who answered. With `population` it is that of a large population of
        which they are a random sample. Coverage is that of a normal approximation, good to a percentage point
        where some hundred reports speak for a value.
        """
        z = NormalDist().inv_cdf((1 + parse_interval_level(confidence)) / 2)
        chosen = slice(None) if of is None else parse_codes(of, self.shares.size)
        weight = z * z / self.answers
        # All π with (share − π)² ≤ weight·(base + rise·π + π·(1 − π) where people are a sample).
        square, linear = (weight, self.rise + 1) if population else (0.0, self.rise)
        share, base = self.shares[chosen], self.base[chosen]
        middle = (share + weight * linear / 2) / (1 + square)
        spread = np.sqrt(np.maximum(middle**2 - (share**2 - weight * base) / (1 + square), 0))
        return np.clip(middle - spread, 0, 1), np.clip(middle + spread, 0, 1)

    def heavy(self, false_alarm: Number = 0.05) -> NDArray[np.int64]:
        """Return the values whose share is surely above 0, largest first.

        With probability at most `false_alarm` a value that nobody has is among them.
        """
        found = np.flatnonzero(self.shares > self.threshold(false_alarm))
        return found[np.argsort(-self.shares[found], kind="stable")]

    def threshold(self, false_alarm: Number = 0.05, among: int | None = None) -> Floats:
        """Return what the estimates of values that nobody has all stay below, but for that probability.

        It holds for any number of reports, by Bernstein's inequality, for all values or for so many of them.
        """
        values = self.shares.size if among is None else among
        doubt = math.log(values / parse_interval_level(false_alarm)) / self.answers
        far = doubt * self.largest / 3
        return far + np.sqrt(far**2 + 2 * doubt * self.spread)

    def top(self, k: int = _SHOWN) -> NDArray[np.int64]:
        """Return the k values with the largest estimates, largest first."""
        return np.argsort(-self.shares, kind="stable")[:k]

    def plot(self, top: int = _SHOWN, confidence: Number = 0.95) -> viz.Chart:
        """Return a chart of the largest estimates with their intervals."""
        values = self.top(top)
        low, high = self.interval(confidence, of=values)
        title = f"Estimated shares from {self.answers:,} reports"
        return viz.bars(values.tolist(), self.shares[values], low, high, title=title, x="value", y="share")

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return the estimates as plain values, with 95 % intervals; of all values, or of the largest."""
        values = np.arange(self.shares.size) if top is None else self.top(top)
        low, high = self.interval(of=values)
        return {
            "answers": self.answers,
            "values": values.tolist(),
            "shares": self.shares[values].tolist(),
            "intervals": np.stack([low, high], axis=1).tolist(),
        }

    def __str__(self) -> str:
        return "\n".join(f"{name}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        values = self.top()
        low, high = self.interval(of=values)
        lines = [("answers", f"{self.answers:,}")]
        for value, share, least, most in zip(values, self.shares[values], low, high, strict=True):
            lines.append((f"share of {value}", f"{share:.4f} (95 %: {least:.4f} to {most:.4f})"))
        left = self.shares.size - values.size
        return [*lines, ("smaller", f"{left:,} values")] if left else lines
