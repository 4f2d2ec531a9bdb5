"""Modules that cannot be trained privately row by row, each with what to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def refuse_mixing_layers(module: nn.Module) -> None:
    """Refuse layers that are known to mix the rows of a batch, or to learn from rows beside the gradients."""
    for name, layer in module.named_modules():
        instead = _find_instead(layer)
        if instead is not None:
            raise UsageError(
                "SF-E174",
                f"{type(layer).__name__} at '{name or 'the module itself'}' is not trained row by row.",
                why=instead[0],
                try_=instead[1],
            )
    kinds = {each.dtype for each in module.parameters() if each.requires_grad}
    if not kinds <= {torch.float32, torch.float64}:
        raise UsageError(
            "SF-E174",
            "Trainable parameters are in single or double precision.",
            why="in half precision one row can move a sum by more than it is bounded to",
            try_="module.float()",
        )
    if not kinds:
        raise UsageError("SF-E174", "The module has no trainable parameter.", try_="module.requires_grad_()")


def _find_instead(layer: nn.Module) -> tuple[str, str] | None:
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        return "it mixes the rows of a batch", "torch.nn.GroupNorm(groups, channels)"
    if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats:
        return "it keeps averages of the rows", "track_running_stats=False"
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
        return "it changes its rows while it looks them up", "max_norm=None"
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.scale_grad_by_freq:
        return "it scales gradients by how often rows have a value", "scale_grad_by_freq=False"
    return None


class KeptState:
    """All that a module and its loss hold; while rows are seen, nothing may change it but a noisy step."""

    def __init__(self, *parts: object) -> None:
        """Remember what no step changes, as it is now: buffers, frozen parameters and all of the loss."""
        module, *rest = (each for each in parts if isinstance(each, nn.Module))
        self._modules = (module, *rest)
        trained = {id(each) for each in module.parameters() if each.requires_grad}
        self._fixed = [(each, each.detach().clone()) for each in self._list() if id(each) not in trained]
        self._versions = self._list_versions()

    def _list(self) -> list[Tensor]:
        return [each for part in self._modules for each in (*part.parameters(), *part.buffers())]

    def _list_versions(self) -> list[tuple[Tensor, int]]:
        return [(each, each._version) for each in self._list()]

    def remember(self) -> None:
        """Remember what is there before rows are seen."""
        self._versions = self._list_versions()

    def require_unchanged(self) -> None:
        """Refuse to go on if something was changed since: it would have learnt from rows without noise."""
        now = self._list_versions()
        same = len(now) == len(self._versions) and all(
            one is other and version == earlier
            for (one, version), (other, earlier) in zip(now, self._versions, strict=True)
        )
        if not same:
            raise _learns_without_noise("its state")

    def require_fixed(self) -> None:
        """Refuse to end if what no step changes is not what it was, however it was changed."""
        if not all(torch.equal(now, before) for now, before in self._fixed):
            raise _learns_without_noise("a buffer or a frozen parameter")


def refuse_learning_forwards(module: nn.Module, run: Callable[[], Tensor]) -> None:
    """Refuse a module that changes anything of its own when it is run on rows: that would have no noise."""
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    before = {name: each.detach().clone() for name, each in held.items()}
    with torch.no_grad():
        run()
        changed = [name for name, each in held.items() if not _is_same(before[name], each)]
        for name in changed:
            held[name].copy_(before[name])
    if changed:
        raise _learns_without_noise(f"'{changed[0]}'")


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def _learns_without_noise(what: str) -> UsageError:
    return UsageError(
        "SF-E174",
        f"The module or the loss changes {what} when it sees rows.",
        why="what it learns there has no noise",
        try_="a layer without running averages, such as torch.nn.GroupNorm",
    )
