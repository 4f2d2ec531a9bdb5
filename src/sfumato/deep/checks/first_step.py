"""A check of the first step of a run: every trainable parameter is trained once, and has noise."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch import Tensor, nn

    Release = Callable[[list[Tensor]], list[Tensor]]
    """Returns sums with noise."""

_LOOKED_AT = 64
"""Numbers of each parameter that are compared."""


def check_first_step(
    module: nn.Module,
    parameters: Sequence[nn.Parameter],
    optimiser: torch.optim.Optimizer,
    sums: list[Tensor],
    release: Release,
) -> list[Tensor]:
    """Return the first step's sums with noise, after checking that no parameter was left out.

    Whether this raises does not depend on rows: noise moves every sum, whatever it is.
    """
    _require_each_once(module, parameters, optimiser)
    # Rounding may hide small noise on a large sum: in doubles never, and never on many numbers.
    sums = [each.double() if each.numel() <= _LOOKED_AT else each for each in sums]
    before = [_look_at(each).clone() for each in sums]
    noisy = release(sums)
    whole = len(noisy) == len(parameters)
    if not whole or any(_is_still(*pair) for pair in zip(before, noisy, strict=True)):
        raise UsageError(
            "SF-E174",
            "Some trainable parameter would be trained without noise.",
            try_="the trainer's own noise, unchanged",
        )
    return noisy


def _require_each_once(
    module: nn.Module, parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer
) -> None:
    seen = {
        "gradients": Counter(id(each) for each in parameters),
        "the optimiser": Counter(id(each) for group in optimiser.param_groups for each in group["params"]),
    }
    expected = Counter(id(each) for each in module.parameters() if each.requires_grad)
    for where, found in seen.items():
        if found != expected:
            raise UsageError(
                "SF-E174",
                "The parameters that are trained are not the module's trainable ones, each once.",
                where=where,
                try_="layer.requires_grad_(False) before training, for layers that shall stay as they are",
            )


def _look_at(each: Tensor) -> Tensor:
    """Return a few numbers of a sum, from its beginning to its end."""
    flat = each.detach().flatten()
    return flat[:: max(len(flat) // _LOOKED_AT, 1)]


def _is_still(before: Tensor, noisy: Tensor) -> bool:
    moved = int((_look_at(noisy) != before).sum())
    return 2 * moved < len(before)
