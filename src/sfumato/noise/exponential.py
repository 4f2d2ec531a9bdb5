"""The exponential mechanism, P(i) ∝ e^(u_i / scale), drawn exactly (docs/proofs/exponential.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.audit_hook import observed
from sfumato.noise.histograms import parse_single_histogram
from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp, gaps_below_best
from sfumato.noise.sampling.bits import OS
from sfumato.noise.selection import (
    SelectionMechanism,
    expected_shortfall,
    likely_shortfall,
    parse_scores,
    require_scale,
)
from sfumato.privacy import events
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.histograms import Histograms
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number

_BLOCK = 2**20
"""Number of counts that are handled at a time. It bounds the memory; privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class ExponentialMechanism(SelectionMechanism):
    """Chooses a candidate with probability ∝ exp(ε·u / (2·sensitivity)), or without the 2 if monotone.

    Privacy
    -------
    Protects : one unit, add/remove, that changes every utility by at most `sensitivity`, and all of them in
               the same direction if `monotone`.
    Costs    : Exponential(epsilon): ε in pure ε, and its privacy loss has a range of ε.
    Because  : docs/proofs/exponential.md
    Assumes  : the utilities are exact integers of a public list of candidates; how long a draw takes is not
               observed.
    """

    def event(self) -> events.Exponential:
        """Return the price of one choice."""
        return events.Exponential(self.epsilon)

    def release(self, utilities: Any, *, source: BitSource = OS) -> int:
        """Return the index of the chosen candidate."""
        scores = parse_scores(utilities)
        return observed(
            self,
            scores,
            self.sensitivity,
            lambda: build_bernoulli_exp(self.scale).pick(gaps_below_best(scores), source),
        )

    def expected_error(self, count: int) -> float:
        """Return a bound on the mean utility lost against the best of `count` candidates."""
        return expected_shortfall(self.scale, count)

    def shortfall(self, count: int, confidence: Number) -> int:
        """Return a bound, at this confidence, on the utility lost against the best of `count` candidates."""
        return likely_shortfall(self.scale, count, confidence)


@tagged("MostFrequent", "epsilon")
@dataclass(frozen=True, slots=True)
class ModeMechanism:
    """Chooses about the most frequent cell of a histogram, with a probability ∝ exp(ε·count).

    Cells with the same count are equally likely, and so are all cells of a histogram without rows.

    Privacy
    -------
    Protects : one unit, add/remove, with at most `rows` rows in the histogram.
    Costs    : Exponential(rows · epsilon).
    Because  : docs/proofs/exponential.md#the-most-frequent-value
    Assumes  : the histogram holds exact counts over a public grid; how long a draw takes is not observed.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        require_scale(self.scale)

    @property
    def scale(self) -> Fraction:
        """How many rows fewer make a cell e times less likely."""
        return 1 / self.epsilon

    def event(self, rows: int = 1) -> events.Exponential:
        """Return the price where a unit has at most so many rows in the histogram."""
        return events.Exponential(self.epsilon * rows)

    def event_by_cell(self, moves: events.Moves) -> events.Event:
        """Return the price where a unit has at most so many rows in each of several groups."""
        return events.price_choices(self.epsilon, moves)

    def release(self, counts: Any, *, rows: int | None = None, source: BitSource = OS) -> int:
        """Return the index of the chosen cell; counts are given as to `QuantileMechanism.release`."""
        return int(self.release_groups(parse_single_histogram(counts), rows=rows, source=source)[0])

    def release_groups(
        self, table: Histograms, *, rows: int | None = None, source: BitSource = OS
    ) -> NDArray[np.int64]:
        """Return the chosen cell of every group. A unit has at most `rows` rows in all of them together."""
        return observed(self, table, rows, lambda: self._choose(table, source))

    def _choose(self, table: Histograms, source: BitSource) -> NDArray[np.int64]:
        weights, step = build_bernoulli_exp(self.scale), max(1, _BLOCK // table.cells)
        found = []
        for start in range(0, table.groups, step):
            counts = table.counts(start, min(start + step, table.groups))
            gaps = counts.max(axis=1, keepdims=True) - counts
            lengths = np.ones(counts.shape, dtype=np.uint64)
            exact = gaps if gaps.dtype == object else gaps.astype(np.uint64)
            found.append(weights.pick_each(exact, lengths, source)[0])
        return np.concatenate(found).astype(np.int64)

    def expected_error(self, cells: int) -> float:
        """Return a bound on how many rows fewer than the most frequent cell the chosen one has on average."""
        return expected_shortfall(self.scale, cells)

    def shortfall(self, cells: int, confidence: Number) -> int:
        """Return a bound, at this confidence, on how many rows fewer the chosen cell has than the best."""
        return likely_shortfall(self.scale, cells, confidence)
