"""Gradients of every other module: each row's own backward pass, all at once by torch.func."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.func import functional_call, vjp, vmap
from torch.utils import _pytree as pytree

from sfumato.deep.gradients.layer import OneByOne

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.deep.gradients.layer import Gradients, LayerCall


class VmapRule(OneByOne):
    """Runs a module again, row by row, with the gradient that arrived at what came out of it.

    A module that draws random numbers draws others here than it did before. The gradients are then those of
    another draw, which does no harm as long as norms and sums are made of the same ones: they are made once.
    """

    def per_unit(self, call: LayerCall) -> Gradients:
        """Return every unit's gradient."""
        layer = call.layer
        held = {name: each for name, each in layer.named_parameters() if each.requires_grad}
        fixed: dict[str, Tensor] = dict(layer.named_buffers())
        fixed.update((name, each) for name, each in layer.named_parameters() if not each.requires_grad)
        leaves, shape = pytree.tree_flatten((call.inputs, dict(call.named_inputs)))
        came_at = where_rows_are(layer)
        rows_at = [_find_rows(each, call.rows, came_at[0]) for each in leaves]
        if call.row_places is not None:
            rows_at = list(call.row_places)
        came_at = [came_at[min(place, 1)] for place in range(len(call.gradients))]

        def differentiate(given: list[Any], arrived: tuple[Tensor, ...]) -> Any:
            alone = [
                each if at is None else each.unsqueeze(at) for each, at in zip(given, rows_at, strict=True)
            ]
            inputs, named = pytree.tree_unflatten(alone, shape)

            def run(parameters: dict[str, Tensor]) -> tuple[Tensor, ...]:
                came = list_tensors(functional_call(layer, {**parameters, **fixed}, inputs, named))
                return tuple(each.squeeze(at) for each, at in zip(came, came_at, strict=False))

            return vjp(run, held)[1](arrived)[0]

        over = vmap(differentiate, in_dims=(rows_at, tuple(came_at)), randomness="different")
        found: Gradients = over(leaves, call.gradients)
        return {name: call.add_rows(each.detach()) for name, each in found.items()}


def where_rows_are(layer: nn.Module) -> list[int]:
    """Return the dimension of rows in the first output of a module, and in the others."""
    if isinstance(layer, nn.RNNBase):
        return [0 if layer.batch_first else 1, 1]
    if isinstance(layer, nn.MultiheadAttention):
        return [0 if layer.batch_first else 1, 0]
    return [0, 0]


def _find_rows(value: Any, rows: int, place: int) -> int | None:
    """Return the dimension of rows in an input, or None if it is the same for all rows."""
    fits = isinstance(value, torch.Tensor) and value.dim() > place and value.shape[place] == rows
    return place if fits else None


def list_tensors(value: Any) -> list[Tensor]:
    """Return the floating tensors of what a module returned, in order."""
    leaves = [value] if isinstance(value, torch.Tensor) else pytree.tree_leaves(value)
    return [each for each in leaves if isinstance(each, torch.Tensor) and each.is_floating_point()]
