"""Several quantiles by one joint mechanism beside one mechanism for each, at the same price.

python benchmarks/quantiles.py [draws]

Prints the mean error in rows of either, on two columns of the Adult data (SFUMATO_DATA, else ../shared/data);
of the joint mechanism where a cell that was chosen is halved and not cut where the rank lies; and of a
cumulative curve, which is paid for once for all quantiles.
"""

from __future__ import annotations

import gzip
import os
import sys
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np

from sfumato.noise import Histograms, LaplaceNoise, QuantileMechanism, QuantilesMechanism, RangeSums
from sfumato.noise.ordered import divided
from sfumato.noise.ordered.ranges import best_branching
from sfumato.noise.ordered.trees import build_tree

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
COLUMNS = {"fnlwgt": (2, 1_500_000), "age": (0, 111)}
"""Place in the file, and number of cells."""
COUNTS = (2, 3, 5, 9, 19, 99)
MOST_POINTS = 1024


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


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
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


if __name__ == "__main__":
    main()
