"""The public law of the noise in a sum, and which noise is likely. Nothing here protects anyone.

Noise that protects people is drawn in sfumato/noise, from the operating system. Here the same laws are drawn
again, from a fixed seed, only to say how far off an answer may be that was already given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.curator.answers.laws.drawn_noise import (
    BodyCoordinate,
    NormalNoise,
    draw_body,
    lattice_half_width,
    sum_half_width,
)
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.noise.tails import FEW_DRAWS, continue_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from sfumato.curator.answers.laws.drawn_noise import DrawnNoise
    from sfumato.noise import SimplicesNoise
    from sfumato.noise.additive import Noise

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

_POINTS = 2**12
"""Number of draws that stand for the law of all noise together in each cell of many."""
_FINE_POINTS = 2**16
"""Number of draws where one set of them serves all cells, or where there are few cells, as in a quote."""
_FEW_CELLS = 4
_TAIL_POINTS = 2**10
"""Sizes at which the tail of a law is tabulated."""
_NUDGE = 1e-9
"""Rounding of doubles that is passed over where sizes are compared."""
_RISKS: list[float] = np.geomspace(1.0, 1e-12, _TAIL_POINTS).tolist()
"""The risks in such a table; doubles do not tell smaller ones."""
_BLOCK = 2**15
"""Number of doubles held at a time: few enough for a processor's cache."""
_LEAST = 1e-300
"""Least variance that is divided by."""
_SMOOTH = 64
"""σ from which on rounding a draw to a whole number changes its deviation by less than 1e-4."""
_SEED = 105
"""The seed, of 150 tried, whose draws are nearest to the law for sums of 2 to 12 of them: 0.2 % off.

Its draws only say how far off an answer may be. Privacy does not depend on any number here."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw of a noise. Draws of the same noise with the same source are one and the same number.

    Coordinates of one body with the same source are of one draw of all of them.
    """

    noise: DrawnNoise
    source: Hashable = None

    @property
    def joint(self) -> Hashable:
        """What is drawn at once; draws that differ in it are independent."""
        return (self.noise.body, self.source) if isinstance(self.noise, BodyCoordinate) else self


@dataclass(frozen=True, slots=True, eq=False)
class NoiseLaw:
    """Draws, each times its weight, added up. Without draws there is no noise.

    `weights` has a row a draw, and a column a cell or one for all cells. Different draws are independent.
    """

    draws: tuple[Draw, ...]
    weights: Floats

    @classmethod
    def of(cls, noise: Noise | None, source: Hashable = None) -> NoiseLaw:
        """Return the law of one draw; of none where there is no noise."""
        return cls((), np.ones((0, 1))) if noise is None else cls((Draw(noise, source),), np.ones((1, 1)))

    @property
    def precision(self) -> Floats:
        """One over the variance, in every cell or for all; where there is no noise, 1."""
        if not self.draws:
            return np.ones(1)
        # Noise that is all but never drawn has a variance of 0 in doubles.
        return np.asarray(1 / np.maximum(_LEAST, covariance_of([self])[0, 0]))

    def at(self, cells: Any) -> NoiseLaw:
        """Return the law in some of the cells."""
        return self if self.weights.shape[1] == 1 else NoiseLaw(self.draws, self.weights[:, cells])

    def from_round(self, place: int) -> NoiseLaw:
        """Return the law with sources of its own, as noise that was drawn for another answer has."""
        return NoiseLaw(tuple(Draw(each.noise, (place, each.source)) for each in self.draws), self.weights)

    def plus(self, other: NoiseLaw, share: Floats) -> NoiseLaw:
        """Return the law of a weighted mean: this law with the weight `share`, the other with the rest."""
        parts = self.weights * share, other.weights * (1 - share)
        return NoiseLaw(self.draws + other.draws, np.concatenate(parts))


def covariance_of(laws: Sequence[NoiseLaw]) -> Floats:
    """Return the covariances of numbers of these laws: a row and a column each, a layer a cell or one."""
    cells = max((law.weights.shape[1] for law in laws if law.draws), default=1)
    # What is drawn apart is independent; a pool has thousands of draws, few of them at once.
    together: dict[Hashable, dict[Draw, Floats]] = {}
    for at, law in enumerate(laws):
        for draw, row in zip(law.draws, law.weights, strict=True):
            own = together.setdefault(draw.joint, {}).setdefault(draw, np.zeros((len(laws), cells)))
            own[at] += row
    found = np.zeros((len(laws), len(laws), cells))
    for draws in together.values():
        for one, weights in draws.items():
            for other, others in draws.items():
                found += _covariance(one.noise, other.noise) * weights[:, None] * others
    return found


def _covariance(one: DrawnNoise, other: DrawnNoise) -> float:
    """Return the covariance of two numbers of one draw."""
    if isinstance(one, BodyCoordinate) and isinstance(other, BodyCoordinate):
        return float(one.body.covariance[one.place, other.place])
    return float(one.moments.variance)


def join_laws(terms: Sequence[tuple[float, NoiseLaw]]) -> NoiseLaw:
    """Return the law of a weighted sum, in which each draw stands once."""
    found: dict[Draw, Floats] = {}
    for weight, law in terms:
        for draw, row in zip(law.draws, law.weights, strict=True):
            found[draw] = found.get(draw, 0.0) + weight * row
    kept = {draw: row for draw, row in found.items() if row.any()}
    return NoiseLaw(tuple(kept), np.stack(np.broadcast_arrays(*kept.values())) if kept else np.ones((0, 1)))


# ---- draws -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def draw_points(draws: tuple[Draw, ...], count: int) -> Floats:
    """Return draws of all noise together, one row each: even quantiles of its law in a random order."""
    rng = np.random.default_rng(_SEED)
    even = (np.arange(count) + 0.5) / count
    order: dict[Hashable, Any] = {}
    drawn = []
    for each in draws:
        if isinstance(each.noise, BodyCoordinate):
            # Draws of one body are the same from any seed; shuffled, two of them are independent.
            shuffled = order.setdefault(each.joint, rng.permutation(count))
            drawn.append(draw_body(each.noise.body, count)[each.noise.place][shuffled])
        else:
            # Each row has the same even quantiles, shuffled: the law of every single noise is met exactly.
            drawn.append(each.noise.quantiles(rng.permutation(even)))
    return np.stack(drawn) if drawn else np.zeros((0, count))


def combined_half_width(terms: Sequence[tuple[float, NoiseLaw]], confidence: float) -> Floats:
    """Return the least h with P(|noise| ≤ h) ≥ confidence for a weighted sum, in every cell or for all."""
    law = join_laws(terms)
    if not law.draws:
        return np.zeros(1)
    alike = find_alike(law)
    if alike is not None:
        weight, noise, count = alike
        return np.array([weight * sum_half_width(noise, count, confidence)])
    # Cells with the same weights share one half width.
    patterns, which = np.unique(law.weights, axis=1, return_inverse=True)
    halves = [_half_width(NoiseLaw(law.draws, pattern[:, None]), confidence) for pattern in patterns.T]
    return np.array(halves)[which.reshape(-1)]


def _half_width(law: NoiseLaw, confidence: float) -> float:
    """Return the least h for weights that are the same in all cells: on a lattice exactly, else by draws."""
    weights = law.weights[:, 0]
    if len({draw.joint for draw in law.draws}) == len(law.draws):
        exact = lattice_half_width([draw.noise for draw in law.draws], weights.tolist(), confidence)
        if exact is not None:
            return exact
    sizes = _sort_sizes(law.draws, tuple(weights.tolist()))

    def find(risk: float) -> float:
        return float(sizes[math.ceil((1 - risk) * _FINE_POINTS) - 1])

    return float(continue_tail(find, 1 - confidence, FEW_DRAWS / _FINE_POINTS))


@lru_cache(maxsize=32)
def _sort_sizes(draws: tuple[Draw, ...], weights: tuple[float, ...]) -> Floats:
    """Return the sizes of draws of a weighted sum, ascending."""
    return np.sort(np.abs(np.array(weights) @ draw_points(draws, _FINE_POINTS)))


def find_alike(law: NoiseLaw) -> tuple[float, DrawnNoise, int] | None:
    """Return the size of the weight, the noise and the number of draws where all draws are alike in them.

    None where cells differ, or the draws do; several Gaussian draws are one with a weight of its own. Noise
    is as likely as its opposite, so a sign does not matter.
    """
    sizes = np.abs(law.weights)
    noises = {each.noise for each in law.draws}
    apart = len({each.joint for each in law.draws}) == len(law.draws)
    if law.weights.shape[1] != 1 or len(noises) != 1 or not apart:
        return None
    (noise,) = noises
    if np.ptp(sizes) <= 1e-12 * sizes.max():
        return float(sizes.max()), noise, len(law.draws)
    # Gaussian numbers with any weights add up to one, to which rounding each of them adds next to nothing.
    wide = isinstance(noise, NormalNoise) or (isinstance(noise, GaussianNoise) and noise.sigma > _SMOOTH)
    return (float(np.linalg.norm(sizes)), noise, 1) if wide else None


def exceedance(law: NoiseLaw, sizes: Floats) -> Floats:
    """Return P(|noise| ≥ size) for each size; the last axis has a column a cell. It is never too small.

    Of one draw of Laplace or Gaussian noise it is exact. Of other laws it is rounded up, by 3 % at most.
    """
    if not law.draws:
        return np.where(sizes > 0, 0.0, 1.0)
    patterns, which = np.unique(law.weights, axis=1, return_inverse=True)
    found = np.empty(sizes.shape)
    for place, pattern in enumerate(patterns.T.tolist()):
        cells = slice(None) if law.weights.shape[1] == 1 else np.flatnonzero(which.reshape(-1) == place)
        found[..., cells] = _exceedance_alike(law.draws, tuple(pattern), sizes[..., cells])
    return found


def _exceedance_alike(draws: tuple[Draw, ...], weights: tuple[float, ...], sizes: Floats) -> Floats:
    """Return P(|noise| ≥ size) where the weights are the same in all cells."""
    match _used_noises(draws, weights):
        case [(LaplaceNoise() | GaussianNoise() as noise, weight)]:
            # Noise is whole, so a number that is whole but for the rounding of doubles is taken as whole.
            steps = np.ceil(np.maximum(sizes, 0.0) / weight - _NUDGE)
            return np.where(steps > 0, noise.exceedance(steps), 1.0)
        case [(BodyCoordinate(body, place), weight)]:
            steps, which = np.unique(np.ceil(sizes / weight - _NUDGE), return_inverse=True)
            # A table pays where many answers are simulated.
            if steps.size <= _TAIL_POINTS // 8:
                return _body_tail(body, place, steps)[which.reshape(sizes.shape)]
        case used if len(used) > 1 or not isinstance(used[0][0], BodyCoordinate):
            known, which = np.unique(sizes, return_inverse=True)
            if known.size <= _TAIL_POINTS // 32:
                return _search_tail(draws, weights, known)[which.reshape(sizes.shape)]
    ends, risks = _tabulate_tail(draws, weights)
    return np.where(sizes > 0, risks[np.searchsorted(ends, sizes, side="right") - 1], 1.0)


def _used_noises(draws: tuple[Draw, ...], weights: tuple[float, ...]) -> list[tuple[DrawnNoise, float]]:
    return [(draw.noise, abs(weight)) for draw, weight in zip(draws, weights, strict=True) if weight]


def _body_tail(body: SimplicesNoise, place: int, steps: NDArray[Any]) -> Floats:
    """Return P(|noise| ≥ step) of one number of a body."""
    within = [body.coverage(place, int(step) - 1) if step > 0 else 0.0 for step in steps.tolist()]
    return np.asarray(np.maximum(body.told, 1 - np.array(within)))


@lru_cache(maxsize=64)
def _tabulate_tail(draws: tuple[Draw, ...], weights: tuple[float, ...]) -> Ends:
    """Return sizes from 0 on, ascending, and P(|noise| ≥ size) at each of them."""
    match _used_noises(draws, weights):
        case [(BodyCoordinate(body, place), weight)]:
            last = body.half_width(place, 1 - Fraction(body.told))
            steps = np.unique(np.rint(np.linspace(1, max(1, last), _TAIL_POINTS)).astype(np.int64))
            risks = _body_tail(body, place, steps)
            return np.append(0.0, weight * steps * (1 - _NUDGE)), np.append(1.0, risks)
    halves = [_risk_end(draws, weights, risk) for risk in _RISKS[1:]]
    return np.append(0.0, np.maximum.accumulate(halves)), np.array(_RISKS)


def _search_tail(draws: tuple[Draw, ...], weights: tuple[float, ...], sizes: Floats) -> Floats:
    """Return what the table would for a few sizes: each needs a dozen of its entries."""
    ends: dict[int, float] = {}
    found = []
    for size in sizes.tolist():
        low, high = 0, len(_RISKS)
        while high - low > 1:
            middle = (low + high) // 2
            if middle not in ends:
                ends[middle] = _risk_end(draws, weights, _RISKS[middle])
            low, high = (middle, high) if ends[middle] <= size else (low, middle)
        found.append(_RISKS[low])
    return np.array(found)


def _risk_end(draws: tuple[Draw, ...], weights: tuple[float, ...], risk: float) -> float:
    """Return the size from which on a number has at most this risk: just above its half-width."""
    law = NoiseLaw(draws, np.array(weights)[:, None])
    return float(combined_half_width([(1.0, law)], 1 - risk)[0]) * (1 + _NUDGE) + _LEAST


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
    draws = tuple(dict.fromkeys(draw for law in laws.values() for draw in law.draws))
    cells = next(iter(sums.values())).size
    points = _FINE_POINTS if cells <= _FEW_CELLS else _POINTS
    drawn = dict(zip(draws, draw_points(draws, points), strict=True))
    # Cells are taken in blocks, so that draws times cells fit into memory.
    size = max(1, _BLOCK // points)
    blocks = [slice(start, start + size) for start in range(0, cells, size)]
    ends = [leave_out(computed(_exact(sums, laws, drawn, block)), confidence) for block in blocks]
    low, high = (np.concatenate([np.zeros(0), *(each[side] for each in ends)]) for side in (0, 1))
    known = np.isfinite(low) & np.isfinite(high)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _exact(
    sums: Mapping[int, Floats], laws: Mapping[int, NoiseLaw], drawn: Mapping[Draw, Floats], block: slice
) -> dict[int, Floats]:
    """Return what the exact sums of some cells may be: one row a cell, one column a draw."""
    found, points = {}, max((row.size for row in drawn.values()), default=1)
    for at, law in laws.items():
        noise = np.stack([drawn[draw] for draw in law.draws]) if law.draws else np.zeros((0, points))
        found[at] = sums[at][block, None] - law.at(block).weights.T @ noise
    return found


def leave_out(ends: Ends, confidence: float) -> Ends:
    """Return the ends that leave out equal shares of the draws; a draw without a number may be anything."""
    count = ends[0].shape[1]
    found = continue_tail(lambda risk: np.stack(_find_ends(ends, risk)), 1 - confidence, FEW_DRAWS / count)
    return found[0], found[1]


def _find_ends(ends: Ends, risk: float) -> Ends:
    """Return the ends that half of the risk is below and half above."""
    count = ends[0].shape[1]
    # Rounded down, after a nudge against the rounding of doubles: an interval is rather wider than too short.
    skipped = math.floor(risk / 2 * count * (1 + 1e-12))
    last = count - 1 - skipped
    if ends[0] is ends[1] and not np.isnan(ends[0]).any():
        found = np.partition(ends[0], (skipped, last), axis=1)
        return found[:, skipped], found[:, last]
    low = np.where(np.isnan(ends[0]), -np.inf, ends[0])
    high = np.where(np.isnan(ends[1]), np.inf, ends[1])
    return np.partition(low, skipped, axis=1)[:, skipped], np.partition(high, last, axis=1)[:, last]
