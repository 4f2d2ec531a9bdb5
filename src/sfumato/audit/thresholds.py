"""Bounds from canaries whose scores are independent and alike, by a threshold on the scores.

Half of the canaries, those with even numbers, choose a threshold and a side; the others measure how often
scores of canaries that were in, and of those that were out, lie beyond it (docs/proofs/audit.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.audit.claims import log_ratio, normal_distance
from sfumato.audit.confidence import lower_bound, upper_bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.audit.guesses import TradeoffFunction

    Floats = NDArray[np.float64]
    Goal = Callable[[Floats, Floats], Floats]
    """Returns how much two chances tell, from a bound below the first and one above the second."""

_TRIED = 256
"""Thresholds that are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreThresholds:
    """Scores of canaries that were in and that were out, in two halves."""

    scores: Floats
    included: NDArray[np.bool_]
    alpha: float

    def rejects(self, tradeoff: TradeoffFunction) -> bool:
        """Return whether some threshold tells canaries apart better than a trade-off function allows."""

        def excess(p: Floats, q: Floats) -> Floats:
            return np.array([tradeoff(float(b)) - (1 - float(a)) for a, b in zip(p, q, strict=True)])

        return self._measure(excess) > 0

    def bound_epsilon(self, delta: float) -> float:
        """Return a lower bound on ε at this δ."""
        return max(0.0, self._measure(lambda p, q: log_ratio(p, q, delta)))

    def bound_mu(self) -> float:
        """Return a lower bound on the μ of a mechanism that is Gaussian DP."""
        return max(0.0, self._measure(normal_distance))

    def _measure(self, goal: Goal) -> float:
        """Return what the best threshold and side of one half tell in the other half."""
        score, edge, above = max(
            self._try(goal, self.scores[::2], self.included[::2], above) for above in (True, False)
        )
        if np.isneginf(score):
            return -np.inf
        p, q = self._bound(self.scores[1::2], self.included[1::2], np.array([edge]), above)
        return float(goal(p, q)[0])

    def _try(
        self, goal: Goal, scores: Floats, included: NDArray[np.bool_], above: bool
    ) -> tuple[float, float, bool]:
        edges = np.unique(np.quantile(scores, np.linspace(0, 1, _TRIED)))
        told = goal(*self._bound(scores, included, edges, above))
        return float(told.max()), float(edges[told.argmax()]), above

    def _bound(
        self, scores: Floats, included: NDArray[np.bool_], edges: Floats, above: bool
    ) -> tuple[Floats, Floats]:
        """Return bounds on the chances to lie beyond edges: of those that were in, if above, or out."""
        likely, unlikely = (np.sort(scores[included == each]) for each in (above, not above))
        hits = [np.searchsorted(each, edges, side="right") for each in (likely, unlikely)]
        if above:
            hits = [len(each) - hit for each, hit in zip((likely, unlikely), hits, strict=True)]
        return (
            lower_bound(hits[0], len(likely), self.alpha / 2),
            upper_bound(hits[1], len(unlikely), self.alpha / 2),
        )
