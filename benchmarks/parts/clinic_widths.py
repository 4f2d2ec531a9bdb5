"""The demo's questions about the clinic: half-widths of their intervals, with shaped noise and without."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from parts.our_draws import draw_noisy
from sfumato.cli.demo import create_clinic, make_visits
from sfumato.curator.answers.post_processing import compute_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUESTIONS = (
    (
        "How many visits by older people does each ward have, and what does a visit cost?",
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward",
        0.5,
    ),
    (
        "How often are patients readmitted?",
        "SELECT AVG(readmitted) AS readmitted FROM visits WHERE age BETWEEN 40 AND 90",
        0.3,
    ),
    (
        "What is the total cost of each ward?",
        "SELECT ward, SUM(cost) AS total FROM visits GROUP BY ward",
        0.15,
    ),
)
"""Questions about the demo's clinic, in words and in SQL, and the ε to spend."""


@dataclass(frozen=True, slots=True)
class HalfWidths:
    """The median half-width of the 95 % intervals of one number, over groups and draws, at the same ε."""

    question: str
    figure: str
    epsilon: float
    before: float
    after: float


def measure_clinic(draws: int = 100) -> list[HalfWidths]:
    """Return the half-widths of every number of the demo, as its analyst gets them."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        session = create_clinic(Path(scratch) / "clinic", make_visits()).session("ada")
        for words, sql, epsilon in QUESTIONS:
            query = session.sql(sql)
            plan = query.plan({"epsilon": epsilon})
            engine = query.payer.lab.engine
            plans = (plan.with_shape(False), plan)
            drawn = [draw_noisy(each, engine, draws) for each in plans]
            for name, figure in plan.question.figures.items():
                ends = [
                    compute_interval(each, figure, noisy, 0.95)
                    for each, noisy in zip(plans, drawn, strict=True)
                ]
                before, after = (_half_width(*each) for each in ends)
                found.append(HalfWidths(words, name, epsilon, before, after))
    return found


def _half_width(low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
    # Where no end is known the interval is endless, and wider than all others.
    return float(np.median(np.nan_to_num((high - low) / 2, nan=np.inf)))
