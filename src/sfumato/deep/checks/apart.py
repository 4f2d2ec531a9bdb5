"""Checking on made-up rows that no row has a part in the loss of another, while a module trains."""

from __future__ import annotations

import copy
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from sfumato.deep.gradients.calls import CallRecorder
from sfumato.deep.module_draws import keep_random_states
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch import Tensor, nn

    Losses = Callable[[nn.Module, Tensor, Tensor], Tensor]
    """Returns the loss of each row."""
    MakeUp = Callable[[int], tuple[Tensor, Tensor]]
    """Returns so many made-up rows: inputs and targets."""

_TRIES = 4
"""Random halves of few rows that are tried, each at the given weights and at moved ones. Of a whole batch one
is tried: it takes as long as a step, and shows what does other work on many rows than on few."""
_ALIKE, _SEEDS = 32, 16
"""Equal rows, and runs of them. Where rows share random numbers, losses are alike in a run and differ between
runs."""
_MOVED = 0.1
"""Deviation by which weights are moved, so that gates which begin at zero are open."""


def refuse_mixed_rows(
    module: nn.Module, losses: Losses, make_up: MakeUp, sizes: tuple[int, int], layers: Iterable[nn.Module]
) -> None:
    """Refuse a module, loss or augmentation in which the loss of a row depends on another, in few or in many.

    The losses of half of the rows must have no gradient by the other half: by the inputs, or by what layers
    make of them. This is asked of the module as it trains, whose random numbers need not agree.
    """
    held = tuple(layers)
    names = [name for name, each in module.named_modules() if any(each is layer for layer in held)]
    tried = copy.deepcopy(module).train()
    parts = dict(tried.named_modules())
    for attempt in range(2 * _TRIES):
        if attempt == _TRIES:
            _move(tried)
        shared = attempt % _TRIES == 0 and _shares_random_numbers(tried, losses, make_up)
        for size in sizes[: 1 + (attempt % _TRIES == 0)]:
            # A value without rows may have as many numbers as there are rows, but not for two sizes.
            mixed = all(
                _has_mixed(tried, losses, *make_up(rows), [parts[name] for name in names])
                for rows in (size, size + 1)
            )
            if (
                mixed
                or shared
                or _sees_others(tried, losses, make_up, size)
                or _sees_its_place(tried, losses, make_up, size)
            ):
                raise UsageError(
                    "SF-E174",
                    "The loss of a row depends on other rows of its batch.",
                    why="every row's gradient is bounded on its own",
                    try_="layers, losses and augmentations that treat each row on its own, with rows first",
                )


def _sees_others(module: nn.Module, losses: Losses, make_up: MakeUp, size: int) -> bool:
    """Return whether losses of the first half change when the other half is replaced, by values alone."""
    inputs, targets = make_up(size)
    half = size // 2
    found = [_find_losses(module, losses, inputs, targets)[:half] for _ in range(2)]
    inputs[half:], targets[half:] = make_up(size - half)
    found.append(_find_losses(module, losses, inputs, targets)[:half])
    if not _are_close(found[0], found[1]):
        return True  # nobody can tell what else differs from run to run
    return torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def _shares_random_numbers(module: nn.Module, losses: Losses, make_up: MakeUp) -> bool:
    """Return whether all rows of a batch share a random number: whose it is would depend on other rows."""
    inputs, targets = (each[:1].repeat(_ALIKE, *[1] * (each.dim() - 1)) for each in make_up(2))
    found = []
    for seed in range(_SEEDS):
        came = _find_losses(module, losses, inputs, targets, seed)
        if _are_close(came, came[:1].expand_as(came)):
            found.append(came[:1])
    return not all(_are_close(found[0], each) for each in found)


def _sees_its_place(module: nn.Module, losses: Losses, make_up: MakeUp, size: int) -> bool:
    """Return whether losses change when rows before them are left out, where no random numbers are drawn."""
    inputs, targets = make_up(size)
    module.eval()
    try:
        whole, again, other = (_find_losses(module, losses, inputs, targets, seed) for seed in (0, 0, 1))
        if not _are_close(whole, other):
            return False  # an augmentation draws numbers, and rows at other places get others
        fewer = [_find_losses(module, losses, inputs[skip:], targets[skip:]) for skip in (1, size // 2)]
    finally:
        module.train()
    return not all(_are_close(whole[-len(each) :], each) for each in (again, *fewer))


def _are_close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)


def _find_losses(module: nn.Module, losses: Losses, inputs: Tensor, targets: Tensor, seed: int = 0) -> Tensor:
    """Return the losses with the same random numbers of torch, NumPy and Python at every call."""
    with _same_random_numbers(seed), torch.no_grad():
        return losses(module, inputs, targets)


@contextmanager
def _same_random_numbers(seed: int) -> Iterator[None]:
    with keep_random_states():
        # Of the processor alone: torch.manual_seed also writes down a stack trace for every kind of device.
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        yield


def _move(module: nn.Module) -> None:
    with torch.no_grad():
        for each in module.parameters():
            each.add_(torch.randn_like(each), alpha=_MOVED)


def _has_mixed(
    module: nn.Module, losses: Losses, inputs: Tensor, targets: Tensor, layers: list[nn.Module]
) -> bool:
    half = torch.rand(len(inputs)) < 0.5
    half[:2] = torch.tensor([True, False])
    recorder = CallRecorder()
    inputs.requires_grad_(inputs.is_floating_point())
    recorder.hear(module, (), {}, inputs)
    with recorder.listen(layers):
        found = losses(module, inputs, targets)
    if len(found) != len(half) or not found.requires_grad:
        return False  # a shape that the loss itself refuses, or nothing to learn here
    chosen = found[half].sum()
    gradients = (each for call in recorder.differentiate(chosen) for each in call.gradients)
    return any(_reaches(each, ~half) for each in gradients)


def _reaches(gradient: Tensor, others: Tensor) -> bool:
    """Return whether a gradient has anything for these rows. Values without a row each are not told apart."""
    return len(gradient) == len(others) and bool(
        (gradient != 0).reshape(len(gradient), -1).any(1)[others].any()
    )
