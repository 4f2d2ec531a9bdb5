"""Audit the selection of JAM on tables of mbi, in an environment of its own; the last line printed is JSON.

SFUMATO_MBI=path/to/python python benchmarks/audit.py peers

No package of mbi has its mechanisms: they are scripts of its repository. What was wrong in JAM (mbi#65, since
put right there) is written here in a few lines over tables, marginals and models of the package: a score is
the error of the model less that of the public table, both on private rows, with the sensitivity of one.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from typing import Any

warnings.simplefilter("ignore")

import jax  # noqa: E402
import numpy as np  # noqa: E402
from mbi import Dataset, Domain, LinearMeasurement, estimation  # noqa: E402

from sfumato import audit  # noqa: E402

jax.config.update("jax_enable_x64", True)
SAMPLES, COLUMNS, ROWS, EPSILON = 20_000, 30, 10, 1.0
NAMES = tuple(f"c{place}" for place in range(COLUMNS))
DOMAIN = Domain(NAMES, (2,) * COLUMNS)
Row = list[Any]


def dataset(ones: list[int]) -> Dataset:
    """Return rows with so many ones in each column."""
    columns = [np.repeat([1, 0], [count, ROWS - count]) for count in ones]
    return Dataset(dict(zip(NAMES, columns, strict=True)), DOMAIN)


def scores(private: Dataset, public: Dataset, model: Any) -> np.ndarray:
    """Return the score of every column's marginal: the error of the model less that of the public rows."""

    def distance(answers: Any, name: str) -> float:
        exact = np.asarray(private.project((name,)).datavector())
        return float(np.abs(exact - np.asarray(answers.project((name,)).datavector())).sum())

    return np.array([distance(model, name) - distance(public, name) for name in NAMES])


def select(told: np.ndarray, sensitivity: float, count: int) -> np.ndarray:
    """Return choices of the exponential mechanism."""
    weights = np.exp(EPSILON * (told - told.max()) / (2 * sensitivity))
    return np.random.default_rng().choice(len(told), size=count, p=weights / weights.sum())


def main() -> int:
    half = ROWS // 2
    # One row is replaced: its first column turns from 0 to 1 and all others from 1 to 0.
    private = dataset([half] + [half] * (COLUMNS - 1)), dataset([half + 1] + [half - 1] * (COLUMNS - 1))
    public = dataset([ROWS] * COLUMNS)
    measured = [LinearMeasurement(np.array([ROWS, 0.0]), (name,), stddev=1.0) for name in NAMES]
    model = estimation.MirrorDescent().estimate(DOMAIN, measured, known_total=ROWS, iters=500)
    both = [scores(each, public, model) for each in private]
    moved = float(np.abs(both[0] - both[1]).max())
    library = f"mbi {version('mbi')}"
    finding = "violates" if moved > 2.01 else "no violation found"
    rows: list[Row] = [
        [
            library,
            "sensitivity 2",
            "JAM's score of public marginals (mbi#65)",
            f"{finding}: moves by {moved:.2f}",
        ]
    ]
    for stated in (2.0, 4.0):
        sides = tuple(lambda n, told=told, stated=stated: select(told, stated, n) for told in both)
        found = audit.run(sides, EPSILON, samples=SAMPLES)
        name = f"JAM's selection, priced for sensitivity {stated:g}"
        bound = f", ε is above {found.lower_bound:.2f}" if found.violates else ""
        rows.append([library, f"ε = {EPSILON:g}", name, f"{found.sentence}{bound}"])
    for each in rows:
        print(each)
    print(json.dumps(rows, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
