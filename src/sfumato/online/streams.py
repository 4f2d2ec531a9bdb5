"""Counters, sums, means and histograms over time (docs/streams.md)."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.sampling.integers import parse_integers
from sfumato.online.stream import Stream, draw_stream
from sfumato.privacy.exact import parse_exact, parse_interval_level, parse_positive

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato import viz
    from sfumato.privacy.exact import Number


class Counter(Stream):
    """The number of events so far, after every tick. A tick is given as its number of events."""

    def add(self, count: int, *, tick: int | None = None) -> int:
        """Return the number of events so far, with noise, after a tick with so many."""
        self._require_tick(tick)
        return int(self._extend(_counts([count]))[0, 0])

    def run(self, counts: ArrayLike) -> NDArray[Any]:
        """Return the number of events so far, with noise, after each of these ticks."""
        return self._extend(_counts(counts))[:, 0]

    def values(self, window: int | None = None, decay: Number | None = None) -> NDArray[Any]:
        """Return what was released: the events so far, or those of the last `window` ticks,
        or with every earlier tick counting `decay` times as much as the next."""
        return self._sums_within(window, decay)[:, 0]

    def half_widths(
        self, confidence: Number = 0.95, window: int | None = None, decay: Number | None = None
    ) -> NDArray[np.float64]:
        """Return the half-widths of their intervals."""
        return _factor(confidence) * self._deviations(window, decay)

    def plot(
        self, confidence: Number = 0.95, window: int | None = None, decay: Number | None = None
    ) -> viz.Chart:
        """Return a chart of the values and their intervals."""
        return draw_stream(
            self.values(window, decay), self.half_widths(confidence, window, decay), "Events so far"
        )


class Sum(Stream):
    """The sum of all values so far, after every tick. Values are clipped to [low, high] and put on a grid."""

    def __init__(self, low: Number, high: Number, *, step: Number = 1, **stated: Any) -> None:
        self._low, self._high, self._step = _parse_grid(low, high, step)
        super().__init__(**stated)

    def add(self, values: ArrayLike, *, tick: int | None = None) -> float:
        """Return the sum so far, with noise, after a tick with these values."""
        self._require_tick(tick)
        return float(self.run([values])[0])

    def run(self, ticks: Iterable[ArrayLike]) -> NDArray[np.float64]:
        """Return the sum so far, with noise, after each of these ticks."""
        rows = [[_sum_exactly(_on_grid(values, self._low, self._high, self._step))] for values in ticks]
        return self._extend(np.array(rows, dtype=object))[:, 0].astype(float) * float(self._step)

    def values(self, window: int | None = None, decay: Number | None = None) -> NDArray[np.float64]:
        """Return what was released: the sum so far, or that of the last `window` ticks,
        or with every earlier tick counting `decay` times as much as the next."""
        return self._sums_within(window, decay)[:, 0].astype(float) * float(self._step)

    def half_widths(
        self, confidence: Number = 0.95, window: int | None = None, decay: Number | None = None
    ) -> NDArray[np.float64]:
        """Return the half-widths of their intervals, for the sums of the values as clipped."""
        return _factor(confidence) * self._deviations(window, decay) * float(self._step)

    def plot(
        self, confidence: Number = 0.95, window: int | None = None, decay: Number | None = None
    ) -> viz.Chart:
        """Return a chart of the values and their intervals."""
        return draw_stream(
            self.values(window, decay), self.half_widths(confidence, window, decay), "Sum so far"
        )

    def _item_norm(self) -> int:
        return max(abs(self._low), abs(self._high))


class Mean(Stream):
    """The mean of all values so far, after every tick, from their number and their sum.

    Each value moves the number by 1 and its distance from the middle of [low, high]; both get noise of the
    same relative size.
    """

    def __init__(self, low: Number, high: Number, *, step: Number = 1, **stated: Any) -> None:
        self._low, self._high, self._step = _parse_grid(low, high, step)
        super().__init__(**stated)

    def add(self, values: ArrayLike, *, tick: int | None = None) -> float:
        """Return the mean so far, with noise, after a tick with these values."""
        self._require_tick(tick)
        return float(self.run([values])[0])

    def run(self, ticks: Iterable[ArrayLike]) -> NDArray[np.float64]:
        """Return the mean so far, with noise, after each of these ticks."""
        rows = []
        for values in ticks:
            steps = _on_grid(values, self._low, self._high, self._step)
            # In half steps, so that the middle of the range lies on the grid.
            rows.append([len(steps) * self._half, 2 * _sum_exactly(steps) - len(steps) * self._middle])
        return self._means(self._extend(np.array(rows, dtype=object)))

    def values(self, window: int | None = None, decay: Number | None = None) -> NDArray[np.float64]:
        """Return the means that were released, over all ticks, the last `window` ones, or with a decay."""
        return self._means(self._sums_within(window, decay))

    @property
    def _half(self) -> int:
        return self._high - self._low

    @property
    def _middle(self) -> int:
        return self._low + self._high

    def _means(self, sums: NDArray[Any]) -> NDArray[np.float64]:
        # A number below one has drowned in noise; the range is known.
        numbers = np.maximum(sums[:, 0].astype(float) / self._half, 1)
        apart = np.clip(sums[:, 1].astype(float) / numbers, -self._half, self._half)
        return np.asarray((self._middle + apart) / 2 * float(self._step))

    def _cells(self) -> int:
        return 2

    def _item_norm(self) -> int:
        return math.isqrt(2 * self._half**2 - 1) + 1


class Histogram(Stream):
    """How many items of each kind so far, after every tick. A tick is given as the list of its items."""

    def __init__(self, kinds: Sequence[Any], **stated: Any) -> None:
        self.kinds = list(kinds)
        self._places = {kind: place for place, kind in enumerate(self.kinds)}
        if not self.kinds or len(self._places) < len(self.kinds):
            raise UsageError("SF-C107", "The kinds of a histogram are listed once each, at least one.")
        super().__init__(**stated)

    def add(self, items: Iterable[Any], *, tick: int | None = None) -> dict[Any, int]:
        """Return the items of each kind so far, with noise, after a tick with these. Others are left out."""
        self._require_tick(tick)
        return dict(zip(self.kinds, self.run([items])[0].tolist(), strict=True))

    def run(self, ticks: Iterable[Iterable[Any]]) -> NDArray[Any]:
        """Return the items of each kind so far, with noise, one row for each of these ticks."""
        rows = []
        for items in ticks:
            places = [self._places[item] for item in items if item in self._places]
            rows.append(np.bincount(places, minlength=len(self.kinds)))
        return self._extend(np.array(rows, dtype=np.int64))

    def values(self, window: int | None = None, decay: Number | None = None) -> NDArray[Any]:
        """Return what was released, a row for each tick: over all ticks, the last ones, or with a decay."""
        return self._sums_within(window, decay)

    def half_widths(
        self, confidence: Number = 0.95, window: int | None = None, decay: Number | None = None
    ) -> NDArray[np.float64]:
        """Return the half-widths of their intervals, tick by tick; they are the same for every kind."""
        return _factor(confidence) * self._deviations(window, decay)

    def _cells(self) -> int:
        return len(self.kinds)


_WIDEST = 2**40
"""Values pass through doubles on their way to the grid, and noise is drawn in at most 2^40 steps."""


def _sum_exactly(steps: NDArray[np.int64]) -> int:
    """Return the sum of steps of at most 2^40 each, in parts that no tick is long enough to make wrap."""
    return (int((steps >> 20).sum()) << 20) + int((steps & 2**20 - 1).sum())


def _factor(confidence: Number) -> float:
    return NormalDist().inv_cdf((1 + parse_interval_level(confidence)) / 2)


def _counts(counts: Any) -> NDArray[Any]:
    rows = np.asarray(parse_integers(counts)).reshape(-1, 1)
    if rows.min() < 0:
        raise UsageError("SF-N203", "A tick has a number of events, which is zero or more.")
    return rows


def _parse_grid(low: Any, high: Any, step: Any) -> tuple[int, int, Fraction]:
    """Return the bounds in whole steps."""
    size = parse_positive(step, "step")
    ends = parse_exact(low, "low") / size, parse_exact(high, "high") / size
    if ends[0] >= ends[1] or any(end.denominator != 1 or abs(end) > _WIDEST for end in ends):
        raise UsageError(
            "SF-C104",
            "The bounds of a stream ascend and are whole multiples of its step, at most 2^40 of them.",
            got=f"{low}, {high}",
        )
    return int(ends[0]), int(ends[1]), size


def _on_grid(values: Any, low: int, high: int, step: Fraction) -> NDArray[np.int64]:
    """Return values clipped and rounded down to whole steps; refuse what is no number."""
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if numbers.ndim != 1 or np.isnan(numbers).any():
        raise UsageError("SF-N203", "A tick is a row of numbers, and NaN is none.", try_="leave it out")
    return np.floor(np.clip(numbers / float(step), low, high)).astype(np.int64)
