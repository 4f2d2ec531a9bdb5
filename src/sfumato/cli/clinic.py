"""Generated data of a clinic for the demo: patients who return, wards of different cost, two age groups.

The randomness here makes public, synthetic data and is seeded; privacy noise is never drawn like this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

PATIENTS = 9_000
VISITS = 40_000
WARDS = ("A", "B", "C", "D", "E", "F")
_COSTS = (180.0, 420.0, 950.0, 260.0, 1500.0, 600.0)  # median cost of a visit in each ward


def visits(patients: int = PATIENTS, rows: int = VISITS, seed: int = 7) -> pa.Table:
    """Return a table with one row per visit: patient_id, age, ward, cost, readmitted."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    patient = _who_comes(rng, patients, rows)
    age = _ages(rng, patients)[patient]
    ward = rng.choice(len(WARDS), size=rows, p=[0.3, 0.2, 0.12, 0.2, 0.06, 0.12])
    cost = np.array(_COSTS)[ward] * rng.lognormal(0.0, 0.6, rows) * (1 + age / 200)
    risk = 1 / (1 + np.exp(-(age - 75) / 15))
    return pa.table(
        {
            "patient_id": patient + 10_000,
            "age": age,
            "ward": pa.array([WARDS[w] for w in ward]),
            "cost": np.round(cost, 2),
            "readmitted": (rng.random(rows) < 0.05 + 0.3 * risk).astype(np.int64),
        }
    )


def _who_comes(
    rng: np.random.Generator, patients: int, rows: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the patient of each visit: everyone once, and the other visits mostly by a few."""
    eagerness = rng.gamma(0.8, 1.0, patients)
    again = rng.choice(patients, size=rows - patients, p=eagerness / eagerness.sum())
    who = np.concatenate([np.arange(patients), again])
    rng.shuffle(who)
    return who


def _ages(rng: np.random.Generator, patients: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    young = rng.normal(32, 11, patients)
    old = rng.normal(71, 10, patients)
    return np.clip(np.where(rng.random(patients) < 0.45, young, old), 0, 104).round().astype(np.int64)
