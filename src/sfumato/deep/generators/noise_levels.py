"""Noise levels of a diffusion model: how they are drawn in training, and what a network is asked at each.

A row x with noise is z = x + s·n, where n is standard normal and s the level. A network F gives the denoised
row D = skip·z + out·F(into·z, place). Both ways are those of Dockhorn, Cao, Vahdat and Kreis (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch

if TYPE_CHECKING:
    from torch import Tensor

_SPREAD = math.sqrt(1 / 3)
"""The standard deviation that rows are taken to have: that of numbers anywhere between −1 and 1."""


class Scaling(NamedTuple):
    """What a network's input and output are multiplied by at a level, and how the level is told to it."""

    skip: Tensor
    out: Tensor
    into: Tensor
    place: Tensor


class NoiseLevels(Protocol):
    """A way to draw noise levels and to scale what a network sees."""

    @property
    def highest(self) -> float:
        """The level at which rows are nothing but noise."""

    @property
    def lowest(self) -> float:
        """The level at which rows have next to no noise."""

    def draw(self, count: int) -> Tensor:
        """Return so many independent levels to train at."""

    def scale(self, level: Tensor) -> Scaling:
        """Return how the network is used at each level."""


@dataclass(frozen=True, slots=True)
class ElucidatedLevels:
    """Levels and scaling of Karras and others (2022), known as EDM: ln s is normal."""

    highest: float = 80.0
    lowest: float = 0.002
    mean: float = -1.2
    deviation: float = 1.2

    def draw(self, count: int) -> Tensor:
        """Return exp of normal numbers."""
        return (torch.randn(count) * self.deviation + self.mean).exp()

    def scale(self, level: Tensor) -> Scaling:
        """Return scales by which the network's input and output have a variance of 1."""
        whole = (level.square() + _SPREAD**2).sqrt()
        return Scaling((_SPREAD / whole).square(), level * _SPREAD / whole, 1 / whole, level.log() / 4)


@dataclass(frozen=True, slots=True)
class VelocityLevels:
    """Levels and scaling of Salimans and Ho (2022), known as v-prediction: the angle arctan s is uniform."""

    highest: float = math.exp(4.5)
    lowest: float = math.exp(-6.5)

    def draw(self, count: int) -> Tensor:
        """Return tangents of angles that are uniform between those of the lowest and the highest level."""
        low, high = math.atan(self.lowest), math.atan(self.highest)
        return (low + (high - low) * torch.rand(count)).tan()

    def scale(self, level: Tensor) -> Scaling:
        """Return scales for rows of variance 1."""
        whole = (level.square() + 1).sqrt()
        return Scaling(whole.square().reciprocal(), level / whole, 1 / whole, level.atan() * (2 / math.pi))


LEVELS: dict[str, NoiseLevels] = {"edm": ElucidatedLevels(), "v": VelocityLevels()}
"""Ways to train, by name."""
