"""Choosing an expert at every step while every loss vector is protected (docs/experts.md)."""

from __future__ import annotations

import os
from numbers import Real
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sfumato import viz
from sfumato.errors import PolicyError, UsageError
from sfumato.online.experts.method import GRID
from sfumato.online.experts.planning import LOSSES, NON_PRIVATE, Facts, plan_method
from sfumato.privacy.exact import parse_positive, parse_probability, parse_whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.online.experts.method import ExpertMethod
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

_POINTS = 200
"""Steps at which a chart shows regret."""


class Experts:
    """A game against losses that come step by step: `choose()` an expert, then `observe(…)` what each lost.

    Privacy
    -------
    Protects : one whole loss vector, replaced by any other in [0, 1]^n, at one step; losses may be chosen by
               someone who sees all earlier choices. Nothing is protected with method "non-private".
    Costs    : `event()`, for the choices of all steps together; it is (ε, δ)-private.
    Because  : docs/proofs/experts.md
    Assumes  : only choices are released, not losses or regret; how long a step takes is not observed. What
               `losses` says is assumed for the bound on regret alone.
    """

    def __init__(
        self,
        n: int = 36,
        horizon: int = 5651,
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        method: str = "auto",
        *,
        losses: str | None = None,
    ) -> None:
        self.n, self.horizon = parse_whole(n, "n"), parse_whole(horizon, "horizon")
        if self.n < 2:
            raise UsageError("SF-N101", "There must be at least two experts to choose from.", got=f"{self.n}")
        facts = Facts(
            self.n,
            self.horizon,
            parse_positive(epsilon, "epsilon"),
            parse_probability(delta, "delta"),
            _parse_assumption(losses),
        )
        planned = plan_method(method, facts)
        self.method, self.why, self._method = planned.name, planned.why, planned.method
        self.needs = planned.needs
        self.losses = planned.needs if losses is None else losses
        self._play, self._lock, self._process = self._method.begin(), Lock(), os.getpid()
        self._step, self._waiting = 0, False
        self._chosen: list[int] = []

    # ---- the game ----

    def choose(self) -> int:
        """Return the expert for this step; until its losses are observed it stays the same."""
        with self._lock:
            self._require_alive(1)
            self._waiting = True
            return self._play.choice

    def observe(self, losses: ArrayLike) -> None:
        """Take the losses of all experts in the step that was chosen for."""
        rows = self._parse_losses(_parse_numbers(losses)[None])
        with self._lock:
            self._require_alive(1)
            if not self._waiting:
                raise UsageError(
                    "SF-P124",
                    "No expert was chosen for these losses.",
                    try_="choose() first, once for every step",
                )
            self._advance(rows)

    def run(self, losses: ArrayLike) -> NDArray[np.intp]:
        """Return the choices of as many steps as there are rows, each made before its row is seen."""
        rows = self._parse_losses(losses)
        with self._lock:
            self._require_alive(len(rows))
            return self._advance(rows)

    @property
    def step(self) -> int:
        """Number of steps that are over."""
        return self._step

    @property
    def choices(self) -> NDArray[np.intp]:
        """The choices of all steps that are over."""
        return np.array(self._chosen, dtype=np.intp)

    # ---- what it costs and promises ----

    def event(self) -> Event:
        """Return the price of all choices together."""
        return self._method.event()

    @property
    def mechanism(self) -> ExpertMethod:
        """The method that is played, with its parameters."""
        return self._method

    def bounds(self, steps: ArrayLike) -> NDArray[np.float64]:
        """Return a bound on the expected regret after so many steps, for the losses that were stated.

        Where the method `needs` more than that, nothing is proven but that each step loses at most 1.
        """
        count = np.asarray(steps, dtype=np.int64)
        if LOSSES.index(self.needs) > LOSSES.index(self.losses):
            return count.astype(np.float64)
        return self._method.bounds(count)

    def regret(self, losses: ArrayLike) -> NDArray[np.float64]:
        """Return the regret after each step, for the losses that were observed. It is not private."""
        return measure_regret(self._require_observed(losses), self.choices)

    def plot(self, losses: ArrayLike) -> viz.Chart:
        """Return a chart of the average regret and its bound. It is drawn from the losses: not private."""
        regret = self.regret(losses)
        steps = np.unique(np.geomspace(1, len(regret), _POINTS).astype(np.int64))
        return viz.regret_curves(
            {self.method: (steps, regret[steps - 1] / steps, self.bounds(steps) / steps)},
            title="Average regret against the best expert",
        )

    def __repr__(self) -> str:
        price = "NOT PRIVATE" if self.method == NON_PRIVATE else f"{self.event()} for all of them"
        return f"Experts by {self.method}: {self.step:,} of {self.horizon:,} steps among {self.n:,}, {price}"

    # ---- inside ----

    def _advance(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the choices of these steps, and make the choice of the next one."""
        # Whatever interrupts a draw leaves a play that does not fit its choices, so the game ends.
        step, self._step = self._step, self.horizon
        used = rows[: self._method.rows - step] if self.horizon > 1 else rows[:0]
        made = np.array([self._play.choice])
        if len(used):
            made = np.concatenate([made, self._play.follow(used)])
        chosen = made[: len(rows)]
        self._chosen += chosen.tolist()
        self._step, self._waiting = step + len(rows), False
        return chosen

    def _parse_losses(self, losses: Any) -> NDArray[np.int64]:
        """Return losses in grid steps; refuse anything but numbers in [0, 1], a row for each step."""
        numbers = _parse_numbers(losses)
        if numbers.ndim != 2 or numbers.shape[1] != self.n or not len(numbers):
            raise UsageError(
                "SF-N203",
                "A step has one loss for each expert.",
                got=f"shape {numbers.shape}",
                expected=f"{self.n} numbers for each step",
            )
        # A comparison with NaN is false, so NaN is refused with the rest.
        if not ((numbers >= 0) & (numbers <= 1)).all():
            raise _refused_losses("a number outside, or NaN")
        return np.rint(numbers * GRID).astype(np.int64)

    def _require_alive(self, more: int) -> None:
        if os.getpid() != self._process:
            raise _refused_copy()
        if self._step + more > self.horizon:
            raise PolicyError(
                "SF-N604",
                "The game has reached its horizon.",
                steps=f"{self.horizon:,}",
                try_="new Experts, for a new charge",
            )

    def _require_observed(self, losses: ArrayLike) -> NDArray[np.float64]:
        if not self._step:
            raise UsageError("SF-N606", "No step is over yet.", try_="run(…)")
        self._parse_losses(losses)
        numbers = _parse_numbers(losses)
        if len(numbers) != len(self.choices):
            raise UsageError(
                "SF-N203",
                "Regret is measured by the losses of all steps that are over.",
                got=f"{len(numbers):,} steps",
                expected=f"{len(self.choices):,} steps",
            )
        return numbers

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise _refused_copy()

    def __copy__(self) -> NoReturn:
        raise _refused_copy()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise _refused_copy()


def measure_regret(losses: NDArray[np.float64], choices: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return after each step the loss of the choices so far, less that of the best expert so far."""
    own = np.cumsum(losses[np.arange(len(choices)), choices])
    return np.asarray(own - np.cumsum(losses, axis=0).min(axis=1))


def _parse_assumption(losses: Any) -> str:
    if losses is None:
        return "oblivious"
    if losses not in LOSSES:
        raise UsageError("SF-E187", "There is no such assumption on losses.", allowed=", ".join(LOSSES))
    return str(losses)


def _parse_numbers(losses: Any) -> NDArray[np.float64]:
    """Return an array of doubles; texts and masked cells are no numbers."""
    try:
        array = np.asarray(losses)
    except ValueError:
        raise _refused_losses("rows of unequal length") from None
    if array.dtype == object and all(isinstance(each, Real) for each in array.flat):
        array = array.astype(np.float64)
    if array.dtype.kind not in "biuf" or np.ma.is_masked(losses):
        raise _refused_losses("something else than numbers")
    return array.astype(np.float64, copy=False)


def _refused_losses(got: str) -> UsageError:
    return UsageError(
        "SF-N101",
        "Losses are numbers between 0 and 1.",
        got=got,
        try_="scale them by bounds that are known beforehand",
    )


def _refused_copy() -> PolicyError:
    return PolicyError("SF-L303", "Experts in use cannot be copied, pickled or moved to another process.")
