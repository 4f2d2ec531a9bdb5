"""Composition: two tables that are each k-anonymous name the people who are in both.

Ganta, Kasiviswanathan and Smith (*Composition attacks and auxiliary information in data privacy*, 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import value_ceiling
from sfumato.attacks.real_lab import list_values, open_lab, split_spend
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.errors.numbers import format_number
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.attacks.real_lab import Floats

    Ints = NDArray[np.int64]

DIAGNOSES = 1000
AREAS = 50


def composition(
    *, k: int = 10, targets: int = 200, others: int = 8000, epsilon: float = 1.0, seed: int = 0
) -> AttackReport:
    """Find the diagnosis of people who are in the k-anonymous tables of two hospitals.

    Each hospital groups its own patients by ranges of age, area and sex, at least k in a group, and publishes
    the diagnoses of each group. The attacker knows age, area and sex. In two labs the same patients are
    counted by area and diagnosis, for ε together, because the targets are in both.
    """
    rng = np.random.default_rng(seed)
    target = _draw_patients(targets, rng)
    hospitals = [np.vstack([target, _draw_patients(others, rng)]) for _ in range(2)]
    votes = [_count_in_groups(rows, targets, k) for rows in hospitals]
    noisy = [_ask_hospital(rows, split_spend(epsilon, 2))[target[:, 1]] for rows in hospitals]

    def score(against: str, scores: Floats, ceiling: float | None = None) -> Outcome:
        return Outcome(against, int(np.sum(scores.argmax(axis=1) == target[:, 3])), targets, ceiling)

    return AttackReport(
        "composition",
        f"The diagnosis of people in two tables, of {DIAGNOSES:,} that are possible.",
        "diagnoses right",
        1 / DIAGNOSES,
        (
            score(f"one table, {k}-anonymous", votes[0]),
            score(f"two tables, each {k}-anonymous", votes[0] * votes[1]),
            score(
                f"sfumato, two labs, total ε = {format_number(epsilon)}",
                noisy[0] + noisy[1],
                value_ceiling(epsilon, DIAGNOSES, one_run=True),
            ),
        ),
    )


def group_anonymously(rows: Ints, k: int) -> list[Ints]:
    """Return groups of at least k rows each, cut again and again at the median of their widest column.

    This is Mondrian (LeFevre, DeWitt and Ramakrishnan, 2006), on columns of numbers.
    """
    spread = np.ptp(rows, axis=0).clip(1)
    groups, open_groups = [], [np.arange(len(rows))]
    while open_groups:
        group = open_groups.pop()
        parts = _cut(rows[group] / spread, k)
        if parts is None:
            groups.append(group)
        else:
            open_groups += [group[parts], group[~parts]]
    return groups


def _cut(rows: Floats, k: int) -> NDArray[np.bool_] | None:
    for column in np.argsort(-np.ptp(rows, axis=0)):
        low = rows[:, column] < np.median(rows[:, column])
        if k <= low.sum() <= len(rows) - k:
            return np.asarray(low)
    return None


def _draw_patients(count: int, rng: np.random.Generator) -> Ints:
    """Return age, area, sex and diagnosis of made-up patients."""
    columns = (rng.integers(18, 90, count), rng.integers(0, AREAS, count), rng.integers(0, 2, count))
    return np.column_stack([*columns, rng.integers(0, DIAGNOSES, count)])


def _count_in_groups(rows: Ints, targets: int, k: int) -> Floats:
    """Return how often each diagnosis occurs in the group of each target."""
    votes = np.zeros((targets, DIAGNOSES))
    for group in group_anonymously(rows[:, :3], k):
        count = np.bincount(rows[group, 3], minlength=DIAGNOSES)
        votes[group[group < targets]] = count
    return votes


def _ask_hospital(rows: Ints, epsilon: float) -> Floats:
    """Return the noisy number of patients by area and diagnosis."""
    table = {"area": rows[:, 1], "diagnosis": rows[:, 3]}
    declared = {"area": list_values(AREAS), "diagnosis": list_values(DIAGNOSES)}
    with open_lab(table, declared, Budget.of(epsilon=epsilon)) as session:
        question = session.sql("SELECT area, diagnosis, COUNT(*) AS n FROM people GROUP BY area, diagnosis")
        answer = question.release(epsilon=epsilon, include_empty=True).to_arrow()
    counts = np.zeros((AREAS, DIAGNOSES))
    counts[answer["area"].to_numpy(), answer["diagnosis"].to_numpy()] = answer["n"].to_numpy()
    return counts
