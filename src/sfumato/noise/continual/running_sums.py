"""Running sums of a stream with Gaussian noise, correlated over time (docs/proofs/continual.md)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sfumato.errors import PolicyError, UsageError
from sfumato.noise.additive import COMBINED
from sfumato.noise.audit_hook import observed, unobserved
from sfumato.noise.continual.planning import ENDLESS, plan_buffers, plan_endless
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import IntArray, parse_integers
from sfumato.privacy import events
from sfumato.privacy.exact import parse_confidence, parse_positive, parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.continual.toeplitz import BufferedToeplitz
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number

_REACH = 48
"""Draws beyond so many σ are counted as lost privacy: their chance is below e^(−1150)."""

_WIDENING = 1.02
"""Ticks are scaled alike while the number of ticks left shrinks by this factor."""


@dataclass(frozen=True)
class RunningSums:
    """Releases all running sums of a stream of integer vectors, each after its tick, for one price.

    Privacy
    -------
    Protects : one unit, add/remove, that moves the vectors of at most `participations` ticks, at least
               `separation` ticks apart, each by an l2 norm of at most `contribution` grid steps.
    Costs    : Gaussian(multiplier), charged before `begin`, for the whole stream, however later vectors are
               chosen by what was released before.
    Because  : docs/proofs/continual.md
    Assumes  : vectors are exact integers; how long a draw takes is not observed.
    """

    multiplier: Fraction
    horizon: int | None = None
    contribution: int = 1
    participations: int = 1
    separation: int = 1
    cells: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "multiplier", parse_positive(self.multiplier, "multiplier"))
        for name in ("contribution", "participations", "separation", "cells"):
            object.__setattr__(self, name, parse_whole(getattr(self, name), name))
        if self.horizon is not None:
            object.__setattr__(self, "horizon", parse_whole(self.horizon, "horizon"))
        if self.horizon is None and self.participations > 1:
            raise UsageError(
                "SF-U104",
                "A unit in several ticks is protected for a stated number of ticks only.",
                try_="horizon=…, the most ticks that the stream will have",
            )

    def event(self) -> events.Gaussian:
        """Return the price of all running sums together."""
        return events.Gaussian(self.multiplier)

    @property
    def ticks(self) -> int:
        """The most ticks that can be released."""
        return ENDLESS if self.horizon is None else self.horizon

    @cached_property
    def factor(self) -> BufferedToeplitz:
        """The factor that the noise is correlated by."""
        if self.horizon is None:
            return plan_endless()
        return plan_buffers(self.horizon, self.participations, self.separation)

    @cached_property
    def scales(self) -> TickScales:
        """How much noise each tick gets: less towards a known end, where columns of C are cut off."""
        if self.horizon is None or self.participations > 1:
            return TickScales((0,), (1.0,))
        return _scale_ticks(self.factor, self.horizon)

    @cached_property
    def grid(self) -> NoiseGrid:
        """The grid that noise lies on, fine enough for what rounding adds to be next to nothing."""
        return _choose_grid(self)

    def begin(self, *, source: BitSource = OS) -> RunningNoise:
        """Return a stream at its start. Charge `event()` first."""
        return RunningNoise(self, source)

    def resume(self, kept: NoiseCheckpoint, *, source: BitSource = OS) -> RunningNoise:
        """Return a stream that goes on after a checkpoint. Of all that were kept, only the newest may."""
        if np.finfo(np.longdouble).eps > kept.precision:
            raise UsageError(
                "SF-S105",
                "This machine computes less precisely than the one on which the stream was begun.",
                why="what rounding may lose was priced there",
                try_="a machine of the same kind",
            )
        noise = RunningNoise(self, source)
        noise.restore(kept)
        return noise

    def release(self, exact: Any, *, source: BitSource = OS) -> IntArray:
        """Return the running sums of all these ticks at once, rounded to whole numbers."""
        return self.begin(source=source).extend(exact)

    def distance(self, moved: Any) -> Fraction:
        """Return how far a unit that moves the ticks by so much is from what is priced: 1 is all of it."""
        rows = np.asarray(moved, dtype=np.float64).reshape(-1, self.cells)
        scaled = rows / self.scales.spread(len(rows))[:, None]
        priced = float(self.grid.sigma / self.grid.steps / self.multiplier)
        return Fraction(float(np.linalg.norm(_multiply(self.factor, scaled))) / priced)

    def half_width(self, tick: int, confidence: Number) -> float:
        """Return a t with P(|noise| ≤ t) ≥ confidence for the running sum after so many ticks."""
        tail = float((1 - parse_confidence(confidence)) / 2)
        # Half a step for rounding to whole numbers, and what rounding to the finer grid adds up to.
        rounded = 0.5 + tick / self.grid.steps
        return -NormalDist().inv_cdf(tail) * math.sqrt(self.variances([tick])[0]) * (1 + 1e-9) + rounded

    def expected_error(self, tick: int) -> float:
        """Return an upper bound on the mean of |noise| of the running sum after so many ticks."""
        deviation = math.sqrt(self.variances([tick])[0])
        return deviation * math.sqrt(2 / math.pi) + 0.5 + tick / self.grid.steps

    def window_variances(self, ticks: int, window: int) -> NDArray[np.float64]:
        """Return the variances of the sums over the last `window` ticks, after each of the first `ticks`."""
        scales = self.scales.spread(ticks)
        square = float(self.grid.sigma / self.grid.steps) ** 2
        return np.asarray(square * _window_variances(self.factor, scales, window))

    def decayed_variances(self, ticks: int, decay: float) -> NDArray[np.float64]:
        """Return the variances of sums in which each tick counts `decay` times as much as the next one."""
        every, _ = _running_covariances(self.factor, self.scales.spread(ticks), decay)
        return np.asarray(float(self.grid.sigma / self.grid.steps) ** 2 * every)

    def variances(self, ticks: list[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variance of the running sums after these numbers of ticks, before they are rounded."""
        last = int(max(ticks))
        square = float(self.grid.sigma / self.grid.steps) ** 2
        if len(self.scales.values) == 1:
            return square * self.factor.sum_squares([int(tick) for tick in ticks])
        every, _ = _running_covariances(self.factor, self.scales.spread(last))
        return np.asarray(square * every[np.asarray(ticks) - 1])


@dataclass(frozen=True, slots=True)
class TickScales:
    """Scales of the noise that stay the same from one tick to another: `starts` says where each begins."""

    starts: tuple[int, ...]
    values: tuple[float, ...]

    def between(self, first: int, stop: int) -> list[tuple[int, int, float]]:
        """Return the stretches of equal scale from one tick up to another."""
        place = int(np.searchsorted(self.starts, first, side="right")) - 1
        found = []
        while first < stop:
            end = min(stop, self.starts[place + 1]) if place + 1 < len(self.starts) else stop
            found.append((first, end, self.values[place]))
            first, place = end, place + 1
        return found

    def spread(self, count: int) -> NDArray[np.float64]:
        """Return the scale of each of the first ticks."""
        return np.concatenate([np.full(end - start, value) for start, end, value in self.between(0, count)])


@dataclass(frozen=True, slots=True)
class NoiseGrid:
    """Noise is drawn in `steps` to one step of the data, with deviation `sigma` where the scale is 1."""

    steps: int
    sigma: Fraction


@dataclass(frozen=True, slots=True)
class NoiseCheckpoint:
    """All that a stream needs to go on. It is secret: with it, noise of earlier ticks can be found.

    `filters` holds each number of memory as two doubles that add up to it exactly.
    """

    tick: int
    sums: tuple[int, ...]
    """The running sums with noise, in steps of the noise's grid. These alone say no more than a release."""
    filters: tuple[tuple[float, float], ...]
    precision: float
    """The unit roundoff that the filters were computed with."""


def _scale_ticks(factor: BufferedToeplitz, horizon: int) -> TickScales:
    """Return scales at least as large as the norms of the columns of C within the horizon."""
    ends = [1]  # numbers of ticks left, ascending
    while ends[-1] < horizon:
        ends.append(min(horizon, max(ends[-1] + 1, int(ends[-1] * _WIDENING))))
    norms = [math.sqrt(factor.norm_squared(left)) for left in ends]
    starts = [horizon - left for left in reversed(ends)]
    return TickScales(tuple(starts), tuple(reversed(norms)))


def _choose_grid(plan: RunningSums) -> NoiseGrid:
    """Return the finest grid whose noise can be drawn, and σ for the sensitivity on it, rounding included."""
    widest = max(plan.scales.values)
    norm = 1.0 if len(plan.scales.values) > 1 else _norm(plan)
    # What doubles may lose in a closed form of a few terms, all of them positive.
    norm *= 1 + 1e-9
    held = float(np.prod(np.array(plan.factor.zeros) / np.array(plan.factor.poles)))
    numbers = math.sqrt(plan.ticks * plan.cells)
    lost = _filter_error(plan) * numbers * float(plan.multiplier)
    if lost > 0.05:
        raise UsageError(
            "SF-N201",
            "The filters of this stream are not precise enough for so much noise over so many ticks.",
            try_="a shorter horizon, a larger epsilon",
        )
    for bits in range(40, -1, -1):
        moved = (plan.contribution * 2**bits * norm + held * numbers) / (1 - lost)
        sigma = plan.multiplier * Fraction(moved)
        if sigma * Fraction(widest) <= COMBINED:
            return NoiseGrid(2**bits, sigma)
    raise UsageError("SF-N201", "The noise sigma is out of range.", try_="a coarser grid")


def _norm(plan: RunningSums) -> float:
    horizon = math.inf if plan.horizon is None else plan.horizon
    return math.sqrt(plan.factor.norm_squared(horizon, plan.participations, plan.separation))


def _filter_error(plan: RunningSums) -> float:
    """Return how far rounding in the filters can move z in one tick, in units of σ, as C sees it."""
    unit = float(np.finfo(np.longdouble).eps)
    gain = (len(plan.factor.poles) + 1) / plan.factor.poles[0]
    # In the world of the neighbour, draws are shifted by up to σ / multiplier.
    return 16 * unit * gain * (_REACH + 1 / float(plan.multiplier))


class RunningNoise:
    """A stream in use: its next tick, its running sum with noise, and one number for each filter.

    It cannot be copied, pickled or taken into a forked process: two copies would say more than was paid for.
    """

    def __init__(self, plan: RunningSums, source: BitSource) -> None:
        self._plan, self._source, self._lock, self._process = plan, source, Lock(), os.getpid()
        self._sum = self._noise_sum = np.zeros(plan.cells, dtype=np.int64)
        self._filters = np.zeros((len(plan.factor.poles), 1, plan.cells), dtype=np.longdouble)
        self.tick = 0

    def checkpoint(self) -> NoiseCheckpoint:
        """Return what a stream needs to go on from here, in another process."""
        with self._lock:
            steps = self._plan.grid.steps
            sums = self._sum.astype(object) * steps + self._noise_sum.astype(object)
            high = self._filters.ravel().astype(np.float64)
            low = (self._filters.ravel() - high).astype(np.float64)
            pairs = tuple(zip(high.tolist(), low.tolist(), strict=True))
            return NoiseCheckpoint(
                self.tick, tuple(map(int, sums)), pairs, float(np.finfo(np.longdouble).eps)
            )

    def restore(self, kept: NoiseCheckpoint) -> None:
        """Go on after a checkpoint, from a stream at its start."""
        high, low = np.array(kept.filters, dtype=np.longdouble).reshape(-1, 2).T
        self.tick, self._filters = kept.tick, (high + low).reshape(self._filters.shape)
        # Sums with noise take the place of both parts: only their total matters from here on.
        self._sum, self._noise_sum = np.zeros_like(self._sum), np.array(kept.sums, dtype=object)

    def add(self, exact: Any) -> IntArray | int:
        """Return the running sum with noise after one more tick."""
        vector = parse_integers(exact)
        sums = self.extend(vector.reshape(1, -1))[0]
        return sums if vector.ndim else int(sums[0])

    def extend(self, exact: Any) -> IntArray:
        """Return the running sums with noise after each of these ticks."""
        array = parse_integers(exact)
        rows = array.reshape(len(array), -1)
        if rows.shape[1] != self._plan.cells:
            raise UsageError(
                "SF-N203",
                "A tick of this stream has another number of cells.",
                got=f"{rows.shape[1]}",
                expected=f"{self._plan.cells}",
            )
        with self._lock:
            self._require_alive(len(rows))
            # Whatever interrupts a tick leaves filters that do not fit their draws, so the stream ends.
            tick, self.tick = self.tick, self._plan.ticks
            sums = observed(self._plan, rows, 1, lambda: self._release(rows, tick), within=self)
            self.tick = tick + len(rows)
        return sums.reshape(array.shape)

    def _release(self, rows: IntArray, tick: int) -> IntArray:
        steps, noise = self._plan.grid.steps, self._noise(tick, len(rows))
        # Whole data steps are summed apart from the noise, so that both fit into 64 bits where the data does.
        reached = float(np.abs(rows).max()) * len(rows) + float(np.abs(self._sum).max())
        wide = rows.dtype == object or reached >= 2.0**61
        sums = np.cumsum(rows.astype(object) if wide else rows, axis=0) + self._sum
        noises = np.cumsum(noise, axis=0) + self._noise_sum
        self._sum, self._noise_sum = sums[-1], noises[-1]
        return np.asarray(sums + (noises + steps // 2) // steps)

    def _noise(self, tick: int, count: int) -> NDArray[np.int64]:
        """Return the noise of the next ticks: independent draws, and what the filters add of earlier ones."""
        sigma = self._plan.grid.sigma
        stretches = self._plan.scales.between(tick, tick + count)
        drawn = np.concatenate(
            [self._draw(end - start, sigma * Fraction(scale)) for start, end, scale in stretches]
        )
        scales = np.concatenate([np.full(end - start, scale) for start, end, scale in stretches])[:, None]
        plain = drawn.astype(np.longdouble) / scales
        later = np.rint((self._filtered(plain) - plain) * scales).astype(np.int64)
        return np.asarray(drawn + later)

    def _draw(self, count: int, sigma: Fraction) -> NDArray[np.int64]:
        zeros = np.zeros((count, self._plan.cells), dtype=np.int64)
        noise = GaussianNoise(sigma)
        return np.asarray(unobserved(lambda: noise.release(zeros, source=self._source)), dtype=np.int64)

    def _filtered(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return C⁻¹ times these values, going on from what the filters hold."""
        from scipy.signal import lfilter

        factor = self._plan.factor
        for place, (pole, zero) in enumerate(zip(factor.poles, factor.zeros, strict=True)):
            one = np.longdouble(1)
            values, self._filters[place] = lfilter(
                np.array([one, pole - one]),
                np.array([one, zero - one]),
                values,
                axis=0,
                zi=self._filters[place],
            )
        return values

    def _require_alive(self, more: int) -> None:
        if os.getpid() != self._process:
            raise _refused()
        if self.tick + more > self._plan.ticks:
            raise PolicyError(
                "SF-N604",
                "The stream has reached its horizon.",
                ticks=f"{self._plan.ticks:,}",
                try_="a new stream, for a new charge",
            )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise _refused()

    def __copy__(self) -> NoReturn:
        raise _refused()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise _refused()


def _refused() -> PolicyError:
    return PolicyError("SF-L303", "A stream in use cannot be copied, pickled or moved to another process.")


def _multiply(factor: BufferedToeplitz, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return C times these rows."""
    from scipy.signal import lfilter

    for pole, zero in zip(factor.poles, factor.zeros, strict=True):
        rows = lfilter([1.0, zero - 1.0], [1.0, pole - 1.0], rows, axis=0)
    return np.asarray(rows)


def _running_covariances(
    factor: BufferedToeplitz, scales: NDArray[np.float64], decay: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variance of every running sum, and its covariance with the memories of the next tick.

    With a decay, the sum is multiplied by it before a tick is added.

    For z of variance 1, the noise of tick t is scales[t]·w_t with w_t = z_t − Σ ω_i·u_i(t) and u_i(t + 1) =
    r_i·u_i(t) + z_t. The covariance of u with u is a geometric sum; that with running sums is a filter of it.
    """
    from scipy.signal import lfilter

    weights, logs = factor.inverse_weights, np.log1p(-np.array(factor.zeros))
    ticks = np.arange(len(scales))
    with_w = np.zeros((len(logs), len(scales)))
    for place, log in enumerate(logs):
        for other, weight in zip(logs, weights, strict=True):
            with_w[place] -= weight * np.expm1(ticks * (log + other)) / np.expm1(log + other)
    rates = np.exp(logs)
    with_sum = np.array(
        [
            lfilter([1.0], [1.0, -rate * decay], scales * (rate * covariance + 1))
            for rate, covariance in zip(rates, with_w, strict=True)
        ]
    )
    own = 1 - weights @ with_w
    cross = np.concatenate([[0.0], -(weights @ with_sum[:, :-1])])
    added = 2 * decay * scales * cross + scales**2 * own
    return np.asarray(lfilter([1.0], [1.0, -(decay**2)], added)), with_sum


def _window_variances(
    factor: BufferedToeplitz, scales: NDArray[np.float64], window: int
) -> NDArray[np.float64]:
    """Return the variances of the differences of running sums that are `window` ticks apart."""
    from scipy.signal import lfilter

    variances, with_sum = _running_covariances(factor, scales)
    if window >= len(scales):
        return variances
    found = variances.copy()
    before = slice(0, len(scales) - window)
    shared = variances[before].copy()
    for weight, gap, covariance in zip(factor.inverse_weights, factor.zeros, with_sum, strict=True):
        # What the memories of a tick still bring into the sums of the ticks of its window.
        coming = lfilter([1.0], [1.0, gap - 1.0], scales[::-1])[::-1]
        ended = np.concatenate([coming[window + 1 :], [0.0]]) * (1 - gap) ** window
        shared -= weight * covariance[before] * (coming[1 : len(scales) - window + 1] - ended)
    found[window:] += variances[before] - 2 * shared
    return found
