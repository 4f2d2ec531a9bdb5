"""The sum of clipped gradients of a batch: one backward pass to the layers, one weighted pass over them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from sfumato.deep.gradients.calls import CallRecorder
from sfumato.deep.gradients.layer import sum_squares, weigh
from sfumato.deep.gradients.linear import merge_calls
from sfumato.deep.gradients.registry import find_rule
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor, nn

    from sfumato.deep.gradients.layer import LayerCall, LayerRule

    _Ruled = tuple[LayerRule, LayerCall]
    Losses = Callable[[], Tensor]
    """Runs the module and returns one loss for each row of the batch."""
    Weights = Callable[[Tensor], Tensor]
    """Turns the norms of gradients into factors: factor times norm is at most the clipping norm."""


LEAST_SHARE = 2.0**-10
"""A gradient counts as at least this share of its addends' norms, of which rounding loses far less."""
_MOST_OFF = 2.0**-11
"""Relative error of squared norms beyond which they are made in doubles; clipping leaves room for it."""
_LARGEST = 1e30
"""Norm beyond which a unit counts with the zero vector: its factor would not be precise."""


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """The gradients of a batch, summed over units after each unit's has been clipped.

    `layers` are the parts of the module whose gradients are known one by one. Together they hold every
    trainable parameter: `plan_layers` finds them, and compares the sums with those of a plain loop.
    """

    layers: tuple[nn.Module, ...]
    parameters: tuple[nn.Parameter, ...]
    row_places: Mapping[nn.Module, tuple[int | None, ...]] = field(default_factory=dict)
    """Where the rows are in what goes into a layer that is run row by row."""

    def compute(self, losses: Losses, clip: Weights, rows_per_unit: int = 1) -> list[Tensor]:
        """Return the sum for each parameter, in order."""
        recorder = CallRecorder(self.row_places)
        with recorder.listen(self.layers), torch.enable_grad():
            by_row = losses()
        calls = merge_calls(recorder.differentiate(by_row, rows_per_unit))
        if any(call.units != len(by_row) // rows_per_unit for call in calls):
            raise UsageError(
                "SF-E174",
                "A layer saw more rows, or fewer, than the batch has.",
                why="copies of a row would be bounded each by itself",
                try_="augment=… and augmentations=…, which bound all copies of a row together",
            )
        parts = self._split(calls)
        del calls, by_row  # so that each layer's memory is given back with its sum
        if not any(parts):
            return [torch.zeros_like(each) for each in self.parameters]
        with torch.no_grad():
            return self._sum(*parts, clip)

    def _split(self, calls: list[LayerCall]) -> tuple[list[_Ruled], list[_Ruled]]:
        """Return the calls whose norms add up, and those whose gradients are made first."""
        uses = Counter(id(each) for call in calls for each in call.layer.parameters() if each.requires_grad)
        alone: list[_Ruled] = []
        made: list[_Ruled] = []
        for call in calls:
            rule = find_rule(call.layer)
            shared = any(uses[id(each)] > 1 for each in call.layer.parameters())
            (made if shared or rule.makes_gradients(call) else alone).append((rule, call))
        return alone, made

    def _sum(self, alone: list[_Ruled], made: list[_Ruled], clip: Weights) -> list[Tensor]:
        one_by_one = _add_up_shared(made)
        made.clear()
        norms = _find_norms(alone, one_by_one)
        wrong = ~(norms <= _LARGEST)
        if wrong.any():
            alone[:] = [(rule, call.without(wrong)) for rule, call in alone]
            one_by_one = {each: _clear(have, wrong) for each, have in one_by_one.items()}
        weights = torch.where(wrong, 0, clip(norms)).to(self.parameters[0].dtype)
        found: dict[nn.Parameter, Tensor] = weigh(one_by_one, weights)
        while alone:  # what a call holds is given back before the next sum is made
            rule, call = alone.pop()
            sums = rule.weighted_sum(call, weights)
            found.update((call.layer.get_parameter(name), each) for name, each in sums.items())
            del call
        return [found[each] if each in found else torch.zeros_like(each) for each in self.parameters]


def _find_norms(alone: list[_Ruled], one_by_one: Mapping[nn.Parameter, Tensor]) -> Tensor:
    """Return each unit's norm over all layers, at least as large as what is added for it."""
    kept = [sum_squares(one_by_one)] if one_by_one else []
    if not alone:
        return kept[0].sqrt()
    measured = [rule.measure(call) for rule, call in alone]
    squares = torch.stack([*(each.squares.double() for each in measured), *kept]).sum(0)
    errors = sum(each.errors for each in measured)
    unsure = (~(errors <= _MOST_OFF * squares) | squares.isinf()).nonzero().squeeze(1)
    if len(unsure):
        # Addends nearly cancel in these units, and single precision does not tell what is left.
        exact = [rule.measure_exactly(call.select(unsure)) for rule, call in alone]
        squares[unsure] = torch.stack([*exact, *(each[unsure] for each in kept)]).sum(0)
    addends = torch.stack([each.addends for each in measured]).sum(0)
    # A unit's addends may cancel, but not what rounding leaves of them when all units are added.
    return torch.maximum(squares.sqrt(), LEAST_SHARE * addends)


def _clear(each: Tensor, units: Tensor) -> Tensor:
    return each.masked_fill(units.reshape(-1, *[1] * (each.dim() - 1)), 0)


def _add_up_shared(calls: Sequence[_Ruled]) -> dict[nn.Parameter, Tensor]:
    """Return each unit's gradient by each parameter, summed over the calls that use the parameter."""
    found: dict[nn.Parameter, Tensor] = {}
    for rule, call in calls:
        for name, each in rule.per_unit(call).items():
            parameter = call.layer.get_parameter(name)
            found[parameter] = found[parameter] + each if parameter in found else each
    return found
