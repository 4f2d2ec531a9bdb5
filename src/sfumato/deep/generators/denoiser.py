"""Networks that take noise off labelled rows, and the loss by which a trainer trains them row by row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.deep.generators.noise_levels import NoiseLevels

_FREQUENCIES = 8
"""Waves by which a network is told the noise level. Privacy does not depend on what is chosen here."""
_COLOURS = 4
"""An axis of at most so many numbers, first or last, is that of colours."""


class Denoiser(nn.Module):
    """A network that is told a noisy row, the noise level and the class, and says what the row was.

    While it trains, it draws a noise level, noise, and whether the label is dropped for every row that it is
    given, independently. When it does not train, noise is the same for every row and call.
    """

    fixed: Tensor

    def __init__(self, network: nn.Module, levels: NoiseLevels, classes: int, numbers: int, drop: float):
        super().__init__()
        self.network, self.levels, self.classes, self.drop = network, levels, classes, drop
        fixed = torch.randn(numbers, generator=torch.Generator().manual_seed(0))
        self.register_buffer("fixed", fixed, persistent=False)

    def forward(self, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the network says of rows with noise, the part that it need not say, and its scale."""
        rows, labels = unpack_rows(packed, self.classes)
        if self.training:
            level, noise = self.levels.draw(len(rows)), torch.randn_like(rows)
            labels = torch.where(torch.rand(len(rows)) < self.drop, self.classes, labels)
        else:
            level, noise = torch.full((len(rows),), 0.5), self.fixed
        level = level.unsqueeze(1).to(rows.dtype)
        noisy = rows + level * noise
        scaling = self.levels.scale(level)
        said = self.network(scaling.into * noisy, scaling.place, labels)
        return said, scaling.skip * noisy, scaling.out

    def denoise(self, noisy: Tensor, level: float, labels: Tensor, guidance: float) -> Tensor:
        """Return what rows at a noise level were, within −1 and 1.

        With `guidance` w, 1 + w times what is said of the class less w times what is said of no class.
        """
        scaling = self.levels.scale(torch.full((len(noisy), 1), level))

        def ask(of: Tensor) -> Tensor:
            found: Tensor = self.network(scaling.into * noisy, scaling.place, of)
            return scaling.skip * noisy + scaling.out * found

        found = ask(labels)
        if guidance:
            found = (1 + guidance) * found - guidance * ask(torch.full_like(labels, self.classes))
        return found.clamp(-1, 1)


def measure_denoising(came: tuple[Tensor, Tensor, Tensor], rows: Tensor) -> Tensor:
    """Return the loss of each row: the mean square by which the network is off."""
    said, skipped, scale = came
    return (said - (rows - skipped) / scale).square().mean(1)


def pack_rows(rows: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Return rows with their class behind, as a number between −1 and 1, so that made-up rows have one."""
    shares = (2 * labels.to(rows.dtype) + 1) / classes - 1
    return torch.cat([rows, shares[:, None]], 1)


def unpack_rows(packed: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return rows and their classes."""
    places = ((packed[:, -1].detach() + 1) / 2 * classes).long()
    return packed[:, :-1], places.clamp(0, classes - 1)


class _Conditions(nn.Module):
    """The noise level as waves and the class as a 1 among zeros; the last place is that of no class."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes, self.width = classes, 2 * _FREQUENCIES + classes + 1
        self.register_buffer("waves", math.pi / 2 * 2.0 ** torch.arange(_FREQUENCIES), persistent=False)

    def forward(self, place: Tensor, labels: Tensor) -> Tensor:
        waves: Any = self.waves
        phases = place * waves
        which = labels[:, None] == torch.arange(self.classes + 1)
        return torch.cat([phases.cos(), phases.sin(), which.to(phases.dtype)], 1)


class FlatNetwork(nn.Module):
    """Layers over all numbers of a row, each of which is told the noise level and the class."""

    def __init__(self, numbers: int, classes: int, width: int, depth: int = 2) -> None:
        super().__init__()
        self.conditions = _Conditions(classes)
        told = self.conditions.width
        self.first = nn.Linear(numbers + told, width)
        self.hidden = nn.ModuleList(nn.Linear(width + told, width) for _ in range(depth - 1))
        self.last = nn.Linear(width + told, numbers)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, rows: Tensor, place: Tensor, labels: Tensor) -> Tensor:
        """Return as many numbers as rows have."""
        told = self.conditions(place, labels)
        found = functional.silu(self.first(torch.cat([rows, told], 1)))
        for each in self.hidden:
            found = found + functional.silu(each(torch.cat([found, told], 1)))
        said: Tensor = self.last(torch.cat([found, told], 1))
        return said


class ImageNetwork(nn.Module):
    """A small U-Net: convolutions at full and at half size, with a bridge between them."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__()
        self.shape = shape
        colours = _count_colours(shape)
        self.conditions = _Conditions(classes)
        told = self.conditions.width
        self.first = nn.Conv2d(colours, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.told_down = nn.Linear(told, 2 * width)
        self.middle = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.told_middle = nn.Linear(told, 2 * width)
        self.up = nn.Conv2d(3 * width, width, 3, padding=1)
        self.last = nn.Conv2d(width, colours, 3, padding=1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]

    def forward(self, rows: Tensor, place: Tensor, labels: Tensor) -> Tensor:
        """Return as many numbers as rows have."""
        told = self.conditions(place, labels)
        whole = functional.silu(self.first(self._to_images(rows)))
        half = functional.silu(self.down(whole) + self.told_down(told)[:, :, None, None])
        half = half + functional.silu(self.middle(half) + self.told_middle(told)[:, :, None, None])
        wide = functional.interpolate(half, size=whole.shape[2:])
        found = functional.silu(self.up(torch.cat([whole, wide], 1)))
        return self._to_rows(self.last(found))

    def _to_images(self, rows: Tensor) -> Tensor:
        images = rows.reshape(len(rows), *self.shape)
        if len(self.shape) == 2:
            return images.unsqueeze(1)
        return images.movedim(-1, 1) if self.shape[-1] <= _COLOURS else images

    def _to_rows(self, images: Tensor) -> Tensor:
        last = len(self.shape) == 3 and self.shape[-1] <= _COLOURS
        return (images.movedim(1, -1) if last else images).flatten(1)


def is_image(shape: tuple[int, ...]) -> bool:
    """Return whether rows of a shape are images, grey or with colours as their first or last axis."""
    return len(shape) == 2 or (len(shape) == 3 and min(shape[0], shape[-1]) <= _COLOURS)


def _count_colours(shape: tuple[int, ...]) -> int:
    if len(shape) == 2:
        return 1
    return shape[-1] if shape[-1] <= _COLOURS else shape[0]
