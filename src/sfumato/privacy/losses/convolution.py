"""Composition of losses on a grid by Fourier transform, with a proven bound on every error.

Masses are tilted before they are transformed: multiplied by e^(θ·loss), as for a Chernoff bound at the ε that
is asked for. The error of the transform is then small beside the masses there, however rare they are
(docs/proofs/curves.md#convolution).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.losses.masses import ON_GRID, ROUNDING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.privacy.losses.masses import Floats, LossMasses

_TILTS = (0.0, *(2.0 ** (power / 2) for power in range(-6, 15)))
"""Values of θ that are tried. Any of them gives a bound; a good one gives a tight one."""
_NEARBY = tuple(2.0 ** (power / 2) for power in range(-8, 9))
"""How far from θ, in inverse deviations, moments may be taken to bound what lies outside a window."""
_RARE = 48.0
"""A window holds all but e^−48 of the tilted mass, on either side."""
_LARGEST = 2**23
"""Most points of a window. Runs that need more have no numeric bound here."""
_LEVEL = 8 * ROUNDING
"""Error of one level of a fast Fourier transform of length 2^k, in parts of the sum of all moduli: a product
with a rounded root of unity and a sum, together below 5 roundings."""


@dataclass(frozen=True, slots=True, eq=False)
class LossWindow:
    """A bound on the profile at the grid points of a window: δ(ε) at first, first + step, …"""

    first: float
    step: float
    profile: Floats
    beyond: float
    """Mass above the window, and of an infinite loss."""
    whole: float
    """Mass in the window."""

    def delta(self, epsilon: Floats) -> Floats:
        """Return the bound on δ(ε), between grid points linear in e^ε as the profile itself."""
        place = (np.asarray(epsilon, dtype=float) - self.first) / self.step
        low = np.clip(np.floor(place), 0, len(self.profile) - 1).astype(int)
        high = np.minimum(low + 1, len(self.profile) - 1)
        part = np.clip(np.expm1((place - low) * self.step) / math.expm1(self.step), 0, 1)
        inside = self.profile[low] + (self.profile[high] - self.profile[low]) * part
        below = self.whole - np.exp(np.minimum(place, 0) * self.step) * (self.whole - self.profile[0])
        inside = np.where(place < 0, below, np.where(place > len(self.profile) - 1, 0.0, inside))
        return self.beyond + inside

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε at which the bound is at most δ; infinity where none is."""
        rest = delta - self.beyond
        if rest < 0 or self.profile[-1] > rest:
            return math.inf
        after = int(np.argmax(self.profile <= rest))
        if after == 0:
            return self.first
        high, low = self.profile[after - 1], self.profile[after]
        part = (high - rest) / (high - low)
        return self.first + (after - 1) * self.step + math.log1p(math.expm1(self.step) * part)


class ComposedLosses:
    """The losses of a run in one direction: of each part, as often as it occurs."""

    def __init__(self, parts: Sequence[tuple[LossMasses, int]], *, lower: bool) -> None:
        self._parts = list(parts)
        self._lower = lower
        self._step = parts[0][0].step
        self._times = sum(times for _, times in self._parts)
        self._shift = math.fsum(times * part.offset for part, times in self._parts)
        """What all losses are above those of the grid."""
        self._log_moment = lru_cache(maxsize=256)(self._compute_log_moment)
        self._window = lru_cache(maxsize=2)(self._compute_window)

    def delta(self, epsilons: Floats) -> Floats:
        """Return bounds on δ(ε), of the kind that the parts are: all above, or all below."""
        epsilons = epsilons - self._shift
        most = float(np.max(epsilons))
        windows = [self._find_window(self._tilt_for_epsilon(most))]
        if len(epsilons) > 1:
            windows.append(self._window(0.0))
        found = [window.delta(epsilons) for window in windows if window is not None]
        if not found:
            return np.zeros(len(epsilons)) if self._lower else np.ones(len(epsilons))
        best: Floats = np.max(found, axis=0) if self._lower else np.min(found, axis=0)
        return np.clip(best, 0.0, 1.0)

    def epsilon(self, delta: float) -> float:
        """Return a bound on the smallest ε for this δ."""
        window = self._find_window(self._tilt_for_delta(delta)) if delta > 0 else None
        if window is None:
            return 0.0 if self._lower else math.inf
        found = window.epsilon(delta) + self._shift
        return max(0.0, found - _slack(found) if self._lower else found + _slack(found))

    @property
    def largest(self) -> float:
        """The largest finite loss."""
        steps = sum(times * (part.first + len(part.masses)) for part, times in self._parts)
        return steps * self._step + self._shift

    # ---- moments -------------------------------------------------------------------------------------------

    def _compute_log_moment(self, tilt: float) -> float:
        """Return log Σ mass·e^(θ·loss) of the whole run."""
        return math.fsum(times * _tilted(part, tilt)[1] for part, times in self._parts)

    def _tilt_for_epsilon(self, epsilon: float) -> float:
        return _least(_TILTS, lambda tilt: self._log_moment(tilt) - tilt * epsilon)

    def _tilt_for_delta(self, delta: float) -> float:
        rarely = -math.log(delta)
        return _least(_TILTS[1:], lambda tilt: (self._log_moment(tilt) + rarely) / tilt)

    def _bounds(self, tilt: float) -> tuple[int, int]:
        """Return the first and the last loss of a window, in steps, that holds nearly all tilted mass."""
        deviation = math.sqrt(sum(times * _variance(part, tilt) for part, times in self._parts))
        first = sum(times * part.first for part, times in self._parts)
        last = sum(times * (part.first + len(part.masses) - 1) for part, times in self._parts)
        here = self._log_moment(tilt)
        if not deviation:
            return first, last

        # Chernoff's bound for the tilted law, whose moments are those of other tilts.
        def reach(side: int, factor: float) -> float:
            more = factor / deviation
            return (self._log_moment(tilt + side * more) - here + _RARE) / more

        above, below = (reach(side, _least(_NEARBY, partial(reach, side))) for side in (1, -1))
        last = min(last, math.ceil(above / self._step))
        return max(first, math.floor(-below / self._step)), last

    # ---- the window ----------------------------------------------------------------------------------------

    def _find_window(self, tilt: float) -> LossWindow | None:
        """Return the window of this tilt, or of the next lower one that is not too wide."""
        lower = (self._window(each) for each in reversed(_TILTS) if each <= tilt)
        return next((window for window in lower if window is not None), None)

    def _compute_window(self, tilt: float) -> LossWindow | None:
        first, last = self._bounds(tilt)
        size = 1 << max(4, (last - first).bit_length())
        if size > _LARGEST:
            return None
        masses, error = self._convolve(tilt, size)
        start = sum(times * part.first for part, times in self._parts)
        masses = np.roll(masses, -((first - start) % size))
        losses = (first + np.arange(size)) * self._step
        loose = self._looseness(tilt, losses)
        scale = np.exp(np.minimum(self._log_moment(tilt) - tilt * losses, 700.0))
        if self._lower:
            # Mass outside the window is wrapped into it, and is taken off.
            masses = scale * np.maximum(masses - error - 3 * math.exp(-_RARE), 0.0) / loose
            beyond = self._infinite() / loose
        else:
            masses = scale * (np.maximum(masses, 0.0) + error) * loose
            beyond = (self._infinite() + scale[-1] * 2 * math.exp(-_RARE)) * loose
        # Losses that were taken for grid points are at most this much lower than they count.
        first_loss = float(losses[0]) - self._lower * 2 * ON_GRID * self._times * self._step
        return LossWindow(first_loss, self._step, *_profile(masses, self._step, beyond))

    def _convolve(self, tilt: float, size: int) -> tuple[Floats, float]:
        """Return the tilted masses of the run, modulo the size, and how far each of them may be off."""
        from scipy.fft import irfft, rfft

        rounding = _LEVEL * (size.bit_length() - 1)
        product: NDArray[np.complex128] = np.ones(size // 2 + 1, dtype=complex)
        largest, doubt = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)
        for part, times in self._parts:
            values = rfft(_folded(_tilted(part, tilt)[0], size))
            moduli = np.abs(values) + rounding
            product *= _power(values, times)
            largest += times * np.log(moduli)
            # A product is off by the sum of the errors of its factors, each times the others.
            doubt += times * (rounding / moduli + _LEVEL)
        errors = np.exp(largest) * doubt
        total = 2 * float(np.sum(errors) + rounding * np.sum(np.abs(product) + errors))
        return irfft(product, size), total / size * (1 + 2.0**-20)

    def _looseness(self, tilt: float, losses: Floats) -> float:
        """Return a factor above all relative errors, of the exponents of each part and of sums."""
        # A double has no logarithm beyond ±745; an exponent of size x is correct to a few roundings of x.
        exponents = [times * (800 + tilt * float(np.abs(part.losses).max())) for part, times in self._parts]
        far = tilt * float(np.abs(losses).max())
        return math.exp(ROUNDING * (8 * (math.fsum(exponents) + far) + 32 * len(losses)))

    def _infinite(self) -> float:
        """Return the mass of an infinite loss: Π(all of a part) − Π(what is finite of it)."""
        whole = [(float(np.sum(part.masses)) + part.infinite, part.infinite) for part, _ in self._parts]
        times = [times for _, times in self._parts]
        logs = math.fsum(n * math.log(mass) for n, (mass, _) in zip(times, whole, strict=True))
        finite = math.fsum(n * math.log1p(-lost / mass) for n, (mass, lost) in zip(times, whole, strict=True))
        return math.exp(logs) * -math.expm1(finite)


def _least(tilts: Sequence[float], figure: Callable[[float], float]) -> float:
    """Return a tilt at which the figure, which falls and then rises, is least or nearly so."""
    low, high = 0, len(tilts) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if figure(tilts[middle]) <= figure(tilts[middle + 1]) else (middle + 1, high)
        )
    return tilts[low]


def _tilted(part: LossMasses, tilt: float) -> tuple[Floats, float]:
    """Return the masses times e^(θ·loss), as parts of their sum, and the logarithm of that sum."""
    with np.errstate(divide="ignore"):
        logs = np.log(part.masses) + tilt * part.losses
    top = float(np.max(logs))
    weights = np.exp(logs - top)
    total = float(np.sum(weights))
    return weights / total, top + math.log(total)


def _variance(part: LossMasses, tilt: float) -> float:
    weights, losses = _tilted(part, tilt)[0], part.losses
    mean = float(np.dot(weights, losses))
    return float(np.dot(weights, (losses - mean) ** 2))


def _folded(weights: Floats, size: int) -> Floats:
    """Return the weights modulo the size."""
    if len(weights) <= size:
        return weights if len(weights) == size else np.append(weights, np.zeros(size - len(weights)))
    whole: Floats = np.append(weights, np.zeros(-len(weights) % size))
    return np.asarray(whole.reshape(-1, size).sum(axis=0))


def _power(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """Return each value to this power by repeated squaring, whose rounding is known."""
    found, square = np.ones_like(values), values
    while times:
        if times & 1:
            found = found * square
        times >>= 1
        square = square * square if times else square
    return found


def _profile(masses: Floats, step: float, beyond: float) -> tuple[Floats, float, float]:
    """Return the profile at the grid points, the mass beyond, and the mass in the window."""
    from scipy.signal import lfilter

    # δ(ε − step) = (1 − e^−step)·P(L ≥ ε) + e^−step·δ(ε): sums of positive numbers, which lose no digits.
    tails = np.cumsum(masses[::-1])
    falling = lfilter([0.0, -math.expm1(-step)], [1.0, -math.exp(-step)], tails)
    return falling[::-1], beyond, float(tails[-1])


def _slack(epsilon: float) -> float:
    return 2.0**-40 * (1 + abs(epsilon))
