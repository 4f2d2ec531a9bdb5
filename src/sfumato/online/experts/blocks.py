"""A best expert that shifts: another method starts afresh after every block of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.online.experts.method import ExpertMethod, Play
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.online.experts.method import Losses
    from sfumato.privacy.events import Event


@dataclass(frozen=True)
class RestartedBlocks(ExpertMethod):
    """Plays another method in blocks of its horizon, each from nothing.

    Its regret is against the best sequence of experts with at most `shifts` changes.

    Privacy
    -------
    Protects : one loss vector in [0, 1]^n, replaced, at one step; losses may depend on earlier choices.
    Costs    : what one block costs, since a loss vector is used in one block only.
    Because  : docs/proofs/experts.md
    Assumes  : what the method within a block assumes.
    """

    within: ExpertMethod
    shifts: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shifts", parse_whole(self.shifts, "shifts"))

    def event(self) -> Event:
        """Return the price of all choices together."""
        return self.within.event()

    def proven_regret(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bounds of all blocks so far, and whole blocks lost to shifts."""
        length = self.within.horizon
        whole = float(self.within.proven_regret(np.array(length)))
        return np.asarray(
            steps // length * whole + self.within.proven_regret(steps % length) + self.shifts * length
        )

    def start(self, source: BitSource) -> BlocksInPlay:
        """Return a play at the start of its first block."""
        return BlocksInPlay(self, source)


class BlocksInPlay(Play):
    """Blocks in use: the play of the current block, and how many of its steps are over."""

    def __init__(self, method: RestartedBlocks, source: BitSource) -> None:
        super().__init__(method, source)
        self._within, self._steps = method.within, 0
        self._play = self._within.start(source)
        self.choice = self._play.choice

    def _choose_after(self, losses: Losses) -> NDArray[np.intp]:
        chosen, at = [], 0
        while at < len(losses):
            # The last loss vector of a block comes after its last choice, so nobody learns from it.
            part = losses[at : at + self._within.horizon - 1 - self._steps]
            if len(part):
                chosen.append(self._play.follow(part))
                at, self._steps = at + len(part), self._steps + len(part)
                continue
            self._play, self._steps, at = self._within.start(self.source), 0, at + 1
            chosen.append(np.array([self._play.choice]))
        return np.concatenate(chosen)
