"""Listening to the layers of a module while it runs, without changing it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import get_gradient_edge
from torch.utils import _pytree as pytree

from sfumato.deep.gradients.by_vmap import list_tensors
from sfumato.deep.gradients.layer import LayerCall
from sfumato.deep.gradients.linear import run_linear
from sfumato.deep.gradients.registry import find_rewriting
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import Tensor, nn
    from torch.autograd.graph import GradientEdge

    from sfumato.deep.gradients.registry import Rewriting


@dataclass(frozen=True, slots=True, eq=False)
class _Heard:
    layer: nn.Module
    inputs: tuple[Any, ...]
    named_inputs: Mapping[str, Any]
    versions: tuple[int, ...]
    edges: tuple[GradientEdge, ...]
    came: tuple[tuple[torch.Size, torch.dtype], ...]


class CallRecorder:
    """Remembers what goes into each layer and where the gradients of what comes out will arrive."""

    def __init__(self, row_places: Mapping[nn.Module, tuple[int | None, ...]] | None = None) -> None:
        """Remember nothing yet; `row_places` says where the rows are in what goes into a layer."""
        self._heard: list[_Heard] = []
        self._row_places = row_places or {}

    def list_inputs(self) -> list[tuple[nn.Module, list[Any]]]:
        """Return the layers that were heard, with everything that went into each."""
        return [
            (each.layer, pytree.tree_leaves((each.inputs, dict(each.named_inputs)))) for each in self._heard
        ]

    @contextmanager
    def listen(self, layers: Iterable[nn.Module]) -> Iterator[CallRecorder]:
        """Listen to these layers while the block runs; afterwards they are as they were."""
        hooks, replaced = [], []
        try:
            for layer in layers:
                rewriting = find_rewriting(layer)
                if rewriting is None:
                    hooks.append(layer.register_forward_hook(self.hear, with_kwargs=True))
                else:
                    layer.forward = partial(self._rewrite, layer, layer.forward, rewriting)
                    replaced.append(layer)
            yield self
        finally:
            for hook in hooks:
                hook.remove()
            for layer in replaced:
                del layer.forward

    def _rewrite(self, layer: nn.Module, plain: Any, rewriting: Rewriting, *inputs: Any, **named: Any) -> Any:
        """Run a layer as linear maps that are heard one by one; or as it is, where that is not known."""
        came = rewriting(layer, partial(run_linear, self.hear), *inputs, **named)
        if came is None:
            came = plain(*inputs, **named)
            self.hear(layer, inputs, named, came)
        return came

    def hear(self, layer: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any], output: Any) -> None:
        """Remember one call of a layer."""
        # The edge is taken now: an operation in place on the output would later make it another value's.
        came = [each for each in list_tensors(output) if each.requires_grad]
        if came:
            edges = tuple(get_gradient_edge(each) for each in came)
            like = tuple((each.shape, each.dtype) for each in came)
            self._heard.append(_Heard(layer, _detach(inputs), named, _versions(inputs), edges, like))

    def differentiate(self, losses: Tensor, rows_per_unit: int = 1) -> list[LayerCall]:
        """Return every call with the gradients of the losses; no gradient by a parameter is computed."""
        edges = [edge for each in self._heard for edge in each.edges]
        if not edges:
            return []
        found = iter(torch.autograd.grad(losses.sum(), edges, allow_unused=True))
        calls = []
        heard, self._heard = self._heard, []
        for each in heard:
            _refuse_changed(each)
            arrived = [next(found) for _ in each.edges]
            # Zeros without memory of their own, for an output that no loss depends on.
            gradients = tuple(
                losses.new_zeros((), dtype=dtype).expand(shape) if g is None else g
                for g, (shape, dtype) in zip(arrived, each.came, strict=True)
            )
            places = self._row_places.get(each.layer)
            call = LayerCall(each.layer, each.inputs, each.named_inputs, gradients, rows_per_unit, places)
            calls.append(call)
        return calls


def _refuse_changed(heard: _Heard) -> None:
    if _versions(heard.inputs) != heard.versions:
        raise UsageError(
            "SF-E174",
            f"The input of {type(heard.layer).__name__} is changed in place after the layer has read it.",
            try_="x = x + y instead of x += y",
        )


def _detach(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in inputs)


def _versions(inputs: tuple[Any, ...]) -> tuple[int, ...]:
    """Return how often each tensor has been changed in place; a detached one counts with its source."""
    return tuple(each._version for each in inputs if isinstance(each, torch.Tensor))
