"""When a reply leaves: a slot of a public ladder of times, chosen from public facts before the charge.

Because : docs/proofs/slots.md
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.engines.rows import list_scans
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.priced import Plan

LADDER = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
"""Seconds after the charge at which replies leave. It is public, and so is which of them a question gets."""

USUAL_PACE = 0.25
"""Seconds of one simple pass over a table whose steward declared no pace."""

# Chosen with benchmarks/latency.py so that heavy questions on small tables fit. Privacy depends on none of
# them: whatever they are, the slot follows from public facts.
_READING = 7 / 8
"""Share of a slot in which the worker must answer; the rest is for ending it."""
_START = 0.06
"""Seconds to open a snapshot."""
_STEP, _SPARK_STEP = 0.02, 2.0
"""Seconds before an engine looks at the first row, for each program."""
_DRAW = 4e-6
"""Seconds for each noisy number."""
_OPERATIONS = 16
"""Operations on a row that are done in the time of one simple pass."""
_LEARNING = 0.004
"""Seconds for each time that a learner goes over the rows it was given, however few."""


@dataclass(frozen=True, slots=True)
class SlotClock:
    """The clock that slots are kept by. Tests bring their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    def wait_until(self, moment: float) -> None:
        """Return at a moment, or at once if it is past."""
        # Sleep ends up to a millisecond late, as busy as the machine is: the last stretch is waited awake.
        while (left := moment - self.now()) > 0:
            if left > _AWAKE:
                self.sleep(left - _AWAKE)


_AWAKE = 0.002
"""Seconds before the end of a slot that are not slept (benchmarks/latency.py)."""


def choose_slot(plan: Plan[Any, Any]) -> float:
    """Return the seconds after its charge at which the reply to a plan leaves, from public facts alone."""
    expected = _expect_seconds(plan)
    for rung in LADDER:
        if expected <= rung * _READING:
            return rung
    raise PolicyError(
        "SF-Q190",
        "This question takes too long for a hostile session; nothing was charged.",
        expected=f"{expected:,.0f} s",
        most=f"{LADDER[-1]:,.0f} s",
        try_="a simpler question; or the steward declares a shorter pace: lab.set_pace(…)",
    )


def reading_time(slot: float) -> float:
    """Return the seconds of a slot in which the worker must answer."""
    return slot * _READING


def find_pace(table: Table) -> float:
    """Return the seconds that one simple pass over a table takes, as the steward declared it."""
    return USUAL_PACE if table.pace is None else table.pace / 1000


def _expect_seconds(plan: Plan[Any, Any]) -> float:
    """Return a guess at how long a plan takes, from the catalog and the question."""
    each = _SPARK_STEP if plan.table.home.startswith("spark") else _STEP
    learning = sum(getattr(step, "passes", 0) for step in plan.steps)
    scans = sum(len(list_scans(step.program.rows)) for step in plan.steps)
    start = _START + each * len(plan.steps)
    return start + (scans + learning) * find_pace(plan.table) + learning * _LEARNING
