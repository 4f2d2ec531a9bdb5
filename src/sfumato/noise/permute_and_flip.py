"""Permute-and-flip: a coin for each candidate, and one of the heads (docs/proofs/permute-and-flip.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.audit_hook import observed
from sfumato.noise.candidates import SelectionMechanism, candidates, expected_shortfall, likely_shortfall
from sfumato.noise.sampling.bernoulli_exp import below_best, chances
from sfumato.noise.sampling.bits import OS, below
from sfumato.privacy.events import Pure

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(SelectionMechanism):
    """Goes through the candidates in random order and takes the first whose coin falls heads.

    The coin of a candidate that lies `gap` below the best has chance exp(−ε·gap / (2·sensitivity)), or
    without the 2 if monotone. On average it never loses more utility than the exponential mechanism at the
    same ε.

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
        return Pure(self.epsilon)

    def release(self, utilities: Any, *, source: BitSource = OS) -> int:
        """The place of the chosen candidate.

        The first heads in a random order is a random one of all heads, so no order is drawn.
        """
        scores = candidates(utilities)
        return observed(self, scores, self.sensitivity, lambda: self._heads(scores, source))

    def _heads(self, scores: IntArray, source: BitSource) -> int:
        heads = np.flatnonzero(chances(self.scale).flip(below_best(scores), source))
        return int(heads[below(heads.size, source)])

    def expected_error(self, count: int) -> float:
        """The utility lost against the best of `count` candidates is at most this on average."""
        return expected_shortfall(self.scale, count)

    def shortfall(self, count: int, confidence: Number) -> int:
        """The utility lost against the best of `count` candidates is at most this, with this confidence."""
        return likely_shortfall(self.scale, count, confidence)
