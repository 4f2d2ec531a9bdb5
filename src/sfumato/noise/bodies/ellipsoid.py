"""The ellipsoid around what a row can do for which Gaussian noise does the least harm.

Noise of covariance Σ hides a move v as well as standard noise hides one of length √(vᵀΣ⁻¹v). Of all Σ for
which that is at most 1 for every move, the one is found whose weighted trace is least. Its dual weighs moves:
at weights λ with M = Σ λ·v·vᵀ the best Σ is in proportion to the root of M, and no Σ does less harm than the
square of its trace. Both are known after every step, and so is how far it is from the best.

Only floating-point numbers are found here. Whoever uses them rounds them to whole numbers, and prices those
exactly: privacy does not depend on anything in this file.

Because : docs/proofs/shaped-noise.md#gaussian-noise
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_STEPS = 400
"""Most steps; a hundred are enough for five columns with missing values."""
_NEAR = 1.001
"""How far above the least harm is good enough. A thousandth of a variance shows in no interval."""
_LEAST = 1e-12
"""Least eigenvalue that is divided by."""


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    """A matrix F such that no move is longer than 1 after it; noise is F⁻¹ times standard noise."""

    factor: Floats
    """Upper triangular, for the sums that move together."""
    alone: Floats
    """The factor of each sum that moves as often in one direction as in the other."""
    excess: float
    """The harm of its noise, over a lower bound on that of any other."""


def fit_ellipsoid(moves: Floats, alone: Floats, harm: Floats, alone_harm: Floats) -> Ellipsoid:
    """Return the ellipsoid around moves for which noise does the least harm.

    `moves` has one row a move and one column a sum; `alone` has further columns, of sums that can move by as
    much in the other direction, whatever the others do. Harm is the weight of the covariance: a matrix, and
    numbers for `alone`.
    """
    values, vectors = np.linalg.eigh(harm)
    root = (vectors * np.sqrt(values)) @ vectors.T
    weighed, single = moves @ root, np.square(alone) * alone_harm
    chances = np.full(len(moves), 1 / len(moves))
    for _ in range(_STEPS):
        values, vectors = np.linalg.eigh((weighed * chances[:, None]).T @ weighed)
        values, spread = np.maximum(values, _LEAST), np.maximum(chances @ single, _LEAST)
        lengths = np.square(weighed @ vectors) @ (1 / np.sqrt(values)) + single @ (1 / np.sqrt(spread))
        least = float(np.sqrt(values).sum() + np.sqrt(spread).sum())
        longest = float(lengths.max())
        if longest <= _NEAR * least:
            break
        # Moves that are too long get more weight. The lower bound never falls (Yu 2010).
        chances = chances * lengths
        chances /= chances.sum()
    inverse = root @ (vectors / np.sqrt(values)) @ vectors.T @ root / longest
    own = np.sqrt(alone_harm / np.sqrt(spread) / longest)
    return Ellipsoid(np.linalg.cholesky(inverse).T, own, longest / least)
