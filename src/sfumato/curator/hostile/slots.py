"""When a reply leaves: a slot of a public ladder of times, chosen from public facts before the charge.

Because : docs/proofs/slots.md
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.work import rows_per_unit
from sfumato.errors import PolicyError
from sfumato.errors.numbers import format_decimal

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.priced import Plan

LADDER = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
"""Seconds after a question was begun at which replies leave. Public, and so is which of them it gets."""

USUAL_PACE = 0.25
"""Seconds of one pass over a table whose steward declared no pace."""

# Chosen with benchmarks/latency.py so that heavy questions on small tables fit. Privacy depends on none of
# them: whatever they are, the slot follows from public facts.
_READING = 3 / 4
"""Share of a slot in which the worker must answer once it is asked."""
_BEFORE = 1 / 8
"""Share of a slot to start the worker, for checks and the charge; as much is left to end the worker."""
_START = 0.06
"""Seconds to open a snapshot."""
_STEP = 0.02
"""Seconds before an engine looks at the first row, for each program."""
_DRAW = 4e-6
"""Seconds for each noisy number."""
_OPERATIONS = 256
"""Operations on a row that are done in the time of one pass that sorts the rows."""
_LEARNING, _LEARNERS = 0.002, 32
"""Seconds for each time that a learner goes over the rows it was given, however few, and how many such times
fit in one pass of an engine."""


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
    """Return how many seconds after it was begun a plan is replied to, from public facts alone."""
    expected = _expect_seconds(plan)
    for rung in LADDER:
        if expected <= rung * _READING:
            return rung
    raise PolicyError(
        "SF-Q191",
        "This question takes too long for a hostile session; nothing was charged.",
        expected=f"{format_decimal(expected, 0)} s",
        most=f"{format_decimal(reading_time(LADDER[-1]), 0)} s",
        try_="a simpler question; or the steward declares a shorter pace: lab.set_pace(…)",
    )


def reading_time(slot: float) -> float:
    """Return the seconds of a slot in which the worker must answer."""
    return slot * _READING


def find_end(slot: float, begun: float, asked: float) -> float:
    """Return when the reply leaves to a question that was begun, and whose worker was asked, at these times.

    That is one slot after it was begun. Where the worker's start, checks and the charge took too long for
    that, because others held a lock or the disk was slow, it is so many whole slots later that the worker has
    its time.
    """
    late = max(0.0, asked - begun - slot * _BEFORE)
    return begun + slot * (1 + math.ceil(late / slot))


def find_pace(table: Table) -> float:
    """Return the seconds that one pass over a table takes at most, as the steward declared it."""
    return USUAL_PACE if table.pace is None else table.pace / 1000


def _expect_seconds(plan: Plan[Any, Any]) -> float:
    """Return a guess at how long a plan takes, from the catalog and the question."""
    learning = sum(getattr(step, "passes", 0) for step in plan.steps)
    work = plan.work
    operations = work.operations / max(1, rows_per_unit(plan.table))
    passes = max(work.scans, operations / _OPERATIONS) + learning / _LEARNERS
    start = _START + _STEP * len(plan.steps)
    return start + passes * find_pace(plan.table) + learning * _LEARNING + work.numbers * _DRAW
