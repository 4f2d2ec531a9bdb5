"""Lower bounds on a grid of losses, by merging neighbouring outcomes until their joint loss lies on it.

Merging outcomes is post-processing, so the merged pair is dominated by the pair itself. The joint loss of a
few neighbours differs from their own losses by the width of the merged cell, above for some and below for
others: over a run of n steps the bound is off by about n·step², where rounding every loss down is off by
n·step/2 (docs/proofs/curves.md#lower-bounds).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.losses.masses import ON_GRID, ROUNDING, LossMasses, spread_masses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.losses.atoms import LossAtoms

    Floats = NDArray[np.floating[Any]]

_FAR = 9.0
"""Deviations of Gaussian noise beyond which outcomes are left out, which only lowers a bound."""
_WIDEST_CELL = 2.0**-10
"""Widest cell of Gaussian noise, in deviations, for which the series below is correct to rounding."""
_MOST_CELLS = 2**18


def merge_outcomes(first: Floats, second: Floats, step: float, infinite: float = 0.0) -> LossMasses:
    """Return masses on a shifted grid whose profile is nowhere above that of a pair of laws.

    `first` and `second` hold the probabilities of the outcomes under the two laws, in ascending order of
    their quotient; those of the first law may be below the truth, and those of the second above it.
    """
    shown = (first > 0) & (second > 0)
    first, second = first[shown], second[shown]
    # Above the error of the few sums, products and exponentials that a quotient is made of.
    margin = 1 + ROUNDING * (32 + 8 * float(np.max(np.abs(np.log(first / second)))))
    second = second * margin
    # The largest loss becomes a point of the grid: nothing above it could be merged with it.
    top = math.log(float(first[-1]) / float(second[-1]))
    last = math.floor(top / step)
    offset = top - last * step
    dots, masses = _merge(first, second, step, offset, last)
    places, which = np.unique(np.array(dots, dtype=np.int64), return_inverse=True)
    sums = np.bincount(which, weights=np.array(masses)) * (1 - 2.0**-40)
    least = max(0.0, infinite * (1 - 2.0**-40))
    return LossMasses(int(places[0]), spread_masses(places, sums), least, step, offset)


def merge_atoms(atoms: LossAtoms, step: float) -> LossMasses:
    """Return masses whose profile is nowhere above that of finitely many losses."""
    least = np.maximum(atoms.masses - 8 * ROUNDING, 0.0)
    most = (atoms.masses + 8 * ROUNDING) * np.exp(-atoms.losses)
    return merge_outcomes(least, most, step, atoms.infinite)


def merge_noise(noise: str, scale: float, rate: float, step: float, way: str) -> LossMasses:
    """Return masses whose profile is nowhere above that of noise on a Poisson sample.

    `way` is "REMOVE" where the first law is that of the table with the unit, and else "ADD".
    """
    cells = _cut_laplace(scale, step) if noise == "Laplace" else _cut_gaussian(scale, step)
    if cells is None:
        # Noise so small that its cells cannot be computed to rounding: that nothing is revealed is a bound.
        return LossMasses(0, np.array([1 - 2.0**-40]), 0.0, step)
    without, moved, doubt = cells
    with_unit = (1 - rate) * without + rate * moved
    if way == "REMOVE":
        return merge_outcomes(with_unit * (1 - doubt), without * (1 + doubt), step)
    return merge_outcomes((without * (1 - doubt))[::-1], (with_unit * (1 + doubt))[::-1], step)


def _cut_gaussian(sigma: float, step: float) -> tuple[Floats, Floats, float] | None:
    """Return the probabilities of cells of the line under N(0, σ²) and N(1, σ²), and their relative error."""
    low, high = -_FAR * sigma, 1 + _FAR * sigma
    finest = max((high - low) / (_WIDEST_CELL * sigma), 2 * (high - low) / (sigma * sigma * step))
    count = math.ceil(min(finest, _MOST_CELLS))
    width = (high - low) / count / sigma
    if width > _WIDEST_CELL:
        return None
    middles = (low + (high - low) / count * (np.arange(count) + 0.5)) / sigma
    # The exponential of −t²/2 carries the roundings of t twice, and t those of its place and of the shift.
    doubt = ROUNDING * (64 + 16 * (_FAR + 1 / sigma) ** 2)
    return _gaussian_cells(middles, width), _gaussian_cells(middles - 1 / sigma, width), doubt


def _cut_laplace(scale: float, step: float) -> tuple[Floats, Floats, float]:
    """Return the same for Laplace noise, whose loss is constant on either side of [0, 1]."""
    count = math.ceil(min(max(256.0, 4 / (scale * step)), _MOST_CELLS))
    inside = -math.expm1(-1 / (count * scale)) / 2 * np.exp(-np.arange(count) / count / scale)
    far = math.exp(-1 / scale) / 2
    without = np.concatenate([[0.5], inside, [far]])
    return without, without[::-1], ROUNDING * (64 + 8 / scale)


def _gaussian_cells(middles: Floats, width: float) -> Floats:
    """Return the probabilities of cells of one width under N(0, 1), by the series around their middles."""
    square = middles * middles
    second = (square - 1) * width**2 / 24
    fourth = (square * square - 6 * square + 3) * width**4 / 1920
    density = np.exp(-square / 2) / math.sqrt(2 * math.pi)
    return np.asarray(width * density * (1 + second + fourth))


def _merge(
    first: Floats, second: Floats, step: float, offset: float, last: int
) -> tuple[list[int], list[float]]:
    """Return the grid points of merged outcomes, and their probabilities under the first law."""
    dots: list[int] = []
    masses: list[float] = []
    dot, needed, p, q = 0, 0.0, 0.0, 0.0
    for own_p, own_q in zip(first.tolist(), second.tolist(), strict=True):
        more_p, more_q = own_p, own_q
        while True:
            if p == 0.0:
                # A new cell begins: it is to reach the next grid point above its first outcome, but for
                # rounding, which the composition counts.
                dot = math.ceil((math.log(more_p / more_q) - offset) / step - ON_GRID / 2)
                needed = math.exp((dot - ON_GRID) * step + offset)
                if dot == last and more_p < needed * more_q:
                    # Nothing lies above the last grid point to lift this outcome there: it is rounded down.
                    dots.append(dot - 1)
                    masses.append(more_p)
                    break
            if p + more_p < needed * (q + more_q):
                p, q = p + more_p, q + more_q
                break
            # The outcome is divided by a coin of its own, so that the quotient is what is needed.
            gain, lack = more_p - needed * more_q, needed * q - p
            part = min(1.0, lack / gain) if gain > 0 and p else 1.0
            dots.append(dot)
            masses.append(p + part * more_p)
            p, q = 0.0, 0.0
            rest = 1.0 - part
            if rest <= 0.0:
                break
            more_p, more_q = rest * more_p, rest * more_q
            if more_p == 0.0 or more_q == 0.0:
                break
    if p:
        dots.append(math.floor((math.log(p / q) - offset) / step))
        masses.append(p)
    return dots, masses
