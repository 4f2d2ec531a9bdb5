"""One race of training steps, or the memory of one contestant, in a process of its own.

Runs as a script: a request as JSON in, an answer as JSON out. A request has `model`, `batch` and
either `turns` and `threads`, for a race of all contestants, or `memory`, the name of the contestant that
trains alone. Threads that wait for work are busy for a while, so each number of them has its own process.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from parts.measuring import Cost, peak_megabytes, restart_peak, timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Step = Callable[[Tensor, Tensor], None]

PLAIN, OURS = "plain", "sfumato"
OPACUS_MODES = ("ghost", "hooks", "functorch")
WARM, ALONE = 2, 3
"""Steps of a race that do not count, and steps of one that trains alone."""
MOST_NUMBERS = 2 * 10**8
"""Numbers of all rows' gradients beyond which a mode that holds them is not tried."""
WORDS, LENGTH, WIDTH = 1_000, 32, 64


class Encoder(nn.Module):
    """Two layers of attention over 32 words. Without dropout, so that all do the same work."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.last = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(self.words(x)).mean(1))


def make_perceptron(*widths: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for into, out in pairwise(widths):
        layers += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def make_convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def make_tutorial() -> nn.Module:
    """Make the network of Opacus' tutorial on MNIST."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


MODELS: dict[str, Callable[[], nn.Module]] = {
    "MLP 784-256-256-10": lambda: make_perceptron(784, 256, 256, 10),
    "MLP of 4 M": lambda: make_perceptron(784, 1024, 1024, 1024, 1024, 10),
    "CNN": make_convolutions,
    "CNN of Opacus' tutorial": make_tutorial,
    "encoder": Encoder,
}


def make_rows(model: str, count: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 10, (count,), generator=drawn)
    if model == "encoder":
        return torch.randint(0, WORDS, (count, LENGTH), generator=drawn), labels
    return torch.rand(count, 1, 28, 28, generator=drawn), labels


def make_module(model: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[model]().train()


def make_plain(model: str) -> Step:
    module, loss = make_module(model), nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)

    def step(x: Tensor, y: Tensor) -> None:
        optimiser.zero_grad()
        loss(module(x), y).backward()
        optimiser.step()

    return step


def make_opacus(model: str, batch: int, mode: str) -> Step:
    from opacus import PrivacyEngine
    from opacus.validators import ModuleValidator
    from torch.utils.data import DataLoader, TensorDataset

    module = ModuleValidator.fix(make_module(model)).train()
    made = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.01),
        criterion=nn.CrossEntropyLoss(),
        data_loader=DataLoader(TensorDataset(*make_rows(model, 4 * batch)), batch_size=batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    wrapped, optimiser = made[:2]
    loss = made[2] if len(made) == 4 else nn.CrossEntropyLoss()

    def step(x: Tensor, y: Tensor) -> None:
        optimiser.zero_grad()
        loss(wrapped(x), y).backward()
        optimiser.step()

    return step


def make_rivals(model: str, batch: int) -> tuple[dict[str, Step], str]:
    """Return plain PyTorch and Opacus in its fastest mode, and why a mode is left out."""
    found: dict[str, Step] = {PLAIN: make_plain(model)}
    if find_spec("opacus") is None:
        return found, "Opacus is not installed"
    seconds, refused = {}, []
    for mode in OPACUS_MODES:
        if mode != "ghost" and batch * _count(model) > MOST_NUMBERS:
            refused.append(f"{mode}: gradients of all rows are too large")
            continue
        try:
            step = make_opacus(model, batch, mode)
            seconds[mode] = min(timed(lambda step=step: step(*make_rows(model, batch))).wall for _ in "12")
            found[f"Opacus {mode}"] = step
        except Exception as error:  # whatever it is, the page shows it
            refused.append(f"{mode}: {type(error).__name__}")
    best = min(seconds, key=lambda mode: seconds[mode])
    left = {name: found[name] for name in (PLAIN, f"Opacus {best}")}
    return left, "; ".join(refused)


def _count(model: str) -> int:
    return sum(each.numel() for each in make_module(model).parameters())


def train(model: str, batch: int, steps: int, after_step: Callable[[nn.Module], None]) -> None:
    """Train by our own trainer, with batches of one size, and call a function after each step."""
    import sfumato as sf

    rows = make_rows(model, 4 * batch)
    trainer = sf.deep.Trainer(
        make_module(model), nn.CrossEntropyLoss(), epsilon=8, delta=1e-5, steps=steps, batch_size=batch,
        sampling="fixed", clip=1.0, learning_rate=0.01, project=after_step,
    )  # fmt: skip
    trainer.fit(rows)


def race(model: str, batch: int, turns: int) -> dict[str, Any]:
    """Return the best seconds of each: between two steps of ours, every rival takes one."""
    x, y = make_rows(model, 4 * batch)
    rivals, refused = make_rivals(model, batch)
    costs: dict[str, list[Cost]] = {name: [] for name in (OURS, *rivals)}
    began = [0.0, 0.0]

    def let_others_go(_: nn.Module) -> None:
        costs[OURS].append(Cost(time.process_time() - began[0], time.perf_counter() - began[1]))
        with torch.enable_grad():
            for name, step in rivals.items():
                costs[name].append(timed(lambda step=step: step(*_choose(x, y, batch))))
        began[:] = time.process_time(), time.perf_counter()

    train(model, batch, turns + WARM, let_others_go)
    best = {
        name: {kind: min(getattr(each, kind) for each in found[WARM:]) for kind in ("wall", "cpu")}
        for name, found in costs.items()
    }
    return {"best": best, "refused": refused}


def _choose(x: Tensor, y: Tensor, batch: int) -> tuple[Tensor, Tensor]:
    chosen = torch.randperm(len(x))[:batch]
    return x[chosen], y[chosen]


def hold(model: str, batch: int, contestant: str) -> dict[str, Any]:
    """Return the megabytes that one contestant holds at most, beyond what its libraries hold."""
    _warm_up(contestant)
    base = restart_peak()
    if contestant == OURS:
        train(model, batch, ALONE, lambda _: None)
    else:
        mode = contestant.removeprefix("Opacus ")
        step = make_plain(model) if contestant == PLAIN else make_opacus(model, batch, mode)
        x, y = make_rows(model, 4 * batch)
        for _ in range(ALONE):
            step(*_choose(x, y, batch))
    return {"megabytes": peak_megabytes() - base}


def _warm_up(contestant: str) -> None:
    """Load what is loaded at the first use, so that it does not count."""
    if contestant == OURS:
        train("MLP 784-256-256-10", 8, 1, lambda _: None)
    else:
        make_plain("MLP 784-256-256-10")(*make_rows("MLP 784-256-256-10", 8))
    if contestant.startswith("Opacus"):
        make_opacus("MLP 784-256-256-10", 8, "ghost")(*make_rows("MLP 784-256-256-10", 8))


def main(request: dict[str, Any]) -> None:
    torch.set_num_threads(request.get("threads", 1))
    if "memory" in request:
        print(json.dumps(hold(request["model"], request["batch"], request["memory"])))
    else:
        print(json.dumps(race(request["model"], request["batch"], request["turns"])))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
