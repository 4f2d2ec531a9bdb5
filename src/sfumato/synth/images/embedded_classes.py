"""What a released mean embedding says of classes: a mixture of Gaussians, and shares of listed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.synth.images.mean_embedding import HIGH, EmbeddingKernel, find_length
from sfumato.synth.images.public_basis import PublicBasis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.deep.generators.embedding import ClassMixtures, EmbeddingTarget

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_COSINES = 100
"""The lowest cosines that images are made of, chosen by benchmarks/synth_images.py with the last 10,000
images of the training files held out. Privacy does not depend on it."""
_APART = 0.15
"""How far the share of a value in a class usually is from that in all classes: a guess before anything is
known. Privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class ReleasedEmbedding:
    """What was released of the rows, and what follows from it without them."""

    kernel: EmbeddingKernel
    written: Mapping[str, Any]

    @property
    def counts(self) -> Ints:
        """The number of rows of each class, with noise."""
        return np.array(self.written["counts"], dtype=np.int64)

    @property
    def length(self) -> float | None:
        """The length scale, declared or bought; None where no column is a number."""
        return find_length(self.kernel, self.written) if self.kernel.numbers else None

    def find_shares(self, rows: Floats) -> list[Floats]:
        """Return how often each value of each listed column occurs in each class, of about so many rows."""
        if not self.kernel.categories:
            return []
        noisy = np.array(self.written["categories"], dtype=np.float64)
        deviation = self.kernel.category_noise().deviation
        parts = np.split(noisy, np.cumsum(self.kernel.categories)[:-1], axis=1)
        return [_to_shares(each, rows, deviation) for each in parts]

    def make_target(self, shape: tuple[int, ...]) -> EmbeddingTarget:
        """Return what a generator is trained on, for numbers of this shape."""
        from sfumato.deep.generators.embedding import EmbeddingTarget

        kernel = self.kernel
        basis, scales = _choose_basis(shape)
        return EmbeddingTarget(
            kernel.directions / find_length(kernel, self.written),
            np.array(self.written["waves"], dtype=np.float64) / HIGH,
            kernel.wave_noise().deviation / HIGH,
            self.counts.astype(np.float64),
            kernel.counts_noise().deviation,
            basis,
            scales,
        )


@dataclass(frozen=True, slots=True)
class EmbeddedClasses:
    """Draws rows: numbers of a mixture of their class, and listed values by its shares."""

    weights: Floats
    """The share of each class."""
    mixtures: ClassMixtures | None
    """None where no column is a number."""
    shares: list[Floats]

    @classmethod
    def train(
        cls, released: ReleasedEmbedding, shape: tuple[int, ...], components: int, steps: int, balanced: bool
    ) -> EmbeddedClasses:
        """Train a generator on what was released."""
        from sfumato.deep.generators.embedding import fit_mixtures

        made, rows = None, np.maximum(released.counts, 1.0)
        if released.kernel.numbers:
            made = fit_mixtures(released.make_target(shape), components, steps, released.kernel.seed)
            rows = made.rows
        occur = np.ones(len(rows)) if balanced else rows
        return cls(occur / occur.sum(), made, released.find_shares(rows))

    def draw_of(self, labels: Ints, random: np.random.Generator) -> tuple[Floats, list[Ints]]:
        """Return numbers from −1 to 1 and places of listed values, a row for each of these classes."""
        numbers = np.zeros((len(labels), 0))
        if self.mixtures is not None:
            numbers = self.mixtures.draw_of(labels, random)
        return numbers, [_draw_places(each, labels, random) for each in self.shares]


def _choose_basis(shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return what numbers are combined from, and how far each coefficient may be from 0 beforehand."""
    if len(shape) == 1:
        return np.eye(shape[0]), np.full(shape[0], 0.5)
    basis = PublicBasis.of(shape).as_rows()[:_COSINES]
    # Power of natural images falls with the square of the frequency, which grows with the place of a cosine.
    power = 1 / (1 + np.arange(len(basis)))
    return basis, np.sqrt(basis.shape[1] / 2 * power / power.sum())


def _draw_places(shares: Floats, labels: Ints, random: np.random.Generator) -> Ints:
    steps = np.cumsum(shares, axis=1)[labels, :-1]
    found: Ints = (random.random(len(labels))[:, None] > steps).sum(axis=1)
    return found


def _to_shares(noisy: Floats, rows: Floats, deviation: float) -> Floats:
    """Return shares of values in each class, drawn to those of all classes as far as noise reaches."""
    total = noisy.sum(axis=0)
    pooled = _project(total / max(1.0, float(total.sum())))
    apart = noisy - rows[:, None] * pooled
    signal = (_APART * rows[:, None]) ** 2
    own = apart * (signal / (signal + deviation**2)) / rows[:, None]
    return np.array([_project(each) for each in pooled + own])


def _project(noisy: Floats) -> Floats:
    """Return the nearest shares of 0 or more that add up to 1."""
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, len(noisy) + 1)
    found: Floats = np.maximum(noisy - over[np.flatnonzero(falling > over)[-1]], 0.0)
    return found
