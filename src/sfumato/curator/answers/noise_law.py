"""The public law of the noise in a sum, and which noise is likely. Nothing here protects anyone.

Noise that protects people is drawn in sfumato/noise, from the operating system. Here the same laws are drawn
again, from a fixed seed, only to say how far off an answer may be that was already given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import LaplaceNoise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.noise.additive import Noise

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

_POINTS = 2**12
"""Number of draws that stand for the law of all noise together in each cell."""
_FINE_POINTS = 2**16
"""Number of draws where one set of them serves all cells."""
_BLOCK = 2**18
"""Number of doubles held at a time."""
_LEAST = 1e-300
"""Least variance that is divided by."""
_SHAPE_SCALE = 32.0
"""Scale of Laplace noise from which on the law of a sum has the same shape as that of any larger one, to
within a thousandth."""
_SEED = 105
"""The seed, of 150 tried, whose draws are nearest to the law for sums of 2 to 12 of them: 0.2 % off.

Its draws only say how far off an answer may be. Privacy does not depend on any number here."""


@dataclass(frozen=True, slots=True, eq=False)
class NoiseLaw:
    """Independent draws, each times its weight, added up. Without draws there is no noise.

    `weights` has a row a draw, and a column a cell or one for all cells.
    """

    draws: tuple[Noise, ...]
    weights: Floats

    @classmethod
    def of(cls, noise: Noise | None) -> NoiseLaw:
        """Return the law of one draw; of none where there is no noise."""
        return cls((), np.ones((0, 1))) if noise is None else cls((noise,), np.ones((1, 1)))

    @property
    def plain(self) -> bool:
        """Whether it is one draw with the weight 1."""
        return len(self.draws) == 1 and bool((self.weights == 1).all())

    @property
    def precision(self) -> Floats:
        """One over the variance, in every cell or for all; where there is no noise, 1."""
        if not self.draws:
            return np.ones(1)
        # Noise that is all but never drawn has a variance of 0 in doubles.
        return np.asarray(
            1
            / np.maximum(
                _LEAST,
                (self.weights**2 * np.array([[each.moments.variance] for each in self.draws])).sum(axis=0),
            )
        )

    def at(self, cells: Any) -> NoiseLaw:
        """Return the law in some of the cells."""
        return self if self.weights.shape[1] == 1 else NoiseLaw(self.draws, self.weights[:, cells])

    def plus(self, other: NoiseLaw, share: Floats) -> NoiseLaw:
        """Return the law of a weighted mean: this law with the weight `share`, the other with the rest."""
        parts = self.weights * share, other.weights * (1 - share)
        return NoiseLaw(self.draws + other.draws, np.concatenate(parts))


# ---- draws -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def draw_points(noises: tuple[Noise, ...], count: int) -> Floats:
    """Return draws of all noise together, one row each: even quantiles of its law in a random order."""
    rng = np.random.default_rng(_SEED)
    even = (np.arange(count) + 0.5) / count
    # Each row has the same even quantiles, shuffled: the law of every single noise is met exactly.
    drawn = [noise.quantiles(rng.permutation(even)) for noise in noises]
    return np.stack(drawn) if drawn else np.zeros((0, count))


def combined_half_width(terms: Sequence[tuple[float, NoiseLaw]], confidence: float) -> Floats:
    """Return the least h with P(|noise| ≤ h) ≥ confidence for a weighted sum, in every cell or for all."""
    terms = [(weight, law) for weight, law in terms if law.draws]
    if not terms:
        return np.zeros(1)
    if len(terms) == 1 and terms[0][1].plain:
        weight, law = terms[0]
        return np.array([abs(weight) * law.draws[0].half_width(confidence)])
    columns = np.broadcast_arrays(*(weight * row for weight, law in terms for row in law.weights))
    drawn = draw_points(tuple(noise for _, law in terms for noise in law.draws), _FINE_POINTS)
    # Cells with the same weights share one half width.
    patterns, which = np.unique(np.stack(columns), axis=1, return_inverse=True)
    enough = math.ceil(confidence * _FINE_POINTS) - 1
    halves = [np.partition(np.abs(pattern @ drawn), enough)[enough] for pattern in patterns.T]
    return np.array(halves)[which.reshape(-1)]


def sum_half_width(noise: Noise, count: int, confidence: float) -> float:
    """Return the least h with P(|sum| ≤ h) ≥ confidence, for so many independent draws of one noise.

    Laplace noise is convolved with itself by its characteristic function; beyond a scale of 32 steps its
    shape does not change any more, and only its deviation grows.
    """
    if count == 1:
        return float(noise.half_width(confidence))
    deviation = math.sqrt(count * float(noise.moments.variance))
    if not isinstance(noise, LaplaceNoise):
        from scipy.special import ndtri

        # Rounding one draw to a whole number moves it by half a step; of many, by far less than the sum.
        return float(ndtri((1 + confidence) / 2)) * deviation + 0.5
    scale = min(float(noise.scale), _SHAPE_SCALE)
    step, own = _laplace_sum(scale, count)
    half = int(np.searchsorted(step, confidence))
    return float(half) if scale == float(noise.scale) else half / own * deviation


@lru_cache(maxsize=64)
def _laplace_sum(scale: float, count: int) -> tuple[Floats, float]:
    """Return P(|sum| ≤ h) for h from 0 on, and the deviation of the sum."""
    ratio = math.exp(-1 / scale)
    deviation = math.sqrt(2 * count * ratio) / (1 - ratio)
    # Beyond so many steps less than 1e-15 is left, of one draw or of many.
    size = 2 ** math.ceil(math.log2(2 * (45 * scale + 12 * deviation + 2)))
    turns = 2 * math.pi * np.arange(size // 2 + 1) / size
    law = ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(turns) + ratio**2)) ** count
    masses = np.maximum(np.fft.irfft(law, size), 0.0)
    both = masses[: size // 2].copy()
    both[1:] += masses[: size // 2 : -1]
    return np.cumsum(both), deviation


def likely_range(
    sums: Mapping[int, Floats],
    laws: Mapping[int, NoiseLaw],
    computed: Callable[[dict[int, Floats]], Ends],
    confidence: float,
) -> Ends:
    """Return the ends between which a number computed from the exact sums lies, with this confidence.

    `sums` has a number a cell for each sum. The exact one is the noisy one less its noise, so draws of the
    noise make draws of the exact numbers; the ends leave out the same share of them below and above.
    """
    drawn = draw_points(tuple(noise for law in laws.values() for noise in law.draws), _POINTS)
    cells = next(iter(sums.values())).size
    # Cells are taken in blocks, so that draws times cells fit into memory.
    size = max(1, _BLOCK // _POINTS)
    blocks = [slice(start, start + size) for start in range(0, cells, size)]
    ends = [_outside(computed(_exact(sums, laws, drawn, block)), confidence) for block in blocks]
    low, high = (np.concatenate([np.zeros(0), *(each[side] for each in ends)]) for side in (0, 1))
    known = np.isfinite(low) & np.isfinite(high)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _exact(
    sums: Mapping[int, Floats], laws: Mapping[int, NoiseLaw], drawn: Floats, block: slice
) -> dict[int, Floats]:
    """Return what the exact sums of some cells may be: one row a cell, one column a draw."""
    found, first = {}, 0
    for at, law in laws.items():
        last = first + len(law.draws)
        found[at] = sums[at][block, None] - law.at(block).weights.T @ drawn[first:last]
        first = last
    return found


def _outside(ends: Ends, confidence: float) -> Ends:
    """Return the ends that leave out equal shares of the draws; a draw without a number may be anything."""
    count = ends[0].shape[1]
    # Rounded down, after a nudge against the rounding of doubles: an interval is rather wider than too short.
    skipped = math.floor((1 - confidence) / 2 * count * (1 + 1e-12))
    last = count - 1 - skipped
    if ends[0] is ends[1] and not np.isnan(ends[0]).any():
        found = np.partition(ends[0], (skipped, last), axis=1)
        return found[:, skipped], found[:, last]
    low = np.where(np.isnan(ends[0]), -np.inf, ends[0])
    high = np.where(np.isnan(ends[1]), np.inf, ends[1])
    return np.partition(low, skipped, axis=1)[:, skipped], np.partition(high, last, axis=1)[:, last]
