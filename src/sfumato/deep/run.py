"""One training run, step by step: sum, noise, the public divisor, the optimiser."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.deep.batches import PoissonBatches
from sfumato.deep.checks.before import plan_checked, refuse_targets
from sfumato.deep.checks.first_step import check_first_step
from sfumato.deep.checks.refusals import KeptState, refuse_mixing_layers
from sfumato.deep.losses import make_row_loss
from sfumato.deep.module_draws import keep_random_states, seed_in_secret
from sfumato.deep.noise import add_normals
from sfumato.deep.prices import find_spent_epsilon, solve_multiplier
from sfumato.deep.promises import TrainingGuarantee
from sfumato.deep.rows import MADE_UP, Rows
from sfumato.deep.settings import choose_batches, choose_checkpoint, choose_clipping
from sfumato.deep.step_noise import IndependentNoise
from sfumato.errors import SfumatoError, UsageError
from sfumato.errors.numbers import format_number
from sfumato.oracle.guarantee import IDEALISED
from sfumato.oracle.one_run import can_be_one_run, round_side_delta, state_one_run
from sfumato.privacy.exact import parse_positive, parse_probability, parse_whole
from sfumato.viz.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from sfumato.deep.batches import Batches, DrawnBatches
    from sfumato.deep.checkpoints import Checkpoint
    from sfumato.deep.clipping import Clipping
    from sfumato.deep.gradients.clipped_sum import ClippedSum
    from sfumato.deep.losses import RowLoss
    from sfumato.deep.settings import TrainingSettings
    from sfumato.privacy.events import Event, PrivacyProfile
    from sfumato.privacy.exact import Number

    Solve = Callable[[Batches, int, Number, Number], float]
    """Returns the noise multiplier of so many steps, for ε and δ."""


@dataclass
class TrainingRun:
    """One training run: what is public about it, and where it stands."""

    trainer: TrainingSettings
    rows: Rows
    declared: int
    batches: Batches
    clipping: Clipping
    steps: int
    multiplier: float
    event: Event
    plan: ClippedSum
    loss: RowLoss
    checkpoint: Checkpoint | None
    claim: PrivacyProfile | None = None
    """What an account is charged for the run as a whole, where that is not the curve of its event."""
    done: int = 0
    draw: Callable[[], object] | None = None
    """Counts each stretch of steps durably before it begins, where a ledger does."""
    shown: ProgressBar | None = None
    noise: IndependentNoise = field(init=False)
    drawing: DrawnBatches = field(init=False)
    optimiser: torch.optim.Optimizer = field(init=False)
    schedule: Any = field(init=False)
    averaged: dict[str, Tensor] | None = field(init=False)
    kept: KeptState = field(init=False)
    process: int = field(default_factory=os.getpid, init=False)

    def __post_init__(self) -> None:
        self._begin_steps()

    @classmethod
    def begin(cls, trainer: TrainingSettings, rows: Rows, solve: Solve | None = None) -> TrainingRun:
        """Check everything and solve for the noise; nothing has been learnt from the rows yet.

        `solve` finds the noise of a run, if that is not what own arrays need.
        """
        module = trainer.module
        refuse_mixing_layers(module)
        loss = make_row_loss(trainer.loss)
        plan = plan_checked(trainer, loss, rows)
        refuse_targets(module, loss, rows)
        declared = rows.units if trainer.rows is None else parse_whole(trainer.rows, "rows")
        batches, steps = choose_batches(trainer, declared)
        clipping = choose_clipping(trainer.clip)
        checkpoint = choose_checkpoint(trainer, declared, steps)
        priced = steps if checkpoint is None else checkpoint.stretches.priced
        multiplier = (solve or solve_multiplier)(batches, priced, trainer.epsilon, trainer.delta)
        event = batches.event(multiplier, priced)
        public = declared, batches, clipping, steps, multiplier, event
        return cls(trainer, rows, *public, plan, loss, checkpoint)

    @property
    def can_be_one(self) -> bool:
        """Whether the run can be charged as a whole, which is shown for Poisson batches."""
        poisson = isinstance(self.batches, PoissonBatches)
        return poisson and can_be_one_run(self.trainer.epsilon, self.trainer.delta)

    def price_as_one(self) -> TrainingRun:
        """Return the same run with the noise that it needs by itself, and its price as a whole."""
        priced = self.steps if self.checkpoint is None else self.checkpoint.stretches.priced
        epsilon, delta = self.trainer.epsilon, round_side_delta(self.trainer.delta)
        multiplier = solve_multiplier(self.batches, priced, epsilon, delta)
        event = self.batches.event(multiplier, priced)
        return replace(self, multiplier=multiplier, event=event, claim=state_one_run(event, epsilon, delta))

    def _begin_steps(self) -> None:
        """Make the optimiser and all else that has a state of its own, as it is before the first step."""
        trainer = self.trainer
        self.noise = IndependentNoise(self.multiplier, self.clipping.norm)
        self.drawing = self.batches.begin()
        self.optimiser = trainer.optimiser(self.plan.parameters, lr=trainer.learning_rate)
        self.schedule = None if trainer.schedule is None else trainer.schedule(self.optimiser)
        self.averaged = None if trainer.average is None else copy.deepcopy(trainer.module.state_dict())
        self.kept = KeptState(trainer.module, self.loss.loss)

    def rehearse(self) -> None:
        """Take a step on made-up rows and forget it, so that what fails raises before it is charged."""
        module, before, rows = self.trainer.module, copy.deepcopy(self.trainer.module.state_dict()), self.rows
        each = rows.rows_per_unit
        places = None if each == 1 else np.arange(MADE_UP * each).reshape(MADE_UP, each)
        self.rows = Rows(*rows.make_up(MADE_UP * each), places)
        try:
            self._move(self._sum(np.arange(MADE_UP)))
        except SfumatoError:
            raise
        except Exception as problem:  # whatever functions of one's own raise
            raise UsageError(
                "SF-E179",
                "A step of this run fails on made-up rows, so nothing was charged.",
                why=f"{type(problem).__name__}: {problem}"[:200],
                try_="an optimiser, schedule or projection that takes a step without a closure",
            ) from problem
        finally:
            self.rows = rows
        module.load_state_dict(before)
        self._begin_steps()

    def train(self) -> None:
        """Take all steps that are left."""
        bar = ProgressBar(self.steps, "steps", self.trainer.verbose, self.describe_spent)
        with keep_random_states(), bar as self.shown:
            if self.checkpoint is not None:
                self.checkpoint.run_stretches(self, self.draw)
            while self.done < self.steps:
                self.step()
        self.finish()

    def describe(self, unit: str = "") -> TrainingGuarantee:
        """Return the guarantee of this run, whose unit of protection may have a name."""
        settings, each = self.trainer, self.rows.rows_per_unit
        known = "the number of units is public" + (
            "" if settings.rows else "; it was taken from the data, not declared"
        )
        if settings.augment is not None:
            known += "; augment changes each row on its own"
        if self.checkpoint is not None:
            cut = self.checkpoint.stretches
            known += f"; {cut.spare} times {cut.each} steps that were lost and taken again are priced too"
        return TrainingGuarantee(
            "replace-one" if settings.sampling == "fixed" else "add-remove",
            unit or ("one row" if each == 1 else f"up to {each} rows of one unit"),
            float(parse_positive(settings.epsilon, "epsilon")),
            float(parse_probability(settings.delta, "delta")),
            None,
            "",
            IDEALISED,
            assumes=known,
            event=self.event,
            as_one=self.claim is not None,
        )

    def describe_spent(self, steps: int) -> str:
        """Say what so many steps have cost, which is public."""
        spent = find_spent_epsilon(self.event, self.trainer.epsilon, self.trainer.delta, steps)
        return f"ε = {format_number(spent, 3)} so far"

    def write_state(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as tensors and plain values."""
        self.kept.require_fixed()
        return {
            "module": self.trainer.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "averaged": self.averaged,
        }

    def read_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `write_state` returned."""
        self.trainer.module.load_state_dict(state["module"])
        self._begin_steps()
        self.optimiser.load_state_dict(state["optimiser"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])
        self.averaged = state["averaged"]

    def step(self) -> None:
        """Take one step: sum, noise, the public divisor, the optimiser."""
        if os.getpid() != self.process:
            raise UsageError(
                "SF-E179",
                "This run was begun in another process, where it goes on.",
                why="both would take steps for one price",
                try_="a run of its own in each process",
            )
        self._move(self._sum(self.drawing.draw(self.rows.units)))
        self.done += 1
        if self.shown is not None:
            self.shown.show(self.done)

    def _move(self, sums: list[Tensor]) -> None:
        self.kept.require_unchanged()
        release = partial(self.noise.release, add=add_normals)
        if self.done == 0:
            parts = self.trainer.module, self.plan.parameters, self.optimiser
            release = partial(check_first_step, *parts, release=release)
        noisy = release(sums)
        for parameter, each in zip(self.plan.parameters, noisy, strict=True):
            parameter.grad = each.div_(self.trainer.batch_size).to(parameter.dtype)
        self.optimiser.step()
        self.optimiser.zero_grad()
        if self.schedule is not None:
            self.schedule.step()
        if self.trainer.project is not None:
            with torch.no_grad():
                self.trainer.project(self.trainer.module)
        self._average()

    def _sum(self, chosen: NDArray[np.int64]) -> list[Tensor]:
        """Return the sum of clipped gradients of the chosen units, some rows at a time."""
        self.kept.remember()
        at_once = max(self.trainer.micro_batch // (self.rows.rows_per_unit * self.trainer.augmentations), 1)
        if 0 < len(chosen) <= at_once:
            return self._sum_or_leave_out(chosen)
        total = [torch.zeros_like(each, dtype=torch.float64) for each in self.plan.parameters]
        for start in range(0, len(chosen), at_once):
            part = self._sum_or_leave_out(chosen[start : start + at_once])
            for have, more in zip(total, part, strict=True):
                have += more
        return total

    def _sum_or_leave_out(self, units: NDArray[np.int64]) -> list[Tensor]:
        """Return the sum over units, without those on whose rows the module or the loss raises.

        Made-up rows were taken, so what raises now raises by values: a run that fails would tell of them.
        """
        found = self._try_sum(units)
        if found is not None:
            return found
        alone = [self._try_sum(units[at : at + 1]) for at in range(len(units))]
        taken = [each for each in alone if each is not None]
        # The others are summed together again, as they would have been without those.
        found = (
            self._try_sum(units[[each is not None for each in alone]]) if len(taken) < len(units) else None
        )
        if found is None and taken:
            return [torch.stack(each).sum(0) for each in zip(*taken, strict=True)]
        return found or [torch.zeros_like(each) for each in self.plan.parameters]

    def _try_sum(self, units: NDArray[np.int64]) -> list[Tensor] | None:
        if not len(units):
            return None
        try:
            return self._sum_part(units)
        except Exception:  # whatever functions of one's own raise
            return None

    def _sum_part(self, units: NDArray[np.int64]) -> list[Tensor]:
        inputs, targets, there = self.rows.take(units)
        seed_in_secret()
        copies = self.trainer.augmentations
        if self.trainer.augment is not None:
            inputs = self.trainer.augment(inputs.repeat_interleave(copies, 0))
            targets = targets.repeat_interleave(copies, 0)
            there = None if there is None else there.repeat_interleave(copies, 0)

        def losses() -> Tensor:
            found = self.loss(self.trainer.module(inputs), targets)
            if there is not None:
                found = torch.where(there, found, torch.zeros_like(found))
            return found if copies == 1 else found / copies

        return self.plan.compute(losses, self.clipping.factors, self.rows.rows_per_unit * copies)

    def _average(self) -> None:
        """Move the averaged weights a little towards the present ones."""
        if self.averaged is None or self.trainer.average is None:
            return
        for name, each in self.trainer.module.state_dict().items():
            if each.is_floating_point():
                self.averaged[name].lerp_(each, 1 - self.trainer.average)

    def finish(self) -> None:
        """Leave the module as people expect it: averaged, without gradients, ready to predict."""
        self.kept.require_fixed()
        for parameter in self.plan.parameters:
            parameter.grad = None
        if self.averaged is not None:
            self.trainer.module.load_state_dict(self.averaged)
        self.trainer.module.eval()
