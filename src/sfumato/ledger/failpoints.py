"""Failpoints: named moments on the way of a question, where tests stop the clock, the process or the disk."""

from __future__ import annotations


def reach(name: str) -> None:
    """Do nothing. Callers write `failpoints.reach(...)`, so that a test can put its own function here.

    In the order of a question the names are charge:begun, charge:written, charge:durable, data:read,
    noise:drawn, release:begun, release:written and release:durable. "Written" is before the commit, "durable"
    after it. Streams have stream:begun once their state is made, and for each tick tick:read, tick:drawn,
    tick:written and tick:kept, before the charge of nothing and the release of that tick. A training run has
    checkpoint:begun, checkpoint:written and checkpoint:durable after each stretch of its steps. A survey has
    survey:drafted, survey:charged and survey:opened, and where it ends survey:closing and survey:released.
    """
