"""The purchases as sfumato holds them: per user with at most 20 rows each, or each row a person."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

import sfumato as sf
from parts.rows import CATEGORIES, FIRST, HIGHEST, LAST, MAX_ROWS

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.lab.lab import Lab

BUDGET = sf.Budget(epsilon=1_000_000)
_spends = count(start=1)


def fresh_epsilon() -> float:
    """About 1, and never the same twice: a question asked before would be answered for nothing."""
    return 1 + next(_spends) * 1e-6


def prepared(folder: Path, source: Path, per_user: bool) -> Lab:
    """A lab that holds the purchases as the table `purchases`."""
    lab = sf.create(folder)
    unit = sf.Unit("user_id", max_rows=MAX_ROWS) if per_user else sf.ROW
    lab.register("purchases", source, unit=unit, columns=promises(), budget=BUDGET)
    return lab


def promises() -> dict[str, Any]:
    return {
        "category": sf.one_of(*CATEGORIES),
        "amount": sf.between(0, HIGHEST),
        "day": sf.between(FIRST, LAST),
    }


def with_known_noise(query: Any, epsilon: float) -> None:
    """Draw once from the noise that a release at this ε will use: tables for a new scale are then made."""
    for step in query.quote(epsilon=epsilon).plan.steps:
        for each in getattr(step, "measured", ()):
            each.release(np.zeros(1, dtype=np.int64))


def bounded(query: Any, bounds: tuple[int, int] | None) -> Any:
    return query if bounds is None else query.bounded(groups=bounds[0], rows=bounds[1])
