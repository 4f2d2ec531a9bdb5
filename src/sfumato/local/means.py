"""Means of bounded numbers: each person tells one of a few positions, near their own number more often."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.local.messages import describe_question, read_messages
from sfumato.local.odds import odds_within
from sfumato.local.parameters import parse_answer_epsilon, parse_codes, require_drawable
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS, draw_uniform
from sfumato.privacy import events
from sfumato.privacy.exact import parse_exact, parse_interval_level, parse_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato.local.messages import Message
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number

    Floats = NDArray[np.float64]

STEPS = 2**20
"""Steps of the public grid between the bounds that numbers are rounded to."""
_FEW = 50
"""Reports below which an interval is Hoeffding's: a normal one holds the mean less often than it says."""
_MOST_POSITIONS = (
    64  # of a report; more gain less than 1 % of the squared error up to ε = 8 (benchmarks/local.py)
)


@dataclass(frozen=True, slots=True, init=False)
class MeanResponse:
    """One of `positions` reports, those in a window that moves with the truth `odds` times as likely.

    Two positions and a window of one are Duchi's method, many are the piecewise mechanism; the numbers are
    those with the least squared error for the worst truth.

    Privacy
    -------
    Protects : the number of one respondent, who is known to take part (replace-one).
    Costs    : RandomizedAnswer(epsilon), each time that a person is asked.
    Because  : docs/proofs/local.md
    Assumes  : a person's reports on different questions and rounds use fresh coins, and are all charged.
    """

    epsilon: Fraction
    low: Fraction
    high: Fraction
    positions: int
    window: int
    odds: Fraction = field(compare=False)
    """Fraction that is drawn by: ln(odds) ≤ ε, short of it by at most one part in 2³²."""

    def __init__(self, epsilon: Number, low: Number, high: Number) -> None:
        object.__setattr__(self, "epsilon", parse_answer_epsilon(epsilon))
        object.__setattr__(self, "low", parse_exact(low, "low"))
        object.__setattr__(self, "high", parse_exact(high, "high"))
        if not float(self.low) < float(self.high):  # numbers are put on the grid as doubles
            raise UsageError(
                "SF-C104",
                "A mean needs bounds, the lower one first.",
                got=f"{low} to {high}",
                try_="(0, 100)",
            )
        object.__setattr__(self, "odds", odds_within(self.epsilon))
        positions, window = plan_window(float(self.odds))
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "window", window)
        require_drawable(self._numbers(), positions)

    @property
    def bits(self) -> int:
        """Length of a report."""
        return (self.positions - 1).bit_length()

    def event(self, times: int = 1) -> events.Event:
        """Return the price for a person who is asked so many times, with fresh coins each time."""
        once = events.RandomizedAnswer(self.epsilon)
        return once if times == 1 else events.Repeated(once, times)

    def privatize(self, truths: ArrayLike, *, source: BitSource = OS) -> NDArray[np.int64]:
        """Return a report for each number, in the same shape. Numbers are clipped to the bounds."""
        exact = self._to_grid(truths)
        return observed(self, exact, 1, lambda: self._draw_positions(exact, source))

    def estimate(self, reports: Any) -> MeanEstimate:
        """Return the estimated mean of the numbers behind these reports."""
        seen = parse_codes(reports, self.positions)
        starts = self.positions - self.window
        odds, total = float(self.odds), (float(self.odds) - 1) * self.window + self.positions
        step = float(self.high - self.low) / starts * total / ((odds - 1) * self.window)
        away = seen.ravel() - (self.positions - 1) / 2
        middle = float(self.low + self.high) / 2
        # A few reports may agree by chance, which does not say that the coins do.
        known = worst_variance if seen.size < _FEW else least_variance
        variance = max(
            float(np.var(away)) * step**2,
            known(self.positions, self.window, odds) * float(self.high - self.low) ** 2,
        )
        bounds = (float(self.low), float(self.high))
        value, reach = middle + step * float(away.mean()), step * (self.positions - 1)
        return MeanEstimate(seen.size, value, variance / seen.size, bounds, reach)

    def expected_error(self, answers: int) -> float:
        """Return the largest standard error of the mean from so many reports."""
        worst = worst_variance(self.positions, self.window, float(self.odds))
        return float(self.high - self.low) * math.sqrt(worst / parse_whole(answers, "answers"))

    def question(self) -> dict[str, Any]:
        """Return the question as plain values, for a client that answers it."""
        bounds = {"low": float(self.low), "high": float(self.high), "steps": STEPS}
        return describe_question("mean", self.odds, **bounds, positions=self.positions, window=self.window)

    def collect(self, messages: Iterable[Message]) -> NDArray[np.int64]:
        """Return the reports in clients' messages; all of them must answer this question."""
        return parse_codes(read_messages(self.question(), messages), self.positions)

    # ---- parts ----

    def _draw_positions(self, exact: NDArray[np.int64], source: BitSource) -> NDArray[np.int64]:
        # The window's start is a whole position: one of the two around the truth, right on average.
        moved = exact * (self.positions - self.window)
        coins = draw_uniform(STEPS, exact.size, source).reshape(exact.shape)
        start = moved // STEPS + (coins < moved % STEPS)
        # Each position has b numbers, each in the window a − b more, which come first.
        a, b = self.odds.numerator, self.odds.denominator
        numbers = draw_uniform(self._numbers(), exact.size, source).reshape(exact.shape)
        inside = (a - b) * self.window
        return np.where(numbers < inside, start + numbers // (a - b), (numbers - inside) // b)

    def _numbers(self) -> int:
        a, b = self.odds.numerator, self.odds.denominator
        return (a - b) * self.window + b * self.positions

    def _to_grid(self, truths: Any) -> NDArray[np.int64]:
        try:
            numbers = np.asarray(truths, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.array([])
        if not numbers.size or np.isnan(numbers).any():
            raise UsageError(
                "SF-N502",
                "The mean of a survey needs one number from everybody who answers.",
                try_="leave out people without a number, or ask them another question",
            )
        low, high = float(self.low), float(self.high)
        return np.rint((np.clip(numbers, low, high) - low) / (high - low) * STEPS).astype(np.int64)


@dataclass(frozen=True, slots=True, repr=False)
class MeanEstimate:
    """Estimated mean of bounded numbers, from randomized reports."""

    answers: int
    """Number of people who reported."""
    value: float
    """Unbiased estimate of the mean of the clipped numbers; noise may take it beyond the bounds."""
    variance: float
    """Variance of `value`, for people who are a random sample of a population."""
    bounds: tuple[float, float]
    reach: float
    """Distance between the least and the largest estimate that one report can give."""

    def interval(self, confidence: Number = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the mean of the population that the people are a sample of.

        For the mean of the people themselves it is longer than needed. Below fifty reports it is Hoeffding's,
        which always holds; then a normal approximation, good to a percentage point from about a thousand on.
        """
        level = parse_interval_level(confidence)
        if self.answers < _FEW:
            half = self.reach * math.sqrt(math.log(2 / (1 - level)) / (2 * self.answers))
        else:
            half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(self.variance)
        least, most = self.bounds
        return min(max(self.value - half, least), most), min(max(self.value + half, least), most)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values, with its 95 % interval."""
        return {"answers": self.answers, "value": self.value, "interval": list(self.interval())}

    def __str__(self) -> str:
        return "\n".join(f"{name}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        low, high = self.interval()
        text = f"{format_number(self.value, 6)} (95 %: {format_number(low, 6)} to {format_number(high, 6)})"
        return [("answers", f"{self.answers:,}"), ("mean", text)]


@lru_cache(maxsize=64)
def plan_window(odds: float) -> tuple[int, int]:
    """Return the numbers of positions, and of those in the window, with the least worst variance."""
    pairs = [
        (positions, window)
        for positions in range(2, _MOST_POSITIONS + 1)
        for window in range(1, positions // 2 + 1)
    ]
    return min(pairs, key=lambda pair: worst_variance(pair[0], pair[1], odds))


def worst_variance(positions: int, window: int, odds: float) -> float:
    """Return the largest variance of one report's estimate, for any truth between bounds 0 and 1."""
    begins, moments, slope = _second_moments(positions, window, odds)
    # Between two starts the moment is linear and the square of the mean is not: its peak is where their
    # slopes agree, or at an end.
    rise = np.diff(moments) * slope**2
    peak = np.clip(rise / 2, begins[:-1], begins[1:])
    between = moments[:-1] * slope**2 + rise * (peak - begins[:-1]) - peak**2
    return float(max(between.max(), (moments * slope**2 - begins**2).max())) / (positions - window) ** 2


def least_variance(positions: int, window: int, odds: float) -> float:
    """Return the smallest variance of one report's estimate, for any truth between bounds 0 and 1."""
    begins, moments, slope = _second_moments(positions, window, odds)
    # Between two starts of the window a coin chooses one of them, which only adds to the variance.
    return float((moments * slope**2 - begins**2).min()) / (positions - window) ** 2


def _second_moments(positions: int, window: int, odds: float) -> tuple[Floats, Floats, float]:
    """Return every start of the window, from the middle, with second moments of positions, and the slope."""
    total, starts = (odds - 1) * window + positions, positions - window
    begins = np.arange(starts + 1, dtype=np.float64) - starts / 2
    seconds = (positions * (positions**2 - 1) + (odds - 1) * window * (window**2 - 1)) / 12 / total
    moments = seconds + (odds - 1) * window * begins**2 / total
    return begins, moments, total / ((odds - 1) * window)
