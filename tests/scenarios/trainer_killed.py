"""Forks children that train a module and die by SIGKILL at a named step, and others that go on.

The parent opens no table, so that a child may. It imports everything first, so that a child need not.
"""

import json
import os
import signal
import sys
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb  # noqa: F401
import torch
from torch import nn

import sfumato as sf
import sfumato.engines.router
import sfumato.lab.lab
import sfumato.ledger.sqlite.ledger
import sfumato.queries.frames
from sfumato.deep import run as training
from sfumato.deep.batches import PoissonBatches
from sfumato.deep.checkpoints import Stretches
from sfumato.deep.prices import solve_charged_multiplier, solve_multiplier
from sfumato.deep.tables import fit as _tables  # noqa: F401
from sfumato.files import durable
from sfumato.ledger import failpoints

FILE = ("checkpoint:begun", "checkpoint:written", "draft:written", "draft:synced", "draft:renamed")
FILE += ("checkpoint:durable",)
CHARGE = ("reserve:begun", "reserve:written", "reserve:durable", "draw:begun", "draw:written", "draw:durable")
ANSWER = ("data:read", "noise:drawn", "release:begun", "release:written", "release:durable")
STEPS_OF = {"file": FILE, "charge": CHARGE, "answer": ANSWER, "few": ("draft:synced", "draw:durable")}
STEPS, UNITS, BATCH, EPSILON, DELTA = 6, 60, 30, 8, 1e-6


def make_trainer(path: Path) -> sf.deep.Trainer:
    # Else all children would begin with the same weights, and ask the same question.
    torch.manual_seed(int.from_bytes(os.urandom(4)))
    module = nn.Linear(2, 2)
    settings: dict[str, Any] = {"optimiser": torch.optim.Adam, "average": 0.5, "checkpoint": path}
    spend: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "steps": STEPS, "batch_size": BATCH}
    return sf.deep.Trainer(module, nn.CrossEntropyLoss(), rows=UNITS, **spend, **settings)


def train(folder: Path, path: Path) -> sf.deep.Trainer:
    """Train behind the curator where there is a lab, else on arrays."""
    asked = make_trainer(path)
    if (folder / "lab").exists():
        session = sf.open(folder / "lab").session()
        return session.fit(asked, table="t", features=["x0", "x1"], target="kind")
    x = torch.linspace(-1, 1, 2 * UNITS).reshape(UNITS, 2)
    return asked.fit((x, (x[:, 0] > 0).long()))


def watch_noise(path: Path) -> None:
    """Write down the noise of every step before anyone can use it."""
    draw = training.add_normals

    def note(sums: Any, deviation: float) -> Any:
        before = torch.cat([each.flatten() for each in sums]).double().clone()
        noisy = draw(sums, deviation)
        noise = torch.cat([each.flatten() for each in noisy]).double() - before
        with path.with_suffix(".noise").open("a") as file:
            file.write(json.dumps((noise[:4] / deviation).tolist()) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return noisy

    training.add_normals = note


def run_and_die(folder: Path, path: Path, step: str, turn: int) -> None:
    """Die when a step is reached for the so-manieth time."""
    met = [0]

    def reach(reached: str) -> None:
        met[0] += reached == step
        if met[0] > turn:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.reach = reach
    watch_noise(path)
    watch_disk(path, reach)
    train(folder, path)
    os._exit(3)  # not reached: every run passes every step so often


def watch_disk(path: Path, reach: Any) -> None:
    """Name what happens to the draft of a checkpoint on its way to the disk."""
    sync, rename = os.fsync, durable.rename_path
    drafting = [False]
    make = durable._draft

    def draft(target: Path, *given: Any) -> Any:
        drafting[0] = target == path
        return make(target, *given)

    def fsync(descriptor: int) -> None:
        if drafting[0]:
            reach("draft:written")
        sync(descriptor)

    def replaced(given: Path, target: Path) -> None:
        if target == path:
            drafting[0] = False
            reach("draft:synced")
            os.replace(given, target)
            reach("draft:renamed")
            durable.sync_path(target.parent)
        else:
            rename(given, target)

    os.fsync, durable._draft, durable.rename_path = fsync, draft, replaced


def go_on(folder: Path, path: Path) -> None:
    watch_noise(path)
    found = train(folder, path)
    weights = torch.cat([each.detach().flatten() for each in found.module.parameters()]).tolist()
    say({"path": path.name, "weights": weights, "times": found.event_.times, "sigma": found.multiplier_})  # type: ignore[attr-defined]


def in_child(work: Any, *arguments: Any) -> int:
    pid = os.fork()
    if pid == 0:
        work(*arguments)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def say(seen: dict[str, Any]) -> None:
    """Flushed at once: what waits to be printed would be printed by children too."""
    print(json.dumps(seen), flush=True)


def main(folder: Path, rounds: int, steps: tuple[str, ...]) -> None:
    torch.set_num_threads(1)
    with_lab = (folder / "lab").exists()
    # Solved once, so that no child has to.
    cut = Stretches.of(STEPS, 2)
    solve = solve_charged_multiplier if with_lab else solve_multiplier
    solve(PoissonBatches(Fraction(BATCH, UNITS)), cut.priced, EPSILON, DELTA)
    with TemporaryDirectory() as elsewhere:
        # Torch imports much with its first step.
        solved, training.solve_multiplier = training.solve_multiplier, lambda *given: 1.0
        train(Path(elsewhere), Path(elsewhere) / "warm.pt")
        training.solve_multiplier = solved
    for turn in range(rounds):
        for step in steps:
            path = folder / f"{step.replace(':', '-')}-{turn}.pt"
            # A run passes the steps of a file seven times, those of a stretch six, and others once.
            often = {"reserve": 1, "data": 1, "noise": 1, "release": 1}.get(step.split(":")[0], STEPS)
            killed = in_child(run_and_die, folder, path, step, turn % often)
            say({"step": step, "path": path.name, "signal": killed})
            for _ in range(2 if turn == 0 else 1):  # the second finds it done
                in_child(go_on, folder, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), STEPS_OF[sys.argv[3]])
