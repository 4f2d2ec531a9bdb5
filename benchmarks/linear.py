"""Accuracy of private logistic regression beside scikit-learn's, and how long a fit takes.

    python benchmarks/linear.py [--seeds 20] [--data cancer,digits,wine,synthetic]

Features scaled to [−1, 1] by fixed bounds, 70/30 splits by seed, δ = 1e-6, one row added or removed. Beside
each mean and its standard error, the least that was asked for.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.linear_model import LogisticRegression as Plain
from sklearn.model_selection import train_test_split

from sfumato.learn import LogisticRegression

if TYPE_CHECKING:
    from collections.abc import Callable

EPSILONS = (0.1, 0.5, 1.0, 3.0)
DELTA = 1e-6
SOURCES: dict[str, Callable[[], Any]] = {
    "cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "synthetic": lambda: make_classification(50_000, 20, n_informative=10, n_redundant=5, random_state=0),
}
LEAST = {
    "cancer": (0.78, 0.86, 0.91, 0.95),
    "digits": (0.28, 0.66, 0.80, 0.91),
    "wine": (0.46, 0.70, 0.83, 0.92),
    "synthetic": (0.77, 0.78, 0.78, 0.78),
}


def scaled(rows: Any) -> Any:
    low, high = rows.min(axis=0), rows.max(axis=0)
    return np.where(high > low, 2 * (rows - low) / np.maximum(high - low, 1e-300) - 1, 0.0)


def scores(rows: Any, labels: Any, make: Callable[[], Any], seeds: int) -> tuple[Any, float]:
    """Accuracy on each split, and the median CPU time of a fit."""
    found, times = [], []
    for seed in range(seeds):
        learn, test, known, asked = train_test_split(rows, labels, test_size=0.3, random_state=seed)
        model, began = make(), time.process_time()
        model.fit(learn, known)
        times.append(time.process_time() - began)
        found.append(model.score(test, asked))
    return np.array(found), float(np.median(times))


def told(found: Any, least: float) -> str:
    error = found.std() / np.sqrt(len(found))
    return f"{found.mean():.3f} ± {error:.3f} ({least:.2f}{'' if found.mean() >= least else ' MISSED'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--data", default=",".join(SOURCES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.data.split(","):
        rows, labels = SOURCES[name]()
        rows, classes = scaled(rows.astype(float)), np.unique(labels).tolist()
        plain, usual = scores(rows, labels, lambda: Plain(max_iter=1000), min(5, options.seeds))
        cells, times = [], []
        for epsilon, least in zip(EPSILONS, LEAST[name], strict=True):
            given = {"epsilon": epsilon, "delta": DELTA, "bounds": (-1, 1), "classes": classes}
            found, taken = scores(
                rows, labels, lambda given=given: LogisticRegression(**given), options.seeds
            )
            cells.append(told(found, least))
            times.append(taken)
        print(f"{name:<10} " + "  ".join(cells) + f"  without noise {plain.mean():.3f}")
        print(f"{'':<10} a fit takes {1e3 * max(times):.0f} ms of CPU, scikit-learn's {1e3 * usual:.0f} ms")


if __name__ == "__main__":
    main()
