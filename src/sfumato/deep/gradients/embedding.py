"""Gradients of embeddings: the gradients of the positions that hold the same index add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from sfumato.deep.gradients.layer import MeasuredNorms, bound_products, find_gradient_lengths, trainable
from sfumato.deep.gradients.linear import CHUNK

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.deep.gradients.layer import Gradients, LayerCall


class EmbeddingRule:
    """A row of the table gets the gradients of all positions that looked it up; the padding row gets none."""

    def makes_gradients(self, _: LayerCall) -> bool:
        """Return that no gradient is made."""
        return False

    def measure(self, call: LayerCall) -> MeasuredNorms:
        """Return the squared norm of each unit's gradient, and Σ_t |g_t|."""
        g = _positions(call)[1]
        addends = find_gradient_lengths(g).sum(1)
        return MeasuredNorms(self._square(call, g), addends, bound_products(addends, g.shape[2]))

    def measure_exactly(self, call: LayerCall) -> Tensor:
        """Return the squared norms in doubles."""
        return self._square(call, _positions(call)[1].double())

    def _square(self, call: LayerCall, g: Tensor) -> Tensor:
        index = _positions(call)[0]
        chunk = max(CHUNK // index.shape[1] ** 2, 1)
        parts = zip(index.split(chunk), g.split(chunk), strict=True)
        return torch.cat([_norms_of_equal(*part) for part in parts])

    def weighted_sum(self, call: LayerCall, weights: Tensor) -> Gradients:
        """Return the sum of the units' gradients, each times its weight."""
        index, g = _positions(call)
        weight = _table(call)
        total = torch.zeros_like(weight)
        total.index_add_(0, index.flatten(), (g * weights[:, None, None]).flatten(0, 1))
        return dict.fromkeys(trainable(call.layer), total)

    def per_unit(self, call: LayerCall) -> Gradients:
        """Return every unit's gradient."""
        index, g = _positions(call)
        weight = _table(call)
        total = g.new_zeros((len(g), *weight.shape))
        total.scatter_add_(1, index[:, :, None].expand_as(g), g)
        return dict.fromkeys(trainable(call.layer), total)


def _norms_of_equal(index: Tensor, g: Tensor) -> Tensor:
    same = index[:, :, None] == index[:, None, :]
    return torch.bmm(g, g.mT).mul_(same).sum((1, 2), dtype=torch.float64).clamp(min=0)


def _table(call: LayerCall) -> Tensor:
    assert isinstance(call.layer, nn.Embedding)  # noqa: S101 — the registry gives this rule embeddings alone
    return call.layer.weight


def _positions(call: LayerCall) -> tuple[Tensor, Tensor]:
    """Return indices (units, positions) and gradients (units, positions, features)."""
    assert isinstance(call.layer, nn.Embedding)  # noqa: S101
    index = call.into.reshape(call.units, -1)
    g = call.gradient.reshape(len(index), -1, call.gradient.shape[-1])
    if call.layer.padding_idx is not None:
        g = g * (index != call.layer.padding_idx)[:, :, None]
    return index, g
