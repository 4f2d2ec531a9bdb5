"""A small lab with published answers, for tests of their files and mirrors."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.lab.lab import Lab

BY_WARD = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY ward"
BY_DAY = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day"


def make_visits(rows: int = 900) -> pa.Table:
    """Visits in three wards, with names that need quotes, and one that a spreadsheet would compute."""
    rng = np.random.default_rng(0)
    days = np.datetime64("2026-01-01") + rng.integers(0, 3, rows).astype("timedelta64[D]")
    return pa.table(
        {
            "patient_id": np.arange(rows) // 3,
            "cost": rng.gamma(2.0, 300.0, rows),
            "ward": rng.choice(["A", 'Émile\'s "B"', "=1+1"], rows),
            "day": pa.array(days.astype("datetime64[D]")),
        }
    )


def make_clinic(folder: Path) -> Lab:
    """A lab with two publications, and an analyst."""
    lab = sf.create(folder)
    lab.register(
        "visits",
        make_visits(),
        unit=sf.Unit("patient_id", max_rows=3),
        columns={
            "cost": sf.between(0, 5000),
            "ward": sf.one_of("A", 'Émile\'s "B"', "=1+1"),
            "day": sf.between(date(2026, 1, 1), date(2026, 1, 3)),
        },
        budget=sf.Budget(epsilon=20),
    )
    lab.grant("ada", epsilon=5)
    lab.publish(BY_WARD, epsilon=0.5, name="by_ward")
    lab.publish(BY_DAY, epsilon=0.5)
    return lab
