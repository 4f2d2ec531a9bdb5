"""Support vectors with a Gaussian kernel, by random Fourier features, whose norm is 1 by construction.

No support vector is ever released: what is learnt are weights of public random features.

Because : docs/proofs/convex.md#kernels
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import PolicyError
from sfumato.learn.linear.classifiers import LinearSVC
from sfumato.oracle.arrays.features import read_arrays
from sfumato.oracle.arrays.integer_rows import ArrayBounds
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.arrays.features import ArrayInput
    from sfumato.oracle.declared import Declared

    Floats = NDArray[np.float64]

_PHASES = 2**12
"""Phases of a turn that are told apart. A public table of them gives every row the same doubles, wherever it
lies among others; how fine it is does not matter to privacy."""
_WAVES = np.array(
    [[wave(2 * math.pi * phase / _PHASES) for phase in range(_PHASES)] for wave in (math.cos, math.sin)]
)
_BLOCK = 1024
"""Rows that are computed at a time, so that they fit into the processor's cache."""


class KernelSVC(LinearSVC):
    """Support vector classifier with the kernel exp(−gamma·‖x − x'‖²), features in halves of their bounds.

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
        missing: Any = None,
        verbose: Any = False,
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
            missing=missing,
            verbose=verbose,
            budget=budget,
        )
        self.gamma = gamma
        self.waves = waves
        self.seed = seed

    def _given(self, rows: Floats, target: Any) -> ArrayInput:
        frame = self._frame(rows.shape[1])
        directions = np.random.default_rng(self.seed).normal(
            0.0,
            math.sqrt(2 * float(parse_positive(self.gamma, "gamma"))),
            (parse_whole(self.waves, "waves"), rows.shape[1]),
        )
        self.origin_, self.directions_ = frame.middles, directions / frame.halves
        self.low_, self.high_ = frame.middles - frame.halves, frame.middles + frame.halves
        features = self._fourier_features(rows)
        return read_arrays(
            features, ArrayBounds.of(features.shape[1], None, 1.0), labels=(target, self.classes_.tolist())
        )

    def begin_fit(self, features: Any, declared: Declared) -> None:
        raise PolicyError(
            "SF-E132",
            "KernelSVC learns from own arrays only.",
            why="engines do not compute cosines to the same last digit",
            try_="sf.learn.LinearSVC",
        )

    def _fourier_features(self, rows: Floats) -> Floats:
        """Return cos and sin along each direction, over √waves: a vector of norm 1, whatever the row."""
        inside = np.where(np.isnan(rows), self.origin_, np.clip(rows, self.low_, self.high_)) - self.origin_
        found = np.empty((len(rows), 2 * len(self.directions_)))
        for at in range(0, len(rows), _BLOCK):
            phases = _phases(inside[at : at + _BLOCK], self.directions_)
            found[at : at + _BLOCK] = _WAVES[:, phases].transpose(1, 0, 2).reshape(len(phases), -1)
        found /= math.sqrt(len(self.directions_))
        return found

    def _rows(self, X: Any) -> Floats:  # noqa: N803
        return self._fourier_features(super()._rows(X))


def _phases(rows: Floats, directions: Floats) -> NDArray[np.int64]:
    """Return the phase of each row along each direction.

    Features are added up one after the other, and never by a matrix product: how that rounds a row may depend
    on the other rows, which would then move with it.
    """
    found = np.zeros((len(rows), len(directions)))
    for column, along in zip(rows.T, directions.T, strict=True):
        found += column[:, None] * along
    return np.mod(np.rint(found * (_PHASES / (2 * math.pi))), _PHASES).astype(np.int64)
