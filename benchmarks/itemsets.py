"""How many of the most frequent itemsets are found, on real baskets, by pure ε and with a δ.

    python benchmarks/itemsets.py [--seeds 20] [--k 50] [--epsilon .1 .5 1 3] [--only BMS1] [--plot top.png]

Precision is the share of the k itemsets found that are among the k true ones; an itemset that is as frequent
as the k-th true one counts as true. The error is that of the counts of those found, beside the number of
transactions, and covered is the share of their 95 % intervals that hold the true count. Only items are
declared: how many transactions there are and how long they are is bought like the rest. Targets at ε = 1:
.90 on groceries and .80 on BMS1; and intervals that cover 94 %.

--losses shows on other generated sets how much more than others an itemset loses where long transactions
count less, from which one constant of the intervals was chosen.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import sfumato as sf
from parts.baskets import CHOSEN_WITH, REPORTED, generate_baskets, losses
from parts.studies import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Itemset = tuple[str, ...]

TARGETS = {("groceries", 1.0): 0.9, ("BMS1", 1.0): 0.8}
DELTA = 1e-6
LEAST_COVERED = 0.94
FILES = {"groceries": "groceries.csv.gz", "BMS1": "BMS1.dat.gz", "mushroom": "mushroom.dat.gz"}


def read(name: str) -> list[list[str]]:
    if name in REPORTED:
        return generate_baskets(REPORTED[name])
    separator = "," if name == "groceries" else None
    with gzip.open(DATA / "baskets" / FILES[name], "rt", encoding="utf-8") as file:
        rows = [{item.strip() for item in line.strip().split(separator)} - {""} for line in file]
    return [sorted(row) for row in rows if row]


@dataclass(frozen=True, slots=True)
class Truth:
    """Exact counts, asked for one itemset at a time."""

    bits: dict[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, transactions: list[list[str]]) -> Truth:
        bits: dict[str, NDArray[np.bool_]] = {}
        for place, each in enumerate(transactions):
            for item in each:
                bits.setdefault(item, np.zeros(len(transactions), dtype=bool))[place] = True
        return cls(bits)

    def count(self, itemset: Itemset) -> int:
        return int(np.logical_and.reduce([self.bits[item] for item in itemset]).sum())

    def most_frequent(self, k: int) -> Counter[Itemset]:
        """Level by level: an itemset is no more frequent than what it is made of."""
        found: Counter[Itemset] = Counter({(item,): int(bits.sum()) for item, bits in self.bits.items()})
        level = list(found)
        while level:
            least = found.most_common(k)[-1][1]
            level = sorted(each for each in level if found[each] >= least)
            level = [
                (*one, other[-1]) for one, other in itertools.combinations(level, 2) if one[:-1] == other[:-1]
            ]
            found.update({each: self.count(each) for each in level})
        return found


def spends(epsilons: list[float]) -> Iterator[dict[str, float]]:
    for epsilon in epsilons:
        yield {"epsilon": epsilon}
        yield {"epsilon": epsilon, "delta": DELTA}


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    spend: dict[str, float]
    precision: float
    deviation: float
    error: float
    covered: float
    seconds: float

    @classmethod
    def of(cls, name: str, spend: dict[str, float], truth: Truth, seeds: int, k: int, rows: Any) -> Row:
        least = truth.most_frequent(k).most_common(k)[-1][1]
        scores, errors, covered, began = [], [], [], time.process_time()
        for _ in range(seeds):
            model = sf.learn.FrequentItemsets(k, items=sorted(truth.bits), **spend).fit(rows)
            true = np.array([truth.count(each) for each in model.itemsets_])
            scores.append(float((true >= least).mean()))
            errors.append(float(np.abs(model.counts_ - true).mean()) / len(rows))
            low, high = model.interval(0.95).T
            covered.append(float(((low <= true) & (true <= high)).mean()))
        spent = (time.process_time() - began) / seeds
        deviation = float(np.std(scores, ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0
        means = [float(np.mean(each)) for each in (errors, covered)]
        return cls(name, spend, float(np.mean(scores)), deviation, *means, spent)

    def __str__(self) -> str:
        guarantee = f"ε = {self.spend['epsilon']:<4g}" + (
            "  δ = 1e-6" if "delta" in self.spend else "  pure    "
        )
        target = TARGETS.get((self.name, self.spend["epsilon"]))
        verdict = (
            ""
            if target is None
            else f"  target {target:.2f} {'met' if self.precision >= target else 'MISSED'}"
        )
        met = "met" if self.covered >= LEAST_COVERED else "MISSED"
        shown = f"{self.precision:.3f} ± {self.deviation:.3f}   {self.error:.2%}   {self.seconds:5.1f} s"
        shown += f"   covered {self.covered:.3f} {met}"
        return f"{self.name:<11} {guarantee}  {shown}{verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.1, 0.5, 1.0, 3.0])
    parser.add_argument("--only", choices=[*FILES, *REPORTED])
    parser.add_argument("--losses", action="store_true")
    parser.add_argument("--plot", help="a .png, .svg, .html or .json file")
    given = parser.parse_args()
    if given.losses:
        show_losses()
        return
    found: list[Row] = []
    print(f"top {given.k}, {given.seeds} fits each: precision, mean error of counts, processor time a fit")
    for name in [given.only] if given.only else [*FILES, *REPORTED]:
        if name in FILES and not (DATA / "baskets" / FILES[name]).exists():
            print(f"{name:<10} is left out: there is no {FILES[name]} under SFUMATO_DATA", file=sys.stderr)
            continue
        transactions = read(name)
        truth = Truth.of(transactions)
        for spend in spends(given.epsilon):
            found.append(Row.of(name, spend, truth, given.seeds, given.k, transactions))
            print(found[-1], flush=True)
    if given.plot and found:
        picture(found, given.k).save(given.plot)


def show_losses() -> None:
    """The odds that an itemset loses, beside the average, for every set, cap and kind of noise."""
    worst = 0.0
    for seed in CHOSEN_WITH:
        baskets = generate_baskets(seed)
        for cap, power in itertools.product((2, 4, 8), (1.0, 0.5)):
            lost, odds = losses(baskets, cap, power)
            worst = max(worst, odds if lost >= 0.005 else 0.0)
            print(f"set {seed}, cap {cap}, power {power}: lost {lost:.3f}, odds at 95 % {odds:.2f} times")
    print(f"largest, where half a percent or more is lost: {worst:.2f}")


def picture(found: list[Row], k: int) -> sf.viz.Chart:
    """One bar a row, with two standard errors to either side."""
    labels = [f"{row.name} {row.spend['epsilon']:g}{', δ' if 'delta' in row.spend else ''}" for row in found]
    low, high = ([100 * min(1.0, row.precision + side * row.deviation) for row in found] for side in (-2, 2))
    values = [100 * row.precision for row in found]
    return sf.viz.bars(labels, values, low, high, title=f"Top {k} itemsets that are true, by ε", y="%")


if __name__ == "__main__":
    main()
