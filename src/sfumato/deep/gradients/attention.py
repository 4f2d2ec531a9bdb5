"""Self-attention as linear maps before and after a function without parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.deep.gradients.linear import Linear


def attend(
    layer: nn.Module, linear: Linear, *inputs: Any, **named: Any
) -> tuple[Tensor, Tensor | None] | None:
    """Return what nn.MultiheadAttention would; None where queries, keys and values are not the same."""
    assert isinstance(layer, nn.MultiheadAttention)  # noqa: S101 — given by the registry
    if not _is_plain(layer, inputs):
        return None
    x = inputs[0] if layer.batch_first else inputs[0].transpose(0, 1)
    rows, positions, width = x.shape
    packed = linear(x, layer.in_proj_weight, layer.in_proj_bias)
    parts = packed.reshape(rows, positions, 3, layer.num_heads, -1).permute(2, 0, 3, 1, 4)
    mask = _make_mask(named, rows, layer.num_heads, packed)
    query, key, value = parts.unbind(0)
    mixed, weights = _mix(layer, query, key, value, mask, named)
    came = linear(
        mixed.transpose(1, 2).reshape(rows, positions, width), layer.out_proj.weight, layer.out_proj.bias
    )
    return came if layer.batch_first else came.transpose(0, 1), weights


def _is_plain(layer: nn.MultiheadAttention, inputs: tuple[Any, ...]) -> bool:
    same = len(inputs) == 3 and inputs[0] is inputs[1] is inputs[2]
    usual = layer._qkv_same_embed_dim and layer.bias_k is None and not layer.add_zero_attn
    return same and usual and inputs[0].dim() == 3


def _mix(
    layer: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, named: Any
) -> tuple[Tensor, Tensor | None]:
    """Return the mixed values of every head, and the weights if they are asked for."""
    dropout = layer.dropout if layer.training else 0.0
    if not named.get("need_weights", True):
        return functional.scaled_dot_product_attention(query, key, value, mask, dropout), None
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = functional.dropout((scores if mask is None else scores + mask).softmax(-1), dropout)
    return weights @ value, weights.mean(1) if named.get("average_attn_weights", True) else weights


def _make_mask(named: Any, rows: int, heads: int, like: Tensor) -> Tensor | None:
    """Return what is added to the scores: minus infinity where a position must not be seen."""
    found = []
    if named.get("attn_mask") is not None:
        mask = _as_number(named["attn_mask"], like)
        found.append(mask if mask.dim() == 2 else mask.reshape(rows, heads, *mask.shape[1:]))
    if named.get("key_padding_mask") is not None:
        found.append(_as_number(named["key_padding_mask"], like)[:, None, None, :])
    return sum(found[1:], found[0]) if found else None


def _as_number(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(like)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -math.inf)
