"""Support vectors with a Gaussian kernel: random Fourier features, of one length by construction.

No support vector is ever released: what is learnt are weights of public random waves.

Because : docs/proofs/convex.md#kernels
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import PolicyError
from sfumato.learn.linear.classifiers import LinearSVC
from sfumato.oracle.array_features import read_arrays
from sfumato.oracle.integer_rows import ArrayBounds
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.array_features import ArrayInput
    from sfumato.oracle.declared import Declared

    Floats = NDArray[np.float64]

_PARTS = 2**12
"""A turn is divided into so many; in between, waves are not told apart."""
_WAVES = np.array(
    [[wave(2 * math.pi * part / _PARTS) for part in range(_PARTS)] for wave in (math.cos, math.sin)]
)
_NEAR = 1024
"""So many rows at a time, which fit into the processor's own memory."""


class KernelSVC(LinearSVC):
    """Support vectors with the kernel exp(−gamma·‖x − x'‖²), features measured in halves of their bounds.

    `waves` random directions make twice as many features; `seed` chooses them and is public. For own arrays.

    Privacy
    -------
    Protects : one row, add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/convex.md#kernels
    Assumes  : the bounds, the classes and the seed are public, and the seed was not chosen by the data.
    """

    def __init__(
        self,
        *,
        gamma: Any = 1.0,
        waves: Any = 100,
        seed: Any = 0,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        classes: Any = None,
        width: Any = 0.5,
        method: Any = "auto",
        penalty: Any = None,
        rows: Any = None,
        steps: Any = None,
        budget: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            bounds=bounds,
            row_norm=row_norm,
            classes=classes,
            width=width,
            method=method,
            penalty=penalty,
            rows=rows,
            steps=steps,
            budget=budget,
        )
        self.gamma = gamma
        self.waves = waves
        self.seed = seed

    def _given(self, rows: Floats, target: Any) -> ArrayInput:
        frame = self._frame(rows.shape[1])
        directions = np.random.default_rng(self.seed).normal(
            0.0,
            math.sqrt(2 * float(positive(self.gamma, "gamma"))),
            (whole(self.waves, "waves"), rows.shape[1]),
        )
        self.origin_, self.directions_ = frame.middles, directions / frame.halves
        self.low_, self.high_ = frame.middles - frame.halves, frame.middles + frame.halves
        waves = self._waves(rows)
        return read_arrays(
            waves, ArrayBounds.of(waves.shape[1], None, 1.0), labels=(target, self.classes_.tolist())
        )

    def begin_fit(self, features: Any, declared: Declared) -> None:
        raise PolicyError(
            "SF-E140",
            "Kernels are learnt on own arrays only.",
            why="engines compute no waves that are the same everywhere",
            try_="sf.learn.LinearSVC",
        )

    def _waves(self, rows: Floats) -> Floats:
        """cos and sin of each direction, over √waves: of length 1, whatever the row."""
        inside = np.where(np.isnan(rows), self.origin_, np.clip(rows, self.low_, self.high_)) - self.origin_
        found = np.empty((len(rows), 2 * len(self.directions_)))
        for at in range(0, len(rows), _NEAR):
            turns = _turns(inside[at : at + _NEAR], self.directions_)
            found[at : at + _NEAR] = _WAVES[:, turns].transpose(1, 0, 2).reshape(len(turns), -1)
        found /= math.sqrt(len(self.directions_))
        return found

    def _rows(self, X: Any) -> Floats:  # noqa: N803
        return self._waves(super()._rows(X))


def _turns(rows: Floats, directions: Floats) -> NDArray[np.int64]:
    """How far along each direction a row lies, in parts of a turn.

    Features are added up one after the other, and never by a matrix product, which may round a row as its
    place among others has it.
    """
    found = np.zeros((len(rows), len(directions)))
    for column, along in zip(rows.T, directions.T, strict=True):
        found += column[:, None] * along
    return np.mod(np.rint(found * (_PARTS / (2 * math.pi))), _PARTS).astype(np.int64)
