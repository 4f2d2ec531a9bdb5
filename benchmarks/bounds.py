"""How good bounds are that are chosen privately: the total error of a count, noise and lost rows together.

python benchmarks/bounds.py [draws] [--constants]

Prints, for each ε of the choice, the mean total error of a count at `for_epsilon` as a multiple of the least
that any candidate has: for a bound that is chosen, for the largest number of rows, and for a
guess of 10,000. The tables are visits of the generated clinic and purchases of CDNOW (SFUMATO_DATA, else
../shared/data). With --constants, other constants of curator/answers/noisy_tail.py are tried.
"""

from __future__ import annotations

import gzip
import os
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np

from sfumato.cli import clinic
from sfumato.curator.answers import noisy_tail
from sfumato.curator.catalog.candidates import list_row_candidates
from sfumato.lab.bounds.choosing import RowsChoice
from sfumato.noise import LaplaceNoise
from sfumato.privacy.bound_choice import choose

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
EPSILONS = (Fraction(1, 50), Fraction(1, 20), Fraction(1, 10), Fraction(1, 2))


def count_rows() -> dict[str, np.ndarray]:
    """How many rows each unit has, in each table."""
    who = clinic.visits()["patient_id"].to_numpy()
    with gzip.open(DATA / "cdnow" / "CDNOW_sample.txt.gz", "rt") as file:
        buyers = [int(line.split()[0]) for line in file if line.strip()]
    return {
        "clinic": np.unique(who, return_counts=True)[1],
        "cdnow": np.unique(buyers, return_counts=True)[1],
    }


def total_error(rows: np.ndarray, bound: int, epsilon: float) -> float:
    """Mean noise of a count with so many rows a unit, and the rows that it leaves out."""
    return bound / epsilon + float(np.maximum(rows - bound, 0).sum())


def measure(rows: np.ndarray, epsilon: Fraction, draws: int) -> tuple[float, int]:
    """Mean multiple of the least error, and how often the choice was refused."""
    wanted = choose(epsilon=epsilon)
    candidates = list_row_candidates(wanted)
    cells = np.histogram(rows, [0.5, *(each + 0.5 for each in candidates), np.inf])[0]
    noise, served = LaplaceNoise(1 / epsilon), float(wanted.for_epsilon)
    least = min(total_error(rows, each, served) for each in candidates)
    noisy = cells + noise.release(np.zeros((draws, cells.size), dtype=np.int64))
    found = [RowsChoice(wanted).pick(each, noise) for each in noisy.tolist()]
    errors = [total_error(rows, int(each[0][0]), served) / least for each in found if each is not None]
    return float(np.mean(errors)) if errors else float("nan"), sum(each is None for each in found)


def try_constants(tables: dict[str, np.ndarray], draws: int) -> None:
    for further, unseen, decay in product((1, 2, 3), (0.25, 0.5, 1.0), ((0.1, 0.4), (0.1, 0.2), (0.3, 0.6))):
        with patch.multiple(noisy_tail, FURTHER=further, _UNSEEN=unseen, _DECAY=decay):
            found = [measure(rows, epsilon, draws)[0] for rows in tables.values() for epsilon in EPSILONS]
        shown = " ".join(f"{each:5.2f}" for each in found)
        print(f"{further} {unseen:4} {decay!s:11} {shown}  mean {np.nanmean(found):.2f}")


def main() -> None:
    numbers = [each for each in sys.argv[1:] if each.isdecimal()]
    draws = int(numbers[0]) if numbers else 500
    tables = count_rows()
    if "--constants" in sys.argv:
        try_constants(tables, draws)
        return
    for name, rows in tables.items():
        for epsilon in EPSILONS:
            chosen, refused = measure(rows, epsilon, draws)
            served = 10 * float(epsilon)
            least = min(total_error(rows, each, served) for each in list_row_candidates(choose(epsilon=1)))
            widest, guessed = (total_error(rows, each, served) / least for each in (int(rows.max()), 10_000))
            said = f"chosen {chosen:6.2f}  largest {widest:6.2f}  10,000 rows {guessed:8.1f}"
            print(f"{name:8} ε = {float(epsilon):<5} {said}  refused {refused} of {draws}")


if __name__ == "__main__":
    main()
