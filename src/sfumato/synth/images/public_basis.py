"""Rows as whole coefficients in a public basis: cosines for images, the columns themselves for vectors.

A row is rounded to a public grid first and then multiplied by a matrix of integers. Every sum on the way is
below 2⁵³ and so exact in doubles: what a row becomes never depends on the rows beside it.

Because : docs/proofs/synth-images.md#rows
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.arrays.integer_rows import ONE, clip_integer_rows
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

REACH = 2**14
"""The largest l2 norm of a row's coefficients, in steps. Privacy holds for any; this is fine beside noise."""
MOST = 256
"""The most coefficients of a row: products of any two are measured. Privacy does not depend on it."""
_FINE = 2**12
"""The integer that stands for 1 in a matrix of directions."""
_ROWS = 2**12
"""Rows that are multiplied at a time, so that they stay in the processor's cache. For speed alone."""
_WIDEST = 2**20
"""The most numbers of a row, for which products of integers stay exact in doubles."""


@tagged("PublicBasis", "directions", "width")
@dataclass(frozen=True, slots=True)
class PublicBasis:
    """Orthonormal directions, in integers, of which the first matter most."""

    directions: tuple[tuple[int, ...], ...]
    width: int
    """The numbers of a row."""

    @classmethod
    def of(cls, shape: tuple[int, ...], given: Any = None) -> PublicBasis:
        """Return the basis for rows of a shape: the one that was given, cosines for images, or none."""
        width = math.prod(shape)
        if given is not None:
            found = _read_directions(given, width)
        elif len(shape) > 1:
            found = _cosines(shape)
        elif width <= MOST:
            found = np.eye(width)
        else:
            raise UsageError(
                "SF-E176",
                f"Vectors of more than {MOST} numbers need a public basis.",
                got=f"{width} numbers",
                try_="basis=components of public data, or images as (rows, height, width)",
            )
        whole = np.rint(found[:MOST] * _FINE).astype(np.int64)
        return cls(tuple(map(tuple, whole.tolist())), width)

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return len(self.directions)

    @property
    def step(self) -> float:
        """What a step of a coefficient is worth, in halves of the bounds."""
        return math.sqrt(self.width) / REACH

    def project(self, rows: int, read: Callable[[slice], Floats]) -> Floats:
        """Return coefficients of so many rows, of a norm of at most REACH, in whole steps.

        `read` returns some of the rows as whole numbers within ±ONE.
        """
        matrix = np.array(self.directions, dtype=np.float64).T
        found = np.empty((rows, self.size))
        for start in range(0, rows, _ROWS):
            block = found[start : start + _ROWS]
            np.matmul(read(slice(start, start + _ROWS)), matrix, out=block)
            block *= 1 / (self.step * ONE * _FINE)
            np.rint(block, out=block)
            clip_integer_rows(block, REACH, whole=True)
        return found

    def as_rows(self) -> Floats:
        """Return the directions as doubles of length 1."""
        return np.array(self.directions, dtype=np.float64) / _FINE

    def restore(self, coefficients: Floats) -> Floats:
        """Return rows in halves of the bounds, from −1 to 1, of coefficients in steps."""
        matrix = self.as_rows()[: coefficients.shape[1]]
        return np.clip(coefficients @ matrix * self.step, -1.0, 1.0)


def _cosines(shape: tuple[int, ...]) -> Floats:
    """Return products of cosines over all axes of an image, the lowest frequencies first."""
    if math.prod(shape) > _WIDEST:
        raise UsageError(
            "SF-E230", "Images are too large.", got=f"{math.prod(shape)} numbers", allowed=f"{_WIDEST}"
        )
    longest = max(shape)
    # Frequencies by the length of a wave: a short axis, such as colours, has few and high ones.
    places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, len(shape))
    order = np.argsort(((places * (longest / np.array(shape))) ** 2).sum(axis=1), kind="stable")
    found = np.ones((min(MOST, len(order)), 1))
    for axis, size in enumerate(shape):
        waves = np.cos(np.pi * np.outer(np.arange(size), np.arange(size) + 0.5) / size) * math.sqrt(2 / size)
        waves[0] /= math.sqrt(2)
        chosen = waves[places[order[: len(found)], axis]]
        found = (found[:, :, None] * chosen[:, None, :]).reshape(len(found), -1)
    return found


def _read_directions(given: Any, width: int) -> Floats:
    """Return directions that were given, one row each, after checking that they are orthonormal."""
    try:
        found = np.asarray(given, dtype=np.float64)
        found = found.reshape(len(found), -1)
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    fits = found.shape[0] > 0 and found.shape[1] == width <= _WIDEST and bool(np.isfinite(found).all())
    if not fits or not np.allclose(found @ found.T, np.eye(len(found)), atol=1e-3):
        raise UsageError(
            "SF-E176",
            "The basis must have orthonormal rows, each as long as a row of the data.",
            allowed=f"at most {MOST} rows of {width} numbers; further ones are left out",
            try_="sklearn.decomposition.PCA(100).fit(public_rows).components_",
        )
    return found
