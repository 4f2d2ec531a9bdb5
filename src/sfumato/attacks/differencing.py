"""Differencing: two harmless totals that differ by one person give that person away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import value_ceiling
from sfumato.attacks.real_lab import ask_worlds, list_values, open_lab, split_spend
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.curator.catalog.columns import between
from sfumato.errors.numbers import format_decimal, format_number
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from sfumato.attacks.real_lab import Floats

HIGHEST = 200_000
"""Largest salary that the steward declares."""
BANDS = 10
STAFF = 20
"""People in the department of each target."""


def differencing(*, epsilon: float = 1.0, trials: int = 1000, seed: int = 0) -> AttackReport:
    """Find one person's salary from the total of a department, with and without that person.

    Each trial is a department of its own. Without privacy both totals are exact. A lab answers both for ε
    together. The secret is which tenth of the declared range the salary lies in.
    """
    rng = np.random.default_rng(seed)
    salaries = rng.integers(0, HIGHEST, (trials, STAFF))
    truth = salaries[:, 0].astype(float)
    exact = (salaries.sum(axis=1) - salaries[:, 1:].sum(axis=1)).astype(float)
    each = split_spend(epsilon, 2)
    rows = {
        "world": np.repeat(np.arange(trials), STAFF),
        "seat": np.tile(np.arange(STAFF), trials),
        "salary": salaries.ravel(),
    }
    declared = {
        "world": list_values(trials),
        "seat": list_values(STAFF),
        "salary": between(0, HIGHEST, step=1),
    }
    with open_lab(rows, declared, Budget.of(epsilon=epsilon)) as session:
        everyone = ask_worlds(session, "SUM(salary) AS total", each)
        others = ask_worlds(session, "SUM(salary) AS total", each, "seat <> 0")
    noisy = everyone["total"] - others["total"]
    ceiling, scale = value_ceiling(epsilon, BANDS), HIGHEST / each
    return AttackReport(
        "differencing",
        "One salary, as the difference of two totals.",
        "tenth of the range right",
        1 / BANDS,
        (
            _compare("exact totals", truth, exact, None),
            _compare(f"sfumato, ε = {format_number(epsilon)} for both totals", truth, noisy, ceiling),
        ),
        (
            (
                f"The noise of each private total has scale {format_decimal(scale, 0)}; "
                f"a salary is at most {HIGHEST:,}."
            ),
        ),
    )


def _compare(against: str, truth: Floats, guess: Floats, ceiling: float | None) -> Outcome:
    # The attacker knows the declared range; the error is that of the difference as it stands.
    band = np.clip(guess * BANDS // HIGHEST, 0, BANDS - 1)
    hits = int(np.sum(band == truth * BANDS // HIGHEST))
    return Outcome(against, hits, len(truth), ceiling, float(np.mean(np.abs(guess - truth))))
