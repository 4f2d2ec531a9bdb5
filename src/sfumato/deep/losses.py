"""The loss of each row, from a loss as people write it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True, slots=True)
class RowLoss:
    """One number for each row: the mean, or the sum, of a loss over its other dimensions."""

    loss: Loss
    """What is run, which may be a copy of what was given."""
    adds_up: bool

    def __call__(self, came: Any, targets: Any) -> Tensor:
        """Return the losses of rows."""
        found = self.loss(came, targets)
        if not isinstance(found, torch.Tensor) or found.dim() == 0 or len(found) != len(targets):
            raise UsageError(
                "SF-E174",
                "The loss is not one number for each row.",
                why="every row's gradient is bounded on its own",
                try_='torch.nn.CrossEntropyLoss(), or a function with reduction="none"',
            )
        if found.dim() == 1:
            return found
        return found.flatten(1).sum(1) if self.adds_up else found.flatten(1).mean(1)


def make_row_loss(loss: Loss) -> RowLoss:
    """Return a loss that gives one number for each row, from one as people write it."""
    if not callable(loss):
        raise UsageError("SF-E174", "The loss is not callable.", try_="torch.nn.CrossEntropyLoss()")
    reduction = getattr(loss, "reduction", "none")
    if isinstance(loss, nn.Module) and reduction != "none":
        loss = copy.deepcopy(loss)
        loss.reduction = "none"  # type: ignore[assignment]
    return RowLoss(loss, reduction == "sum")
