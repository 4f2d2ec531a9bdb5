"""Gradients of recurrent networks: unrolled over time, every gate is a linear layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from sfumato.deep.gradients.linear import Linear

    State = tuple[Tensor, ...]
    Step = Callable[[Tensor, Tensor, State], State]
    """Turns the gates of the input, the gates of the state and the state into the next state."""


def unroll(layer: nn.Module, linear: Linear, x: Any, given: Any = None) -> tuple[Tensor, Any] | None:
    """Return what nn.RNN, nn.LSTM or nn.GRU would; None where the kind is not known here."""
    assert isinstance(layer, nn.RNNBase)  # noqa: S101 — given by the registry
    if layer.proj_size or not isinstance(x, torch.Tensor) or x.dim() != 3:
        return None
    hidden = x if layer.batch_first else x.transpose(0, 1)
    directions = 2 if layer.bidirectional else 1
    last: list[State] = []
    for depth in range(layer.num_layers):
        both = []
        for direction in range(directions):
            begin = _begin(layer, hidden, given, depth * directions + direction)
            steps, state = _run_direction(layer, linear, hidden, begin, depth, direction)
            both.append(steps)
            last.append(state)
        hidden = torch.cat(both, 2)
        if depth + 1 < layer.num_layers:
            hidden = functional.dropout(hidden, layer.dropout, layer.training)
    states = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
    steps = hidden if layer.batch_first else hidden.transpose(0, 1)
    return steps, states if layer.mode == "LSTM" else states[0]


def _begin(layer: nn.RNNBase, x: Tensor, given: Any, place: int) -> State:
    """Return the first state of one layer in one direction: zeros if none was given."""
    if given is not None:
        return tuple(each[place] for each in ((given,) if isinstance(given, torch.Tensor) else given))
    return (x.new_zeros(len(x), layer.hidden_size),) * (2 if layer.mode == "LSTM" else 1)


def _run_direction(
    layer: nn.RNNBase, linear: Linear, x: Tensor, state: State, depth: int, direction: int
) -> tuple[Tensor, State]:
    """Return the output of every step in one direction, and the state after the last."""
    names = [f"{kind}_l{depth}{'_reverse' if direction else ''}" for kind in _KINDS]
    parameters: list[Any] = [getattr(layer, name, None) for name in names]
    gates = linear(x, *parameters[:2])
    came: dict[int, Tensor] = {}
    for time in reversed(range(x.shape[1])) if direction else range(x.shape[1]):
        state = _STEPS[layer.mode](gates[:, time], linear(state[0], *parameters[2:]), state)
        came[time] = state[0]
    return torch.stack([came[time] for time in range(x.shape[1])], 1), state


_KINDS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")


def _step_lstm(into: Tensor, inner: Tensor, state: State) -> State:
    i, f, g, o = (into + inner).chunk(4, 1)
    cell = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _step_gru(into: Tensor, inner: Tensor, state: State) -> State:
    (reset, update, new), (by_reset, by_update, by_new) = into.chunk(3, 1), inner.chunk(3, 1)
    z = torch.sigmoid(update + by_update)
    n = torch.tanh(new + torch.sigmoid(reset + by_reset) * by_new)
    return ((1 - z) * n + z * state[0],)


_STEPS: dict[str, Step] = {
    "LSTM": _step_lstm,
    "GRU": _step_gru,
    "RNN_TANH": lambda into, inner, _: (torch.tanh(into + inner),),
    "RNN_RELU": lambda into, inner, _: (torch.relu(into + inner),),
}
