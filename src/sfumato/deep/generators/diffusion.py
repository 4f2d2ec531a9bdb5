"""Training a denoiser by the trainer: K draws of noise for each row, which share the row's one bound.

Because : docs/proofs/synth-images.md#diffusion
"""

from __future__ import annotations

import copy
import secrets
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.deep.generators.denoiser import (
    Denoiser,
    FlatNetwork,
    ImageNetwork,
    measure_denoising,
    pack_rows,
)
from sfumato.deep.generators.noise_levels import LEVELS
from sfumato.deep.rows import Rows
from sfumato.deep.run import TrainingRun
from sfumato.deep.trainer import Trainer

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from sfumato.deep.run import Solve

    Floats = NDArray[Any]
    Ints = NDArray[np.int64]

_WARM_BATCH, _WARM_RATE = 512, 2e-3
"""Rows of a step, and the largest learning rate, where a denoiser learns from rows that are public."""
_AT_ONCE = 2**13
"""Draws that are in memory at once."""


@dataclass(frozen=True, slots=True)
class DiffusionSettings:
    """All that is fixed beforehand about a denoiser and its training."""

    shape: tuple[int, ...]
    numbers: int
    classes: int
    parametrisation: str
    network: str
    width: int
    draws: int
    drop: float
    steps: int
    batch_size: int
    learning_rate: float
    average: float
    warm_steps: int
    seed: int

    def describe(self) -> dict[str, Any]:
        """Return all settings by name, as they are hashed: two runs that share them learn alike."""
        found = asdict(self)
        return {name: each.hex() if isinstance(each, float) else each for name, each in found.items()}

    def make_denoiser(self) -> Denoiser:
        """Return a denoiser that has learnt nothing."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = (
                ImageNetwork(self.shape, self.classes, self.width)
                if self.network == "unet"
                else FlatNetwork(self.numbers, self.classes, self.width)
            )
        return Denoiser(network, LEVELS[self.parametrisation], self.classes, self.numbers, self.drop)

    def make_trainer(self, epsilon: Any, delta: Any, rows: int, verbose: bool = False) -> Trainer:
        """Return a trainer of so many rows, in which the draws of a row are bounded together."""
        return Trainer(
            self.make_denoiser(),
            measure_denoising,
            epsilon,
            delta,
            steps=self.steps,
            batch_size=self.batch_size,
            rows=rows,
            optimiser=torch.optim.Adam,
            learning_rate=self.learning_rate,
            average=self.average,
            schedule=partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=self.steps),
            # Copies are equal: the denoiser draws for each of them.
            augment=_keep,
            augmentations=self.draws,
            micro_batch=_AT_ONCE,
            verbose=verbose,
        )


def _keep(rows: Tensor) -> Tensor:
    return rows


@dataclass(frozen=True, slots=True)
class DiffusionRun:
    """A training run that was checked on made-up rows and priced, and has read nothing."""

    settings: DiffusionSettings
    run: TrainingRun

    @classmethod
    def begin(cls, settings: DiffusionSettings, trainer: Trainer, solve: Solve) -> DiffusionRun:
        """Check everything that follows from public facts, and find the noise."""
        return cls(settings, TrainingRun.begin(trainer, settings_example(settings), solve))

    @property
    def denoiser(self) -> Denoiser:
        """What is trained."""
        found: Denoiser = self.run.trainer.module  # type: ignore[assignment]
        return found

    def train(self, rows: Floats, labels: Ints, public: tuple[Floats, Ints] | None) -> Denoiser:
        """Learn from rows that are public by now, if there are some, and then take all private steps.

        Rows lie within −1 and 1; a label of −1 is none, and its row counts with the zero vector.
        """
        with torch.random.fork_rng(devices=[]):
            if public is not None:
                self._warm_up(*public)
            # Nobody may know the draws: which of them a row gets depends on who else is in its batch.
            torch.manual_seed(secrets.randbits(63))
            self.run.rows = make_rows(rows, labels, self.settings.classes)
            self.run.train()
        return self.denoiser

    def _warm_up(self, rows: Floats, labels: Ints) -> None:
        """Train without noise on rows that cost nothing more, and begin the private run from there."""
        steps, denoiser = self.settings.warm_steps, copy.deepcopy(self.denoiser).train()
        torch.manual_seed(self.settings.seed)
        known = make_rows(rows, labels, self.settings.classes)
        optimiser = torch.optim.Adam(denoiser.parameters(), lr=_WARM_RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _WARM_RATE, total_steps=steps + 1)
        for _ in range(steps):
            chosen = torch.randint(len(known.inputs), (_WARM_BATCH,))
            optimiser.zero_grad()
            loss: Tensor = measure_denoising(denoiser(known.inputs[chosen]), known.targets[chosen])
            loss.mean().backward()
            optimiser.step()
            schedule.step()
        state = denoiser.state_dict()
        self.run.read_state({**self.run.write_state(), "module": state, "averaged": copy.deepcopy(state)})


def make_rows(rows: Floats, labels: Ints, classes: int) -> Rows:
    """Return rows as the trainer takes them: with their class, and themselves as what is to be found."""
    wanted = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))
    places = torch.from_numpy(np.ascontiguousarray(labels, dtype=np.int64))
    return Rows(pack_rows(wanted, places, classes), wanted, counted=places >= 0)


def settings_example(settings: DiffusionSettings) -> Rows:
    """Return rows of the right shape that say nothing."""
    return make_rows(np.zeros((2, settings.numbers)), np.zeros(2, dtype=np.int64), settings.classes)
