"""Gaussian mixtures by class whose rows have about the mean embedding that was released.

The mean of a cosine over a Gaussian is known in closed form, so no rows are drawn in training, and a step of
it costs little. It sees no row: targets are noisy sums, directions are public. So training costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_RANK, _RATE = 20, 0.1
"""Directions that rows of a class vary along, and the rate of Adam. Chosen by benchmarks/synth_images.py with
the last 10,000 images of the training files held out. Privacy does not depend on them."""
_BLOCK = 2**13
"""Rows that are drawn at a time, so that memory stays small."""


@dataclass(frozen=True, slots=True)
class EmbeddingTarget:
    """What was released of rows: sums of their waves for each class, and what is public about them."""

    directions: Floats
    """Radians that a wave turns by half of a number's bounds: one row a number, one column a wave."""
    sums: Floats
    """Sums of cosines, then of sines, over the rows of each class."""
    deviation: float
    """The standard deviation of noise in such a sum."""
    counts: Floats
    """The number of rows of each class, with noise."""
    counts_deviation: float
    basis: Floats
    """Rows that numbers are combined from, one for each coefficient."""
    scales: Floats
    """How far each coefficient may be from 0, before anything is known of the rows."""


@dataclass(frozen=True, slots=True)
class ClassMixtures:
    """A mixture of Gaussians for each class, over coefficients."""

    rows: Floats
    """About how many rows each class has, by its waves and its count together."""
    shares: Floats
    """How often each Gaussian of a class occurs."""
    means: Floats
    factors: Floats
    """For each class, a root of the covariance that its Gaussians share."""
    spreads: Floats
    """For each class, how much every coefficient varies by itself besides."""
    basis: Floats

    def draw_of(self, labels: Ints, random: np.random.Generator) -> Floats:
        """Return numbers from −1 to 1, a row for each of these classes."""
        found = np.empty((len(labels), self.basis.shape[1]))
        for start in range(0, len(labels), _BLOCK):
            some = labels[start : start + _BLOCK]
            rows = self._draw_coefficients(some, random) @ self.basis
            found[start : start + _BLOCK] = np.clip(rows, -1.0, 1.0)
        return found

    def _draw_coefficients(self, labels: Ints, random: np.random.Generator) -> Floats:
        steps = np.cumsum(self.shares, axis=1)[labels, :-1]
        which = (random.random(len(labels))[:, None] > steps).sum(axis=1)
        found: Floats = self.means[labels, which]
        found += random.standard_normal(found.shape) * self.spreads[labels, None]
        along = random.standard_normal((len(labels), self.factors.shape[1]))
        for at, factor in enumerate(self.factors):
            places = np.flatnonzero(labels == at)
            found[places] += along[places] @ factor
        return found


def fit_mixtures(target: EmbeddingTarget, components: int, steps: int, seed: int) -> ClassMixtures:
    """Return mixtures of so many Gaussians a class, after so many steps of Adam."""
    made = _Mixtures(target, components, seed)
    optimiser = torch.optim.Adam(made.parameters, lr=_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps + 1, pct_start=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        made.loss().backward()
        optimiser.step()
        schedule.step()
    return made.finish()


class _Mixtures:
    """Parameters of the mixtures, and how badly they explain what was released.

    Classes share a mean and a root of the covariance, and differ from them by parts of their own, which are
    0 before anything is known: so a class with few rows is like all others as far as noise reaches.
    """

    def __init__(self, target: EmbeddingTarget, components: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        classes, size = len(target.counts), len(target.scales)
        rank = min(_RANK, size)
        self._target = target
        self._turns = _single(target.scales[:, None] * (target.basis @ target.directions))
        self._wide = _single((target.directions**2).sum(axis=0))
        self._sums = _single(target.sums / target.deviation)
        self._counts = _single(target.counts / target.counts_deviation)
        self._mean = _single(np.zeros(size))
        self._own_mean = _single(np.zeros((classes, 1, size)))
        apart = 0.3 if components > 1 else 0.0
        self._components = _single(apart * random.standard_normal((classes, components, size)))
        self._root = _single(random.standard_normal((rank, size)) / math.sqrt(rank))
        self._own_root = _single(np.zeros((classes, rank, size)))
        self._spread = _single(np.full(classes, -3.0))
        self._logits = _single(np.zeros((classes, components)))
        self._rows = _single(np.log(np.maximum(target.counts, target.counts_deviation)))
        self._priors = [self._mean, self._own_mean, self._components, self._root, self._own_root]
        self.parameters = [
            each.requires_grad_() for each in (*self._priors, self._spread, self._logits, self._rows)
        ]

    def loss(self) -> Tensor:
        """Return squared errors over those that noise makes, and how unlikely the parameters were before."""
        rows = self._rows.exp()
        missed = self._sums - (rows / self._target.deviation)[:, None] * self._embed()
        found = missed.square().sum() + (self._counts - rows / self._target.counts_deviation).square().sum()
        # Each of the rank parts of a root adds to a variance, so each is the smaller.
        strictness = (1.0, 1.0, 1.0, *(math.sqrt(len(self._root)),) * 2)
        for part, strict in zip(self._priors, strictness, strict=True):
            found = found + strict * part.square().sum()
        return found

    def _embed(self) -> Tensor:
        """Return the mean cosines and sines of each class."""
        phases = (self._mean + self._own_mean + self._components) @ self._turns
        along = ((self._root + self._own_root) @ self._turns).square().sum(dim=1)
        waves = torch.exp(-0.5 * (along + self._spread.exp()[:, None] * self._wide))
        shares = self._logits.softmax(dim=1)[:, :, None]
        return torch.cat([(shares * wave).sum(dim=1) * waves for wave in (phases.cos(), phases.sin())], dim=1)

    def finish(self) -> ClassMixtures:
        """Return what was found; what is no number counts as nothing, so that no noise makes samples fail."""
        scales, basis = self._target.scales, self._target.basis
        with torch.no_grad():
            return ClassMixtures(
                np.maximum(_double(self._rows.exp()), 1.0),
                _double(self._logits.softmax(dim=1)),
                _double(self._mean + self._own_mean + self._components) * scales,
                _double(self._root + self._own_root) * scales,
                _double((self._spread / 2).exp()),
                basis,
            )


def _single(values: Floats) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def _double(values: Tensor) -> Floats:
    found: Floats = np.nan_to_num(values.double().numpy(), posinf=0.0, neginf=0.0)
    return found
