"""Several quantiles by one joint mechanism beside one mechanism for each, at the same price.

python benchmarks/quantiles.py [draws]

Prints the mean error in rows of either, on two columns of the Adult data (SFUMATO_DATA, else ../shared/data);
of the joint mechanism where a cell that was chosen is halved and not cut where the rank lies; and of a
cumulative curve, which is paid for once for all quantiles. Then, for shares that lie close together or far
apart, the error of the joint mechanism as a part of that of each share alone: the mean of all shares, and the
worst of them; and the same for a tree of halves, which begins with the middle share whatever the shares are.
"""

from __future__ import annotations

import gzip
import os
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np

from sfumato.noise import Histograms, LaplaceNoise, QuantileMechanism, QuantilesMechanism, RangeSums
from sfumato.noise.ordered import divided, quantiles
from sfumato.noise.ordered.choice_order import ChoiceOrder, order_choices
from sfumato.noise.ordered.divided import DividedCells
from sfumato.noise.ordered.ranges import best_branching
from sfumato.noise.ordered.ranks import CellRanges
from sfumato.noise.ordered.trees import build_tree
from sfumato.noise.sampling.bits import OS

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
COLUMNS = {"fnlwgt": (2, 1_500_000), "age": (0, 111)}
"""Place in the file, and number of cells."""
COUNTS = (2, 3, 5, 9, 19, 99)
MOST_POINTS = 1024
PERCENTS = (
    "40 50 60", "49 50 51", "24 25 26", "90 95 99", "1 2 3", "10 11 90",
    "45 48 52 55", "50 90 95 99", "25 26 75 76", "10 50 51 52", "95 96 97 99",
    "48 49 50 51 52", "1 5 50 95 99", "10 11 12 90 91 92", "45 47 49 51 53 55", "47 48 49 50 51 52 53",
    "50 75 90 95 97 98 99 99.5", "10 20 30 40 50 60 70 80 90", "1 2 5 10 25 50 75 90 95 98 99 99.5",
    "40 42 44 46 48 50 52 54 56 58 60 62",
)  # fmt: skip


def read_column(place: int) -> np.ndarray:
    with gzip.open(DATA / "adult" / "adult.data.gz", "rt") as file:
        return np.sort([int(line.split(", ")[place]) for line in file if line.strip()])


def copy_groups(values: np.ndarray, cells: int, copies: int) -> Histograms:
    """As many groups as draws, each with the same rows."""
    places, counts = np.unique(values, return_counts=True)
    group = np.repeat(np.arange(copies), places.size)
    several = np.tile(places, copies), np.tile(counts, copies)
    return Histograms.from_triplets(group, *several, groups=copies, cells=cells)


def mean_error(values: np.ndarray, shares: tuple[Fraction, ...], chosen: np.ndarray) -> float:
    """How many rows the wanted rank lies outside those of the chosen cell."""
    wanted = np.array([float(share) * values.size for share in shares])[:, None]
    before, upto = (np.searchsorted(values, chosen, side) for side in ("left", "right"))
    return float(np.maximum(np.maximum(before - wanted, wanted - upto), 0).mean())


def curve_error(
    values: np.ndarray, cells: int, shares: tuple[Fraction, ...], epsilon: Fraction, draws: int
) -> float:
    """The error of quantiles that are read off a curve over at most so many values."""
    width = -(-cells // MOST_POINTS)
    points = -(-cells // width)
    counts = np.bincount(values // width, minlength=points)
    branching = best_branching(points)
    height = build_tree(points, branching).height
    mechanism = RangeSums(points, branching, LaplaceNoise(height / epsilon))
    told = []
    for _ in range(draws):
        below = np.maximum.accumulate(np.cumsum(mechanism.release(counts).estimates))
        at = np.minimum([np.searchsorted(below, float(share) * below[-1]) for share in shares], points - 1)
        told.append([(place + 1) * width - 1 for place in at])
    return mean_error(values, shares, np.array(told).T)


def draw_errors(
    values: np.ndarray, table: Histograms, together: QuantilesMechanism, order: ChoiceOrder, draws: int
) -> np.ndarray:
    """The mean error of each share where choices are made in this order, so many times on the same rows."""
    divided_cells = DividedCells.of(table.widen(together._finest))
    copies = CellRanges.cover(divided_cells)[np.zeros(draws, dtype=np.intp)]
    span, shares = (Fraction(0), Fraction(1)), together.shares
    with patch.object(quantiles, "order_choices", lambda _: order):
        chosen = together._within(divided_cells, copies, shares, span, order, OS)
    return np.array([mean_error(values, (share,), row) for share, row in zip(shares, chosen, strict=True)])


def order_halves(shares: int, levels: int) -> ChoiceOrder | None:
    """The order that takes the middle share first, or two of two and of four where a level is left over."""
    if not shares:
        return None
    middle = shares // 2
    two = shares in (2, 4) and levels >= shares.bit_length()
    first = (middle - 1, middle) if two else (middle,)
    edges = pairwise((-1, *first, shares))
    return ChoiceOrder(first, tuple(order_halves(b - a - 1, levels - len(first)) for a, b in edges))


def make_columns() -> dict[str, tuple[np.ndarray, int]]:
    """Columns whose rows hardly share values."""
    random = np.random.default_rng(5)
    halves = [random.normal(2e4, 500, 3000), random.normal(9e4, 3000, 5000)]
    return {
        "fnlwgt": (read_column(2), 1_500_000),
        "exponential": (np.sort(np.minimum(random.exponential(2e3, 5000), 2**16 - 1).astype(int)), 2**16),
        "two groups": (np.sort(np.concatenate(halves).astype(int)), 2**17),
    }


def compare_orders(draws: int) -> None:
    """Print each share's error as a part of its error alone, for many sets of shares."""
    print(f"\n{'column':12}{'ε':>5}  {'mean':>6}{'worst':>7}  {'halves: mean':>12}{'worst':>7}  shares in %")
    worst = []
    for name, (values, cells) in make_columns().items():
        table = copy_groups(values, cells, 1)
        for epsilon in (Fraction(1, 10), Fraction(1)):
            for percents in PERCENTS:
                shares = tuple(Fraction(each) / 100 for each in percents.split())
                number, together = len(shares), QuantilesMechanism(epsilon, shares)
                at_once = ChoiceOrder(tuple(range(number)), (None,) * (number + 1))
                orders = at_once, order_choices(shares), order_halves(number, number.bit_length())
                alone, ours, before = (
                    draw_errors(values, table, together, order, draws) for order in orders if order
                )
                ours, before = ours / alone, before / alone
                shown = f"{ours.mean():6.2f}{ours.max():7.2f}  {before.mean():12.2f}{before.max():7.2f}"
                print(f"{name:12}{float(epsilon):5}  {shown}  {percents}", flush=True)
                worst.append((ours.mean(), ours.max(), before.mean(), before.max()))
    means, most = np.mean(worst, axis=0), np.max(worst, axis=0)
    print(f"mean of all sets {means[0]:.2f}, of halves {means[2]:.2f}")
    print(f"worst of all shares {most[1]:.2f}, of halves {most[3]:.2f}")


def compare_counts(draws: int) -> None:
    """Print the mean errors of evenly spread shares, by four mechanisms."""
    heads = "".join(f"{each:>9}" for each in ("joint", "halved", "curve"))
    print(f"{'column':8}{'ε':>5}{'shares':>8}{'each alone':>12}{heads}{'ratio':>8}")
    for name, (place, cells) in COLUMNS.items():
        values = read_column(place)
        table = copy_groups(values, cells, draws)
        for epsilon in (Fraction(1, 10), Fraction(1)):
            for count in COUNTS:
                shares = tuple(Fraction(each, count + 1) for each in range(1, count + 1))
                alone = [QuantileMechanism(epsilon / count, share).release_groups(table) for share in shares]
                together = QuantilesMechanism(epsilon, shares)
                joint = together.release_groups(table)
                with patch.object(divided, "_PIECES", 1):
                    halved = together.release_groups(table)
                found = [mean_error(values, shares, np.stack(each)) for each in (alone, joint, halved)]
                found.append(curve_error(values, cells, shares, epsilon, max(draws // 20, 1)))
                shown = "".join(f"{each:9.1f}" for each in found[1:])
                ratio = found[1] / found[0] if found[0] else float("nan")
                print(f"{name:8}{float(epsilon):5}{count:8}{found[0]:12.1f}{shown}{ratio:8.2f}")


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    compare_counts(draws)
    compare_orders(draws)


if __name__ == "__main__":
    main()
