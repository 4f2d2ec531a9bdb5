"""Gradients of convolutions: linear layers over the patches that the kernel sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight

from sfumato.deep.gradients.layer import (
    MeasuredNorms,
    bound_error,
    bound_products,
    find_gradient_lengths,
    sum_squares,
    trainable,
)
from sfumato.deep.gradients.linear import CHUNK, norms_by_positions

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.deep.gradients.layer import Gradients, LayerCall


class ConvolutionRule:
    """One- and two-dimensional convolutions, with stride, padding, dilation and groups."""

    def makes_gradients(self, call: LayerCall) -> bool:
        """Return whether each unit's kernel is made: where it is less work, and no more than activations."""
        return _see_as_plane(call).has_small_kernels

    def measure(self, call: LayerCall) -> MeasuredNorms:
        """Return the squared norms, a few units at a time, and Σ_t |g_t| (|a_t| + 1) over the patches a_t."""
        plane = _see_as_plane(call)
        addends = call.add_rows(
            (find_gradient_lengths(plane.gradient, 1) * (plane.patch_norms() + 1)).sum((1, 2))
        )
        squares = self._square(call, plane)
        return MeasuredNorms(squares, addends, plane.bound_errors(squares, addends))

    def measure_exactly(self, call: LayerCall) -> Tensor:
        """Return the squared norms in doubles."""
        plane = _see_as_plane(call)
        return self._square(call, replace(plane, into=plane.into.double(), gradient=plane.gradient.double()))

    def _square(self, call: LayerCall, plane: _Plane) -> Tensor:
        names, g = trainable(call.layer), plane.gradient
        total = g.new_zeros(call.units)
        if "weight" in names:
            norms = _norms_by_patches if plane.has_few_positions else _norms_by_kernels
            total = total + torch.cat([norms(part) for part in plane.split()])
        if "bias" in names:
            total = total + sum_squares({"": call.add_rows(g.sum((2, 3)))})
        return total

    def weighted_sum(self, call: LayerCall, weights: Tensor) -> Gradients:
        """Return the sum of the units' gradients, each times its weight, as the plain backward pass does."""
        plane = _see_as_plane(call)
        weighted = call.weigh_rows(plane.gradient, weights)
        found = {"bias": lambda: weighted.sum((0, 2, 3)), "weight": lambda: plane.add_kernels(weighted)}
        return {name: found[name]().reshape(each.shape) for name, each in trainable(call.layer).items()}

    def per_unit(self, call: LayerCall) -> Gradients:
        """Return every unit's gradient."""
        plane = _see_as_plane(call)
        found = {"bias": lambda: call.add_rows(plane.gradient.sum((2, 3))), "weight": plane.kernels}
        shapes = trainable(call.layer)
        return {name: found[name]().reshape(call.units, *each.shape) for name, each in shapes.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Plane:
    """A convolution as two-dimensional: a line is a plane of height one."""

    into: Tensor
    gradient: Tensor
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    rows_per_unit: int

    @property
    def units(self) -> int:
        return len(self.into) // self.rows_per_unit

    @property
    def _kernel_size(self) -> tuple[int, int]:
        """Inputs of one output, and outputs, of one group."""
        height, width = self.kernel
        return self.into.shape[1] // self.groups * height * width, self.gradient.shape[1] // self.groups

    @property
    def _positions(self) -> int:
        return self.gradient[0, 0].numel() * self.rows_per_unit

    @property
    def has_few_positions(self) -> bool:
        """Whether products of positions are less work than the kernels' gradients."""
        columns, rows = self._kernel_size
        return self._positions * (rows + columns) < rows * columns

    @property
    def has_small_kernels(self) -> bool:
        """Whether kernels are less work than products, and a unit's kernel no more than its activations."""
        columns, rows = self._kernel_size
        activations = (self.into[0].numel() + self.gradient[0].numel()) * self.rows_per_unit
        return not self.has_few_positions and rows * columns * self.groups <= activations

    def bound_errors(self, squares: Tensor, addends: Tensor) -> Tensor:
        """Return a bound on what rounding may have done to squared norms."""
        off = bound_error(squares, addends, self._positions)
        return off + bound_products(addends, sum(self._kernel_size)) if self.has_few_positions else off

    def split(self) -> list[_Plane]:
        """Return the same convolution for a few units at a time, so that what their norms need fits."""
        columns, rows = self._kernel_size
        held = (columns + self._positions) * self._positions if self.has_few_positions else rows * columns
        chunk = max(CHUNK // (held * self.groups), 1) * self.rows_per_unit
        parts = zip(self.into.split(chunk), self.gradient.split(chunk), strict=True)
        return [replace(self, into=into, gradient=g) for into, g in parts]

    def patches(self) -> tuple[Tensor, Tensor]:
        """Return patches and gradients as (units × groups, positions, features)."""
        seen = functional.unfold(self.into, self.kernel, self.dilation, self.padding, self.stride)
        return self._by_groups(seen), self._by_groups(self.gradient.flatten(2))

    def patch_norms(self) -> Tensor:
        """Return the norm of what the kernel sees at every position, over all channels."""
        squares = self.into.square().sum(1, keepdim=True)
        ones = squares.new_ones((1, 1, *self.kernel))
        seen = functional.conv2d(squares, ones, None, self.stride, self.padding, self.dilation)
        return seen.squeeze(1).clamp(min=0).sqrt()

    def _by_groups(self, each: Tensor) -> Tensor:
        positions = each.shape[2]
        parts = each.reshape(self.units, self.rows_per_unit, self.groups, -1, positions)
        return parts.permute(0, 2, 1, 4, 3).reshape(self.units * self.groups, -1, parts.shape[3])

    def kernels(self) -> Tensor:
        """Return the gradient by the kernel of each unit: every row is a group of one large convolution."""
        rows, channels, features = len(self.into), self.gradient.shape[1], self.into.shape[1] // self.groups
        found: Tensor = conv2d_weight(
            self.into.reshape(1, -1, *self.into.shape[2:]),
            (rows * channels, features, *self.kernel),
            self.gradient.reshape(1, -1, *self.gradient.shape[2:]),
            self.stride, self.padding, self.dilation, rows * self.groups,
        )  # fmt: skip
        if self.rows_per_unit == 1:
            return found.reshape(rows, channels, -1)
        return found.reshape(self.units, self.rows_per_unit, channels, -1).sum(1)

    def add_kernels(self, gradient: Tensor) -> Tensor:
        """Return the gradient by the kernel, summed over all rows."""
        shape = (gradient.shape[1], self.into.shape[1] // self.groups, *self.kernel)
        settings = (self.stride, self.padding, self.dilation, self.groups)
        total: Tensor = conv2d_weight(self.into, shape, gradient, *settings)
        return total


def _norms_by_patches(plane: _Plane) -> Tensor:
    return norms_by_positions(*plane.patches()).reshape(plane.units, -1).sum(1)


def _norms_by_kernels(plane: _Plane) -> Tensor:
    return sum_squares({"": plane.kernels()})


def _see_as_plane(call: LayerCall) -> _Plane:
    layer, into, g = call.layer, call.into, call.gradient
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)  # noqa: S101 — given by the registry
    padding: Any = layer.padding
    if isinstance(padding, str) or layer.padding_mode != "zeros":
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        into = functional.pad(into, layer._reversed_padding_repeated_twice, mode=mode)
        padding = (0,) * len(layer.kernel_size)
    line = isinstance(layer, nn.Conv1d)
    settings = zip((layer.kernel_size, layer.stride, padding, layer.dilation), (1, 1, 0, 1), strict=True)
    sizes: list[Any] = [(alone, *each) if line else each for each, alone in settings]
    if line:
        into, g = into.unsqueeze(2), g.unsqueeze(2)
    kernel, stride, padding, dilation = sizes
    return _Plane(into, g, kernel, stride, padding, dilation, layer.groups, call.rows_per_unit)
