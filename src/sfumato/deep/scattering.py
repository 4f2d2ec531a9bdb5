"""Wavelet scattering: features of images that are fixed beforehand, so that they cost no privacy."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

ANGLES = 8
"""Directions of the wavelets, over half a turn."""
SCALES = 2
"""Octaves; features are averages over 2 to this power pixels."""
_AT_ONCE = 256


def scatter(images: Tensor) -> Tensor:
    """Return scattering features of images, (rows, height, width), as (rows, 81, height / 4, width / 4).

    They are local averages of the image, of the moduli of its wavelet transform, and of the moduli of the
    transform of those. Every image has features of its own, which no other image moves.
    """
    sides = images.shape[1:]
    if images.dim() != 3 or any(side % 2**SCALES or side <= 2**SCALES for side in sides):
        raise UsageError(
            "SF-E176",
            "Images have the shape (rows, height, width), with sides that are multiples of 4, from 8 on.",
            got=str(tuple(images.shape)),
            try_="images.reshape(-1, 28, 28)",
        )
    return torch.cat([_scatter_some(part.float()) for part in images.split(_AT_ONCE)])


def _scatter_some(images: Tensor) -> Tensor:
    margin = 2**SCALES
    padded = functional.pad(images, (margin,) * 4, mode="reflect")
    size = (padded.shape[1], padded.shape[2])
    fine, coarse = (_make_wavelets(scale, size) for scale in range(SCALES))
    spectrum = torch.fft.fft2(padded)
    first = _convolve(spectrum, fine, 1)
    moduli = [
        padded.unsqueeze(1),
        first,
        _convolve(torch.fft.fft2(first), coarse, 2).flatten(1, 2),
        _convolve(spectrum, coarse, 2),
    ]
    return torch.cat([_average(each, size, margin) for each in moduli], 1)


def _convolve(spectrum: Tensor, wavelets: Tensor, step: int) -> Tensor:
    """Return the moduli of convolutions with every wavelet, at every so many pixels.

    Leaving out pixels is adding up the frequencies that look alike at those that are left.
    """
    high, wide = (side // step for side in spectrum.shape[-2:])
    parts = spectrum.unflatten(-2, (step, high)).unflatten(-1, (step, wide))
    filters = wavelets.unflatten(-2, (step, high)).unflatten(-1, (step, wide))
    folded = torch.zeros(*spectrum.shape[:-2], len(wavelets), high, wide, dtype=spectrum.dtype)
    for row in range(step):
        for column in range(step):
            folded.addcmul_(parts[..., None, row, :, column, :], filters[:, row, :, column, :])
    moduli: Tensor = torch.fft.ifft2(folded).abs()
    return moduli / step**2


@lru_cache(maxsize=16)
def _make_wavelets(scale: int, size: tuple[int, int]) -> Tensor:
    """Return the Fourier transforms of Morlet wavelets in all directions at one scale."""
    spread, frequency = 0.8 * 2**scale, 0.75 * math.pi / 2**scale
    return torch.stack(
        [torch.fft.fft2(_morlet(spread, frequency, math.pi * k / ANGLES, size)) for k in range(ANGLES)]
    )


def _morlet(spread: float, frequency: float, angle: float, size: tuple[int, int]) -> Tensor:
    """Return a Gaussian times a wave, less so much of the Gaussian that its mean is zero."""
    x, y = torch.meshgrid(*(_centred(each) for each in size), indexing="ij")
    along, across = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
    slant = 4 / ANGLES
    bell = torch.exp(-(along**2 + slant**2 * across**2) / (2 * spread**2)) * slant / (2 * math.pi * spread**2)
    wave = bell * torch.exp(1j * frequency * along)
    return wave - bell * (wave.sum() / bell.sum())


def _centred(count: int) -> Tensor:
    """Return positions around zero, as the Fourier transform orders them."""
    places: Tensor = torch.fft.fftfreq(count, 1 / count, dtype=torch.float32)
    return places


@lru_cache(maxsize=16)
def _make_average(size: int, margin: int, pixels: int) -> Tensor:
    """Return a matrix of Gaussian averages around every 2 to the SCALES-th pixel inside the margin.

    It averages so many pixels of a side of this size, which lie evenly on it.
    """
    spread = 0.8 * 2 ** (SCALES - 1)
    centres = torch.arange(margin, size - margin, 2**SCALES) + 2 ** (SCALES - 1) - 0.5
    places = torch.arange(0, size, size // pixels)
    bells = torch.exp(-((places - centres[:, None]) ** 2) / (2 * spread**2))
    return bells / bells.sum(1, keepdim=True)


def _average(values: Tensor, size: tuple[int, int], margin: int) -> Tensor:
    rows, columns = (
        _make_average(side, margin, pixels) for side, pixels in zip(size, values.shape[-2:], strict=True)
    )
    return rows @ values @ columns.T
