"""The search for the output set that best tells two samples apart. It is measured on other samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.audit.confidence import lower_bound, upper_bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.audit.claims import Claim
    from sfumato.audit.outcomes import Columns

# Bins for continuous outputs, and sets of each kind whose bound is computed. More of either find smaller
# violations and take longer; the verdict is valid for any choice.
_BINS = 64
_TRIED = 256


@dataclass(frozen=True, slots=True)
class Goal:
    """What an output set is searched for: to use most of a claim, by bounds that each fail with `alpha`."""

    claim: Claim
    alpha: float


class OutputSet(Protocol):
    """A set of outputs."""

    @property
    def column(self) -> str:
        """Name of the column that decides."""

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        """Return, for each output, whether it is in the set."""

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class OutputsIn:
    """The outputs that have one of these values."""

    column: str
    values: NDArray[Any]

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        return np.isin(columns[self.column], self.values)

    def __str__(self) -> str:
        few = ", ".join(str(value) for value in self.values[:4].tolist())
        more = f" and {len(self.values) - 4:,} more" if len(self.values) > 4 else ""
        return f"{self.column} is one of {few}{more}"


@dataclass(frozen=True, slots=True)
class OutputsAtMost:
    """The outputs up to a value."""

    column: str
    value: Any

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        return np.asarray(columns[self.column] <= self.value)

    def __str__(self) -> str:
        return f"{self.column} ≤ {self.value}"


@dataclass(frozen=True, slots=True)
class OutputsAbove:
    """The outputs above a value."""

    column: str
    value: Any

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        return np.asarray(columns[self.column] > self.value)

    def __str__(self) -> str:
        return f"{self.column} > {self.value}"


@dataclass(frozen=True, slots=True)
class OutputsInBins:
    """The outputs whose value falls into one of these bins; for columns where values hardly repeat."""

    column: str
    edges: NDArray[Any]
    bins: NDArray[np.intp]

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        return np.isin(np.searchsorted(self.edges, columns[self.column]), self.bins)

    def __str__(self) -> str:
        return f"{self.column} lies in one of {len(self.bins)} bins"


def find_best_set(likely: Columns, unlikely: Columns, goal: Goal) -> tuple[float, OutputSet]:
    """Return the output set that uses most of the claim: likely on the first sample, rare on the second."""
    # For sets of values one half of the samples orders the values and the other half decides where to stop,
    # so that values which look revealing by chance are not believed.
    found: list[tuple[float, OutputSet]] = []
    for column, values in likely.items():
        found += _candidates(column, *_halves(values), *_halves(unlikely[column]), goal)
    return max(found, key=lambda scored: scored[0])


def _halves(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    return values[::2], values[1::2]


def _candidates(
    column: str,
    likely: NDArray[Any],
    likely_too: NDArray[Any],
    unlikely: NDArray[Any],
    unlikely_too: NDArray[Any],
    goal: Goal,
) -> Iterator[tuple[float, OutputSet]]:
    values, counts = _counted(likely, unlikely)
    places = [np.searchsorted(values, other) for other in (likely_too, unlikely_too)]
    # Half-lines need no order to be found, so all samples decide where they end.
    hits = _cumulated(places, len(values)) + counts.cumsum(axis=1)
    totals = np.array([len(likely) + len(likely_too), len(unlikely) + len(unlikely_too)])
    score, cut = _best_cut(hits, totals, goal)
    yield score, OutputsAtMost(column, values[cut])
    score, cut = _best_cut(totals[:, None] - hits, totals, goal)
    yield score, OutputsAbove(column, values[cut])
    totals = np.array([len(likely_too), len(unlikely_too)])
    known = [
        _known(values, place, other) for place, other in zip(places, (likely_too, unlikely_too), strict=True)
    ]
    score, members = _best_set(counts, known, totals, goal)
    yield score, OutputsIn(column, values[members])
    if len(values) > 4 * _BINS and len(values) > len(likely) // 2:
        edges = values[np.linspace(0, len(values) - 1, _BINS).astype(np.intp)]
        binned = [np.searchsorted(edges, each) for each in (likely, unlikely, likely_too, unlikely_too)]
        counts = np.array([np.bincount(part, minlength=_BINS + 1) for part in binned[:2]])
        score, members = _best_set(counts, binned[2:], totals, goal)
        yield score, OutputsInBins(column, edges, members)


def _counted(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return every value that occurs, in order, and how often in each sample."""
    values, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    parts = np.split(places.ravel(), [len(first)])
    return values, np.array([np.bincount(part, minlength=len(values)) for part in parts])


def _known(values: NDArray[Any], places: NDArray[np.intp], sample: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices of a sample among the values; one past the last for other values."""
    inside = np.minimum(places, len(values) - 1)
    return np.where(values[inside] == sample, inside, len(values))


def _cumulated(places: list[NDArray[np.intp]], size: int) -> NDArray[np.int64]:
    """Return how often an index up to each one occurs; one past the last is not counted."""
    return np.array([np.bincount(part, minlength=size + 1)[:size].cumsum() for part in places])


def _best_set(
    counts: NDArray[np.int64], places: list[NDArray[np.intp]], totals: NDArray[np.int64], goal: Goal
) -> tuple[float, NDArray[np.intp]]:
    """Return the best set of values by likelihood ratio, in the order of Neyman and Pearson."""
    size = counts.shape[1]
    order = np.argsort(-(counts[0] + 0.5) / (counts[1] + 0.5), kind="stable")
    rank = np.full(size + 1, size)
    rank[order] = np.arange(size)
    score, cut = _best_cut(_cumulated([rank[part] for part in places], size), totals, goal)
    return score, order[: cut + 1]


def _best_cut(hits: NDArray[np.int64], totals: NDArray[np.int64], goal: Goal) -> tuple[float, int]:
    """Return which of these nested sets uses most of the claim."""
    tried = np.unique(np.linspace(0, hits.shape[1] - 1, _TRIED).astype(np.intp))
    tried = np.union1d(tried, np.arange(min(_TRIED, hits.shape[1])))
    p, q = (
        lower_bound(hits[0, tried], totals[0], goal.alpha),
        upper_bound(hits[1, tried], totals[1], goal.alpha),
    )
    used = goal.claim.used(p, q)
    return float(used.max()), int(tried[used.argmax()])
