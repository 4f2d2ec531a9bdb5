"""What every kind of layer says about the gradients of its parameters, example by example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    Gradients = Mapping[str, Tensor]
    """Gradients by the name of the parameter in its layer."""

Name = TypeVar("Name")
_WIDE = 4_096
"""Numbers beyond which squares are added up in doubles."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerCall:
    """One call of a layer: what went in, and the gradients of the losses by what came out of it.

    The loss of a row depends on that row alone, so row i of a gradient belongs to row i of the batch. Each
    unit of protection has the same number of rows, one after the other; what is clipped is their sum.
    """

    layer: nn.Module
    inputs: tuple[Any, ...]
    named_inputs: Mapping[str, Any]
    gradients: tuple[Tensor, ...]
    rows_per_unit: int = 1
    row_places: tuple[int | None, ...] | None = None
    """The dimension of rows in each tensor or other value that went in, None where it has none."""

    @property
    def into(self) -> Tensor:
        """The input of a layer that has one."""
        tensor: Tensor = self.inputs[0]
        return tensor

    @property
    def gradient(self) -> Tensor:
        """The gradient by the output of a layer that has one."""
        return self.gradients[0]

    @property
    def rows(self) -> int:
        """The number of rows of the batch."""
        return len(self.gradients[0])

    @property
    def units(self) -> int:
        """The number of units of protection."""
        return self.rows // self.rows_per_unit

    def add_rows(self, each: Tensor) -> Tensor:
        """Return the sum over the rows of each unit."""
        return each if self.rows_per_unit == 1 else each.reshape(self.units, -1, *each.shape[1:]).sum(1)

    def without(self, left_out: Tensor) -> LayerCall:
        """Return the same call with zeros for these units, whose gradients are no numbers."""
        rows = left_out.repeat_interleave(self.rows_per_unit)

        def clear(each: Any) -> Any:
            if not isinstance(each, Tensor) or not each.is_floating_point() or len(each) != self.rows:
                return each
            return each.masked_fill(rows.reshape(-1, *[1] * (each.dim() - 1)), 0)

        inputs, gradients = (tuple(map(clear, each)) for each in (self.inputs, self.gradients))
        return replace(self, inputs=inputs, gradients=gradients)

    def select(self, units: Tensor) -> LayerCall:
        """Return the same call for some units of a layer with one input and one output."""
        found = []
        for each in (self.into, self.gradient):
            by_unit = each.reshape(self.units, -1, *each.shape[1:])
            found.append(by_unit[units].flatten(0, 1))
        return replace(self, inputs=(found[0],), gradients=(found[1],))

    def weigh_rows(self, each: Tensor, weights: Tensor) -> Tensor:
        """Return rows times the weight of their unit."""
        by_row = weights if self.rows_per_unit == 1 else weights.repeat_interleave(self.rows_per_unit)
        return each * by_row.reshape(-1, *[1] * (each.dim() - 1))


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredNorms:
    """Squared norms of units' gradients, as far as the precision of the module tells them."""

    squares: Tensor
    addends: Tensor
    """A bound on the sum, over a unit's addends, of their norms: what rounding is relative to."""
    errors: Tensor | float = 0.0
    """A bound on what rounding may have done to the squares."""


class LayerRule(Protocol):
    """The gradients of one kind of layer, for each unit of a batch."""

    def makes_gradients(self, call: LayerCall) -> bool:
        """Return whether every unit's gradient is made and kept, because that is the least work."""

    def measure(self, call: LayerCall) -> MeasuredNorms:
        """Return the squared norms of units' gradients by the layer's trainable parameters."""

    def measure_exactly(self, call: LayerCall) -> Tensor:
        """Return the squared norms in doubles, of which rounding takes nothing that counts."""

    def weighted_sum(self, call: LayerCall, weights: Tensor) -> Gradients:
        """Return the sum of the units' gradients, each times its weight."""

    def per_unit(self, call: LayerCall) -> Gradients:
        """Return every unit's gradient."""


def trainable(layer: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters that a layer holds itself, by name."""
    # Every step asks this of every layer, and `named_parameters` costs ten times as much.
    held = layer._parameters.items()
    return {name: each for name, each in held if each is not None and each.requires_grad}


def sum_squares(gradients: Mapping[Any, Tensor]) -> Tensor:
    """Return the squared norm of each unit over all of its gradients, in doubles."""
    squares = [_square_norms(each) for each in gradients.values()]
    total: Tensor = sum(squares[1:], squares[0])
    return total


def _square_norms(each: Tensor) -> Tensor:
    # First by rows of the parameter, so that no long sum is made in single precision.
    by_row = find_lengths(each.reshape(len(each), -1, each.shape[-1]))
    total: Tensor = by_row.double().square_().sum(1)
    return total


def find_lengths(vectors: Tensor) -> Tensor:
    """Return the norms over the last dimension, short by at most 2⁻¹² of themselves."""
    wide = vectors.shape[-1] > _WIDE
    found: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64 if wide else None)
    return found


def find_gradient_lengths(vectors: Tensor, dim: int = -1) -> Tensor:
    """Return norms of gradients over a dimension, each with more than rounding to zero can have taken of it.

    Squares of numbers nearer to zero than √tiny are lost, where tiny is the least normal number: d of them
    hide a norm of √(d·tiny). What is added is 2²⁰ times that, so that LEAST_SHARE leaves 2¹⁰ times.
    """
    room = 2.0**20 * (vectors.shape[dim] * torch.finfo(vectors.dtype).tiny) ** 0.5
    found: Tensor = find_lengths(vectors.movedim(dim, -1)) + room
    return found


def weigh(gradients: Mapping[Name, Tensor], weights: Tensor) -> dict[Name, Tensor]:
    """Return the sum over units of gradients that exist one by one, each times its weight."""
    return {name: (weights @ each.flatten(1)).reshape(each.shape[1:]) for name, each in gradients.items()}


def bound_error(squares: Tensor, addends: Tensor, terms: int) -> Tensor:
    """Return how far squared norms are off at most, of vectors that were added up from so many terms.

    A sum of n terms, in whatever order, is off by at most n·u times the sum of their sizes.
    """
    off = addends * ((terms + 4) * _unit_roundoff(addends))
    return off * (2 * squares.sqrt() + off)


def bound_products(addends: Tensor, terms: int) -> Tensor:
    """Return how far sums of products of two dot products are off at most, which have so many terms."""
    return addends.square() * ((terms + 4) * _unit_roundoff(addends))


def _unit_roundoff(like: Tensor) -> float:
    """Return the relative error of one rounded operation."""
    return torch.finfo(like.dtype).eps / 2


class OneByOne(ABC):
    """A rule for layers with few parameters: the gradient of each unit is made, and then all is plain."""

    def makes_gradients(self, _: LayerCall) -> bool:
        """Return that each gradient is made."""
        return True

    def measure(self, call: LayerCall) -> MeasuredNorms:
        """Return the squared norms: the gradient that is measured is the one that is added."""
        squares = self.measure_exactly(call)
        return MeasuredNorms(squares, squares.sqrt())

    def measure_exactly(self, call: LayerCall) -> Tensor:
        """Return the squared norm of each unit's gradient."""
        return sum_squares(self.per_unit(call))

    def weighted_sum(self, call: LayerCall, weights: Tensor) -> Gradients:
        """Return the sum of the units' gradients, each times its weight."""
        return weigh(self.per_unit(call), weights)

    @abstractmethod
    def per_unit(self, call: LayerCall) -> Gradients:
        """Return every unit's gradient."""
