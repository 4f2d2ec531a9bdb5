"""Canaries among images of MNIST, scored by the trained module alone, which is all that users of it see."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import sfumato as sf
from parts.learning import FOLDER

DELTA, ALPHA, HIDDEN = 1e-5, 0.05, 64
MEAN, DEVIATION = 0.1307, 0.3081
"""Of pixels between 0 and 1, as is publicly known of MNIST."""


@dataclass(frozen=True, slots=True)
class FinalRun:
    """A run of DP-SGD with canaries among so many images."""

    name: str
    images: int
    canaries: int
    noise: bool
    """True for canaries of normal pixels; else they are images with a wrong label."""
    epsilon: float
    steps: int
    batch: int


RUNS = (
    FinalRun("59,000 images, wrong labels", 59_000, 1_000, False, 8, 400, 4_096),
    FinalRun("1,000 images, normal pixels", 1_000, 1_000, True, 8, 100, 2_000),
    FinalRun("200 images, normal pixels", 200, 700, True, 10, 30, 900),
)


def measure_runs() -> list[list[Any]]:
    """Return each run's claim, accuracy and both lower bounds, at 95 % with guesses fixed beforehand."""
    rows = []
    for each in RUNS:
        begun = time.process_time()
        rows.append([*_audit(each), f"{time.process_time() - begun:.0f}"])
        print(rows[-1], flush=True)
    return rows


def read_images(part: str) -> tuple[Tensor, Tensor]:
    """Return images as vectors around 0, and labels."""
    import gzip

    with gzip.open(FOLDER / "mnist" / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(FOLDER / "mnist" / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    scaled = (torch.from_numpy(pixels.astype(np.float32)) / 255 - MEAN) / DEVIATION
    return scaled, torch.from_numpy(labels.astype(np.int64))


def _audit(run: FinalRun) -> list[Any]:
    torch.manual_seed(0)
    images, labels = read_images("train")
    order = torch.randperm(len(images))
    rows, rest = order[: run.images], order[run.images : run.images + run.canaries]
    wrong = torch.randint(1, 10, (run.canaries,))
    planted = torch.randn(run.canaries, 784) if run.noise else images[rest], (labels[rest] + wrong) % 10
    module = nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    kept: list[nn.Module] = []

    def keep(trained: nn.Module) -> None:
        kept[:] = [trained]

    trainer = sf.deep.Trainer(
        module,
        nn.CrossEntropyLoss(),
        epsilon=run.epsilon,
        delta=DELTA,
        steps=run.steps,
        batch_size=run.batch,
        project=keep,
    )
    included = sf.audit.draw_inclusion(run.canaries)
    scored = sf.deep.score_loss_canaries(trainer, (images[rows], labels[rows]), planted, included)
    guesses = (run.canaries // 16,) * 2
    found = sf.audit.one_run(scored.scores, included, scored.event, delta=DELTA, guesses=guesses, alpha=ALPHA)
    shown, right = read_images("t10k")
    with torch.no_grad():
        accuracy = float((kept[0].eval()(shown).argmax(1) == right).float().mean())
    bounds = [f"{bound:.2f}" for bound in (found.lower_bound, found.gaussian_bound)]
    return [run.name, f"{run.canaries:,}", f"{run.epsilon:g}", f"{accuracy:.1%}", *bounds]
