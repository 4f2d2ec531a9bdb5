"""What all streams share: one charge for all ticks, each tick released once, errors known beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.errors import PolicyError, UsageError
from sfumato.noise.continual.running_sums import RunningSums
from sfumato.online.combined_ticks import combine_ticks, find_deviations
from sfumato.privacy.calibration import gaussian_sigma
from sfumato.privacy.exact import parse_nonnegative, parse_positive, parse_whole
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.privacy import events
    from sfumato.privacy.exact import Number


class Stream:
    """A stream in use, with all that it has released.

    Privacy
    -------
    Protects : one unit, add/remove, that is in at most `participations` ticks, at least `separation` ticks
               apart, with at most `contribution` items in each.
    Costs    : one Gaussian event for all ticks, `event()`; with `rho` it is 2ρ = 1/σ², with `epsilon` and
               `delta` the σ is the least that is (ε, δ)-private.
    Because  : docs/proofs/continual.md
    Assumes  : items are bounded by what was declared, not by what comes; how long a tick takes is not
               observed.
    """

    def __init__(
        self,
        *,
        horizon: int | None = None,
        rho: Number | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        contribution: int = 1,
        participations: int = 1,
        separation: int = 1,
    ) -> None:
        items = parse_whole(contribution, "contribution")
        self._mechanism = RunningSums(
            _multiplier(rho, epsilon, delta),
            horizon,
            self._item_norm() * items,
            participations,
            separation,
            self._cells(),
        )
        self._noise = self._mechanism.begin()
        self._released = np.zeros((0, self._cells()), dtype=np.int64)

    def event(self) -> events.Gaussian:
        """Return the price of all ticks together."""
        return self._mechanism.event()

    @property
    def tick(self) -> int:
        """Number of ticks released so far."""
        return self._noise.tick

    def _require_tick(self, tick: int | None) -> None:
        """Refuse a tick that is not the next one, where its number was given. The stream stays as it is."""
        if tick is not None and parse_nonnegative(tick, "tick") != self.tick:
            raise PolicyError(
                "SF-P124",
                "Ticks come in order, each once.",
                got=f"{tick}",
                next=f"{self.tick}",
                try_=f"tick={self.tick}; ticks count from 0",
            )

    def _cells(self) -> int:
        """Return how many numbers are summed."""
        return 1

    def _item_norm(self) -> int:
        """Return the largest l2 norm by which one item moves those numbers."""
        return 1

    def _extend(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the running sums after each of these ticks, and keep them."""
        sums = np.asarray(self._noise.extend(rows))
        self._released = np.concatenate([self._released, sums])
        return sums

    def _sums_within(self, window: int | None, decay: Number | None) -> NDArray[Any]:
        """Return the sums over all ticks, over the last `window` of each tick, or with a decay."""
        return combine_ticks(self._released, window, decay)

    def _deviations(self, window: int | None, decay: Number | None) -> NDArray[np.float64]:
        """Return the standard deviations of those sums, rounding included."""
        return find_deviations(self._mechanism, self.tick, window, decay)

    def __repr__(self) -> str:
        horizon = self._mechanism.horizon
        ends = f"of {horizon:,} ticks" if horizon is not None else "without a stated end"
        return f"{type(self).__name__}: {self.tick:,} {ends} released, {self.event()} for all of them"


def draw_stream(values: NDArray[Any], half: NDArray[Any], title: str) -> viz.Chart:
    """Return a chart of a stream's values over its ticks, with their intervals."""
    if not len(values):
        raise UsageError("SF-N606", "No tick has been released yet.", try_="add(…) or run(…)")
    ticks = list(range(1, len(values) + 1))
    return viz.bars(ticks, values, values - half, values + half, title=title, x="tick")


def _multiplier(rho: Number | None, epsilon: Number | None, delta: Number | None) -> Fraction:
    if rho is not None and epsilon is None and delta is None:
        return root_up(1 / (2 * parse_positive(rho, "rho")))
    if rho is None and epsilon is not None and delta is not None:
        return parse_positive(gaussian_sigma(epsilon, delta, 1), "sigma")
    raise UsageError(
        "SF-N109",
        "The price of a stream is missing, or there are two.",
        try_="rho=…, or epsilon=… and delta=…",
    )
