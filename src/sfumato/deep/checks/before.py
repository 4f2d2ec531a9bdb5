"""Everything that is checked before training, on made-up rows: none of the rows is looked at, but targets."""

from __future__ import annotations

import math
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from sfumato.deep.checks.apart import refuse_mixed_rows
from sfumato.deep.checks.refusals import refuse_learning_forwards
from sfumato.deep.gradients.plan import plan_layers
from sfumato.deep.rows import MADE_UP
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from sfumato.deep.gradients.clipped_sum import ClippedSum
    from sfumato.deep.losses import Loss
    from sfumato.deep.rows import Rows
    from sfumato.deep.settings import TrainingSettings

_CHECKED = 4_096
"""Targets that are shown to the loss at once before training."""


def plan_checked(settings: TrainingSettings, loss: Loss, rows: Rows) -> ClippedSum:
    """Return how gradients are summed, checked on made-up rows: none of the rows is looked at."""
    module = settings.module
    inputs, targets = rows.make_up(MADE_UP)
    with _refusing_rows(inputs):
        refuse_learning_forwards(module.train(), lambda: module(inputs))
    module.eval()  # random numbers that differ from run to run could not be compared
    with torch.no_grad(), _refusing_targets():
        loss(module(inputs), targets)
    plan = plan_layers(module, lambda some: loss(module(inputs[some]), targets[some]), MADE_UP)
    module.train()
    augment = settings.augment

    def losses(tried: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return loss(tried(x if augment is None else augment(x)), y)

    # Poisson batches are seldom larger than this; others are never larger than they are said to be.
    more = 6 * math.isqrt(settings.batch_size) + 1 if settings.sampling == "poisson" else 0
    largest = min(settings.batch_size + more, settings.micro_batch)
    refuse_mixed_rows(module, losses, rows.make_up, (MADE_UP + 4, max(largest, 2)), plan.layers)
    _refuse_lonely_rows(plan, lambda x, y: losses(module, x, y), rows)
    return plan


def _refuse_lonely_rows(plan: ClippedSum, losses: Callable[[Tensor, Tensor], Tensor], rows: Rows) -> None:
    """Refuse what cannot be trained on several made-up rows, or on one: a batch may have any number."""
    for many in (MADE_UP, 1):
        inputs, targets = rows.make_up(many)
        with _refusing_rows(inputs):
            plan.compute(partial(losses, inputs, targets), torch.ones_like)


@contextmanager
def _refusing_rows(inputs: Tensor) -> Iterator[None]:
    """Say which rows a module does not take."""
    try:
        yield
    except (IndexError, RuntimeError, ValueError, TypeError):
        raise UsageError(
            "SF-E176",
            "The module does not take rows like these.",
            rows=f"{tuple(inputs.shape[1:])} of {str(inputs.dtype).removeprefix('torch.')}",
            try_="inputs of the shape and type that the module expects, such as X.astype('float32')",
        ) from None


def refuse_targets(module: nn.Module, loss: Loss, rows: Rows) -> None:
    """Refuse targets that the loss cannot take, such as a class beyond the module's outputs."""
    with torch.no_grad():
        came = module(rows.make_up(1)[0])
        with _refusing_targets():
            for part in rows.targets.split(_CHECKED):
                loss(pytree.tree_map_only(torch.Tensor, partial(_repeat, len(part)), came), part)


@contextmanager
def _refusing_targets() -> Iterator[None]:
    try:
        yield
    except (IndexError, RuntimeError, ValueError, TypeError):
        raise UsageError(
            "SF-E176",
            "The loss does not take some of these targets.",
            try_="whole numbers from 0 to the number of classes minus 1, of type int64",
        ) from None


def _repeat(rows: int, one: Tensor) -> Tensor:
    return one.expand(rows, *one.shape[1:]) if one.dim() else one
