"""Low-rank adapters (LoRA) beside the layers of a sequence: a module like those of other libraries."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Adapted(nn.Module):
    """A frozen layer, and beside it a thin one into few numbers and one out of them, which begins at zero."""

    def __init__(self, layer: Any, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = _make_thin(layer, rank)
        nn.init.zeros_(self.up.weight)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.layer(rows) + self.up(self.down(rows))
        return found


def _make_thin(layer: Any, rank: int) -> tuple[Any, Any]:
    if isinstance(layer, nn.Conv2d):
        places = {name: getattr(layer, name) for name in ("kernel_size", "stride", "padding")}
        down = nn.Conv2d(layer.in_channels, rank, bias=False, **places)
        return down, nn.Conv2d(rank, layer.out_channels, 1, bias=False)
    thin = nn.Linear(layer.in_features, rank, bias=False)
    return thin, nn.Linear(rank, layer.out_features, bias=False)


def adapt(module: nn.Sequential, rank: int) -> None:
    """Freeze all layers but the last, and put adapters beside the linear and convolutional ones."""
    for place, layer in enumerate(module[:-1]):
        layer.requires_grad_(False)
        if isinstance(layer, nn.Linear | nn.Conv2d):
            module[place] = Adapted(layer, rank)
