"""Hostile sessions whose replies leave when they are ready, and whose workers have minutes instead of a slot.

The unit tests of slots check, with a clock of their own, how long a slot is and that every reply keeps it. In
all other tests a busy machine that misses a quarter of a second would be a failure without a cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sfumato.curator.hostile.reading as reading
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI

    from sfumato.curator.plan.priced import Step
    from sfumato.lab.lab import Lab


class ReadyReader(reading.SlotReader):
    """Reads in workers that may take `PATIENCE` seconds, and replies at once."""

    def _read(self, ask: reading.Ask, slot: float, begun: float, steps: Sequence[Step]) -> str:
        return ask(steps, PATIENCE)


def reply_at_once(lab: Lab) -> None:
    """Let replies to the hostile sessions of this lab leave when they are ready."""
    usual = lab._slots
    vars(lab)["_slots"] = ReadyReader(usual.workers, usual.engine, usual.clock)


def reply_when_ready() -> None:
    """Let all replies of this process leave when they are ready, for processes that tests start."""
    reading.SlotReader._read = ReadyReader._read  # type: ignore[method-assign]


def let_jobs_reply_when_ready() -> None:
    """Let replies in the jobs of this server process leave when they are ready."""
    from sfumato.server.jobs import runner

    first = "import ready_replies; ready_replies.reply_when_ready(); "
    runner._COMMAND = first + runner._COMMAND


# ---- applications for `sfumato serve` ----------------------------------------------------------------------


def make_ready_app() -> FastAPI:
    """Return the application of `sfumato serve`, with replies that leave when they are ready."""
    from sfumato.server.serving import make_app

    reply_when_ready()
    return make_app()


def make_patient_app() -> FastAPI:
    """Return the application of `sfumato serve`: replies leave in their slots, but no worker is too slow."""
    from sfumato.server.serving import make_app

    reading.reading_time = lambda slot: PATIENCE
    return make_app()
