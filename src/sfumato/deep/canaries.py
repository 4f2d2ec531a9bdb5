"""Canaries for the audit of a trainer by one run: units that are in the data or not, each by a fair coin.

Gradient canaries have a parameter each, which no other unit moves, and the largest gradient that clipping
leaves. Whoever sees all steps scores them; nothing hides a unit worse. Loss canaries are rows that are learnt
by heart or not at all, scored by the final module alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from sfumato.deep.losses import make_row_loss
from sfumato.deep.rows import number_units, read_rows
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from sfumato.deep.losses import Loss
    from sfumato.deep.rows import Rows
    from sfumato.deep.trainer import Trainer
    from sfumato.privacy.events import Event

_LONG = 1e6
"""Length of a canary's gradient before it is clipped."""


@dataclass(frozen=True, slots=True, eq=False)
class CanaryRun:
    """A run with canaries: a score for each, whether it was in, and the price claimed for one unit."""

    scores: NDArray[np.float64]
    included: NDArray[np.bool_]
    event: Event
    epsilon: float


def score_gradient_canaries(
    trainer: Trainer, data: Any, included: ArrayLike, groups: Any = None
) -> CanaryRun:
    """Train a copy of the trainer with canaries beside the rows, and score them by all noisy steps.

    The score is the log-likelihood ratio of a canary that is in, if batches are drawn as is claimed. Where
    units have several rows, canaries have as many as a unit may.
    """
    coins = _parse_coins(included)
    rows = read_rows(data)
    packing = _Packing(tuple(rows.inputs.shape[1:]), rows.inputs.dtype, len(coins))
    module = _WithCanaries(copy.deepcopy(trainer.module), packing)
    seen, project = _StepRecord(trainer, module), trainer.project
    units = len(rows.inputs) if groups is None else int(number_units(groups).max()) + 1
    audited = replace(
        trainer,
        module=module,
        loss=_canary_loss(make_row_loss(trainer.loss)),
        rows=trainer.rows or units + len(coins),
        augment=None if trainer.augment is None else packing.augment_by(trainer.augment),
        optimiser=seen.make_optimiser,
        project=None if project is None else lambda _: project(module.module),
        checkpoint=None,
    )
    audited.fit(*_append_canaries(packing, rows.inputs, rows.targets, groups, coins, trainer.rows_per_unit))
    return CanaryRun(seen.score(audited), coins, audited.event_, audited.guarantee_.epsilon)


def score_loss_canaries(trainer: Trainer, data: Any, canaries: Any, included: ArrayLike) -> CanaryRun:
    """Train a copy of the trainer with canaries among the rows, and score them by how much was learnt.

    `canaries` are rows like `data`, such as random inputs with random labels; the score is by how much
    their loss falls from the module as given to the module as trained.
    """
    coins = _parse_coins(included)
    rows, planted = read_rows(data), read_rows(canaries)
    if len(planted.inputs) != len(coins):
        raise UsageError("SF-A101", "Every canary needs a coin.", try_="included=sf.audit.draw_inclusion(…)")
    loss, kept = make_row_loss(trainer.loss), torch.from_numpy(coins)
    audited = replace(
        trainer,
        module=copy.deepcopy(trainer.module),
        rows=trainer.rows or len(rows.inputs) + len(coins),
        checkpoint=None,
    )
    before = _measure(audited.module, loss, planted)
    every = (rows.inputs, planted.inputs[kept]), (rows.targets, planted.targets[kept])
    audited.fit(tuple(map(torch.cat, every)))
    scores = (before - _measure(audited.module, loss, planted)).numpy()
    return CanaryRun(scores, coins, audited.event_, audited.guarantee_.epsilon)


def _measure(module: nn.Module, loss: Loss, rows: Rows) -> Tensor:
    """Return the loss of each row when the module does not train."""
    with torch.no_grad():
        return loss(module.eval()(rows.inputs), rows.targets).double()


@dataclass(frozen=True, slots=True)
class _Packing:
    """How a row and the number of a canary, 0 for none, lie side by side in one tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    canaries: int

    def pack(self, inputs: Tensor, numbers: Tensor) -> Tensor:
        """Return rows with their canary's number in front, as a share, so that made-up rows have one too."""
        kind = self.dtype if self.dtype.is_floating_point else torch.float64
        shares = (numbers.to(kind) + 0.5) / (self.canaries + 1)
        return torch.cat([shares[:, None], inputs.flatten(1).to(kind)], 1)

    def unpack(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and numbers."""
        numbers = (rows[:, 0] * (self.canaries + 1)).long().clamp(0, self.canaries)
        return rows[:, 1:].reshape(len(rows), *self.shape).to(self.dtype), numbers

    def augment_by(self, augment: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return the augmentation of packed rows."""

        def augmented(rows: Tensor) -> Tensor:
            inputs, numbers = self.unpack(rows)
            return self.pack(augment(inputs), numbers)

        return augmented


class _WithCanaries(nn.Module):
    """A module with one more parameter for each canary."""

    def __init__(self, module: nn.Module, packing: _Packing) -> None:
        super().__init__()
        self.module, self.packing = module, packing
        self.table = nn.Embedding(packing.canaries + 1, 1)
        nn.init.zeros_(self.table.weight)

    def forward(self, rows: Tensor) -> tuple[Any, Tensor, Tensor]:
        inputs, numbers = self.packing.unpack(rows)
        return self.module(inputs), numbers, self.table(numbers)[:, 0]


def _canary_loss(loss: Loss) -> Loss:
    """Return a loss by which a canary moves its own parameter, and all other rows what they moved before."""

    def by_row(came: tuple[Any, Tensor, Tensor], targets: Tensor) -> Tensor:
        out, numbers, own = came
        return torch.where(numbers > 0, _LONG * own, loss(out, targets).to(own.dtype))

    return by_row


def _append_canaries(
    packing: _Packing,
    inputs: Tensor,
    targets: Tensor,
    groups: Any,
    coins: NDArray[np.bool_],
    rows_each: int,
) -> tuple[tuple[Tensor, Tensor], NDArray[np.int64] | None]:
    """Return all rows, packed, with those canaries that are in, and the unit of each row."""
    chosen = torch.from_numpy(np.repeat(np.flatnonzero(coins) + 1, rows_each))
    numbers = torch.cat([torch.zeros(len(inputs), dtype=torch.int64), chosen])
    blank = inputs.new_zeros(len(chosen), *inputs.shape[1:])
    rows = packing.pack(torch.cat([inputs, blank]), numbers)
    every = torch.cat([targets, targets.new_zeros(len(chosen), *targets.shape[1:])])
    if groups is None:
        return (rows, every), None
    owners = number_units(groups)
    return (rows, every), np.concatenate([owners, owners.max() + chosen.numpy()])


class _StepRecord:
    """Stands where the optimiser takes a step, and keeps what it says about the canaries."""

    def __init__(self, trainer: Trainer, module: _WithCanaries) -> None:
        self._make, self._module = trainer.optimiser, module
        self._scale = trainer.batch_size / (1.0 if trainer.clip == "auto" else float(trainer.clip))
        self._steps: list[Tensor] = []

    def make_optimiser(self, *parameters: Any, **settings: Any) -> torch.optim.Optimizer:
        """Return the trainer's optimiser, which shows every noisy gradient before it is used."""
        made = self._make(*parameters, **settings)
        made.register_step_pre_hook(self._see)
        return made

    def _see(self, *_: Any) -> None:
        gradient = self._module.table.weight.grad
        if gradient is not None:
            self._steps.append(gradient[1:, 0].double() * self._scale)

    def score(self, audited: Trainer) -> NDArray[np.float64]:
        """Return the log-likelihood ratio of each canary: in as is claimed, or never in."""
        steps, declared = torch.stack(self._steps).numpy(), audited.rows or 1
        rate = audited.batch_size / declared
        there = (2 * steps - 1) / (2 * audited.multiplier_**2) + np.log(rate)
        absent = np.log1p(-rate) if rate < 1 else -np.inf
        return np.asarray(np.logaddexp(there, absent).sum(0))


def _parse_coins(included: Any) -> NDArray[np.bool_]:
    coins = np.asarray(included)
    if coins.ndim != 1 or not len(coins) or coins.dtype != np.bool_:
        raise UsageError(
            "SF-A101",
            "Canaries need one yes or no each, in an array.",
            try_="included=sf.audit.draw_inclusion(1_000)",
        )
    return coins
