"""Average regret of choices among 36 experts, with bounds, at ε = 1 and δ = 1e-6.

    python benchmarks/experts.py [--steps 65536 1000000] [--plot FOLDER]

Losses are generated: independent coins, one expert ahead of all others by 0.2. A bound is one on the mean,
so several games are averaged, and their standard error is printed. Regret is counted by the chances of the
coins, which a choice does not know. Weighted majority is nearly as bad as its bound here: its regret on the
losses drawn is computed from the law of its choices. With `--plot`, charts of this and of the stocks under
SFUMATO_DATA/portfolios are written; of those nothing is expected. It ends with 1 if a private method
exceeds its bound, or if none has at most 0.4 of the regret of the source's private setting.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sfumato as sf

EXPERTS, BEST, GAP, EPSILON, DELTA = 36, 7, 0.2, 1.0, 1e-6
METHODS = ("non-private", "source", "weights", "leader", "lazy")
SWEEP = (2**10, 2**12, 2**14)
WIDEST = 0.2
"""Stocks are expected to move by at most a fifth a day; what moves more is clipped."""

Floats = np.ndarray  # type: ignore[type-arg]


@dataclass(frozen=True)
class Measured:
    """The average regret of one method over several games of one length."""

    method: str
    steps: int
    regret: float
    error: float
    bound: float
    seconds: float

    @property
    def holds(self) -> bool:
        """True where the mean is at most the bound."""
        return self.regret <= self.bound


def generate(steps: int, rng: np.random.Generator) -> Floats:
    """Losses of all experts, one of them ahead of all others."""
    losses = rng.random((steps, EXPERTS), dtype=np.float32) < np.float32(0.4 + GAP)
    losses[:, BEST] = rng.random(steps) < 0.4
    return losses


def measure(method: str, steps: int, games: int) -> Measured:
    """Play several games against fresh losses."""
    rng, found, seconds = np.random.default_rng(20), [], 0.0
    for _ in range(games):
        losses = generate(steps, rng)
        experts = sf.online.Experts(EXPERTS, steps, EPSILON, DELTA, method)
        start = time.process_time()
        chosen = experts.run(losses)
        seconds += time.process_time() - start
        if method in ("non-private", "source", "weights"):
            found.append(mean_regret(losses, float(experts.mechanism.rate)))
        else:
            found.append(GAP * float(np.mean(chosen != BEST)))
        bound = float(experts.bounds(steps)) / steps
    error = float(np.std(found, ddof=1)) / games**0.5 if games > 1 else float("nan")
    return Measured(method, steps, float(np.mean(found)), error, bound, seconds / games)


def mean_regret(losses: Floats, rate: float) -> float:
    """The average regret of weighted majority on these losses, in the mean over its draws."""
    total, held, lost = np.zeros(EXPERTS), 2**14, 0.0
    for at in range(0, len(losses), held):
        after = np.cumsum(losses[at : at + held], axis=0) + total
        before = np.vstack([total, after[:-1]])
        weights = np.exp(-rate * (before - before.min(axis=1, keepdims=True)))
        lost += float(((weights * losses[at : at + held]).sum(axis=1) / weights.sum(axis=1)).sum())
        total = after[-1]
    return (lost - float(total.min())) / len(losses)


def show(rows: list[Measured]) -> None:
    for row in rows:
        print(
            f"T={row.steps:>9,} {row.method:<12} regret/T {row.regret:.5f} ± {row.error:.5f}  "
            f"bound {row.bound:.5f}  {'holds' if row.holds else 'FAILS'}  {row.seconds:.2f} s a game",
            flush=True,
        )


def stock_losses(file: Path) -> Floats:
    """Daily losses of stocks from their prices, which start at 1: 0 for a gain of a fifth, 1 for a loss."""
    with gzip.open(file, "rt", newline="") as lines:
        prices = np.array(list(csv.reader(lines))[1:], dtype=float)
    changes = np.diff(prices, axis=0, prepend=1) / np.vstack([np.ones_like(prices[:1]), prices[:-1]])
    return np.clip(0.5 - changes / (2 * WIDEST), 0, 1)


def plot_stocks(folder: Path) -> None:
    """Charts of average regret over the stocks, with bounds. Nothing is expected of them."""
    data = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data")) / "portfolios"
    for file in sorted(data.glob("*.csv.gz")):
        losses, curves = stock_losses(file), {}
        days, stocks = losses.shape
        steps = np.unique(np.geomspace(1, days, 200).astype(int))
        for method in ("non-private", "source", "weights", "leader", "lazy"):
            experts = sf.online.Experts(stocks, days, EPSILON, DELTA, method)
            experts.run(losses)
            regret = experts.regret(losses)[steps - 1] / steps
            curves[method] = (steps, regret, experts.bounds(steps) / steps)
            print(f"{file.name:<14} {days:,} days, {stocks} stocks, {method:<12} regret/T {regret[-1]:.5f}")
        name = file.name.removesuffix(".csv.gz")
        title = f"Average regret on {name}: {days:,} days, {stocks} stocks, ε = {EPSILON:g}"
        sf.viz.regret_curves(curves, title=title).save(folder / f"experts-{name}.svg")


def plot_generated(rows: list[Measured], folder: Path) -> None:
    curves = {}
    for method in METHODS[:6]:
        own = [row for row in rows if row.method == method]
        curves[method] = tuple([getattr(row, name) for row in own] for name in ("steps", "regret", "bound"))
    chart = sf.viz.regret_curves(
        curves,
        title="Average regret by the number of steps",
        subtitle=f"{EXPERTS} experts, the best ahead by {GAP}; ε = {EPSILON:g}, δ = {DELTA:g}",
    )
    chart.save(folder / "experts.svg")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="*", default=[2**16, 10**6])
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    rows: list[Measured] = []
    for steps in sorted({*SWEEP, *given.steps}):
        games = 20 if steps <= 2**16 else 3
        measured = [measure(method, steps, games) for method in METHODS]
        show(measured)
        rows += measured
    if given.plot:
        plot_generated(rows, given.plot)
        plot_stocks(given.plot)
    wrong = [row for row in rows if row.method != "non-private" and not row.holds]
    for steps in given.steps:
        by = {row.method: row.regret for row in rows if row.steps == steps}
        best = min(("weights", "leader", "lazy"), key=by.__getitem__)
        share = by[best] / by["source"]
        print(f"T={steps:,}: the best, {best}, has {share:.4f} of the regret of the source's private setting")
        wrong += [] if share <= 0.4 else [rows[-1]]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
