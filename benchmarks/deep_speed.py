"""What a private training step costs beside a plain one of PyTorch and one of Opacus, in turns.

    python benchmarks/deep_speed.py [--turns 8] [--model CNN] [--page docs/deep-speed.md]

Every contestant takes one step after the other on the same rows, so that all have the same machine, and the
best of several counts. Ours are steps of `sf.deep.Trainer` with everything they do: a batch is drawn, clipped
sums, noise, the optimiser. Opacus runs in the fastest of its modes. Memory is measured in a process each, as
the most it ever held beyond what it held when its libraries were loaded, checks before training included.
Opacus is in the environment of other libraries; where it is missing, the benchmark says so and goes on. Each
race is kept in docs/measured, and races that were not run again stay as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from itertools import product
from pathlib import Path
from typing import Any

from parts.measuring import BENCHMARKS, from_child

ROOT = BENCHMARKS.parent
CHILD = BENCHMARKS / "parts" / "deep_steps.py"
KEPT = ROOT / "docs" / "measured" / "deep-speed.json"
PEERS = ROOT / ".venv-peers" / "bin" / "python"
BATCHES = (256, 2_048)
THREADS = (1, 2)
MOST = {
    "MLP 784-256-256-10": (1.5, 1.25),
    "MLP of 4 M": (1.5, 1.25),
    "CNN": (1.5, 1.4),
    "CNN of Opacus' tutorial": (1.5, 1.4),
    "encoder": (1.6, 1.6),
}
"""Step time against plain PyTorch that is asked for, by batch."""
MOST_MEMORY = 1.3


def choose_python() -> str:
    """Return a Python that has Opacus, or this one."""
    chosen = os.environ.get("SFUMATO_PEERS", str(PEERS))
    if Path(chosen).exists():
        return chosen
    print("Opacus is left out: there is no environment of other libraries. Run `make bench`.")
    return sys.executable


def run(python: str, request: dict[str, Any]) -> dict[str, Any]:
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    return from_child(CHILD, request, python)


def measure(python: str, model: str, turns: int) -> dict[str, Any]:
    """Return what one model costs, by batch and threads, and what its contestants hold."""
    found: dict[str, Any] = {"races": {}, "memory": {}}
    for batch, threads in product(BATCHES, THREADS):
        rounds = turns if batch == BATCHES[0] else turns // 2
        raced = run(python, {"model": model, "batch": batch, "turns": rounds, "threads": threads})
        found["races"].setdefault(str(batch), {})[str(threads)] = raced
        print(model, batch, threads, json.dumps(raced), flush=True)
    for contestant in ("plain", "sfumato", "Opacus ghost"):
        held = run(python, {"model": model, "batch": BATCHES[1], "memory": contestant})
        found["memory"][contestant] = held.get("megabytes")
        print(model, contestant, json.dumps(held), flush=True)
    return found


def describe_race(model: str, batch: int, threads: str, raced: dict[str, Any]) -> str:
    """Return a row of the table of times."""
    if "best" not in raced:
        return f"| {model} | {batch:,} | {threads} | not measured: {raced['refused']} | | | |"
    most = MOST[model][BATCHES.index(batch)]
    return f"| {model} | {batch:,} | {threads} | {_describe(raced['best'], most)} | {most:.2f} |"


def _describe(best: dict[str, dict[str, float]], most: float) -> str:
    plain, ours = best["plain"], best["sfumato"]
    late = " **!**" if ours["wall"] / plain["wall"] > most else ""
    rival = next((name for name in best if name.startswith("Opacus")), None)
    other = "not installed"
    if rival is not None:
        faster = " **!**" if best[rival]["wall"] < ours["wall"] else ""
        other = f"{_compare(best[rival], plain)}, {rival.removeprefix('Opacus ')}{faster}"
    return f"{1e3 * plain['wall']:.1f} | {_compare(ours, plain)}{late} | {other}"


def _compare(one: dict[str, float], other: dict[str, float]) -> str:
    return f"{one['wall'] / other['wall']:.2f} ({one['cpu'] / other['cpu']:.2f})"


def describe_memory(model: str, held: dict[str, float | None]) -> str:
    """Return a row of the table of memory."""
    plain = held["plain"]
    cells = []
    for name in ("sfumato", "Opacus ghost"):
        much = held.get(name)
        if much is None or plain is None:
            cells.append("not measured")
        else:
            over = " **!**" if name == "sfumato" and much / plain > MOST_MEMORY else ""
            cells.append(f"{much:.0f} ({much / plain:.2f}){over}")
    return f"| {model} | {'not measured' if plain is None else f'{plain:.0f}'} | {' | '.join(cells)} |"


def write_page(kept: dict[str, Any]) -> str:
    """Return the page of all that has been measured."""
    races = [
        describe_race(model, int(batch), threads, raced)
        for model, found in kept.items()
        for batch, by_threads in found["races"].items()
        for threads, raced in by_threads.items()
    ]
    memory = [describe_memory(model, found["memory"]) for model, found in kept.items()]
    return PAGE.format(races="\n".join(races), memory="\n".join(memory), most=MOST_MEMORY)


PAGE = """# Speed of private training

`python benchmarks/deep_speed.py --page docs/deep-speed.md` writes this page. Steps of plain PyTorch, of
`sf.deep.Trainer` and of Opacus in its fastest mode take turns in one process on the same rows, and the best
step of each counts. Ours include the draw of the batch, clipping, noise in doubles from the operating
system's randomness, and the optimiser; Opacus draws noise from torch's own generator. Times are against plain
PyTorch, by the clock and in brackets by the processor, which says more where other work shares the machine.
The last column is what is asked for; **!** marks what is above it by the clock, or an Opacus that is faster.

| model | batch | threads | plain, ms | sfumato | Opacus | at most |
|---|---|---|---|---|---|---|
{races}

Networks: perceptrons 784-256-256-10 and 784-1024-1024-1024-1024-10; 3 × 3 convolutions to 32 and 64 channels
on 28 × 28 pixels with a hidden layer of 128; the network of Opacus' tutorial on MNIST; two encoder layers of
width 64 over 32 words.

## Memory

The most that a process holds, in megabytes beyond what it holds with its libraries loaded, at a batch of
2,048: rows, weights, gradients, activations, and the checks before training. At most {most} times plain
PyTorch is asked for.

| model | plain | sfumato | Opacus, ghost clipping |
|---|---|---|---|
{memory}

Larger modules train in parts: `micro_batch` says how many rows are in memory at once, and the sums of the
parts are added up before noise. The result and the price stay the same.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--model", choices=list(MOST), help="only this one")
    parser.add_argument("--page", type=Path, help="write what has been measured as Markdown")
    parser.add_argument("--kept", action="store_true", help="measure nothing; with --page")
    options = parser.parse_args()
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    python = choose_python()
    chosen = MOST if options.model is None else (options.model,)
    for model in () if options.kept else chosen:
        kept[model] = measure(python, model, options.turns)
        ordered = {name: kept[name] for name in MOST if name in kept}
        KEPT.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    if options.page:
        options.page.write_text(write_page(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
