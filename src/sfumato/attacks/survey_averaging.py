"""Averaging randomized responses: coins that are tossed anew every day tell the truth by and by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.errors.numbers import format_number
from sfumato.local.longitudinal import RepeatedSurvey
from sfumato.local.response import RandomizedResponse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def survey_averaging(
    *, epsilon: float = 1.0, days: tuple[int, ...] = (1, 7, 31, 101), people: int = 1000, seed: int = 0
) -> AttackReport:
    """Find people's answers to a question that they are asked every day, by the majority of their reports.

    A report is randomized for ε. With new coins every day the price grows with the days, whether
    somebody adds it up or not; a person who keeps the first report and repeats it tells nothing more.
    """
    truths = np.random.default_rng(seed).integers(0, 2, people)
    response, longest = RandomizedResponse(epsilon), max(days)
    fresh = response.privatize(np.tile(truths, (longest, 1)))
    kept = RepeatedSurvey(response, rounds=longest).privatize(np.tile(truths, (longest, 1)))
    return AttackReport(
        "survey-averaging",
        "The answers of people who are asked the same every day.",
        "answers right",
        0.5,
        (
            *(
                Outcome(f"new coins, {count} day{'s' * (count > 1)}", _hits(fresh[:count], truths), people)
                for count in days
                if count > 1
            ),
            Outcome(
                f"sfumato, one report, ε = {format_number(epsilon)}",
                _hits(fresh[:1], truths),
                people,
                guess_ceiling(epsilon),
            ),
            Outcome(
                f"sfumato, kept reports, {longest} days, ε = {format_number(epsilon)}",
                _hits(kept, truths),
                people,
                guess_ceiling(epsilon),
            ),
        ),
        (f"New coins on {longest} days cost ε = {format_number(longest * epsilon, 6)}.",),
    )


def _hits(reports: Ints, truths: Ints) -> int:
    """Count whose majority of reports is the truth."""
    return int(np.sum((2 * reports.sum(axis=0) > len(reports)) == (truths == 1)))
