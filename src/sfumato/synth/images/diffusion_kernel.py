"""The mechanism behind `Diffusion`: moments or class counts are released first, then a denoiser is trained.

Because : docs/proofs/synth-images.md#diffusion
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.spend import GaussianSpend
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.oracle.blocks import COUNT, SumBlock, calibrate_noise
from sfumato.privacy.canonical import tagged, written_by
from sfumato.privacy.events import Gaussian, Sequential
from sfumato.synth.images.class_gaussians import ClassGaussians
from sfumato.synth.images.class_moments import MomentsKernel
from sfumato.synth.images.coded_rows import code_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.curator.plan.noisy_sum import NoisyBlock
    from sfumato.deep.generators.denoiser import Denoiser
    from sfumato.deep.generators.diffusion import DiffusionRun
    from sfumato.privacy.events import Event

    Ints = NDArray[np.int64]

_PASSES = 8
"""About how often a step goes over its draws: forwards, backwards, norms and sums."""
_PUBLIC_ROWS = 30_000
"""Rows of released moments that a denoiser learns from before its private steps."""


@tagged("ClassCounts", "classes", "multiplier")
@dataclass(frozen=True, slots=True)
class ClassCounts:
    """Releases how many rows each class has.

    Privacy
    -------
    Protects : one unit with one row, added or removed.
    Costs    : Gaussian(multiplier).
    Because  : docs/proofs/synth-images.md#diffusion
    Assumes  : a row is in one class at most.
    """

    classes: int
    multiplier: Fraction

    def event(self) -> Gaussian:
        """Return the price of all counts."""
        return Gaussian(self.multiplier)

    def require_drawable(self) -> None:
        """Refuse a price whose noise is too wide to be drawn: before anything is charged."""
        self._noise()

    def measure(self, labels: Ints) -> dict[str, Any]:
        """Return noisy counts; a label of −1 counts nowhere."""
        counts = np.bincount(labels[labels >= 0], minlength=self.classes).astype(np.int64)
        return {"counts": np.asarray(self._noise().release(counts), dtype=np.int64).tolist()}

    def _noise(self) -> NoisyBlock:
        return calibrate_noise(SumBlock((COUNT,), 1, 1), GaussianSpend(self.multiplier, ""), 1, False)


def _write_kernel(kernel: DiffusionKernel) -> dict[str, Any]:
    asked = {"first": kernel.first, "bounds": kernel.bounds, "sizes": kernel.sizes}
    settings = kernel.run.settings.describe()
    return {"": "Diffused", **asked, "settings": settings, "whole": kernel.event()}


@written_by(_write_kernel)
@dataclass(frozen=True, slots=True)
class DiffusionKernel:
    """Releases moments or counts of classes, and the weights of a denoiser.

    Privacy
    -------
    Protects : one unit with one row, added or removed.
    Costs    : the event of `first`, then that of the training run.
    Because  : docs/proofs/synth-images.md#diffusion
    Assumes  : what the trainer assumes; numbers of a row lie within −1 and 1, whatever the row.
    """

    first: MomentsKernel | ClassCounts
    run: DiffusionRun
    """What trains: of it the settings are hashed, and nothing else."""
    bounds: tuple[int, ...] = ()
    """The largest integer of each number of a row, behind the curator."""
    sizes: tuple[int, ...] = ()
    """The number of values of each column that is listed, which follow the numbers."""

    @property
    def passes(self) -> int:
        """About how often rows are gone over."""
        settings, declared = self.run.settings, self.run.run.declared
        return _PASSES * math.ceil(settings.draws * settings.steps * settings.batch_size / declared)

    def event(self) -> Event:
        """Return the price of all that is released."""
        return Sequential((self.first.event(), self.run.run.event))

    def release(self, exact: Ints) -> dict[str, Any]:
        """Release what was learnt of rows given as columns: numbers, places of listed values, the class."""
        from sfumato.deep.tables.kernel import write_weights

        numbers = len(self.bounds)
        scale = ONE / np.array(self.bounds, dtype=np.float64)

        def read(at: slice) -> NDArray[np.float64]:
            return np.clip(np.rint(exact[:numbers, at].T * scale), -ONE, ONE)

        rows = code_rows(exact.shape[1], numbers, read, list(exact[numbers:-1]), self.sizes)
        released, denoiser = self.measure(rows, exact[-1])
        return {**released, "weights": write_weights(denoiser)}

    def measure(self, rows: NDArray[np.float32], labels: Ints) -> tuple[dict[str, Any], Denoiser]:
        """Release what comes first, and train a denoiser, which may have learnt from that before."""
        if isinstance(self.first, ClassCounts):
            released = self.first.measure(labels)
            return released, self.run.train(rows, labels, None)
        basis = self.first.basis
        coefficients = basis.project(len(rows), lambda at: rows[at].astype(np.float64) * ONE)
        released = self.first.measure(coefficients, labels)
        return released, self.run.train(rows, labels, self._draw_public(released))

    def _draw_public(self, released: Mapping[str, Any]) -> tuple[NDArray[Any], Ints]:
        if not isinstance(self.first, MomentsKernel):
            raise AssertionError
        random = np.random.default_rng(self.run.settings.seed)
        return ClassGaussians(self.first, released).draw(_PUBLIC_ROWS, random)
