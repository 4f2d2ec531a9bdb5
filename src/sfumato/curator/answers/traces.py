"""Where a value of a released answer comes from: groups and their figures, and so how sure it is.

A trace follows a value through functions, windows and totals. What depends on several noisy figures has an
interval by a union bound: each of them gets an equal part of the risk, and ends are combined. A sum of one
figure over many groups has one noise for all of it, whose law is known.

Because : docs/proofs/post-processing.md#intervals-of-windows-and-totals
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.laws.drawn_noise import sum_half_width
from sfumato.curator.answers.post_processing import compute_interval, compute_linear, find_one_noise
from sfumato.curator.answers.row_functions import MONOTONE, apply_function
from sfumato.curator.question.measurement import Arithmetic, CountOf, DistinctUnits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.curator.answers.answer import NoisyAnswer
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.question.measurement import Figure

    End = tuple[float, float]

MOST_CELLS_TRACED = 2_000_000
"""Groups that all frames of a window may have together for its intervals: it bounds memory alone."""


@dataclass(frozen=True, slots=True)
class KnownValue:
    """A value that no noise is in: a key, a constant, or what follows from these."""

    value: Any
    constant: bool = False
    """Whether it is the same in every row, so that figures may be computed with it."""


@dataclass(frozen=True, slots=True)
class TracedFigure:
    """A figure summed over groups of the answer, by their places; of one group, the figure itself."""

    figure: Figure
    cells: tuple[int, ...]
    chosen: bool = False
    """Whether noise decided which groups these are."""


@dataclass(frozen=True, slots=True)
class CombinedTrace:
    """A function of values, some of which have noise."""

    function: str
    parts: tuple[Trace, ...]


Trace = KnownValue | TracedFigure | CombinedTrace


def trace_call(function: str, parts: Sequence[Trace | None]) -> Trace | None:
    """Return the trace of a function of values; None where nothing is known of its interval."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if all(isinstance(part, KnownValue) for part in known):
        same = all(part.constant for part in known if isinstance(part, KnownValue))
        return KnownValue(apply_function(function, tuple(_value(part) for part in known)), same)
    figure = _join_figures(function, known)
    if figure is not None:
        return figure
    fits = function in _OF_ENDS and len(known) == _OF_ENDS[function][1]
    if fits or (function in MONOTONE and all(isinstance(part, KnownValue) for part in known[1:])):
        return CombinedTrace(function, tuple(known))
    return None


def _value(part: Trace) -> Any:
    return part.value if isinstance(part, KnownValue) else None


def _join_figures(function: str, parts: Sequence[Trace]) -> TracedFigure | None:
    """Return arithmetic on figures of one and the same group as one figure, whose law is known."""
    cells = {part.cells for part in parts if isinstance(part, TracedFigure)}
    if function not in ("+", "-", "*", "/") or len(parts) != 2 or len(cells) != 1:
        return None
    figures = [_figure(part) for part in parts]
    (place,) = cells
    if None in figures or len(place) != 1:
        return None
    chosen = any(isinstance(part, TracedFigure) and part.chosen for part in parts)
    return TracedFigure(Arithmetic(function, *figures), place, chosen)  # type: ignore[arg-type]


def _figure(part: Trace) -> Figure | None:
    if isinstance(part, TracedFigure):
        return part.figure
    number = part.value if isinstance(part, KnownValue) and part.constant else None
    if isinstance(number, int | float) and not isinstance(number, bool):
        return Fraction(number)
    return None


TRACED_WINDOWS = frozenset({"sum", "avg", "count", "min", "max"})


def trace_window(function: str, parts: Sequence[Trace | None], *, chosen: bool) -> Trace | None:
    """Return the trace of a total over rows; `chosen` says that noise decided which rows those are."""
    if function in ("min", "max"):
        return _trace_extreme(function, parts, chosen=chosen)
    if function == "count":
        return None if chosen or None in parts else KnownValue(len(parts))
    total = _trace_sum(parts, chosen=chosen)
    if function == "sum" or total is None:
        return total
    # How many rows were chosen is known as well as which.
    return CombinedTrace("/", (total, KnownValue(len(parts))))


def _trace_sum(parts: Sequence[Trace | None], *, chosen: bool) -> Trace | None:
    known = [part for part in parts if part is not None]
    if not parts or len(known) < len(parts):
        return None
    if all(isinstance(part, TracedFigure) for part in known):
        figures = [part for part in known if isinstance(part, TracedFigure)]
        if len({part.figure for part in figures}) == 1:
            cells = tuple(cell for part in figures for cell in part.cells)
            return TracedFigure(figures[0].figure, cells, chosen or any(part.chosen for part in figures))
    if chosen:
        return None
    return known[0] if len(known) == 1 else CombinedTrace("sum", tuple(known))


def _trace_extreme(function: str, parts: Sequence[Trace | None], *, chosen: bool) -> Trace | None:
    known = tuple(part for part in parts if part is not None)
    if chosen or not parts or len(known) < len(parts):
        return None
    return known[0] if len(known) == 1 else CombinedTrace(function, known)


# ---- ends --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TraceIntervals:
    """Computes the ends of traced values; figures of all groups are computed once."""

    plan: QuestionPlan
    noisy: NoisyAnswer
    confidence: float
    _ends: dict[Any, Any] = field(default_factory=dict)

    def find(self, trace: Trace | None) -> End:
        """Return the ends between which the exact value lies; not a number where nothing is known."""
        if trace is None:
            return np.nan, np.nan
        leaves = list(dict.fromkeys(_leaves(trace)))
        uses = sum(1 if self._is_one(leaf) else len(set(leaf.cells)) for leaf in leaves)
        if any(leaf.chosen for leaf in leaves):
            # Whichever groups noise chose, they are some of all, which hold together.
            uses = self._groups * len({leaf.figure for leaf in leaves})
        return self._combine(trace, 1 - (1 - self.confidence) / max(1, uses))

    @cached_property
    def _groups(self) -> int:
        resolved = self.plan.resolved
        return self.noisy.cells if resolved.discovers_keys else resolved.cells

    def _is_one(self, leaf: TracedFigure) -> bool:
        """Say whether a sum over groups has one noise whose law is known."""
        if len(leaf.cells) == 1:
            return True
        # A group that counts several times brings the same noise each time.
        apart = len(set(leaf.cells)) == len(leaf.cells)
        return apart and not leaf.chosen and self._single(leaf.figure) is not None

    def _single(self, figure: Figure) -> tuple[float, Any, int] | None:
        """Return the weight, the noise and the draws of a figure; levels that agree share noise."""
        found: tuple[float, Any, int] | None = self._once(
            ("single", figure), lambda: find_one_noise(self.plan, figure, self.noisy.laws)
        )
        return found

    def _combine(self, trace: Trace, level: float) -> End:
        match trace:
            case KnownValue(value):
                number = isinstance(value, int | float) and not isinstance(value, bool)
                return (float(value), float(value)) if number else (np.nan, np.nan)
            case TracedFigure():
                return self._leaf(trace, level)
        ends = [self._combine(part, level) for part in trace.parts]
        if any(end != end for pair in ends for end in pair):
            return np.nan, np.nan
        if trace.function in MONOTONE:
            more = tuple(_value(part) for part in trace.parts[1:])
            shown = [apply_function(trace.function, (end, *more)) for end in ends[0]]
            low, high = (np.nan if each is None else float(each) for each in shown)
            return low, high
        return _OF_ENDS[trace.function][0](ends)

    def _leaf(self, leaf: TracedFigure, level: float) -> End:
        single = self._single(leaf.figure)
        if len(leaf.cells) > 1 and single is not None and self._is_one(leaf):
            weight, noise, draws = single
            numbers = self._once(
                ("numbers", leaf.figure), lambda: compute_linear(self.plan, leaf.figure, self.noisy)
            )
            middle = float(numbers[list(leaf.cells)].sum())
            size = len(leaf.cells) * draws
            half = self._once(("half", noise, size, level), lambda: sum_half_width(noise, size, level)) * abs(
                weight
            )
            if isinstance(leaf.figure, CountOf | DistinctUnits):
                # A total of counts is whole, so it is off by h if noise is by less than h + 1/2.
                middle, half = round(middle), math.floor(half + 0.5)
            return middle - half, middle + half
        lows, highs = self._once(
            ("ends", leaf.figure, level),
            lambda: compute_interval(self.plan, leaf.figure, self.noisy, level),
        )
        at = list(leaf.cells)
        every = [np.broadcast_to(end, (self.noisy.cells,))[at].sum() for end in (lows, highs)]
        return float(every[0]), float(every[1])

    def _once(self, key: Any, compute: Callable[[], Any]) -> Any:
        if key not in self._ends:
            self._ends[key] = compute()
        return self._ends[key]


def _leaves(trace: Trace) -> Iterator[TracedFigure]:
    if isinstance(trace, TracedFigure):
        yield trace
    elif isinstance(trace, CombinedTrace):
        for part in trace.parts:
            yield from _leaves(part)


def _multiply(ends: Sequence[End]) -> End:
    corners = [one * other for one in ends[0] for other in ends[1]]
    return min(corners), max(corners)


def _divide(ends: Sequence[End]) -> End:
    low, high = ends[1]
    # A noisy divisor that may be zero or less may give anything.
    if low <= 0 <= high or (low != high and low <= 0):
        return np.nan, np.nan
    return _multiply([ends[0], (1 / high, 1 / low)])


_OF_ENDS: dict[str, tuple[Callable[[Sequence[End]], End], int]] = {
    "+": (lambda ends: (ends[0][0] + ends[1][0], ends[0][1] + ends[1][1]), 2),
    "-": (lambda ends: (ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]), 2),
    "*": (_multiply, 2),
    "/": (_divide, 2),
    "negate": (lambda ends: (-ends[0][1], -ends[0][0]), 1),
    "sum": (lambda ends: (sum(low for low, _ in ends), sum(high for _, high in ends)), -1),
    "min": (lambda ends: (min(low for low, _ in ends), min(high for _, high in ends)), -1),
    "max": (lambda ends: (max(low for low, _ in ends), max(high for _, high in ends)), -1),
}
"""How ends are combined, and how many arguments a function has; −1 for those of windows alone."""
