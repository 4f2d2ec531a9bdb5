"""What all ways to choose among experts share: a price, a bound on regret, and a play in use."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.audit_hook import observed, unobserved
from sfumato.noise.sampling.bits import OS, draw_below
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.events import Event

    Losses = NDArray[np.int64]
    """Losses in grid steps, a row for each step of the game and a column for each expert."""

GRID = 2**20
"""Losses are rounded to multiples of 1/GRID. Rounded losses lie in [0, 1] too: any grid is private."""


_AT_ONCE = 2**18
"""Losses that are worked on at once, so that memory does not grow with the length of a run."""


@dataclass(frozen=True)
class ExpertMethod(ABC):
    """A way to choose one of `experts` at each of `horizon` steps, by the losses of the steps before.

    Every method protects one whole loss vector, replaced by any other in [0, 1]^n, at one step. The choices
    of all steps together are what is released. Losses may depend on all earlier choices.
    """

    experts: int
    horizon: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "experts", parse_whole(self.experts, "experts"))
        object.__setattr__(self, "horizon", parse_whole(self.horizon, "horizon"))

    @property
    def rows(self) -> int:
        """How many loss vectors are used: the last one comes after the last choice."""
        return max(1, self.horizon - 1)

    @abstractmethod
    def event(self) -> Event:
        """Return the price of all choices together."""

    @abstractmethod
    def proven_regret(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a bound on the expected regret after so many steps, before the losses were rounded."""

    @abstractmethod
    def start(self, source: BitSource) -> Play:
        """Return a play whose first choice has been made."""

    def begin(self, *, source: BitSource = OS) -> Play:
        """Return a play at its first step. Charge `event()` first."""
        play = unobserved(lambda: self.start(source))
        nothing = np.zeros((0, self.experts), dtype=np.int64)
        play.choice = observed(self, nothing, 1, lambda: play.choice, within=play)
        return play

    def bounds(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a bound on the expected regret after so many steps, rounding of the losses included."""
        count = np.asarray(steps, dtype=np.int64)
        return np.asarray(np.minimum(self.proven_regret(count) + count / GRID, count))

    def release(self, losses: Losses, *, source: BitSource = OS) -> NDArray[np.intp]:
        """Return the choices of a whole game with these losses: one more than there are rows."""
        play = self.begin(source=source)
        return np.concatenate([[play.choice], play.follow(losses)])


class Play(ABC):
    """A game in use. `choice` is the expert for the next step."""

    def __init__(self, method: ExpertMethod, source: BitSource) -> None:
        self.method, self.source = method, source
        self.choice = draw_below(method.experts, source)

    def follow(self, losses: Losses) -> NDArray[np.intp]:
        """Return the choice after each of these steps; the last of them is the choice for the next step."""
        chosen = observed(self.method, losses, 1, lambda: self._choose_in_parts(losses), within=self)
        self.choice = int(chosen[-1])
        return chosen

    def _choose_in_parts(self, losses: Losses) -> NDArray[np.intp]:
        rows = max(1, _AT_ONCE // self.method.experts)
        parts = [self._choose_after(losses[at : at + rows]) for at in range(0, len(losses), rows)]
        return np.concatenate(parts)

    @abstractmethod
    def _choose_after(self, losses: Losses) -> NDArray[np.intp]: ...


def hedge_bound(experts: int, rate: float, steps: NDArray[np.int64], batch: int = 1) -> NDArray[np.float64]:
    """Return ln n/η + η·Σb²/8 for choices ∝ e^(−η·loss) that change after every `batch` steps."""
    batches = -(-steps // batch)
    return np.asarray(math.log(experts) / rate + rate * batches * batch**2 / 8)
