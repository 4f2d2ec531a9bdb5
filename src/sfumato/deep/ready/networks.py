"""Networks of the ready estimators, and how each is trained: all of it follows from public numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from sfumato.deep.scattering import SCALES, scatter
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

LINEAR, MLP, CNN, SCATTERING = "linear", "mlp", "cnn", "scattering"
_FOR_TABLES, _FOR_IMAGES = (MLP, LINEAR), (SCATTERING, CNN, MLP, LINEAR)

# The constants below were chosen on validation rows that were taken out of the training files of MNIST and
# Fashion-MNIST, and on generated tables, never on rows that benchmarks/deep_accuracy.py reports. Privacy
# depends on none of them.
_MANY_IMAGES = 2_000_000
"""Rows times ε from which on a network that finds its own features should learn more: not measured yet."""
_MANY_ROWS = 5_000
"""Rows times ε from which on a hidden layer pays."""
_HIDDEN = 64
_GROUPS = 27
"""Scattering channels are normalised three at a time, each image on its own."""
_AT_ONCE = 1_024
"""Images whose features are computed at a time."""


def choose_network(model: str, is_image: bool, rows: int, epsilon: float) -> str:
    """Return the network that suits so many rows at this ε, or the one that was asked for."""
    offered = _FOR_IMAGES if is_image else _FOR_TABLES
    if model == "auto":
        many = _MANY_IMAGES if is_image else _MANY_ROWS
        fixed, learnt = (SCATTERING, CNN) if is_image else (LINEAR, MLP)
        return learnt if rows * epsilon >= many else fixed
    if model not in offered:
        raise UsageError(
            "SF-E187",
            f"There is no such network for {'images' if is_image else 'tables'}.",
            try_="model=" + " or ".join(f'"{each}"' for each in ("auto", *offered)),
        )
    return model


# ---- what networks see -------------------------------------------------------------------------------------


def make_features(network: str, inputs: Tensor) -> Tensor:
    """Return what the network is shown of rows that were scaled by their bounds, each row on its own."""
    if network == CNN:
        return inputs.unsqueeze(1) if inputs.dim() == 3 else inputs
    if network != SCATTERING:
        return inputs.flatten(1)
    return _scatter_images(inputs.unsqueeze(1) if inputs.dim() == 3 else inputs)


def _scatter_images(images: Tensor) -> Tensor:
    """Return scattering features of norm 1, in half precision, because there are many of them."""
    rows, channels, height, width = images.shape
    step = 2**SCALES
    padding = (0, -width % step, 0, -height % step)
    high, wide = (-(-side // step) for side in (height, width))
    found = torch.empty(rows, _count_scattered(channels, high, wide), dtype=torch.float16)
    for start in range(0, rows, _AT_ONCE):
        some = functional.pad(images[start : start + _AT_ONCE], padding)
        features = scatter(some.flatten(0, 1)).reshape(len(some), -1, high, wide)
        normal = functional.group_norm(features, _GROUPS * channels).flatten(1)
        found[start : start + len(some)] = normal / math.sqrt(found.shape[1])
    return found


def _count_scattered(channels: int, high: int, wide: int) -> int:
    return 81 * channels * high * wide


class _Widen(nn.Module):
    """Takes rows from half precision to single precision."""

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rows in single precision."""
        return rows.float()


def build_network(network: str, features: Tensor, outputs: int) -> nn.Module:
    """Return a fresh module for features of this shape."""
    if network == CNN:
        channels = features.shape[1]
        return nn.Sequential(
            *(nn.Conv2d(channels, 16, 5, stride=2, padding=2), nn.Tanh()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.Tanh()),
            *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, outputs)),
        )
    width = features.shape[1]
    if network == MLP:
        return nn.Sequential(nn.Linear(width, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, outputs))
    last = nn.Linear(width, outputs)
    # A linear model has no symmetry to break, and starts without an opinion.
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(_Widen(), last)
