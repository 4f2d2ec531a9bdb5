"""Gradients of linear layers: outer products of what went in and the gradient by what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from sfumato.deep.gradients.layer import (
    LayerCall,
    MeasuredNorms,
    bound_error,
    bound_products,
    find_gradient_lengths,
    find_lengths,
    sum_squares,
    trainable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from torch import Tensor

    from sfumato.deep.gradients.layer import Gradients

    Hear = Callable[[nn.Module, tuple[Any, ...], Mapping[str, Any], Any], None]
    """Remembers a call of a layer: what went in and what came out."""
    Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]
    """Computes a linear map by a weight and a bias, and has it heard."""

CHUNK = 1 << 22
"""Numbers that a norm may hold at once beyond the activations. Privacy does not depend on it."""


class LinearRule:
    """The gradient of a unit is the sum over its positions t of g_t a_tᵀ, whose norm needs no matrix."""

    def makes_gradients(self, _: LayerCall) -> bool:
        """Return that no gradient is made."""
        return False

    def measure(self, call: LayerCall) -> MeasuredNorms:
        """Return the squared norm of each unit's gradient, and Σ_t |g_t| (|a_t| + 1)."""
        a, g = _positions(call)
        names = trainable(call.layer)
        of_a, of_g = find_lengths(a), find_gradient_lengths(g)
        addends = (of_g * (of_a + 1)).sum(1)
        if a.shape[1] == 1:
            squares = of_g.square() * (of_a.square() * ("weight" in names) + ("bias" in names))
            return MeasuredNorms(squares[:, 0], addends)
        squares = _square(a, g, names)
        errors = bound_error(squares, addends, a.shape[1])
        if _has_few_positions(a, g):
            errors = errors + bound_products(addends, a.shape[2] + g.shape[2])
        return MeasuredNorms(squares, addends, errors)

    def measure_exactly(self, call: LayerCall) -> Tensor:
        """Return the squared norms in doubles."""
        a, g = (each.double() for each in _positions(call))
        return _square(a, g, trainable(call.layer))

    def weighted_sum(self, call: LayerCall, weights: Tensor) -> Gradients:
        """Return the sum of the units' gradients, each times its weight."""
        a, g = _positions(call)
        weighted = (g * weights[:, None, None]).flatten(0, 1)
        found = {"weight": lambda: weighted.T @ a.flatten(0, 1), "bias": lambda: weighted.sum(0)}
        return {name: found[name]() for name in trainable(call.layer)}

    def per_unit(self, call: LayerCall) -> Gradients:
        """Return every unit's gradient."""
        a, g = _positions(call)
        found = {"weight": lambda: g.mT @ a, "bias": lambda: g.sum(1)}
        return {name: found[name]() for name in trainable(call.layer)}


def _positions(call: LayerCall) -> tuple[Tensor, Tensor]:
    """Return input and gradient as (units, positions, features): the rows of a unit are positions too."""
    return tuple(each.reshape(call.units, -1, each.shape[-1]) for each in (call.into, call.gradient))  # type: ignore[return-value]


def _has_few_positions(a: Tensor, g: Tensor) -> bool:
    """Return whether products of positions are less work than matrices."""
    return a.shape[1] * (g.shape[2] + a.shape[2]) < g.shape[2] * a.shape[2]


def _square(a: Tensor, g: Tensor, names: Container[str]) -> Tensor:
    """Return the squared norms of Σ_t g_t a_tᵀ and of Σ_t g_t, in the way that is less work."""
    total = g.new_zeros(len(g))
    if "weight" in names:
        few = _has_few_positions(a, g)
        size = a.shape[1] ** 2 if few else a.shape[2] * g.shape[2]
        parts = zip(*(each.split(max(CHUNK // size, 1)) for each in (a, g)), strict=True)
        norms = norms_by_positions if few else _norms_by_matrices
        total = torch.cat([norms(*part) for part in parts])
    if "bias" in names:
        total = total + sum_squares({"": g.sum(1)})
    return total


def norms_by_positions(a: Tensor, g: Tensor) -> Tensor:
    """Return the squared norms of Σ_t g_t a_tᵀ from the products of every two positions."""
    # |Σ_t g_t a_tᵀ|² = Σ_ts (a_t·a_s)(g_t·g_s); rounding may leave a sum of squares slightly below zero.
    products = torch.bmm(a, a.mT).mul_(torch.bmm(g, g.mT))
    return products.sum((1, 2), dtype=torch.float64).clamp(min=0)


def _norms_by_matrices(a: Tensor, g: Tensor) -> Tensor:
    return sum_squares({"": torch.bmm(g.mT, a)})


def run_linear(hear: Hear, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return a linear map inside another layer, which is heard as if it were a layer of its own."""
    came = functional.linear(x, weight, bias)
    if weight.requires_grad or (bias is not None and bias.requires_grad):
        hear(_as_layer(weight, bias), (x,), {}, came)
    return came


def _as_layer(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Return a linear layer that holds parameters of another one."""
    layer = nn.Linear(1, 1, bias=bias is not None, device="meta")
    layer.weight = weight
    if bias is not None:
        layer.bias = bias  # type: ignore[assignment]
    return layer


def merge_calls(calls: Sequence[LayerCall]) -> list[LayerCall]:
    """Return one call for all calls of a linear layer, whose inputs are positions of one long sequence."""
    alike: dict[tuple[int, int], list[LayerCall]] = {}
    others = []
    for call in calls:
        if type(call.layer) is nn.Linear:
            alike.setdefault((id(call.layer.weight), id(call.layer.bias)), []).append(call)
        else:
            others.append(call)
    return others + [each[0] if len(each) == 1 else _chain(each) for each in alike.values()]


def _chain(calls: list[LayerCall]) -> LayerCall:
    pairs = [_positions(call) for call in calls]
    a, g = (torch.cat(each, 1) for each in zip(*pairs, strict=True))
    return LayerCall(calls[0].layer, (a,), {}, (g,))  # rows are positions now
