"""Named moments of a question's way, where tests stop the clock, the process or the disk."""

from __future__ import annotations


def step(name: str) -> None:
    """Does nothing. Callers say `steps.step(...)`, so that a test can put its own function here.

    In the order of a question: charge:begun, charge:written, charge:durable, data:read, noise:drawn,
    release:begun, release:written, release:durable. "Written" is before the commit, "durable" after it.
    """
