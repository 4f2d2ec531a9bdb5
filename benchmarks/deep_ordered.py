"""Compare training in passes, with noise of three kinds, with Poisson batches: a linear model on MNIST.

    python benchmarks/deep_ordered.py [--epsilon 1 3 8]
    python benchmarks/deep_ordered.py --plot docs/images/deep-ordered.svg

The first 20,000 training images, six passes in batches of about 200, δ = 1e-5 for adding or removing one row.
The learning rate of every way and ε is the best of three on the last 10,000 training images, which none of
them learns from; the accuracy that is shown is that of the test file. Scores are written to
docs/measured/deep-ordered.json. With --plot nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")

from deep_accuracy import read_images
from parts.learning import FOLDER

if TYPE_CHECKING:
    import torch

    Rows = tuple[torch.Tensor, torch.Tensor]

FILE = Path(__file__).resolve().parents[1] / "docs" / "measured" / "deep-ordered.json"
ROWS, EPOCHS, BATCH, DELTA = 20_000, 6, 200, 1e-5
EPSILONS = (1, 3, 8)
RATES = (3.0, 10.0, 30.0)
WAYS = {
    "passes, fresh noise": {"sampling": "ordered", "noise": "independent"},
    "passes, banded noise": {"sampling": "ordered", "noise": "banded"},
    "passes, buffered noise": {"sampling": "ordered", "noise": "blt"},
    "Poisson batches": {},
}


def read_rows(part: str, rows: slice) -> Rows:
    """Return images as rows of numbers of norm at most 1, and their labels."""
    import torch

    images, labels = read_images("mnist", part)
    x = torch.from_numpy(images[rows].reshape(-1, 784).astype("float32"))
    return x / x.norm(dim=1, keepdim=True), torch.from_numpy(labels[rows].astype("int64"))


def score(way: str, epsilon: float, rate: float, train: Rows, held: list[Rows]) -> list[float]:
    """Return the accuracies of one run on rows that were held back."""
    import torch

    import sfumato as sf

    torch.manual_seed(0)
    module = torch.nn.Linear(784, 10)
    sf.deep.Trainer(
        module,
        torch.nn.CrossEntropyLoss(),
        epsilon=epsilon,
        delta=DELTA,
        epochs=EPOCHS,
        batch_size=BATCH,
        learning_rate=rate,
        **WAYS[way],
    ).fit(train)
    with torch.no_grad():
        return [float((module(x).argmax(1) == y).float().mean()) for x, y in held]


def read() -> dict[str, dict[str, float]]:
    """Return what was measured before."""
    found: dict[str, dict[str, float]] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return found


def measure(epsilons: list[int]) -> None:
    """Print and keep the accuracy of every way and ε."""
    train = read_rows("train", slice(ROWS))
    held = [read_rows("train", slice(50_000, None)), read_rows("t10k", slice(None))]
    found = read()
    for epsilon in epsilons:
        for way in WAYS:
            runs = [score(way, epsilon, rate, train, held) for rate in RATES]
            chosen = max(runs)
            found.setdefault(way, {})[str(epsilon)] = round(chosen[1], 4)
            rate = RATES[runs.index(chosen)]
            print(f"ε = {epsilon}  {way:<24} {chosen[1]:.2%}  (learning rate {rate})", flush=True)
            text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True)
            FILE.write_text(text + "\n", encoding="utf-8")


def plot(path: str) -> None:
    """Draw what was measured."""
    from sfumato import viz

    found = read()
    cells = [(f"ε = {epsilon}", way, 100 * found[way][str(epsilon)]) for epsilon in EPSILONS for way in WAYS]
    labels, series, values = (list(each) for each in zip(*cells, strict=True))
    title = "A linear model on 20,000 digits: passes with correlated noise, and Poisson batches"
    viz.grouped_bars(labels, series, values, title=title, y="test accuracy, %").save(path)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--plot", default="")
    options.add_argument("--epsilon", type=int, nargs="*", default=list(EPSILONS))
    given = options.parse_args()
    if given.plot:
        plot(given.plot)
    elif (FOLDER / "mnist").is_dir():
        measure(given.epsilon)
    else:
        print("SKIPPED: no MNIST in SFUMATO_DATA", file=sys.stderr)
