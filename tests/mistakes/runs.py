"""Mistakes of training runs and of accounts: batches, clipping, caches, searches and filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from mistakes.mistake import EMPTY_AND_ONE, Mistake, laplace

OUT_AND_IN = ((0.0, 1.0),)
"""A person who is absent, and one whose value is 1."""
BATCHES = 10


def shuffled_as_poisson(value: float) -> list[float]:
    """Ten batches of a shuffled pass: a row is in exactly one of them, and Poisson sampling was priced."""
    generator = np.random.default_rng()
    sums = np.zeros(BATCHES)
    sums[generator.integers(BATCHES)] = value
    return [float(np.max(sums + generator.normal(0, 0.2, BATCHES)))]


def clipped_batches(rows: Any) -> float:
    """The sum of a batch is clipped to 1, not every row: one row may move it from −1 to 1."""
    return float(np.clip(np.sum(rows), -1, 1) + laplace(1.0))


BACK = ((np.array([-5.0]), np.array([-5.0, 10.0])),)


def cache_that_draws_again(rows: Any) -> list[float]:
    """A question that was paid for once is answered from a cache of exact answers, with new noise."""
    return [float(len(rows) + laplace(1.0)) for _ in range(3)]


def search_uncharged(rows: Any) -> list[float]:
    """Five settings are fitted at the whole ε each; only the best is charged, and all scores are shown."""
    return [float(len(rows) + laplace(1.0)) for _ in range(5)]


def filter_on_totals(value: float) -> tuple[bool, Any]:
    """An account that admits whatever keeps the PLD of the questions so far within (1, 0.3).

    After randomized response at 0.5, response at 1.4 would be within it, and so would telling the truth with
    probability 0.3. Whoever chooses between them by the first answer gets more than either allows.
    """
    generator = np.random.default_rng()
    truth = value > 0
    first = bool(truth ^ (generator.random() > 1 / (1 + np.exp(-0.5))))
    if first:
        return first, bool(truth ^ (generator.random() > 1 / (1 + np.exp(-1.4))))
    return first, ("told", truth) if generator.random() < 0.3 else None


def released_validation(rows: Any) -> bool:
    """Training stops early by the exact loss on private rows."""
    return bool(np.sum(rows) > 0.5)


RUN_MISTAKES = (
    Mistake(
        "shuffled as Poisson",
        "Chua et al., 2024; Annamalai et al., 2026",
        "another sampling is priced",
        shuffled_as_poisson,
        OUT_AND_IN,
        epsilon=0.5,
        delta=0.7,
    ),
    Mistake(
        "batch clipped as a whole",
        "Tramèr et al., 2022, on a flawed clipping",
        "not every row is clipped",
        clipped_batches,
        BACK,
    ),
    Mistake(
        "cache that draws again",
        "Turbo, 2023, on exact caches",
        "three answers, one price",
        cache_that_draws_again,
    ),
    Mistake(
        "search uncharged",
        "scikit-learn's GridSearchCV over diffprivlib",
        "five fits, one price",
        search_uncharged,
    ),
    Mistake(
        "filter on PLD totals",
        "Rogers et al., 2016",
        "adaptive choices beat a fixed total",
        filter_on_totals,
        OUT_AND_IN,
        delta=0.3,
        samples=40_000,
    ),
    Mistake(
        "early stopping on private rows",
        "Papernot and Steinke, 2022",
        "the exact loss decides",
        released_validation,
        EMPTY_AND_ONE,
    ),
)
