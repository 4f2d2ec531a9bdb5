"""Hostile sessions whose replies leave when they are there, for processes that tests start.

How long a slot is and that it is kept is tested where a clock of the test's own is used. Elsewhere a busy
machine that misses a quarter of a second would fail a test for no reason.
"""

from __future__ import annotations

import sfumato.curator.hostile.reading as reading

PATIENCE = 60.0
"""Seconds that a worker may take, whatever its slot."""


def reply_when_ready() -> None:
    """Give every worker of this process time enough, and wait for the end of no slot."""
    reading.reading_time = lambda slot: PATIENCE
    reading.SlotClock.wait_until = lambda self, moment: None  # type: ignore[method-assign]
