"""Audit training runs by the canaries of one run each: how much of the claimed ε an observer is seen to get.

    python benchmarks/deep_audit.py

Lower bounds at 95 %: for any mechanism, with as many guesses as are stated here beforehand; if the mechanism
is Gaussian DP; and if canaries are independent, as gradient canaries are. It ends with 1 if a bound exceeds
its claim or gradient canaries on all units show less than 40 % of it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

import sfumato as sf
from sfumato.deep.generators.diffusion import make_rows

DELTA, ROWS, CANARIES = 1e-5, 200, 8_000
GUESSES = (CANARIES // 32, CANARIES // 32)
ALL = CANARIES + ROWS
RUNS: dict[str, dict[str, Any]] = {
    "all units, 1 step": {"epsilon": 4, "steps": 1, "batch_size": ALL},
    "all units, 20 steps": {"epsilon": 4, "steps": 20, "batch_size": ALL},
    "all units, 20 steps, ε = 8": {"epsilon": 8, "steps": 20, "batch_size": ALL},
    "Poisson, half of all, 8 steps": {"epsilon": 4, "steps": 8, "batch_size": ALL // 2},
    "Poisson, a tenth, 50 steps": {"epsilon": 4, "steps": 50, "batch_size": ALL // 10},
}


def make_run(settings: dict[str, Any]) -> tuple[sf.deep.Trainer, Any]:
    """Return a trainer of a linear layer, and rows."""
    x = torch.randn(ROWS, 10)
    trainer = sf.deep.Trainer(nn.Linear(10, 2), nn.CrossEntropyLoss(), delta=DELTA, **settings)
    return trainer, (x, (x[:, 0] > 0).long())


def make_diffusion_run() -> tuple[sf.deep.Trainer, Any]:
    """Return the trainer of a diffusion model with four draws for each row, and rows."""
    made = sf.synth.Diffusion(epsilon=4, delta=DELTA, warm=0, steps=20, batch_size=ALL, draws=4, width=16)
    kernel = made.make_kernel(made.quote(ALL), (10,), 10, 2)
    rows = make_rows(torch.rand(ROWS, 10).numpy(), torch.randint(0, 2, (ROWS,)).numpy(), 2)
    return kernel.run.run.trainer, (rows.inputs, rows.targets)


def audit_gradients(trainer: sf.deep.Trainer, rows: Any) -> tuple[float, list[float]]:
    """Return the claim and the bounds of gradient canaries, seen at every step."""
    included = sf.audit.draw_inclusion(CANARIES)
    run = sf.deep.score_gradient_canaries(trainer, rows, included)
    plain, apart = (
        sf.audit.one_run(
            run.scores, included, run.event, delta=DELTA, guesses=GUESSES, alpha=0.05, independent=each
        )
        for each in (False, True)
    )
    return run.epsilon, [plain.lower_bound, plain.gaussian_bound, apart.gaussian_bound]


def audit_losses() -> tuple[float, list[float]]:
    """Return the claim and the bounds of random rows with random labels, seen at the end."""
    canaries, width = 1_000, 2_000
    rows = torch.randn(20, width), torch.arange(20) % 2
    planted = torch.randn(canaries, width), torch.arange(canaries) % 2
    trainer = sf.deep.Trainer(
        nn.Linear(width, 2), nn.CrossEntropyLoss(), epsilon=8, delta=DELTA, steps=10, batch_size=canaries + 20
    )
    included = sf.audit.draw_inclusion(canaries)
    run = sf.deep.score_loss_canaries(trainer, rows, planted, included)
    found = sf.audit.one_run(
        run.scores, included, run.event, delta=DELTA, guesses=(canaries // 16, canaries // 16), alpha=0.05
    )
    return run.epsilon, [found.lower_bound, found.gaussian_bound]


def main() -> int:
    torch.manual_seed(0)
    wrong = 0
    print(f"{'run':<34}{'claim':>6}{'any':>8}{'Gaussian':>10}{'independent':>13}")
    runs = {name: make_run(settings) for name, settings in RUNS.items()}
    for name, made in {**runs, "all units, 20 steps, diffusion": make_diffusion_run()}.items():
        claim, bounds = audit_gradients(*made)
        shown = "".join(f"{bound:>{wide}.2f}" for bound, wide in zip(bounds, (8, 10, 13), strict=True))
        print(f"{name:<34}{claim:>6g}{shown}   {max(bounds) / claim:.0%} of the claim", flush=True)
        wrong += max(bounds) > claim or (name.startswith("all") and bounds[1] < 0.4 * claim)
    claim, bounds = audit_losses()
    print(f"{'final module, 10 steps':<34}{claim:>6g}{bounds[0]:>8.2f}{bounds[1]:>10.2f}")
    return 1 if wrong or max(bounds) > claim else 0


if __name__ == "__main__":
    sys.exit(main())
