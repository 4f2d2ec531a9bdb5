"""What a training run is recognised by: torch's own parts are written down, and code of one's own is not.

A run that was described is free when it is asked for again. What cannot be described gets a name that is
drawn at random, so it is charged every time: two programs must never be taken for the same.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

_OUTSIDE = frozenset(
    {"module", "bounds", "missing", "verbose", "budget", "checkpoint", "multiplier_", "coding_"}
)
_APART = _OUTSIDE | {"loss", "optimiser", "resumes"}
"""Settings that are described otherwise, or that change nothing that is learnt."""
_STATE = frozenset({"_parameters", "_buffers", "_modules", "training", "_non_persistent_buffers_set"})


class _OwnCodeError(Exception):
    """Something is not torch's own."""


def describe_trainer(trainer: Any) -> str:
    """Return a text that two trainers share only if they learn alike; random for code of one's own."""
    settings = {each.name: getattr(trainer, each.name) for each in fields(trainer) if each.name not in _APART}
    try:
        found = {name: _write_plain(value) for name, value in settings.items()}
        found["optimiser"] = _name_torch(trainer.optimiser)
        found["module"] = _describe_module(trainer.module)
        found["loss"] = _describe_module(trainer.loss)
    except _OwnCodeError:
        found = {"own": secrets.token_hex(16)}
    return json.dumps(found, sort_keys=True)


def describe_module(module: nn.Module) -> str:
    """Return a text that two modules share only if they say the same of all rows; random for own code."""
    try:
        return json.dumps(_describe_module(module))
    except _OwnCodeError:
        return json.dumps({"own": secrets.token_hex(16)})


def describe_settings(trainer: Any, declared: int) -> str:
    """Return a text that is the same for a run that goes on, whose weights are those of its checkpoint."""
    names = [each.name for each in fields(trainer) if each.name not in _OUTSIDE]
    state = [
        [name, str(each.dtype), list(each.shape), each.requires_grad]
        for name, each in trainer.module.state_dict(keep_vars=True).items()
    ]
    settings = {name: _name(getattr(trainer, name)) for name in names}
    return json.dumps({**settings, "rows": declared, "state": state}, sort_keys=True)


def _name(value: Any) -> Any:
    """Return a setting as text; of code, its name."""
    try:
        return _write_plain(value)
    except _OwnCodeError:
        return str(getattr(value, "__qualname__", type(value).__qualname__))


def _describe_module(module: Any) -> Any:
    """Return the layers of a module with their settings, and a digest of its weights."""
    if not isinstance(module, nn.Module):
        return _name_torch(module)
    layers = [(name, _describe_layer(each)) for name, each in module.named_modules(remove_duplicate=False)]
    return [layers, digest_state(module)]


def _describe_layer(layer: nn.Module) -> list[Any]:
    kind = type(layer)
    if not kind.__module__.startswith("torch.nn.modules."):
        raise _OwnCodeError
    settings = {}
    for name, value in vars(layer).items():
        if "hook" in name:
            if value:
                raise _OwnCodeError
        elif name not in _STATE:
            settings[name] = _write_plain(value)
    return [kind.__name__, settings]


def _write_plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, tuple | list):
        return [_write_plain(each) for each in value]
    if isinstance(value, torch.dtype | torch.device):
        return str(value)
    if hasattr(value, "numerator") and hasattr(value, "denominator"):
        return str(value)
    return _name_torch(value)


def _name_torch(value: Any) -> str:
    """Return the name of a function or class of torch."""
    room, name = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "")
    if not room.split(".")[0] == "torch" or "<" in name or not name:
        raise _OwnCodeError
    return f"{room}.{name}"


def digest_state(module: nn.Module) -> str:
    """Return a digest of all weights and buffers of a module, with their names, types and who shares them."""
    found = hashlib.sha256()
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    first: dict[int, str] = {}
    for name, each in named:
        shared = first.setdefault(id(each), name)
        header = [name, shared, str(each.dtype), list(each.shape), each.requires_grad]
        found.update(json.dumps(header).encode())
        found.update(to_bytes(each))
    return found.hexdigest()


def to_bytes(tensor: Tensor) -> bytes:
    """Return the numbers of a tensor as they lie in memory, row by row."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""
