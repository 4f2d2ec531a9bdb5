"""Low-rank adapters (LoRA): few weights to train beside the frozen layers of a pretrained module.

Noise grows with the number of weights that are trained, so a pretrained module learns more under privacy when
only a product of two thin matrices is added to each of its layers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch import Tensor

    Module = TypeVar("Module", bound=nn.Module)
    Layer = nn.Linear | nn.Conv2d


class _Adapted(nn.Module):
    """A frozen layer, and beside it a thin one into few numbers and one out of them, which begins at zero."""

    def __init__(self, layer: Layer, down: Layer, up: Layer) -> None:
        super().__init__()
        self.layer, self.down, self.up = layer, down, up
        nn.init.zeros_(up.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Return what the layer makes of rows, plus what the adapter does."""
        found: Tensor = self.layer(rows) + self.up(self.down(rows))
        return found

    @property
    def weight(self) -> Tensor:
        """The weight of one layer that computes the same; encoders of torch read it when they predict."""
        up, down, alone = self.up.weight, self.down.weight, self.layer.weight
        return alone + (up.flatten(1) @ down.flatten(1)).reshape(alone.shape)

    @property
    def bias(self) -> Tensor | None:
        """The bias of the layer."""
        return self.layer.bias

    def merge(self) -> Layer:
        """Return the layer alone, with the adapter's product added to its weight."""
        with torch.no_grad():
            self.layer.weight.copy_(self.weight)
        return self.layer


def add_adapters(module: Module, rank: int = 4, *, train: Collection[str] = ()) -> Module:
    """Freeze a module and put trainable adapters beside its linear and convolutional layers; return it.

    `train` names parts, such as a new last layer, that stay trainable as a whole. The module is changed in
    place and computes what it did before. Layers whose weights are used elsewhere too stay frozen.
    """
    rank = parse_whole(rank, "rank")
    parts = dict(module.named_modules())
    unknown = [name for name in train if name not in parts]
    if unknown:
        raise UsageError(
            "SF-E189", f"The module has no part '{unknown[0]}'.", try_="a name of module.named_modules()"
        )
    adapted = _adapt_layers(module, rank, [parts[name] for name in train])
    if not adapted:
        raise UsageError(
            "SF-E189",
            "The module has no layer that adapters fit beside.",
            try_="a module with torch.nn.Linear or torch.nn.Conv2d layers, which are not adapted yet",
        )
    module.requires_grad_(False)
    for each in (*(part for one in adapted for part in (one.down, one.up)), *(parts[name] for name in train)):
        each.requires_grad_()
    return module


def merge_adapters(module: Module) -> Module:
    """Add every adapter to the layer beside it and take it out; return the module, with its old keys."""
    merged: dict[nn.Module, nn.Module] = {}
    for parent in list(module.modules()):
        for name, child in parent._modules.items():
            if isinstance(child, _Adapted):
                if child not in merged:
                    merged[child] = child.merge()
                parent._modules[name] = merged[child]
    return module


def _adapt_layers(module: nn.Module, rank: int, left: list[nn.Module]) -> list[_Adapted]:
    """Put adapters in, in place, leaving some parts out; return them."""
    skipped = {each for part in left for each in part.modules()}
    skipped |= {each for one in module.modules() if isinstance(one, _Adapted) for each in one.modules()}
    shared = Counter(id(each) for part in module.modules() for each in part.parameters(recurse=False))
    made: dict[nn.Module, _Adapted] = {}
    for parent in [each for each in module.modules() if each not in skipped]:
        # A layer that is used twice gets one adapter.
        for name, child in parent._modules.items():
            if child is not None and child not in skipped and _fits(child, shared):
                if child not in made:
                    made[child] = _adapt(child, rank)
                parent._modules[name] = made[child]
    return list(made.values())


def _fits(layer: nn.Module, shared: Counter[int]) -> bool:
    """Say whether an adapter fits: not where others own the weight too, nor inside attention."""
    plain = type(layer) is nn.Linear or (type(layer) is nn.Conv2d and layer.groups == 1)
    return plain and all(shared[id(each)] == 1 for each in layer.parameters())


def _adapt(layer: Any, rank: int) -> _Adapted:
    like: dict[str, Any] = {"bias": False, "device": layer.weight.device, "dtype": layer.weight.dtype}
    if isinstance(layer, nn.Conv2d):
        names = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
        places = {name: getattr(layer, name) for name in names}
        down = nn.Conv2d(layer.in_channels, rank, **places, **like)
        return _Adapted(layer, down, nn.Conv2d(rank, layer.out_channels, 1, **like))
    thin = nn.Linear(layer.in_features, rank, **like)
    return _Adapted(layer, thin, nn.Linear(rank, layer.out_features, **like))
