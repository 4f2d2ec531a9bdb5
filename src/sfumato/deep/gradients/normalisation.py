"""Gradients of layers that normalise within one example: scale and shift have few parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from torch.nn import functional

from sfumato.deep.gradients.layer import OneByOne, trainable

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.deep.gradients.layer import Gradients, LayerCall


class LayerNormRule(OneByOne):
    """LayerNorm and RMSNorm: parameters have the shape of the last dimensions."""

    def per_unit(self, call: LayerCall) -> Gradients:
        """Return every unit's gradient."""
        layer, g = call.layer, call.gradient
        assert isinstance(layer, nn.LayerNorm | nn.RMSNorm)  # noqa: S101 — given by the registry
        middle = tuple(range(1, g.dim() - len(layer.normalized_shape)))
        if isinstance(layer, nn.LayerNorm):
            normal = functional.layer_norm(call.into, layer.normalized_shape, eps=layer.eps)
        else:
            normal = functional.rms_norm(call.into, layer.normalized_shape, eps=layer.eps)
        found = {"weight": g * normal, "bias": g}
        return {name: call.add_rows(_add_up(found[name], middle)) for name in trainable(layer)}


class ChannelNormRule(OneByOne):
    """GroupNorm and InstanceNorm: one scale and one shift for each channel."""

    def per_unit(self, call: LayerCall) -> Gradients:
        """Return every unit's gradient."""
        layer, g, into = call.layer, call.gradient, call.into
        if isinstance(layer, nn.GroupNorm):
            normal = functional.group_norm(into, layer.num_groups, eps=layer.eps)
        else:
            assert isinstance(layer, nn.modules.instancenorm._InstanceNorm)  # noqa: S101
            normal = functional.instance_norm(into, eps=layer.eps)
        rest = tuple(range(2, g.dim()))
        found = {"weight": g * normal, "bias": g}
        return {name: call.add_rows(_add_up(found[name], rest)) for name in trainable(layer)}


def _add_up(each: Tensor, dimensions: tuple[int, ...]) -> Tensor:
    return each.sum(dimensions) if dimensions else each
