"""The weight of the one with green hair: an average over a group of one is no average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import value_ceiling
from sfumato.attacks.real_lab import ask_worlds, list_values, open_lab
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.curator.catalog.columns import between
from sfumato.errors.numbers import format_number
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.attacks.real_lab import Floats

    Ints = NDArray[np.int64]

LIGHTEST, HEAVIEST = 40, 140
BANDS = 10
GROUP = 30
"""People in each trial, one of whom has green hair."""
SMALLEST = 5
"""Fewest people whose average is given out where small groups are refused."""


def green_hair(*, epsilon: float = 1.0, trials: int = 1000, seed: int = 0) -> AttackReport:
    """Find the weight of the only person with green hair, from averages.

    The average over a group of one is that person's weight. Where averages over fewer than five are refused,
    two averages over larger groups give the same number: all, and all but the one with green hair. A
    lab answers the first question, for ε.
    """
    rng = np.random.default_rng(seed)
    weights = rng.integers(LIGHTEST, HEAVIEST, (trials, GROUP))
    green = np.zeros((trials, GROUP), dtype=np.int64)
    green[:, 0] = 1
    truth = weights[:, 0].astype(float)
    rows = {
        "world": np.repeat(np.arange(trials), GROUP),
        "green": green.ravel(),
        "weight": weights.ravel(),
    }
    declared = {
        "world": list_values(trials),
        "green": list_values(2),
        "weight": between(LIGHTEST, HEAVIEST, step=1),
    }
    with open_lab(rows, declared, Budget.of(epsilon=epsilon)) as session:
        noisy = ask_worlds(session, "AVG(weight) AS w", epsilon, "green = 1")["w"]
    # A group whose noisy count is below one has no average; the middle of the range is the best guess then.
    noisy = np.nan_to_num(noisy, nan=(LIGHTEST + HEAVIEST) / 2)
    return AttackReport(
        "green-hair",
        "The weight of the only person with green hair, from averages.",
        "tenth of the range right",
        1 / BANDS,
        (
            _compare("the exact average", truth, _average_if(weights, green == 1, 1)),
            _compare(
                f"none of fewer than {SMALLEST} people", truth, _average_if(weights, green == 1, SMALLEST)
            ),
            _compare("the same, from two larger groups", truth, _track(weights, green)),
            _compare(
                f"sfumato, ε = {format_number(epsilon)}",
                truth,
                np.clip(noisy, LIGHTEST, HEAVIEST),
                value_ceiling(epsilon, BANDS),
            ),
        ),
    )


def _average_if(weights: Ints, chosen: NDArray[np.bool_], fewest: int) -> Floats:
    """Return averages over groups, or the middle of the range where a group has too few people."""
    size = chosen.sum(axis=1)
    average = (weights * chosen).sum(axis=1) / np.maximum(size, 1)
    return np.where(size >= fewest, average, (LIGHTEST + HEAVIEST) / 2)


def _track(weights: Ints, green: Ints) -> Floats:
    """Return n times the average of all, less n − 1 times that of all but one: a tracker (Denning, 1979)."""
    everyone = _average_if(weights, green >= 0, SMALLEST)
    others = _average_if(weights, green == 0, SMALLEST)
    return np.asarray(np.round(everyone * GROUP - others * (GROUP - 1)))


def _compare(against: str, truth: Floats, guess: Floats, ceiling: float | None = None) -> Outcome:
    width = (HEAVIEST - LIGHTEST) / BANDS
    bands = [np.clip((each - LIGHTEST) // width, 0, BANDS - 1) for each in (truth, guess)]
    hits = int(np.sum(bands[0] == bands[1]))
    return Outcome(against, hits, len(truth), ceiling, float(np.mean(np.abs(guess - truth))))
