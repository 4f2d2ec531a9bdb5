"""The settings of a training run, and what they mean for batches, clipping and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch

from sfumato.deep.batches import FixedBatches, PoissonBatches
from sfumato.deep.checkpoints import Checkpoint, Stretches
from sfumato.deep.clipping import FixedNorm, Normalised
from sfumato.deep.described import describe_settings
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from sfumato.deep.batches import Batches
    from sfumato.deep.clipping import Clipping
    from sfumato.deep.losses import Loss
    from sfumato.privacy.exact import Number

    MakeOptimiser = Callable[..., torch.optim.Optimizer]

_SMALLEST_NORM, _LARGEST_NORM = 1e-6, 1e6
"""Clipping norms beside which what rounding to zero hides of a gradient, at most 1e-14, is nothing."""


@dataclass
class TrainingSettings:
    """What is asked of a training run."""

    module: nn.Module
    loss: Loss
    epsilon: Number = 1
    delta: Number = 1e-5
    epochs: float | None = None
    steps: int | None = None
    batch_size: int = 256
    rows: int | None = None
    clip: float | str = "auto"
    sampling: str = "poisson"
    optimiser: MakeOptimiser = torch.optim.SGD
    learning_rate: float = 0.5
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None
    average: float | None = None
    augment: Callable[[Tensor], Tensor] | None = None
    augmentations: int = 1
    rows_per_unit: int = 1
    micro_batch: int = 4_096
    project: Callable[[nn.Module], None] | None = None
    bounds: Any = None
    missing: Any = None
    checkpoint: Any = None
    resumes: int = 2
    verbose: bool = False
    budget: Any = None


def choose_batches(settings: TrainingSettings, declared: int) -> tuple[Batches, int]:
    size = parse_whole(settings.batch_size, "batch_size")
    if size > declared:
        raise UsageError(
            "SF-E179", "A batch is larger than all rows.", rows=f"{declared:,}", try_=f"batch_size={declared}"
        )
    if (settings.epochs is None) == (settings.steps is None):
        raise UsageError("SF-E179", "State either epochs or steps.", try_="epochs=10")
    steps = settings.steps
    if settings.epochs is not None:
        steps = max(round(settings.epochs * declared / size), 1)
    if settings.sampling == "poisson":
        return PoissonBatches(Fraction(size, declared)), parse_whole(steps, "steps")
    if settings.sampling == "fixed":
        return FixedBatches(size, declared), parse_whole(steps, "steps")
    raise UsageError("SF-E179", "There is no such sampling.", try_='sampling="poisson" or "fixed"')


def choose_checkpoint(settings: TrainingSettings, declared: int, steps: int) -> Checkpoint | None:
    """Return where a run is kept, whose price is for some steps more."""
    if settings.checkpoint is None:
        return None
    cut = Stretches.of(steps, settings.resumes)
    return Checkpoint.at(settings.checkpoint, describe_settings(settings, declared), cut)


def choose_clipping(clip: float | str) -> Clipping:
    if clip == "auto":
        return Normalised()
    norm = float(parse_positive(clip, "clip"))
    if not _SMALLEST_NORM <= norm <= _LARGEST_NORM:
        raise UsageError(
            "SF-E179",
            "The clipping norm is out of range.",
            why="single precision loses what is far smaller than 1, or far larger",
            allowed=f"from {format_number(_SMALLEST_NORM, 6)} to {format_number(_LARGEST_NORM, 6)}",
            try_='clip="auto"',
        )
    return FixedNorm(norm)
