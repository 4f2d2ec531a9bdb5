"""Permute-and-flip: one of the candidates whose coin falls heads wins (docs/proofs/permute-and-flip.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp, gaps_below_best
from sfumato.noise.sampling.bits import OS, draw_below
from sfumato.noise.selection import SelectionMechanism, expected_shortfall, likely_shortfall, parse_scores
from sfumato.privacy.events import Pure

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(SelectionMechanism):
    """Goes through the candidates in random order and takes the first whose coin falls heads.

    The coin of a candidate that lies `gap` below the best falls heads with probability exp(−ε·gap /
    (2·sensitivity)), or without the 2 if monotone. On average it never loses more utility than the
    exponential mechanism at the same ε.

    Privacy
    -------
    Protects : one unit, add/remove, that changes every utility by at most `sensitivity`, and all of them in
               the same direction if `monotone`.
    Costs    : Pure(epsilon). Its privacy loss is not of bounded range, so nothing less is charged.
    Because  : docs/proofs/permute-and-flip.md
    Assumes  : the utilities are exact integers of a public list of candidates; how long a draw takes is not
               observed.
    """

    def event(self) -> Pure:
        """Return the price of one choice."""
        return Pure(self.epsilon)

    def release(self, utilities: Any, *, source: BitSource = OS) -> int:
        """Return the index of the chosen candidate."""
        scores = parse_scores(utilities)
        return observed(self, scores, self.sensitivity, lambda: self._heads(scores, source))

    def _heads(self, scores: IntArray, source: BitSource) -> int:
        # The first heads in a random order is a uniform one of all heads, so no order needs to be drawn.
        heads = np.flatnonzero(build_bernoulli_exp(self.scale).flip(gaps_below_best(scores), source))
        return int(heads[draw_below(heads.size, source)])

    def expected_error(self, count: int) -> float:
        """Return a bound on the mean utility lost against the best of `count` candidates."""
        return expected_shortfall(self.scale, count)

    def shortfall(self, count: int, confidence: Number) -> int:
        """Return a bound, at this confidence, on the utility lost against the best of `count` candidates."""
        return likely_shortfall(self.scale, count, confidence)
