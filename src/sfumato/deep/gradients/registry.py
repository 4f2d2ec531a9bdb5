"""Which rule knows which kind of layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from sfumato.deep.gradients.attention import attend
from sfumato.deep.gradients.by_vmap import VmapRule
from sfumato.deep.gradients.convolution import ConvolutionRule
from sfumato.deep.gradients.embedding import EmbeddingRule
from sfumato.deep.gradients.linear import LinearRule
from sfumato.deep.gradients.normalisation import ChannelNormRule, LayerNormRule
from sfumato.deep.gradients.recurrent import unroll

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.deep.gradients.layer import LayerRule

    Rewriting = Callable[..., Any]
    """Runs a layer by linear maps that are given to it; returns None where it cannot."""

RULES: dict[type[nn.Module], LayerRule] = {
    nn.Linear: LinearRule(),
    nn.Embedding: EmbeddingRule(),
    nn.Conv1d: ConvolutionRule(),
    nn.Conv2d: ConvolutionRule(),
    nn.LayerNorm: LayerNormRule(),
    nn.RMSNorm: LayerNormRule(),
    nn.GroupNorm: ChannelNormRule(),
    nn.InstanceNorm1d: ChannelNormRule(),
    nn.InstanceNorm2d: ChannelNormRule(),
    nn.InstanceNorm3d: ChannelNormRule(),
}
"""Rules by the exact class of a layer: a subclass may compute something else."""

REWRITINGS: dict[type[nn.Module], Rewriting] = {
    nn.RNN: unroll,
    nn.LSTM: unroll,
    nn.GRU: unroll,
    nn.MultiheadAttention: attend,
}
"""Layers that are made of linear maps, and how they are run so that every map is heard."""

BY_VMAP = VmapRule()


def find_rule(layer: nn.Module) -> LayerRule:
    """Return the rule for a layer: a formula where its kind has one and nothing was added to it."""
    rule = RULES.get(type(layer))
    return BY_VMAP if rule is None or _is_changed(layer) else rule


def find_rewriting(layer: nn.Module) -> Rewriting | None:
    """Return how a layer is run as linear maps, where its kind is made of them."""
    return None if _has_hooks(layer) else REWRITINGS.get(type(layer))


def _is_changed(layer: nn.Module) -> bool:
    """Return whether a layer may compute something else than its class does."""
    named = {"weight", "bias"}.issuperset(layer._parameters)
    return not named or bool(layer._modules) or _has_hooks(layer)


def _has_hooks(layer: nn.Module) -> bool:
    hooks = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks
    return bool(hooks) or "forward" in vars(layer)
